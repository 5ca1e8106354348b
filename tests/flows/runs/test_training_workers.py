"""A training whose workers are killed between its steps, on a cluster over TLS: the same bits and one charge."""

import os
import signal

import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

from blockveil.engine.answers import held_records
from blockveil.engine.noise import keyring
from blockveil.flows.cluster.computing import open_compute
from blockveil.flows.cluster.local_workers import Patient
from blockveil.flows.runs import release_flow
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import training_steps
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from tests.house import support
from tests.house.shipped import pinned_key
from tests.pipeline.kinds.gradients.test_training import NIGHT, release
from tests.pipeline.kinds.gradients.test_training_batches import batched
from tests.pipeline.releases.test_training_steps import group_of

WORKERS = 2


class Workers(Patient, LocalCluster):
    """A cluster whose workers are killed."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A client of a cluster over TLS, and the lines of a config that reaches it."""
    security, folder = Security.temporary(), tmp_path_factory.mktemp("tls")
    texts = {name: getattr(security, f"tls_{name}") for name in ("ca_file", "client_cert", "client_key")}
    for name, text in texts.items():
        support.write_private(folder / f"{name}.pem", text)
    with (
        Workers(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            security=security,
            dashboard_address="127.0.0.1:0",
            memory_limit="4GiB",
        ) as started,
        Client(started, set_as_default=False) as client,
    ):
        tls = "\n".join(f'tls_{name} = "file:{folder}/{name}.pem"' for name in texts)
        yield client, f'kind = "address"\naddress = "{started.scheduler_address}"\n{tls}'


def killing(client, monkeypatch):
    """Have all workers killed before the noise of the second step, and before the sum of the fourth."""
    draw, hold, killed = training_steps._draw, training_steps._hold, []

    def kill():
        client.wait_for_workers(WORKERS, timeout=300)
        for process in client.run(os.getpid).values():
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    def drawn(held, layout, design, compute, handle, name, released):
        if name.endswith("-1"):
            kill()
        draw(held, layout, design, compute, handle, name, released)

    def added_up(compute, dataset, layout, chunk_rows, query, name):
        if name.endswith("-3"):
            kill()
        return hold(compute, dataset, layout, chunk_rows, query, name)

    monkeypatch.setattr(training_steps, "_draw", drawn)
    monkeypatch.setattr(training_steps, "_hold", added_up)
    return killed


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "by"), [("poisson", "a run of Prefect"), ("banded", "a plain run")])
def test_workers_that_are_killed_between_steps_over_tls_cost_one_charge_and_no_bit(
    tmp_path, monkeypatch, cluster, prefect, kind, by
):
    client, section = cluster
    with pinned_key():
        wanted = group_of(release(batched(tmp_path / "alone", kind, steps=5)))
        path = batched(tmp_path / "people", kind, steps=5)
        path.write_text(path.read_text().replace(support.CLUSTERS["threads"], section))
        loaded = load_config(path)
        support.set_budget(loaded, 900.0, 1e-4)
        plan, killed = make_plan(loaded, NIGHT), killing(client, monkeypatch)
        if by == "a plain run":
            with open_compute(loaded) as compute:
                run_release(plan, compute, "t", lambda *_: None)
        else:
            monkeypatch.setenv(CONFIG_ROOT, str(path.parent))
            state = release_flow.release(release=path.stem, mode="release", logical_date=NIGHT, return_state=True)
            assert state.is_completed(), state.message
    assert len(killed) == 2 * WORKERS
    assert [each.kind for each in Ledger(loaded.ledger_url).history()] == [
        "BUDGET",
        "RESERVED",
        "COMMITTED",
        "RELEASED",
    ]
    assert KeyStore(loaded.keys_root).list() == []
    published = find_published(loaded.output_root, plan.release_id)
    for name, array in wanted.arrays():
        assert np.array_equal(group_of(published)[name][...], array[...]), name
    client.wait_for_workers(WORKERS, timeout=300)
    left = client.run(lambda: (list(keyring._keys), list(held_records._kept), held_records._taken))
    assert set(map(repr, left.values())) == {"([], [], 0)"}

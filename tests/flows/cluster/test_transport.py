"""What counts is how every part of a cluster is reached, those that join later included."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client, Nanny, Scheduler, SpecCluster, Worker
from distributed.security import Security

from blockveil.flows.cluster import workers
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.report import report_path
from tests.flows.cli.test_cli import blockveil
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT

TLS = "tls://10.0.0.1:8786"


def saying(scheduler=TLS, own=TLS, listeners=(TLS,), worker=TLS, nanny=None):
    """A client of a cluster that has these addresses."""
    return SimpleNamespace(
        scheduler=SimpleNamespace(address=scheduler),
        scheduler_info=lambda n_workers: {"address": own, "workers": {worker: {"nanny": nanny}}},
        run_on_scheduler=lambda asked: asked(
            SimpleNamespace(listeners=[SimpleNamespace(listen_address=address) for address in listeners])
        ),
    )


@pytest.mark.parametrize(
    "cluster",
    [
        saying(),
        saying(nanny="tls://10.0.0.1:9"),
        saying(scheduler="gateway://gateway.example.org:8786/a"),
    ],
    ids=["tls", "nanny", "gateway"],
)
def test_a_cluster_whose_parts_are_all_reached_by_tls_is_fit(cluster):
    workers.check_transport(cluster)


def test_a_cluster_within_this_process_is_fit():
    here = f"inproc://10.0.0.1/{os.getpid()}/1"
    workers.check_transport(saying(here, here, (here,), here))


@pytest.mark.parametrize(
    ("part", "cluster"),
    [
        ("scheduler", saying(scheduler="tcp://localhost:8786")),
        ("scheduler", saying(scheduler="ws://10.0.0.1:8786")),
        ("scheduler", saying(scheduler="inproc://10.0.0.1/1/1")),
        ("scheduler", saying(own="tcp://10.0.0.1:8786")),
        ("scheduler", saying(listeners=(TLS, "tcp://10.0.0.1:8787"))),
        ("worker", saying(worker="tcp://127.0.0.1:8786")),
        ("worker", saying(scheduler="gateway://gateway.example.org:8786/a", worker="tcp://10.0.0.1:8786")),
        ("nanny", saying(nanny="tcp://127.0.0.1:8786")),
    ],
)
def test_one_part_that_is_reached_in_clear_makes_a_cluster_unfit(part, cluster):
    with pytest.raises(workers.ClusterUnfit, match=f"The {part} of the cluster is reached by .*TLS"):
        workers.check_transport(cluster)


def test_a_scheduler_that_does_not_say_where_it_listens_is_unfit():
    cluster = saying()
    cluster.run_on_scheduler = lambda asked: 1 / 0
    with pytest.raises(workers.ClusterUnfit, match="does not say where it listens"):
        workers.check_transport(cluster)


@pytest.fixture
def security():
    made = Security.temporary()
    made.require_encryption = False  # Dask itself then allows parts that talk in clear
    return made


def cluster_of(security, scheduler="tls://", worker="tls://", kind=Worker):
    common = {"host": "127.0.0.1", "security": security}
    return SpecCluster(
        workers={0: {"cls": kind, "options": {**common, "protocol": worker, "nthreads": 1}}},
        scheduler={"cls": Scheduler, "options": {**common, "protocol": scheduler, "port": 0, "dashboard": False}},
        security=security,
        silence_logs=50,
    )


@pytest.mark.parametrize(
    ("part", "scheduler", "worker", "kind"),
    [
        (None, "tls://", "tls://", Worker),
        ("scheduler", "tcp://", "tcp://", Worker),
        ("scheduler", ["tls://", "tcp://"], "tls://", Worker),
        ("worker", "tls://", "tcp://", Worker),
        ("worker", "tls://", "tcp://", Nanny),
    ],
)
def test_a_real_cluster_with_a_part_in_clear_is_found_out(security, part, scheduler, worker, kind):
    with cluster_of(security, scheduler, worker, kind) as cluster, Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        if part is None:
            workers.check_transport(client)
            return
        with pytest.raises(workers.ClusterUnfit, match=f"The {part} of the cluster is reached by tcp://"):
            workers.check_transport(client)


def files_of(security, folder):
    """Certificates as files: lines of a config, and words for Dask's own commands."""
    texts = {name: getattr(security, f"tls_{name}") for name in ("ca_file", "client_cert", "client_key")}
    for name, text in texts.items():
        support.write_private(folder / f"{name}.pem", text)
    lines = "\n".join(f'tls_{name} = "file:{folder}/{name}.pem"' for name in texts)
    options = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), texts, strict=True)
    return lines, [word for option, name in options for word in (option, str(folder / f"{name}.pem"))]


def test_a_worker_that_joins_later_and_is_reached_in_clear_is_ended_before_it_takes_a_task(tmp_path, security):
    tls, words = files_of(security, tmp_path)
    path = support.prepare(tmp_path).path
    with cluster_of(security) as cluster:
        address = cluster.scheduler_address
        section = f'kind = "address"\naddress = "{address}"\n{tls}'
        path.write_text(path.read_text().replace('kind = "threads"', section))
        with open_compute(load_config(path)) as compute:
            client = compute._client
            before = set(client.scheduler_info(n_workers=-1)["workers"])
            command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard"]
            late = [*command, *words, "--host", "127.0.0.1", "--nthreads", "4", "--local-directory", str(tmp_path)]
            careless = {**os.environ, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "false"}
            for nanny in ("--no-nanny", "--nanny"):
                words = [*late, "--protocol", "tcp", nanny]
                found = subprocess.run(words, env=careless, capture_output=True, text=True, timeout=120, check=False)
                assert "a worker is reached by tcp://" in found.stderr, found.stderr
            assert set(client.scheduler_info(n_workers=-1)["workers"]) == before
            ran = client.gather(client.map(lambda number: number + 1, range(20), pure=False))
            assert ran == list(range(1, 21))
            seen = {who for event in client.get_events("all") for who in [event[1].get("worker")] if who}
            assert any(who.startswith("tcp://") for who in seen), "it had joined"


def in_clear(folder, insecure):
    """A config that names a plain cluster class; it is ours to start, and has no TLS."""
    path = support.prepare(folder).path
    section = (
        'kind = "class"\ncluster_class = "distributed.LocalCluster"\nworkers = 1\nwait_minutes = 1\n'
        f"insecure = {str(insecure).lower()}\n"
        'arguments = { n_workers = 1, threads_per_worker = 1, memory_limit = "4GiB", '
        'dashboard_address = "127.0.0.1:0" }\n'
    )
    path.write_text(path.read_text().replace('kind = "threads"', section))
    return load_config(path)


def test_a_class_whose_cluster_talks_in_clear_on_this_machine_is_refused(tmp_path):
    with pytest.raises(workers.ClusterUnfit, match="reached by tcp://"), open_compute(in_clear(tmp_path, False)):
        pass


def test_plan_run_and_report_say_that_a_cluster_is_insecure(tmp_path):
    loaded = in_clear(tmp_path, True)
    said = "whoever reaches a part of it can read un-noised sums"
    planned = blockveil("plan", loaded.path, "--date", str(NIGHT))
    assert f"Cluster         not encrypted (insecure = true): {said}" in planned.stdout, planned.stdout
    done = blockveil("run", loaded.path, "--no-prefect", "--date", str(NIGHT))
    assert done.returncode == 0, done.stderr
    assert f"Warning: the cluster is not encrypted (insecure = true): {said}" in done.stdout
    assert "The cluster that computed this release was not encrypted" in done.stdout
    found = next(loaded.output_root.rglob("*.zarr"))
    page = report_path(found).read_text()
    assert '<p class="warning">The cluster that computed this release was not encrypted' in page
    assert '"computed_in_clear": true' in found.with_suffix(".report.json").read_text()


def test_plan_and_report_of_an_encrypted_cluster_say_nothing_of_the_kind(tmp_path):
    loaded = support.prepare(tmp_path, cluster="local")
    assert not make_plan(loaded, NIGHT).config.in_clear
    done = blockveil("run", loaded.path, "--no-prefect", "--date", str(NIGHT))
    assert done.returncode == 0, done.stderr
    assert "encrypted" not in done.stdout
    page = Path(report_path(next(loaded.output_root.rglob("*.zarr")))).read_text()
    assert "not encrypted" not in page
    assert "The parts of the cluster talked to each other encrypted" in page

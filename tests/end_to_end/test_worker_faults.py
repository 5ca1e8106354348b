"""Workers die, hang, join and leave in every phase of a run that is written block by block: the bits stay the same."""

import contextlib
import os
import pickle
import random
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, WorkerPlugin, get_worker

import blockveil.engine.answers.cost
import blockveil.engine.answers.layout
import blockveil.engine.answers.work
import blockveil.pipeline.data.zarr_arrays
from blockveil.engine.answers import graph
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster import workers
from blockveil.flows.cluster.computing import open_compute
from blockveil.flows.cluster.local_workers import Patient
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import publishing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT, no_trace

PHASES = {"sum": graph._partial.__name__, "combine": graph._added.__name__, "noise": graph._draw.__name__}
"""The function that a task of each phase calls."""


class Workers(Patient, LocalCluster):
    """A cluster whose workers are killed."""


@pytest.fixture(scope="module")
def cluster():
    with (
        Workers(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as started,
        Client(started, set_as_default=False) as client,
    ):
        yield started, client


def in_small_blocks(patch):
    """Tiles of two by two, written one by one, under one key: what differs between runs then comes from the faults.

    Tasks cost the scheduler nothing, so that a plan cuts so few records into ranges, whose sums are added up.
    """
    patch.setattr(blockveil.engine.answers.cost, "_TASK_SECONDS", 0.0)
    patch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 4)
    patch.setattr(blockveil.pipeline.data.zarr_arrays, "CHUNK_SIDE", 2)
    patch.setattr(blockveil.engine.answers.layout.grid, "__defaults__", (0, 2))
    patch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(bytes(32)))


@pytest.fixture
def known(monkeypatch):
    in_small_blocks(monkeypatch)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Digest of the release, without any fault."""
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch)
        plan = make_plan(support.prepare(tmp_path_factory.mktemp("alone"), kind="second-moment"), NIGHT)
        work = plan.answer.work(400)
        assert work.blocked
        assert len(work.tiles) == 3
        return support.values_of(run_release(plan, ThreadCompute(2), "alone", lambda *_: None).path)


def prepare(folder, cluster):
    path = support.prepare(folder, kind="second-moment").path
    path.write_text(path.read_text().replace('kind = "threads"', cluster))
    return load_config(path)


def at(cluster):
    return f'kind = "address"\naddress = "{cluster.scheduler_address}"\ninsecure = true'


def check_release(loaded, outcome, expected):
    assert support.values_of(outcome.path) == expected
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
    assert kinds == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    no_trace(loaded)


def two_workers(started, client):
    """Wait for both workers; a test before may have killed them faster than their nannies start others."""
    try:
        client.wait_for_workers(2, timeout=30)
    except TimeoutError:
        started.scale(0)
        started.scale(2)
        client.wait_for_workers(2, timeout=200)


@contextlib.contextmanager
def faults(client, folder, number, *phases):
    """Have the first task of each phase send a signal to its own worker; a file says that it has not happened yet."""
    places = {PHASES[phase]: str(folder / phase) for phase in phases}
    for place in places.values():
        Path(place).touch()

    class Failing(WorkerPlugin):  # in here, so that it is pickled by value
        def setup(self, worker):
            self.sealed = graph._sealed
            graph._sealed = self.failing

        def teardown(self, worker):
            graph._sealed = self.sealed

        def failing(self, function, *args, **kwargs):
            place = places.get(function.__name__, "")
            if os.path.exists(place):
                with contextlib.suppress(FileNotFoundError):  # another worker was faster
                    os.unlink(place)
                    Path(f"{place}-by").write_text(f"{get_worker().address} {os.getpid()}\n")
                    os.kill(os.getpid(), number)
            return self.sealed(function, *args, **kwargs)

    client.register_plugin(Failing(), name="failing")
    try:
        yield
        assert not [place for place in places.values() if os.path.exists(place)]
    finally:
        with contextlib.suppress(OSError):
            client.unregister_worker_plugin("failing")


@pytest.mark.slow
def test_workers_that_join_and_leave_during_a_run_change_no_bit(tmp_path, known, expected, cluster):
    started, client = cluster
    two_workers(started, client)
    loaded, told = prepare(tmp_path, at(started)), []

    def tell(stage, share):
        if told[-1:] == [stage]:
            return
        told.append(stage)
        if stage.startswith("reading"):
            started.scale(3)
            client.wait_for_workers(3, timeout=60)
        if stage == "drawing the noise":  # with the exact answer in the memory of the one that leaves
            holds = client.has_what()
            leaving = max(holds, key=lambda address: len(holds[address]))
            assert holds[leaving]
            client.retire_workers([leaving])

    with open_compute(loaded) as compute:
        outcome = run_release(make_plan(loaded, NIGHT), compute, "test", tell)
    assert told[:2] == ["reserving the budget", "starting workers"]
    assert told[2].startswith("reading")
    assert told[3:5] == ["committing the charge", "drawing the noise"]
    check_release(loaded, outcome, expected)
    started.scale(2)


@pytest.mark.slow
def test_a_worker_that_joins_with_other_code_gets_no_task(tmp_path, cluster):
    started, client = cluster
    two_workers(started, client)
    with open_compute(prepare(tmp_path, at(started))) as compute:
        ours = compute._client
        wrong = pickle.dumps(workers.SameCode({**workers.versions(), "numpy": "0.0.1"}))

        def expect(name, plugin, dask_scheduler):
            # Only for workers that join from now on.
            dask_scheduler.worker_plugins[name] = plugin

        ours.run_on_scheduler(expect, workers.SameCode.name, wrong)
        known = set(ours.scheduler_info(n_workers=-1)["workers"])
        joined = set()

        def seen(dask_scheduler):
            return list(dask_scheduler.get_events("all"))

        def address():
            time.sleep(0.05)
            return get_worker().address

        # Enough work in the queue that the scheduler has some for a worker in the moment that it joins.
        queue = [ours.submit(address, key=f"where-{i}", pure=False) for i in range(4000)]
        started.scale(len(known) + 1)
        while not joined:
            joined = {
                worker
                for _, event in ours.run_on_scheduler(seen)
                if isinstance(event, dict) and event.get("action") == "add-worker"
                for worker in [event["worker"]]
            } - known
            time.sleep(0.05)
        while joined & set(ours.scheduler_info(n_workers=-1)["workers"]):
            time.sleep(0.05)
        done = [future for future in queue if future.done()]
        ours.cancel([future for future in queue if not future.done()])
        assert 0 < len(done) < len(queue)
        assert set(ours.gather(done)) <= known
    started.scale(2)


def test_a_worker_that_dies_in_every_phase_costs_one_charge_and_no_bit(tmp_path, monkeypatch, known, expected, cluster):
    started, client = cluster
    two_workers(started, client)
    loaded, finish = prepare(tmp_path, at(started)), publishing.Draft.finish

    def killed_first(*args):
        for process in client.run(os.getpid).values():
            os.kill(process, signal.SIGKILL)
        return finish(*args)

    monkeypatch.setattr(publishing.Draft, "finish", killed_first)
    with faults(client, tmp_path, signal.SIGKILL, *PHASES), open_compute(loaded) as compute:
        outcome = run_release(make_plan(loaded, NIGHT), compute, "test", lambda *_: None)
    check_release(loaded, outcome, expected)


@contextlib.contextmanager
def missed_at_once(client, folder, *phases):
    """Have the scheduler miss a worker that has stopped now, and no other, as if minutes had passed."""

    async def miss(address, dask_scheduler):  # in here, so that it is pickled by value
        dask_scheduler.workers[address].last_seen = 0.0
        await dask_scheduler.check_worker_ttl()

    def watch():
        waiting = [folder / f"{phase}-by" for phase in phases]
        while not over.wait(0.05):
            for place in [place for place in waiting if place.exists() and place.read_text().endswith("\n")]:
                address, process = place.read_text().split()
                if Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] == "T":
                    waiting.remove(place)
                    client.run_on_scheduler(miss, address)

    over, watching = threading.Event(), ThreadPoolExecutor(1)
    watched = watching.submit(watch)
    try:
        yield
    finally:
        over.set()
        watched.result()
        watching.shutdown()


@pytest.mark.slow
def test_a_worker_that_hangs_is_left_and_no_bit_changes(tmp_path, known, expected, cluster):
    started, client = cluster
    two_workers(started, client)
    loaded, phases = prepare(tmp_path, at(started)), ("sum", "noise")
    stopping = faults(client, tmp_path, signal.SIGSTOP, *phases)
    with stopping, missed_at_once(client, tmp_path, *phases), open_compute(loaded) as compute:
        outcome = run_release(make_plan(loaded, NIGHT), compute, "test", lambda *_: None)
    check_release(loaded, outcome, expected)


@pytest.mark.slow
def test_a_store_that_fails_one_read_in_fifty_costs_one_charge_and_no_bit(tmp_path, monkeypatch, known, expected):
    failures, steady = tmp_path / "failures", Dataset.source.fget
    failures.mkdir()

    class Unsteady:  # in here, so that it is pickled by value
        def __init__(self, records, chance):
            self.records, self.shape, self.chance = records, records.shape, chance

        def __reduce__(self):
            return type(self), (self.records, random.Random(7))

        def __getitem__(self, key):
            if self.chance.random() < 1 / 50:
                (failures / secrets.token_hex(8)).touch()
                raise OSError("the store does not answer")
            return self.records[key]

    monkeypatch.setattr(Dataset, "source", property(lambda dataset: Unsteady(steady(dataset), None)))
    loaded = support.prepare(tmp_path, kind="second-moment", cluster="local")
    loaded = load_config(loaded.path, overrides={"compute.block_rows": "1", "cluster.workers": "2"})
    with open_compute(loaded) as compute:
        outcome = run_release(make_plan(loaded, NIGHT), compute, "test", lambda *_: None)
    assert len(list(failures.iterdir())) > 3
    check_release(loaded, outcome, expected)

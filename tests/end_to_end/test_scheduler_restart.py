"""A scheduler that is killed in the middle of a run: a typed error, one charge, and the next run has the same bits."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.base.errors import ComputeError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT, no_trace, run

ROOT = Path(__file__).parents[2]

SERVE = """
import sys
from distributed import LocalCluster
import blockveil.flows.base.settings
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1",
        scheduler_port=int(sys.argv[1]), dashboard_address="127.0.0.1:0", memory_limit="4GiB",
    )
    print("serving", flush=True)
    sys.stdin.read()
"""


class Scheduler:
    """A process of a scheduler and its worker, always at the same address."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(self.port)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"serving\n"

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)
        self.process.stdin.close()
        self.process.stdout.close()

    def restart(self):
        self.stop()
        self.start()


@pytest.fixture
def scheduler():
    made = Scheduler()
    yield made
    made.stop()


@pytest.mark.slow
def test_a_scheduler_that_restarts_while_adding_up_or_drawing_costs_one_charge_and_no_bit(
    tmp_path, monkeypatch, scheduler
):
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(bytes(32)))
    alone, people = tmp_path / "alone", tmp_path / "people"
    alone.mkdir()
    people.mkdir()
    expected = support.values_of(run(support.prepare(alone)).path)
    path = support.prepare(people).path
    address = f'kind = "address"\naddress = "tcp://127.0.0.1:{scheduler.port}"\ninsecure = true'
    path.write_text(path.read_text().replace('kind = "threads"', address))
    loaded = load_config(path)
    plan, ledger, keys = make_plan(loaded, NIGHT), Ledger(loaded.ledger_url), KeyStore(loaded.keys_root)

    def attempt(fatal):
        told = []

        def tell(stage, share):
            if fatal is not None and stage.startswith(fatal) and not told:
                told.append(stage)
                scheduler.restart()

        with open_compute(loaded) as compute:
            return run_release(plan, compute, "test", tell)

    with pytest.raises(ComputeError):
        attempt("reading")
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "VOID"]
    no_trace(loaded)
    with pytest.raises(ComputeError):
        attempt("drawing")
    assert [entry.kind for entry in ledger.history()][-2:] == ["RESERVED", "COMMITTED"]
    assert len(keys.list()) == 1
    assert not list(loaded.output_root.rglob("*.zarr"))
    outcome = attempt(None)
    assert support.values_of(outcome.path) == expected
    assert [entry.kind for entry in ledger.history()].count("COMMITTED") == 1
    no_trace(loaded)

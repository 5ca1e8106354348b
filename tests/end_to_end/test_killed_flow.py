"""A run through Prefect that is killed after its charge was committed: the next one finishes it and says so."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client

from blockveil.engine.answers import held_records
from blockveil.engine.noise import keyring
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.questions.stepwise import course_of
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.publishing import find_published
from tests.end_to_end.served import with_tables
from tests.end_to_end.test_scheduler_restart import Scheduler
from tests.house import support
from tests.pipeline.releases.test_training_steps import NIGHT, training

ROOT = Path(__file__).resolve().parents[2]

KILLED = """
import os, signal, sys
from blockveil.pipeline.ledger import Ledger
commit = Ledger.commit
def commit_and_die(*a, **k):
    commit(*a, **k)
    os.kill(os.getpid(), signal.SIGKILL)
Ledger.commit = commit_and_die
sys.argv = ["blockveil", "run", sys.argv[1], "--date", "2026-11-20"]
from blockveil.flows.cli import main
main()
"""
PLAIN = KILLED[KILLED.index("sys.argv") :].replace("sys.argv =", "import sys\nsys.argv =", 1)

STEPS, DRAWN = 6, 3
KILLED_IN_STEPS = f"""
import os, signal
import numpy as np
from blockveil.pipeline.releases import training_steps
draw = training_steps._draw
def draw_and_die(held, layout, design, compute, handle, name, released):
    draw(held, layout, design, compute, handle, name, released)
    if name.endswith("-{DRAWN - 1}"):
        np.save("SUMS", released[:{DRAWN}])
        os.kill(os.getpid(), signal.SIGKILL)
training_steps._draw = draw_and_die
"""


def run(script, path, home):
    """Run in a session of its own, and end what it leaves behind (a killed run leaves its temporary server)."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        cwd=ROOT,
        env={**os.environ, "PREFECT_HOME": str(with_tables(home))},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    code = process.wait(timeout=600)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with process.stdout as shown:
        return code, shown.read()


@pytest.fixture
def scheduler():
    made = Scheduler()
    yield made
    made.stop()


def in_memory(scheduler):
    """Keys that the worker has, and trainings and bytes of records that it keeps."""
    with Client(f"tcp://127.0.0.1:{scheduler.port}", set_as_default=False) as client:
        (found,) = client.run(lambda: (list(keyring._keys), list(held_records._kept), held_records._taken)).values()
    return found


@pytest.mark.slow
def test_a_training_that_is_killed_under_prefect_is_finished_with_one_charge_and_leaves_no_records(tmp_path, scheduler):
    path, home, sums = training(tmp_path, steps=STEPS), tmp_path / "home", tmp_path / "sums.npy"
    address = f'kind = "address"\naddress = "tcp://127.0.0.1:{scheduler.port}"\ninsecure = true'
    path.write_text(path.read_text().replace(support.CLUSTERS["threads"], address))
    loaded = load_config(path)
    ledger, plan = support.set_budget(loaded, 900.0, 1e-4), make_plan(loaded, NIGHT)
    code, _ = run(KILLED_IN_STEPS.replace("SUMS", str(sums)) + PLAIN, path, home)
    assert code == -signal.SIGKILL
    entries = ledger.history()
    assert [entry.kind for entry in entries] == ["BUDGET", "RESERVED", "COMMITTED"]
    assert len(KeyStore(loaded.keys_root).list()) == 1
    assert find_published(loaded.output_root, plan.release_id) is None
    charge = entries[-1].charge_id
    keys, kept, taken = in_memory(scheduler)
    assert (keys, kept) == ([charge], [charge]), "until the release is finished, as known-limits says"
    assert taken > 1500 * 4 * 6
    code, shown = run(PLAIN, path, home)
    assert code == 0
    assert "the same noise is drawn again at no further cost" in shown
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert KeyStore(loaded.keys_root).list() == []
    assert in_memory(scheduler) == ([], [], 0)
    group = zarr.open_group(find_published(loaded.output_root, plan.release_id).path, mode="r")
    course, drawn = course_of(plan.question, plan.design), np.load(sums)
    first = np.concatenate([course.sums(drawn[t : t + 1], (t, t + 1))[0] for t in range(DRAWN)])
    assert group["gradients"].shape == (STEPS, 4)
    assert np.allclose(group["gradients"][:DRAWN], first, rtol=1e-12, atol=0.0), (
        "the steps before it have the same bits"
    )

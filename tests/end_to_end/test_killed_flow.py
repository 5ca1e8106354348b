"""A run through Prefect is killed after its charge was committed; the next one finishes it and says so."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.releases.keys import KeyStore
from tests import support
from tests.end_to_end.served import with_tables

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


@pytest.mark.slow
def test_a_killed_flow_is_finished_by_the_next_with_one_charge(tmp_path):
    loaded = support.prepare(tmp_path)
    code, _ = run(KILLED, loaded.path, tmp_path / "home")
    assert code == -signal.SIGKILL
    assert len(KeyStore(loaded.keys_root).list()) == 1
    code, shown = run(PLAIN, loaded.path, tmp_path / "home")
    assert code == 0
    assert "the same noise is drawn again at no further cost" in shown
    ledger = Ledger(loaded.ledger_url)
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert KeyStore(loaded.keys_root).list() == []

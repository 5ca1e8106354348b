"""SIGKILL at every statement of every transition: all of an entry or none, and the next try ends with one charge."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.ledger.ledger_support import make, reserve

ROOT = Path(__file__).parents[3]

RUN = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import sqlalchemy as sa
from pipeline.ledger import Ledger
from tests.pipeline.ledger.ledger_support import reserve
step, last, charge = sys.argv[3], int(sys.argv[4]), sys.argv[5]
ledger = Ledger(f"sqlite:///{sys.argv[2]}")
count = 0
def boundary(*_):
    global count
    count += 1
    if count == last:
        os.kill(os.getpid(), signal.SIGKILL)
engine = ledger._database._engine
for event in ("before_cursor_execute", "after_cursor_execute", "commit"):
    sa.event.listen(engine, event, boundary)
if step == "reserve":
    reserve(ledger, "1")
if step == "commit":
    ledger.commit(charge, "check")
if step == "released":
    ledger.released(charge, "digest", "place")
if step == "void":
    ledger.void_if_reserved(charge, "reason")
boundary()
print(count)
"""

BEFORE = {"reserve": [], "commit": ["RESERVED"], "void": ["RESERVED"], "released": ["RESERVED", "COMMITTED"]}
AFTER = {"reserve": "RESERVED", "commit": "COMMITTED", "void": "VOID", "released": "RELEASED"}


def attempt(path, step, last, charge):
    return subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT), str(path), step, str(last), charge],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("step", BEFORE)
def test_a_kill_at_any_statement_leaves_all_or_nothing(tmp_path, step):
    seen, boundary = set(), 0
    while True:
        boundary += 1
        folder = tmp_path / str(boundary)
        folder.mkdir()
        ledger = make(folder)
        charge = reserve(ledger, "1").charge_id if BEFORE[step] else "none"
        if step == "released":
            ledger.commit(charge, "check")
        killed = attempt(folder / "ledger.db", step, boundary, charge)
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        kinds = [entry.kind for entry in ledger.history()][1:]
        assert kinds in (BEFORE[step], [*BEFORE[step], AFTER[step]])
        seen.add(len(kinds) - len(BEFORE[step]))
        assert ledger.verify().problems == []
        again = attempt(folder / "ledger.db", step, 10_000, charge)
        assert again.returncode == 0, again.stderr
        kinds = [entry.kind for entry in ledger.history()][1:]
        assert kinds == [*BEFORE[step], AFTER[step]]
        assert ledger.budget("people").charges == (0 if step == "void" else 1)
    assert boundary > 4
    assert seen == {0, 1}, "kills before and after the commit were both tried"

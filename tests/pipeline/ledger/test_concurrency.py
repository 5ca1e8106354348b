"""Thirty-two processes at once: the cap holds, one release has one charge, the chain is whole."""

import os
import subprocess
import sys
from pathlib import Path

from engine.guarantees import Loss
from pipeline.ledger import Ledger
from tests.pipeline.ledger.ledger_support import make

ROOT = Path(__file__).parents[3]
PROCESSES = 32

RESERVE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from pipeline.errors import BudgetExhausted
from pipeline.ledger import Ledger
from tests.pipeline.ledger.ledger_support import reserve
ledger = Ledger(f"sqlite:///{sys.argv[2]}")
Path(sys.argv[4]).touch()
while not Path(sys.argv[5]).exists():
    time.sleep(0.005)
try:
    print(reserve(ledger, sys.argv[3], mu=0.1).is_new)
except BudgetExhausted:
    print("exhausted")
"""


def race(folder, nights):
    """Start all processes, let them go at the same moment, return what each said."""
    start = folder / "start"
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                RESERVE,
                str(ROOT),
                str(folder / "ledger.db"),
                night,
                str(folder / f"r{i}"),
                str(start),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        for i, night in enumerate(nights)
    ]
    while not all((folder / f"r{i}").exists() or p.poll() is not None for i, p in enumerate(running)):
        pass
    start.touch()
    said = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        said.append(out.strip())
    return said


def test_the_cap_is_never_exceeded_by_32_processes(tmp_path):
    ledger = make(tmp_path, 1.0)
    fits = ledger.budget("people").nights_left(Loss(0.1, 0.0, 300 * 2.0**-90))
    assert 1 < fits < PROCESSES
    said = race(tmp_path, [f"night-{i}" for i in range(PROCESSES)])
    assert sorted(said) == sorted(["True"] * fits + ["exhausted"] * (PROCESSES - fits))
    budget = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people")
    assert budget.charges == fits
    assert budget.cap.holds(budget.spent)
    assert ledger.verify().problems == []


def test_one_release_is_charged_once_by_32_processes(tmp_path):
    ledger = make(tmp_path, 1.0)
    said = race(tmp_path, ["same"] * PROCESSES)
    assert sorted(said) == ["False"] * (PROCESSES - 1) + ["True"]
    assert ledger.budget("people").charges == 1
    assert ledger.verify().problems == []

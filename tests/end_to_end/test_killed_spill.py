"""A run that is killed with raw values on the disk: whatever runs next in its place wipes them, and finishes it."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blockveil.pipeline.ledger import Ledger
from tests.house import support

ROOT = Path(__file__).parents[2]

RUN = """
if __name__ == "__main__":  # workers import this file too
    import os, signal, sys
    from blockveil.flows.cli import main
    from blockveil.flows.cluster.distributed_compute import DistributedCompute
    if sys.argv[2] == "killed":
        DistributedCompute.install = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    sys.argv = ["blockveil", "run", sys.argv[1], "--no-prefect", "--date", "2026-11-20", *sys.argv[3:]]
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("always", ["true", "false"], ids=["workers", "threads"])
def test_raw_values_that_a_killed_run_spilled_are_gone_after_the_next(tmp_path, always):
    people, scratch = tmp_path / "people", tmp_path / "scratch"
    people.mkdir()
    scratch.mkdir()
    loaded, script = support.prepare(people, cluster="local"), tmp_path / "run.py"
    script.write_text(RUN)
    # Workers spill whatever they hold.
    settings = {"DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "1e-9", "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}

    def run(how, *words):
        return subprocess.run(
            [sys.executable, str(script), str(loaded.path), how, *words],
            cwd=ROOT,
            env={**os.environ, **settings},
            capture_output=True,
            timeout=600,
            check=False,
        )

    def spilled():
        return [file for file in scratch.rglob("*") if file.is_file() and "storage" in file.parts]

    assert run("killed").returncode == -signal.SIGKILL
    time.sleep(2)  # its workers notice
    assert spilled(), "the test means nothing where nothing was spilled"
    home = scratch / f"blockveil-{os.getuid()}"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) & 0o077 == 0 for file in spilled())
    done = run("again", "--set", f"cluster.always_start_workers={always}")
    assert done.returncode == 0, done.stderr.decode()
    assert list(home.iterdir()) == []
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()].count("COMMITTED") == 1

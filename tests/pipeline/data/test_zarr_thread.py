"""A process that has done its work ends without a word, also where Zarr's thread gets no turn for a while."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys, time
from zarr.core import sync
import blockveil.pipeline.data.zarr_arrays as arrays
arrays.create_group(__import__("pathlib").Path(sys.argv[1]) / "group", {})
assert sync.loop[0] is not None, "Zarr has used its thread"
sync.loop[0].call_soon_threadsafe(time.sleep, 1.0)  # as if other processes had the processors
"""


@pytest.mark.parametrize("before", ["", "from blockveil.pipeline.data import stores"])
def test_a_thread_that_is_late_is_waited_for(tmp_path, before):
    done = subprocess.run(
        [sys.executable, "-c", before + SCRIPT, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_that_never_used_it_ends_too():
    script = "import blockveil.pipeline.data.zarr_arrays"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")

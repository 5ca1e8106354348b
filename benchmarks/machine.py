"""What a benchmark runs on: threads of BLAS, whatever the environment says, the processor's instructions, the disk.

Each benchmark with a clock begins with :func:`begin`.
"""

from __future__ import annotations

import os
from pathlib import Path

from threadpoolctl import threadpool_limits

INSTRUCTIONS = ("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2", "i8mm", "asimddp")
"""Of processors, as Linux names them, that decide how fast products are."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables from which BLAS takes its number of threads."""


def instructions() -> str:
    """Those that this machine has."""
    try:
        words = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "unknown instructions"
    return ", ".join(name for name in INSTRUCTIONS if name in words) or "none of the instructions that matter"


def forget(folder: Path) -> None:
    """Ask the system to drop the files of a folder from its memory, so that the next reading comes from the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # a page that waits to be written stays
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def begin(threads: int | None = None) -> None:
    """Give BLAS this many threads, here and in processes that are started, and say on what the benchmark runs.

    Parameters
    ----------
    threads
        None for one a core, as for a command of a user: what the product then chooses is part of what is measured.
    """
    for name in THREADS:
        if threads is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(threads)
    threadpool_limits(threads or os.cpu_count(), user_api="blas")
    given = "as many threads of BLAS as cores" if threads is None else f"threads of BLAS: {threads}"
    print(f"{instructions()}; {os.cpu_count()} cores, {given}", flush=True)

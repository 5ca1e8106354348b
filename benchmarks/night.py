"""A whole night of a wide covariance: seconds by stage, memory of each kind of process, bytes on disk.

Run ``python -m benchmarks.night FEATURES RECORDS [--workers 2] [--memory 4.0] [--folder DIR] [--threads]``. It makes up
records in single precision, stores them in chunks of about 8 MiB, and runs ``blockveil run --no-prefect --timings`` on
them, as a user does. Beside the stages stand the processor time of all processes, the largest memory of the process
that publishes and of one of its workers, and the bytes of the release over those of the matrix as plain numbers.

20,000 features need some 7 GB of disk, 50,000 some 22 GB. With ``--threads`` no workers are started.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from benchmarks import machine

CHUNK_BYTES, EVERY = 8 * 2**20, 0.2

CONFIG = """
[release]
dataset = "made-up"
name = "wide"
[data]
store = "records.zarr"
array = "records"
[query]
kind = "covariance"
rows_at_most = {records}
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{{ name = "x", lower = -3, upper = 3, count = {features} }}]
[privacy]
epsilon = 1.0
delta = {delta}
neighbours = "add-remove"
unit = "one record (one row)"
[mechanism]
kind = "gaussian"
[compute]
memory_gib = {memory}
[cluster]
{cluster}
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def store(folder: Path, features: int, records: int) -> None:
    """Made-up records, a chunk at a time."""
    source, rows = np.random.default_rng(0), max(1, CHUNK_BYTES // (4 * features))
    array = zarr.create_group(folder / "records.zarr").create_array(
        "records", shape=(records, features), chunks=(rows, features), dtype="<f4", compressors=(Crc32cCodec(),)
    )
    for start in range(0, records, rows):
        size = (min(start + rows, records) - start, features)
        array[start : start + rows] = source.standard_normal(size, np.float32)


def configure(folder: Path, features: int, records: int, memory: float, of: str) -> None:
    """Write a config, ``of`` being its section cluster, and grant its budget."""
    delta = min(1e-7, 1.0 / (100.0 * records))  # above a hundredth of 1 / records, a plan warns or refuses
    text = CONFIG.format(delta=delta, records=records, features=features, memory=memory, cluster=of)
    (folder / "wide.toml").write_text(text)
    if blockveil(folder, "ledger", "grant", "wide.toml", "--epsilon", "10", "--delta", "1e-5").wait():
        raise SystemExit("the budget was not granted")


def blockveil(folder: Path, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
    """Start a command of the command line; ``how`` goes to Popen."""
    program = Path(sys.executable).with_name("blockveil")
    return subprocess.Popen([program, *arguments], cwd=folder, **how)


def cluster(workers: int, threads: bool = False) -> str:
    """Keys of a config's section cluster."""
    return f'kind = "threads"\nthreads_per_worker = {workers}' if threads else f'kind = "local"\nworkers = {workers}'


def processes(root: int) -> Iterator[tuple[int, bool]]:
    """A process and all below it, and whether it computes as a worker, which a process between them guards."""
    waiting = [(root, 0)]
    while waiting:
        number, depth = waiting.pop()
        yield number, depth > 0
        try:
            # A child belongs to the thread that started it, which is the main one only sometimes.
            below = [each.read_text() for each in Path(f"/proc/{number}/task").glob("*/children")]
        except OSError:
            continue
        waiting += [(int(each), depth + 1) for each in " ".join(below).split()]


def peak(number: int) -> float:
    """Largest memory of a process so far, in GiB; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 2**20 for line in lines if line.startswith("VmHWM")), default=0.0)


def watch(running: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Largest memory of the process itself and of any below it, in GiB."""
    own = below = 0.0
    while running.poll() is None:
        for number, inner in processes(running.pid):
            own, below = (own, max(below, peak(number))) if inner else (max(own, peak(number)), below)
        time.sleep(EVERY)
    return own, below


def night(folder: Path, given: argparse.Namespace) -> None:
    """Make up the records, release, and print."""
    configure(folder, given.features, given.records, given.memory, cluster(given.workers, given.threads))
    store(folder, given.features, given.records)
    began = time.perf_counter()
    running = blockveil(folder, "run", "wide.toml", "--no-prefect", "--timings")
    own, below = watch(running)
    wall = time.perf_counter() - began
    if running.returncode:
        raise SystemExit(f"the run failed ({running.returncode})")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = sum(file.stat().st_size for file in (folder / "releases").rglob("*") if file.is_file())
    plain = 8 * given.features**2
    print(f"{given.features:,} features, {given.records:,} records, {os.cpu_count()} cores: {wall:.0f} s")
    print(f"processor time of all processes {used.ru_utime + used.ru_stime:.0f} s, the budget's among them")
    print(f"memory: {own:.2f} GiB of the process that publishes, {below:.2f} GiB of the largest worker")
    print(f"on disk: {kept / 2**20:,.0f} MiB, {kept / plain:.2f} times the matrix as plain numbers")


def main() -> None:
    """Parse, and work in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=int)
    parser.add_argument("records", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--threads", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        night(Path(folder), given)


if __name__ == "__main__":
    machine.begin()
    main()

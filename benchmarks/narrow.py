"""A whole release of a narrow covariance, beside the libraries that people would name for the matrix alone.

``python -m benchmarks.narrow [ROWS FEATURES [WORKERS [REPEATS]]]`` makes up records in single precision, stores them in
chunks of about 8 MiB and in a Parquet file, and prints medians of interleaved repeats:

* release   ``blockveil run --no-prefect``, from the start of the command to the sealed release: imports, reading,
            clipping, exact sums, noise, files, ledger and report
* sums      of that, the exact sums
* dask      ``X.T @ X`` of the clipped records by ``dask.array`` in float32, from the same store, on as many processes;
            neither exact nor private, and without the start of its processes
* sklearn   ``EmpiricalCovariance`` of scikit-learn on records that are in memory already
* polars    ``polars.cov`` of every pair of columns, from the Parquet file
* duckdb    ``covar_pop`` of every pair of columns, from the Parquet file

The last three, where they are installed, have as many threads as there are workers, and do not clip. A ratio above 1
says how many times as fast the whole release is. Beside it stand the processor seconds of all processes that work for
it, which a busy machine hardly changes.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zarr
from distributed import Client
from threadpoolctl import threadpool_limits

from benchmarks import machine
from benchmarks.covariance import cluster_of, processor, seconds
from benchmarks.covariance_peers import peer
from benchmarks.night import blockveil, cluster, configure, store

ROWS, FEATURES, WORKERS, REPEATS = 5_000_000, 50, 2, 3
BOUND = 3.0


def parquet(folder: Path, records: Any) -> Path:
    """The same records as columns of a Parquet file, a few chunks at a time."""
    rows, features = records.shape
    names = [f"x{i}" for i in range(features)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    several = 8 * records.chunks[0]
    with pq.ParquetWriter(folder / "records.parquet", schema, compression="none") as written:
        for first in range(0, rows, several):
            part = records[first : first + several]
            written.write_table(pa.table(dict(zip(names, part.T, strict=True)), schema))
    return folder / "records.parquet"


def release(folder: Path, number: int) -> float:
    """One release by the command line; the seconds of its exact sums."""
    running = blockveil(
        folder,
        "run",
        "wide.toml",
        "--no-prefect",
        "--timings",
        "--date",
        f"2026-01-{number + 1:02}",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    printed, _ = running.communicate()
    if running.returncode:
        raise SystemExit(printed.decode())
    return next(float(line.split()[-2]) for line in printed.decode().splitlines() if "sums" in line)


def used(client: Client) -> float:
    """Processor seconds so far of the cluster's workers, this process, and the commands that it has run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(processor(client)) + ended.ru_utime + ended.ru_stime


def by_sklearn(values: np.ndarray, workers: int) -> None:
    """Fit on records in memory."""
    found = importlib.import_module("sklearn.covariance").EmpiricalCovariance(store_precision=False)
    with threadpool_limits(workers, user_api="blas"):
        found.fit(values)


def by_polars(file: Path, pairs: list[tuple[str, str]]) -> None:
    """All pairs in one query."""
    polars = importlib.import_module("polars")
    polars.scan_parquet(file).select(polars.cov(a, b).alias(f"{a} {b}") for a, b in pairs).collect(engine="streaming")


def by_duckdb(file: Path, pairs: list[tuple[str, str]], workers: int) -> None:
    """All pairs in one query."""
    with importlib.import_module("duckdb").connect(config={"threads": workers}) as found:
        asked = ", ".join(f"covar_pop({a}, {b})" for a, b in pairs)
        found.execute(f"SELECT {asked} FROM read_parquet('{file}')").fetchall()


def compare(folder: Path, rows: int, features: int, workers: int, repeats: int) -> None:
    """Make up records, measure, and print."""
    configure(folder, features, rows, 4.0, cluster(workers))
    store(folder, features, rows)
    records = zarr.open_array(folder / "records.zarr" / "records", mode="r")
    names = [f"x{i}" for i in range(features)]
    pairs = list(itertools.combinations_with_replacement(names, 2))
    file = parquet(folder, records)
    sums: list[float] = []
    dates = iter(range(1, repeats + 1))
    runs: dict[str, Callable[[], object]] = {"release": lambda: sums.append(release(folder, next(dates)))}
    with cluster_of(workers) as client:
        tall = records.chunks[0]
        tried = [(tall, features), (4 * tall, features), (16 * tall, features)]
        best = min(tried, key=lambda chunks: seconds(partial(peer, client, records, chunks, BOUND, "f4")))
        runs["dask"] = partial(peer, client, records, best, BOUND, "f4")
        if importlib.util.find_spec("sklearn"):
            runs["sklearn"] = partial(by_sklearn, records[...], workers)
        if importlib.util.find_spec("polars"):
            runs["polars"] = partial(by_polars, file, pairs)
        if importlib.util.find_spec("duckdb"):
            runs["duckdb"] = partial(by_duckdb, file, pairs, workers)
        timed: list[dict[str, float]] = []
        spent: list[dict[str, float]] = []
        for _ in range(repeats):
            timed.append({})
            spent.append({})
            for name, run in runs.items():
                before = used(client)
                timed[-1][name] = seconds(run)
                spent[-1][name] = used(client) - before
    middle = {name: statistics.median(run[name] for run in timed) for name in runs}
    print(f"{rows:,} x {features}, {workers} workers")
    print(
        "  "
        + ", ".join(f"{name} {took:.2f} s" for name, took in middle.items())
        + f", sums {statistics.median(sums):.1f} s"
    )
    print("  processor seconds: " + ", ".join(f"{n} {statistics.median(run[n] for run in spent):.1f}" for n in runs))
    for name in list(runs)[1:]:
        ratio = statistics.median(run[name] / run["release"] for run in timed)
        of_both = statistics.median(run[name] / run["release"] for run in spent)
        print(f"  the whole release, times as fast as {name}: {ratio:.2f}, by processor seconds {of_both:.2f}")


def main() -> None:
    """Compare at the size given on the command line."""
    given = [int(word) for word in sys.argv[1:]]
    rows, features, workers, repeats = [*given, *(ROWS, FEATURES, WORKERS, REPEATS)[len(given) :]]
    os.environ["POLARS_MAX_THREADS"] = str(workers)  # read when polars is imported, which happens at its first use
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), rows, features, workers, repeats)


if __name__ == "__main__":
    machine.begin()
    from benchmarks import narrow  # workers find functions by the module's name

    narrow.main()

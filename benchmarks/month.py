"""A month of nights over data that grow, and a plain covariance of the same records, night by night.

Run ``python -m benchmarks.month [--rows N] [--columns D] [--nights T]``. Each night a file of records is appended to
the store, and the covariance of all records so far is released under one charge for the month. Beside it stands the
same release without shared noise, of the same records. Times are processor seconds of this process with all its
threads, which a busy machine changes least. ``memory`` is the peak of the process so far. The table ends with
the seconds that a million records more cost a night, by least squares, the ratio of the two, how far the nights of the
later half are from the line, what memory grew by in that half, and what appending cost in either.

A night under a shared charge reads the records a second time, for the comparison with those of earlier nights, and adds
them up by ranges of age with a weight each. ``adds up`` is the second alone, from the first record to the first noise:
the last line has its ratio to that of the plain covariance, by the median of the later half of the nights.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import machine
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.noise.level_strategy import least_noise
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release

FIRST, THREADS, LARGEST = date(2026, 11, 1), 2, 100
UNIT, ADDING_UP = "one visit (one row)", "reading, clipping and adding up"

INGEST = """
columns = [{{ name = "x", kind = "whole", missing = "refuse", count = {columns} }}]
[ingest]
store = "visits.zarr"
append = true
late = "next"
dtype = "int8"
[source]
kind = "npy"
files = ["arrived"]
names = [{{ name = "x", count = {columns} }}]
[unit]
kind = "row"
name = "{unit}"
"""

RELEASE = """
[release]
dataset = "visits"
name = "{name}"
[data]
store = "visits.zarr"
[query]
kind = "covariance"
rows_at_most = 100_000_000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{features}]
[privacy]
epsilon = {epsilon}
delta = 1e-9
neighbours = "add-remove"
unit = "{unit}"
[mechanism]
kind = "gaussian"
[cluster]
kind = "threads"
threads_per_worker = {threads}
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""

SHOWN = ("append", "shared", "shared adds up", "plain", "plain adds up")
"""What is timed, in the order of the columns."""


def site(folder: Path, columns: int, nights: int) -> tuple[LoadedConfig, LoadedConfig]:
    """Configs of the nights that share a charge, and of those that do not, over one store."""
    (folder / "arrived").mkdir()
    (folder / "ingest.toml").write_text(INGEST.format(columns=columns, unit=UNIT))
    features = ", ".join(f'{{ name = "x{i}", lower = 0, upper = {LARGEST} }}' for i in range(1, columns + 1))
    found = []
    for name, epsilon in (("shared", 1.0), ("plain", 0.05)):
        text = RELEASE.format(name=name, features=features, epsilon=epsilon, unit=UNIT, threads=THREADS)
        more = f"[continual]\nnights = {nights}\nfirst = {FIRST}\n" if name == "shared" else ""
        (folder / f"{name}.toml").write_text(text + more)
        found.append(load_config(folder / f"{name}.toml"))
    Ledger(found[0].ledger_url).set_budget("visits", 10.0, 1e-4, Neighbours.ADD_REMOVE, UNIT)
    return found[0], found[1]


def timed(work: Callable[[], object]) -> float:
    """Processor seconds that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def append(folder: Path) -> None:
    """Bring in what has arrived."""
    ingest(look(load_ingest(folder / "ingest.toml")), lambda *_: None)


def night(loaded: LoadedConfig, number: int) -> tuple[float, float]:
    """Seconds of one release, and of those the ones in which it adds records up."""
    plan, begun = make_plan(loaded, FIRST + timedelta(days=number - 1)), dict[str, float]()
    seconds = timed(
        lambda: run_release(
            plan,
            ThreadCompute(THREADS),
            "benchmark",
            lambda stage, _: begun.setdefault(stage, time.process_time()),
        )
    )
    stages = list(begun)
    after = stages[stages.index(ADDING_UP) + 1]
    return seconds, begun[after] - begun[ADDING_UP]


def slope(held: list[int], seconds: list[float]) -> tuple[float, float]:
    """Seconds for a million records more, and the median distance of the later half from the line, as a share."""
    millions, half = np.asarray(held) / 1e6, len(held) // 2
    line = np.polyfit(millions, seconds, 1)
    expected = np.polyval(line, millions)
    return float(line[0]), float(np.median(np.abs(np.asarray(seconds) / expected - 1)[half:]))


def main() -> None:
    """Print a line for each night, and the slopes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000, help="records at the end of the month")
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--nights", type=int, default=30)
    asked = parser.parse_args()
    each, held, peaks = asked.rows // asked.nights, list[int](), list[float]()
    times: dict[str, list[float]] = {name: [] for name in SHOWN}
    print(f"{os.cpu_count()} cores; {asked.columns} columns, {each:,} records a night")
    print("night     held  append s  night s  adds up s  plain s  adds up s  memory GiB")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shared, plain = site(folder, asked.columns, asked.nights)
        for number in range(1, asked.nights + 1):
            rng = np.random.default_rng(number)
            arrived = rng.integers(0, LARGEST + 1, (each, asked.columns)).astype(np.int8)
            np.save(folder / "arrived" / f"day-{number:03d}.npy", arrived)
            held.append(number * each)
            times["append"].append(timed(partial(append, folder)))
            for name, loaded in (("shared", shared), ("plain", plain)):
                for timed_name, seconds in zip((name, f"{name} adds up"), night(loaded, number), strict=True):
                    times[timed_name].append(seconds)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
            last = [times[name][-1] for name in SHOWN]
            print(
                f"{number:5d} {held[-1]:8,}  {last[0]:8.2f} {last[1]:8.2f} {last[2]:10.2f} {last[3]:8.2f} "
                f"{last[4]:10.2f}  {peaks[-1]:10.2f}",
                flush=True,
            )
    (appending, _), (sharing, off), (alone, alone_off) = (
        slope(held, times[name]) for name in ("append", "shared", "plain")
    )
    print(
        f"a million records more: append {appending:.2f} s, night {sharing:.2f} s, plain covariance {alone:.2f} s; "
        f"ratio {sharing / alone:.2f}; nights are {off:.0%} from the line, plain ones {alone_off:.0%}"
    )
    half, spent = len(held) // 2, times["append"]
    print(
        f"memory: {peaks[half]:.2f} GiB with {held[half]:,} records, {peaks[-1]:.2f} GiB with {held[-1]:,}; appending: "
        f"{sum(spent[:half]):.1f} s in the first {half} nights, {sum(spent[-half:]):.1f} s in the last {half}"
    )
    ranges = len(least_noise(asked.nights).weights)
    later = {name: np.median(seconds[len(seconds) // 2 :]) for name, seconds in times.items()}
    ratio = later["shared adds up"] / later["plain adds up"]
    print(f"adding up by {ranges} ranges of age: {ratio:.2f} times the plain covariance")


if __name__ == "__main__":
    machine.begin()
    main()

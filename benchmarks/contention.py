"""How long those wait who reserve at once on SQLite, while two other processes keep two cores busy.

``python -m benchmarks.contention [RUNS]``: 32 processes that have opened the ledger before begin at one moment, and
reserve once, or eight times in a row. Of each run, how long the slowest reservation took over the median one: with the
line of writers, and with SQLite's own waiting alone. Medians, and the range, over the runs; all processes of a run must
have booked, or are said to have failed.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import machine
from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.reserving import ChargeRequest

PROCESSES, UNIT = 32, "one person"
FAILED = float("inf")
_forked = multiprocessing.get_context("forkserver")


def reserve(ledger: Ledger, night: str) -> float:
    """Seconds that one reservation took, or FAILED."""
    start = time.perf_counter()
    try:
        ledger.reserve(ChargeRequest(
            release_id=f"people/covariance/{night}", dataset="people", spec={}, spec_digest="0" * 64,
            charge=Loss(1e-3, 0.0, 0.0), neighbours=Neighbours.ADD_REMOVE, unit=UNIT, attempt="one",
        ))  # fmt: skip
    except BlockveilError as error:
        print(f"failed: {error.value}")
        return FAILED
    return time.perf_counter() - start


def queue(url: str, name: int, times: int, in_line: bool, gate: Any, told: Any) -> None:
    """Reserve so many times in a row, and tell how long each took."""
    ledger = Ledger(url)
    with (
        nullcontext()
        if in_line
        else mock.patch("blockveil.pipeline.ledger.writer_queue.in_turn", return_value=nullcontext())
    ):
        reserve(ledger, f"{name}-first")
        gate.wait()
        told.put([reserve(ledger, f"{name}-{number}") for number in range(times)])


def burn() -> None:
    """Keep a core busy."""
    while True:
        pass


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep cores busy meanwhile."""
    running = [_forked.Process(target=burn, daemon=True) for _ in range(count)]
    for process in running:
        process.start()
    try:
        yield
    finally:
        for process in running:
            process.kill()


def waits(times: int, in_line: bool) -> list[float]:
    """How long each reservation took, of processes that begin at once."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ledger.db'}"
        Ledger(url).set_budget("people", 20.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        gate, told = _forked.Barrier(PROCESSES), _forked.Queue()
        each = [(url, name, times, in_line, gate, told) for name in range(PROCESSES)]
        running = [_forked.Process(target=queue, args=arguments) for arguments in each]
        for process in running:
            process.start()
        found = [wait for _ in running for wait in told.get(timeout=600)]
        for process in running:
            process.join()
    return found


def main() -> None:
    """Measure both ways."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    _forked.set_forkserver_preload(["blockveil.pipeline.ledger", "blockveil.pipeline.ledger.sqlite"])
    with busy_cores(2):
        for times in (1, 8):
            for in_line, name in ((True, "in line"), (False, "SQLite's own waiting")):
                found = [waits(times, in_line) for _ in range(runs)]
                failed = sum(wait == FAILED for run in found for wait in run)
                ratios = sorted(max(run) / statistics.median(run) for run in found)
                middle = statistics.median(statistics.median(run) for run in found)
                said = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {runs} runs)"
                print(f"{PROCESSES} processes, {times} in a row, {name}: slowest / median {said}", end="; ")
                print(f"median {middle:.2f} s, {failed} failed", flush=True)


if __name__ == "__main__":
    machine.begin(1)
    sys.exit(main())

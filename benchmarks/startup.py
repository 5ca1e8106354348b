"""How long commands take to show their help: CPU and wall time, and the ratio to ``python -c pass``.

``python -m benchmarks.startup`` prints the median of several starts. A ratio depends less on the machine than seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from benchmarks import machine

REPEATS = 3
COMMANDS = (
    "",
    "plan",
    "run",
    "ingest",
    "serve",
    "service worker",
    "ledger",
    "ledger grant",
    "report",
    "study mechanisms",
    "audit",
    "study",
)
PROGRAM = "from blockveil.flows.cli import main; main()"


def start(*words: str) -> tuple[float, float]:
    """Wall and CPU seconds of one start of Python."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def median(*words: str) -> tuple[float, float]:
    """Medians over several starts, after one that fills the caches."""
    start(*words)
    walls, cpus = zip(*(start(*words) for _ in range(REPEATS)), strict=True)
    return statistics.median(walls), statistics.median(cpus)


def main() -> None:
    """Print the table."""
    empty_wall, empty_cpu = median("-c", "pass")
    print(f"{'command':<24} {'wall':>8} {'CPU':>8} {'CPU over python -c pass':>26}")
    print(f"{'python -c pass':<24} {empty_wall:>6.2f} s {empty_cpu:>6.2f} s {1.0:>26.1f}")
    for name in COMMANDS:
        wall, cpu = median("-c", PROGRAM, *name.split(), "--help")
        print(f"{'blockveil ' + name + ' --help':<24} {wall:>6.2f} s {cpu:>6.2f} s {cpu / empty_cpu:>26.1f}")


if __name__ == "__main__":
    machine.begin()
    main()

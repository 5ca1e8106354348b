"""What large covariances take on fleets that nobody here has, by the cost model at nominal rates.

``python -m benchmarks.fleets`` prints a table that is the same on every machine: no clock. The first line is the night
that ``python -m benchmarks.night 20000 16000`` measures. Values have 8 bits, as a plan chooses at these sizes, and
records are read 32 MiB at a time.

* sums, noise, writing  seconds
* read                  records as float64, each group of tiles of the answer all of them; and how fast all workers
                        together have to get them
* moved                 sums from worker to worker
* tasks                 of the scheduler, one process: parts that are read, each tile of each of them, noise
* worker                memory of one, which has one core
* disk                  the released matrix
"""

from __future__ import annotations

from typing import NamedTuple

from blockveil.engine.answers.cost import Cut, Machine, choose
from blockveil.engine.answers.work import GrowthKind, Work

GIB = 2**30
CHUNK_BYTES = 32 * 2**20
LARGEST = 127


class Fleet(NamedTuple):
    """A covariance, and workers of one core and so many GiB that compute it."""

    features: int
    records: int
    workers: int
    memory: int


FLEETS = (
    Fleet(20_000, 16_000, 2, 4),
    Fleet(20_000, 1_000_000, 16, 16),
    Fleet(20_000, 1_000_000, 128, 16),
    Fleet(50_000, 1_000_000, 128, 16),
    Fleet(50_000, 1_000_000, 1_000, 16),
    Fleet(100_000, 100_000, 128, 16),
    Fleet(100_000, 1_000_000, 128, 16),
    Fleet(100_000, 1_000_000, 1_000, 16),
    Fleet(100_000, 10_000_000, 1_000, 16),
)
HEAD = (
    "| features | records | workers | sums, s | noise, s | writing, s | read, TB (GB/s) | moved, TB | tasks "
    "| worker, GiB | disk, GB |"
)


def cut(fleet: Fleet) -> Cut:
    """How a plan would compute it."""
    side = fleet.features + 1
    work = Work(
        GrowthKind.PRODUCTS,
        fleet.records,
        fleet.features,
        (side, side),
        symmetric=True,
        lead=1,
        largest=LARGEST,
    )
    return choose(work, Machine(fleet.workers, 1, fleet.memory * GIB), CHUNK_BYTES)


def line(fleet: Fleet) -> str:
    """A line of the table."""
    found = cut(fleet)
    tiles = len(found.work.tiles)
    read = f"{found.bytes_read / 1e12:.3g} ({found.bytes_read / found.exact_seconds / 1e9:,.0f})"
    cells = (
        f"{fleet.features:,}",
        f"{fleet.records:,}",
        f"{fleet.workers:,}",
        f"{found.exact_seconds:,.0f}",
        f"{found.noise_seconds:,.1f}",
        f"{found.writing_seconds:,.0f}",
        read,
        f"{found.bytes_moved / 1e12:.2g}",
        f"{found.tasks + (found.ranges + 1) * tiles:,}",
        f"{found.peak_bytes / GIB:.2g} of {fleet.memory}",
        f"{8e-9 * fleet.features**2:,.1f}",
    )
    return f"| {' | '.join(cells)} |"


def table() -> list[str]:
    """All lines."""
    return [HEAD, "|" + "---|" * HEAD.count(" |"), *map(line, FLEETS)]


if __name__ == "__main__":
    print("\n".join(table()))

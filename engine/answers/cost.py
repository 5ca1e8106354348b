"""What an exact answer costs - operations, bytes, memory, tasks, time - and how to cut it so that it fits and is fast.

Everything here is a pure function of public sizes and of a machine's rates. Notation: n records of which c columns are
read, an answer of A entries (tiles on and above the diagonal where it is symmetric), g groups of tiles, r ranges of
rows, s task slots on w workers.

=================== =========================================================================
operations          n w (w + 1) for a second moment of width w; 2 n p q for outer products; none to speak of for sums
pairs               n (s w)^2 / 2 where a share s of the values is not zero and only these are multiplied
bytes read          8 g n c: each group of tiles reads the records once
bytes moved         8 r A where r > 1: partial sums travel to where they are added up; 4 r A where 32 bits hold them
memory of a task    8 A / g (its sums) + a piece of integers + three chunks of records
memory of a worker  threads x task + 8 r A / w (partial sums that wait, or the exact answer; in 32 bits half of it)
weighted records    z more sums of a task, one tile while they are added, and z times as many partial sums, for weights
                    of z digits
=================== =========================================================================

Few groups read little, many need little memory; many ranges keep every slot busy, few move little. :func:`choose`
takes the cheapest cut whose memory fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from blockveil.engine.answers.gram import arithmetic
from blockveil.engine.answers.layout import TILE_SIDE, Layout, banded, grouped, row_ranges, summed
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.answers.work import GrowthKind, Work

_PIECE_BYTES = 16 * 2**20
_PIECE_ROWS = 256
_BASE_BYTES = 200 * 2**20
"""A worker process with its libraries."""

_TASK_SECONDS = 1e-3
_SETTLE = 1e9
"""Bytes of sums that a task turns into whole numbers and mirrors in a second, when it ends."""

_ENTRY_BYTES = 192 * 2**20
"""Values other than zero that wait to be multiplied, their columns, and the product of one tile."""

_SHARES = (1, 2, 4, 8)
"""Tasks for each slot that are tried: more of them even out slow workers and show progress."""


class TooLarge(ValueError):
    """No cut of the answer fits the memory bound; the message says what would."""


@dataclass(frozen=True)
class Machine:
    """Where the work runs.

    Attributes
    ----------
    workers
        Worker processes.
    threads
        Tasks at once in one of them.
    memory
        Bytes that one of them may use.
    rates
        Speed of a core.
    """

    workers: int
    threads: int
    memory: int
    rates: Rates = NOMINAL

    @property
    def slots(self) -> int:
        """Tasks at once."""
        return self.workers * self.threads


@dataclass(frozen=True)
class Cost:
    """Predicted cost.

    Attributes
    ----------
    flops
        Useful floating-point operations.
    bytes_read, bytes_moved
        Bytes of records read as float64, and of partial sums sent.
    peak_bytes
        Largest memory of one worker.
    tasks
        Tasks that read records.
    exact_seconds, noise_seconds, writing_seconds, seconds
        Wall time until the exact answer is there, of its noise, of writing, and of all of it.
    """

    flops: float
    bytes_read: float
    bytes_moved: float
    peak_bytes: int
    tasks: int
    exact_seconds: float
    noise_seconds: float
    writing_seconds: float
    seconds: float


@dataclass(frozen=True)
class Cut:
    """How an answer is computed.

    Attributes
    ----------
    work
        What is asked.
    groups, ranges
        Groups of tiles and ranges of rows; each pair is a task.
    cost
        What it costs.
    """

    work: Work
    groups: int
    ranges: int
    cost: Cost

    @property
    def name(self) -> str:
        """Name of the plan."""
        if self.work.kind is not GrowthKind.PRODUCTS and (not self.work.grid or len(self.work.tiles) == 1):
            return "ranges of rows"
        return "row panels" if self.groups == 1 else "tiles of the answer"

    def layout(self, rows: int, chunk_rows: int) -> Layout:
        """Tiles and parts for the records that are there."""
        if self.work.kind is GrowthKind.RECORDS:
            # Tiles that share no stored chunk may be written at the same time.
            return banded(row_ranges(rows, -(-chunk_rows // TILE_SIDE) * TILE_SIDE, self.ranges), self.work.shape[1])
        ranges = row_ranges(rows, chunk_rows, self.ranges)
        tiles = self.work.tiles
        return summed(tiles, grouped(tiles, self.groups), ranges)

    def explain(self) -> str:
        """The choice in words."""
        how = f"{_many(self.groups, 'group')} of {_many(len(self.work.tiles), 'tile')}"
        what = "the whole answer" if self.name == "ranges of rows" else how
        again = f", reading the records {self.groups} times" if self.groups > 1 else ""
        parts = f"{self.name}: {what} x {_many(self.ranges, 'range')} of rows{again}"
        if self.work.density is None:
            return parts
        share = f"{100 * self.work.density:.3g} % of the values other than zero"
        return (
            f"{parts}; with {share} {'only these are' if self.work.sparse else 'it is faster to have all'} multiplied"
        )


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def choose(work: Work, machine: Machine, chunk_bytes: int) -> Cut:
    """Cheapest cut whose memory fits.

    Parameters
    ----------
    work, machine
        What is asked, and where.
    chunk_bytes
        Bytes of records that a task reads at once, as float64.

    Raises
    ------
    TooLarge
        None fits.
    """
    cuts = [Cut(work, g, r, _cost(work, machine, chunk_bytes, g, r)) for g, r in _candidates(work, machine)]
    fitting = [cut for cut in cuts if cut.cost.peak_bytes <= machine.memory]
    if not fitting:
        need = min(cut.cost.peak_bytes for cut in cuts) / 2**30
        why = "the workload or mechanism needs all cells in one task: " if work.kind is GrowthKind.CELLS else ""
        raise TooLarge(
            f"{'' if work.grid else why}a worker would need about {need:.2g} GiB and memory_gib is "
            f"{machine.memory / 2**30:.3g}; raise it, add workers, or lower block_rows or threads_per_worker"
        )
    return min(fitting, key=lambda cut: cut.cost.seconds)


def _candidates(work: Work, machine: Machine) -> Iterator[tuple[int, int]]:
    """Groups and ranges to try: every number of tasks for each slot, with ever more groups."""
    if not work.in_tiles:
        yield from ((1, machine.slots * share) for share in _SHARES)
        return
    most, groups = len(work.tiles), 1
    while True:
        ranges = {max(1, ceil(machine.slots * share / groups)) for share in _SHARES}
        yield from ((groups, count) for count in sorted(ranges))
        if groups == most:
            return
        groups = min(most, groups + max(1, groups // 4))


def _cost(work: Work, machine: Machine, chunk_bytes: int, groups: int, ranges: int) -> Cost:
    rates, answer = machine.rates, 8 * work.entries
    kept = answer // 2 if work.narrow else answer * max(1, work.weighted_sums)
    tasks = groups * ranges
    # Beside its floats and int32, or its floats, a task that sums many records has int64.
    wider = 2 if work.kind is GrowthKind.PRODUCTS and work.rows > arithmetic(work.largest).narrow_rows * ranges else 1
    records = 8.0 * work.rows * work.columns
    bytes_read = groups * records
    bytes_moved = float(ranges * kept) if ranges > 1 and work.kind is not GrowthKind.RECORDS else 0.0
    if work.kind is GrowthKind.RECORDS:
        own, waiting = 8 * work.entries // tasks, answer
    else:
        # Weighted sums are kept beside the plain one of a range, and a tile of it is multiplied by a digit.
        multiplied = 8 * max(tile.entries for tile in work.tiles) if work.weighted_sums else 0
        own = (wider + work.weighted_sums) * ceil(answer / groups) + multiplied
        waiting = (ranges + 1) * kept if ranges > 1 else kept
    wide = _PIECE_ROWS * 8 * sum(work.shape) if work.kind is not GrowthKind.CELLS else 0
    piece = max(wide, _PIECE_BYTES)
    task = own + (max(piece, _ENTRY_BYTES) if work.sparse else piece) + 3 * chunk_bytes
    # A tile of counts is exact, noised, and estimated from in a few copies.
    last = 9 * 8 * max(tile.entries for tile in work.tiles) if work.grid else 0
    whole = work.last_bytes + max(kept - answer, 0)
    peak = _BASE_BYTES + max(machine.threads * max(task, last), whole) + waiting / machine.workers
    products = work.pairs / rates.pairs if work.sparse else work.flops / rates.product(work.largest)
    core_seconds = products + bytes_read / rates.read + bytes_read / 8 / rates.quantise
    # The last wave of tasks may leave slots idle, and one slow task keeps the others waiting.
    waves = ceil(tasks / machine.slots)
    seconds = core_seconds / tasks * (waves + 0.05) + waves * own / _SETTLE
    # The scheduler is one process. Each range has a task for each tile of it, and a tile has a few more.
    scheduled = tasks + (ranges + 3) * len(work.tiles)
    seconds += bytes_moved / rates.move / machine.workers + scheduled * _TASK_SECONDS
    noise = work.entries / rates.noise / machine.slots
    # An answer is written by as many threads as there are slots, and beside it its error, unless that is computed as it
    # is read.
    numbers = work.shape[0] * work.shape[1] * (1 if work.blocked else 2)
    writing = 8.0 * numbers / rates.write / min(machine.slots, 8)
    total = seconds + noise + writing + work.last_seconds
    flops = 2.0 * work.pairs if work.sparse else work.flops
    return Cost(flops, bytes_read, bytes_moved, int(peak), tasks, seconds, noise, writing, total)

"""What an exact answer costs - bytes, memory, tasks, time - term by term, and how to cut it so that it fits.

Everything here is a pure function of public sizes and of a machine's rates. An answer is cut into groups of tiles, and
its records into ranges of rows; each pair of a group and a range is a task, and w workers have s slots for tasks in
all. Few groups read little, many need little memory; many ranges keep every slot busy, few move little. :func:`choose`
takes the cheapest cut whose memory fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from blockveil.engine.answers.gram import arithmetic
from blockveil.engine.answers.layout import TILE_SIDE, Layout, banded, grouped, row_ranges, summed
from blockveil.engine.answers.rates import NOMINAL, Rates
from blockveil.engine.answers.work import GrowthKind, Work

_NUMBER = 8
"""Bytes of a float64 or int64."""

_PIECE_BYTES = 16 * 2**20
"""Integers that a task multiplies at once, at least."""

_PIECE_ROWS = 256
"""Rows that a task multiplies at once, at least, however wide they are."""

_CHUNKS = 3
"""Chunks of records in the memory of a task, from what is stored to integers."""

_TILE_COPIES = 9
"""Copies of a tile of counts in memory while it is noised and estimated from."""

_BASE_BYTES = 200 * 2**20
"""A worker process with its libraries."""

_ENTRY_BYTES = 192 * 2**20
"""Values other than zero that wait to be multiplied, their columns, and the product of one tile."""

_TASK_SECONDS = 1e-3
"""What the scheduler, which is one process, needs for a task."""

_SETTLE = 1e9
"""Bytes of sums that a task turns into whole numbers and mirrors in a second, when it ends."""

_STRAGGLING = 0.05
"""Share of a task for which one slow task keeps the others waiting at the end."""

_WRITERS = 8
"""Slots that write at once at most."""

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
class Cut:
    """How an answer is computed, and what that costs, each term on its own.

    Attributes
    ----------
    work, machine
        What is asked, and where.
    chunk_bytes
        Bytes of records that a task reads at once, as float64.
    groups, ranges
        Groups of tiles and ranges of rows; each pair is a task.
    """

    work: Work
    machine: Machine
    chunk_bytes: int
    groups: int
    ranges: int

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

    # Bytes of all tasks together.

    @property
    def tasks(self) -> int:
        """Tasks that read records: each group of tiles over each range of rows."""
        return self.groups * self.ranges

    @property
    def bytes_read(self) -> float:
        """Bytes of records read as float64: each group of tiles reads all of them once."""
        return float(self.groups * _NUMBER * self.work.rows * self.work.columns)

    @property
    def _answer(self) -> int:
        """Bytes of the answer in 64 bits; where it is symmetric, of its tiles on and above the diagonal."""
        return _NUMBER * self.work.entries

    @property
    def _sums(self) -> int:
        """Bytes of the sums over one range: half where 32 bits hold them, and one sum for each digit of weights."""
        return self._answer // 2 if self.work.narrow else self._answer * max(1, self.work.weighted_sums)

    @property
    def bytes_moved(self) -> float:
        """Bytes of partial sums sent to where they are added up; rows of an answer are written where they are."""
        return float(self.ranges * self._sums) if self.ranges > 1 and not self._is_rows else 0.0

    # Memory of one worker, in bytes.

    @property
    def _result_bytes(self) -> int:
        """What a task hands on: its rows; or its sums, beside them those with weights, and a tile times a digit."""
        if self._is_rows:
            return self._answer // self.tasks
        digits = self.work.weighted_sums
        multiplied = _NUMBER * self._largest_tile if digits else 0
        return (self._sums_at_once + digits) * ceil(self._answer / self.groups) + multiplied

    @property
    def _sums_at_once(self) -> int:
        """2 where a range has more rows than its narrow sums hold, so that int64 is kept beside them; else 1."""
        if self.work.kind is not GrowthKind.PRODUCTS:
            return 1
        return 2 if self.work.rows > arithmetic(self.work.largest).narrow_rows * self.ranges else 1

    @property
    def _piece_bytes(self) -> int:
        """Integers that a task multiplies at once; counts need few rows of them, however many cells there are."""
        wide = 0 if self.work.kind is GrowthKind.CELLS else _PIECE_ROWS * _NUMBER * sum(self.work.shape)
        piece = max(wide, _PIECE_BYTES)
        return max(piece, _ENTRY_BYTES) if self.work.sparse else piece

    @property
    def _task_bytes(self) -> int:
        """One task that reads records, or on a grid one that ends a tile of counts, whichever is larger."""
        reading = self._result_bytes + self._piece_bytes + _CHUNKS * self.chunk_bytes
        ending = _TILE_COPIES * _NUMBER * self._largest_tile if self.work.grid else 0
        return max(reading, ending)

    @property
    def _last_bytes(self) -> int:
        """The one task that has the whole answer: what it needs besides, and its sums with weights."""
        return self.work.last_bytes + max(self._sums - self._answer, 0)

    @property
    def _waiting_bytes(self) -> int:
        """Of all workers: the exact answer, and partial sums of each range until they are added up."""
        if self._is_rows:
            return self._answer
        return (self.ranges + 1) * self._sums if self.ranges > 1 else self._sums

    @cached_property
    def peak_bytes(self) -> int:
        """Largest memory of one worker: all its tasks at once, or the last one, and its part of what waits."""
        tasks = max(self.machine.threads * self._task_bytes, self._last_bytes)
        return int(_BASE_BYTES + tasks + self._waiting_bytes / self.machine.workers)

    # Wall time, in seconds.

    @property
    def _core_seconds(self) -> float:
        """One core for all tasks: it multiplies, reads, and quantises every value."""
        work, rates = self.work, self.machine.rates
        products = work.pairs / rates.pairs if work.sparse else work.flops / rates.product(work.largest)
        return products + self.bytes_read / rates.read + self.bytes_read / _NUMBER / rates.quantise

    @property
    def exact_seconds(self) -> float:
        """Until the exact answer is there: waves of tasks that read, the last of which may leave slots idle, then sums.

        Each range has a task for each tile of it, and a tile has a few more.
        """
        waves = ceil(self.tasks / self.machine.slots)
        reading = self._core_seconds / self.tasks * (waves + _STRAGGLING) + waves * self._result_bytes / _SETTLE
        moving = self.bytes_moved / self.machine.rates.move / self.machine.workers
        scheduled = self.tasks + (self.ranges + 3) * len(self.work.tiles)
        return reading + (moving + scheduled * _TASK_SECONDS)

    @property
    def noise_seconds(self) -> float:
        """Noise of each entry, on all slots."""
        return self.work.entries / self.machine.rates.noise / self.machine.slots

    @property
    def writing_seconds(self) -> float:
        """The whole matrix, and its error beside it unless that is computed as it is read."""
        numbers = self.work.shape[0] * self.work.shape[1] * (1 if self.work.blocked else 2)
        return float(_NUMBER) * numbers / self.machine.rates.write / min(self.machine.slots, _WRITERS)

    @cached_property
    def seconds(self) -> float:
        """All of it, with what one task does once the whole answer is there."""
        return self.exact_seconds + self.noise_seconds + self.writing_seconds + self.work.last_seconds

    @property
    def _is_rows(self) -> bool:
        return self.work.kind is GrowthKind.RECORDS

    @property
    def _largest_tile(self) -> int:
        """Entries."""
        return max(tile.entries for tile in self.work.tiles)


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
    cuts = [Cut(work, machine, chunk_bytes, g, r) for g, r in _candidates(work, machine)]
    fitting = [cut for cut in cuts if cut.peak_bytes <= machine.memory]
    if not fitting:
        need = min(cut.peak_bytes for cut in cuts) / 2**30
        why = "the workload or mechanism needs all cells in one task: " if work.kind is GrowthKind.CELLS else ""
        raise TooLarge(
            f"{'' if work.grid else why}a worker would need about {need:.2g} GiB and memory_gib is "
            f"{machine.memory / 2**30:.3g}; raise it, add workers, or lower block_rows or threads_per_worker"
        )
    return min(fitting, key=lambda cut: cut.seconds)


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

"""Files that hold rows of another file: copies, whatever they are packed in, exports of all rows or of the last days.

A record that is stored twice counts twice in every release, so a person would lose twice what is charged. A copy that
is written anew has other bytes, so rows are compared, by digests of their units and contents (:mod:`.units`), each as
often as a file has it. Refused is an ingest

* of two files of which one holds all or most rows of the other, or
* that adds to a store all or most rows of a file that it holds, in one new file or in several together.

Most is more than half of the rows that are not there by chance. Chance is judged by the file itself: where a share t of
its n rows have an equal in it, m other rows of such a source hold about ``1 - (1 - t)^(m / n)`` of them. A file without
rows repeats nothing, and of a file of fewer than 64 rows all have to be there. Where rows have few values a file may
still hold those of another by chance: a person then goes on with a reason (``ingest.accept_repeated_rows``).

Digests of 64 bits are kept: files with a common row are never taken for files without, and of n different rows two
agree with a probability below ``n^2 / 2^65``, which alone never makes all rows of a file agree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest.unit_bound import UnitFile, stretch
from blockveil.pipeline.data.ingest.units import Keys, contents

Rows = NDArray[np.uint64]
Counts = NDArray[np.int64]

ENTRY = np.dtype([("row", "<u8"), ("times", "<u4")])
"""A row of a file and how often the file has it; a file's entries are in the order of rows."""

_TAKEN = np.dtype([("file", "<u4"), ("row", "<u8")])
_LOG = "log"
_PIECE = 2**20
_FIRST = 64
"""Different rows that are looked up before all rows of a file are; the least ones, so a sample by chance."""
_MANY = 4
"""No more is looked up of a file of which so far fewer than one in this many rows are there."""
_MOST_SAMPLED = 2**25
"""Rows of samples that are looked up in all files of an ingest together."""


@dataclass(frozen=True)
class HeldRows:
    """Rows of the files of one append.

    Attributes
    ----------
    file
        File of their entries, one file of the source after another.
    names
        Names of the files of the source.
    borders
        Where the entries of each begin, and behind the last.
    """

    file: UnitFile
    names: tuple[str, ...]
    borders: tuple[int, ...]

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> HeldRows:
        """From plain JSON values."""
        return cls(UnitFile(**fields["file"]), tuple(fields["names"]), tuple(fields["borders"]))


class TakenRows:
    """The rows that an ingest takes in, file by file, noted in its staging folder.

    Parameters
    ----------
    folder
        Private folder; None where no file can repeat another, and nothing is noted.
    count
        Rows that were noted before and count; what was noted behind them is forgotten.
    """

    def __init__(self, folder: Path | None, count: int) -> None:
        self._folder, self.count = folder, count
        if folder is not None:
            folder.mkdir(mode=0o700, exist_ok=True)
            with open(folder / _LOG, "ab") as stream:
                stream.truncate(count * _TAKEN.itemsize)

    def add(self, file: int, rows: NDArray[Any], keys: Keys | None) -> None:
        """Note some rows of a file, whose number is not below that of earlier ones; by keys where they have some."""
        if self._folder is None:
            return
        records = np.empty(len(rows), _TAKEN)
        digests = np.ascontiguousarray(contents(rows) if keys is None else keys)
        blocks = digests.view(np.uint64).reshape(len(rows), digests.itemsize // 8)
        records["file"], records["row"] = file, np.bitwise_xor.reduce(blocks, axis=1)
        with open(self._folder / _LOG, "ab") as stream:
            stream.write(records.tobytes())
        self.count += len(rows)

    def sync(self) -> None:
        """All that was noted is on the disk when this returns."""
        if self._folder is not None:
            durable.sync(self._folder / _LOG)

    def divided(self, files: int, at_once: int) -> RowSets | None:
        """The rows of each file in order, each once, sorted in about ``at_once`` bytes; None where none were noted."""
        if self._folder is None:
            return None
        log = np.memmap(self._folder / _LOG, _TAKEN, "r") if self.count else np.empty(0, _TAKEN)
        starts = [_first(log, file) for file in range(files + 1)]
        borders = [0]
        with open(self._folder / "rows", "wb") as rows, open(self._folder / "times", "wb") as times:
            for start, stop in zip(starts, starts[1:], strict=False):
                ranges, size = max(1, -(-(stop - start) * 4 * _TAKEN.itemsize // at_once)), 0
                for number in range(ranges):
                    digests, counts = np.unique(_within(log, start, stop, number, ranges), return_counts=True)
                    rows.write(digests.tobytes())
                    times.write(counts.astype("<u4").tobytes())
                    size += digests.size
                borders.append(borders[-1] + size)
        return RowSets(self._folder, tuple(borders))


class RowSets:
    """The rows of some files, each in order and once, and how often each is there."""

    def __init__(self, folder: Path, borders: tuple[int, ...]) -> None:
        empty = borders[-1] == 0
        self.borders = borders
        self._rows: Any = np.empty(0, "<u8") if empty else np.memmap(folder / "rows", "<u8", "r")
        self._times: Any = np.empty(0, "<u4") if empty else np.memmap(folder / "times", "<u4", "r")

    @property
    def files(self) -> int:
        """How many there are."""
        return len(self.borders) - 1

    def entries(self) -> Iterator[bytes]:
        """Entries of all files, one after the other, piece by piece."""
        for start in range(0, self.borders[-1], _PIECE):
            yield self._entries(slice(start, start + _PIECE)).tobytes()

    def repeated(self) -> tuple[int, int] | None:
        """A file that holds all or most rows of another, and that one; None where there are none."""
        there = [file for file in range(self.files) if self._size(file)]
        first = max(1, min(_FIRST, _MOST_SAMPLED // max(1, len(there)) ** 2))
        sizes = [min(first, self._size(file)) for file in there]
        starts = np.cumsum([0, *sizes])[:-1]
        places = [self.borders[file] + place for file, size in zip(there, sizes, strict=True) for place in range(size)]
        sample = self._entries(places)
        totals = np.add.reduceat(sample["times"].astype(np.int64), starts) if there else np.empty(0, np.int64)
        for holder in there:
            common = np.minimum(self._times_in(holder, sample["row"]), sample["times"])
            for place in np.flatnonzero(_MANY * np.add.reduceat(common, starts) >= totals):
                other = there[int(place)]
                if other != holder and self._repeat([holder], self._pieces(other)):
                    return holder, other
        return None

    def holds(self, folder: Path, held: HeldRows) -> str | None:
        """Name of a file of an earlier append of which these files hold all or most rows; None where there is none."""
        every = range(self.files)
        for name, start, stop in zip(held.names, held.borders, held.borders[1:], strict=False):
            if start < stop and self._repeat(every, _stretches(folder / held.file.name, start, stop)):
                return name
        return None

    def _size(self, file: int) -> int:
        return self.borders[file + 1] - self.borders[file]

    def _entries(self, places: slice | list[int]) -> NDArray[Any]:
        rows = self._rows[places]
        entries = np.empty(rows.size, ENTRY)
        entries["row"], entries["times"] = rows, self._times[places]
        return entries

    def _pieces(self, file: int) -> Iterator[NDArray[Any]]:
        start, stop = self.borders[file], self.borders[file + 1]
        for first, behind in _cut(start, stop):
            yield self._entries(slice(first, behind))

    def _times_in(self, file: int, rows: Rows) -> Counts:
        """How often a file has each of some rows."""
        start, stop = self.borders[file], self.borders[file + 1]
        places = np.minimum(start + np.searchsorted(self._rows[start:stop], rows), stop - 1)
        if start == stop:
            return np.zeros(rows.size, np.int64)
        return np.where(self._rows[places] == rows, self._times[places], 0).astype(np.int64)

    def _repeat(self, files: Sequence[int], pieces: Iterator[NDArray[Any]]) -> bool:
        """Whether some files together have all rows of another, each as often, or more of them than chance explains."""
        total = common = twins = 0
        for piece in pieces:
            times = piece["times"].astype(np.int64)
            total += int(times.sum())
            twins += int(times[times > 1].sum())
            common += int(np.minimum(sum(self._times_in(file, piece["row"]) for file in files), times).sum())
            if _MANY * common < total:
                return False
        if common == total or total < _FIRST:
            return common == total
        rows = sum(int(self._times[self.borders[file] : self.borders[file + 1]].sum()) for file in files)
        by_chance: float = 1.0 - (1.0 - twins / total) ** (rows / total)
        return bool(2.0 * common > (1.0 + by_chance) * total)


def repetition(found: RowSets, names: Sequence[str], folder: Path, earlier: Sequence[HeldRows]) -> str | None:
    """Which file holds rows of which, for the person at the terminal alone; None where none does.

    Parameters
    ----------
    found, names
        Rows of the files that an ingest takes in, and what these are called.
    folder, earlier
        Rows of the files that the store holds, and where they lie.
    """
    pair = found.repeated()
    if pair is not None:
        return f'"{names[pair[0]]}" holds all or most rows of "{names[pair[1]]}"'
    for row_file in earlier:
        name = found.holds(folder, row_file)
        if name is not None:
            return f'what is new holds all or most rows of "{name}", which the store holds'
    return None


def refused() -> DataError:
    """Refusal that tells a log nothing but that."""
    return DataError(
        "The source holds all or most rows of one of its files once more",
        "Each record is stored once, or its person would lose more than is charged",
        "Remove the copy, or put only new rows into a new file; the command at a terminal says which file it is. Where "
        "rows have few values and are equal by chance, say why in ingest.accept_repeated_rows",
    )


def _cut(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """A stretch in pieces, of which the first is short: most files differ in their first rows."""
    size = _FIRST
    while start < stop:
        yield start, min(start + size, stop)
        start, size = start + size, _PIECE


def _stretches(file: Path, start: int, stop: int) -> Iterator[NDArray[Any]]:
    for first, behind in _cut(start, stop):
        yield stretch(file, first, behind, ENTRY)


def _first(log: NDArray[Any], file: int) -> int:
    """Place of the first row of a file, or of one behind it, by bisection."""
    return bisect_left(range(log.size), file, key=lambda place: int(log[place]["file"]))


def _within(log: NDArray[Any], start: int, stop: int, number: int, ranges: int) -> Rows:
    """Rows of a stretch that lie in one of some ranges of digests."""
    parts = [np.empty(0, "<u8")]
    for first in range(start, stop, _PIECE):
        rows = log[first : min(first + _PIECE, stop)]["row"]
        parts.append(rows[(rows >> np.uint64(32)) * np.uint64(ranges) >> np.uint64(32) == number])
    return np.concatenate(parts)

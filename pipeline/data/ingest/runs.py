"""Rows sorted by unit and content on disk: runs of bounded size, read back by ranges of units.

A run holds adjacent rows of the source in the order of their keys. A range of units is then a stretch of each run, and
these stretches together, sorted again, are the rows of the range in the order of their keys, whatever the runs. A range
that is larger than a run, as where one unit has very many rows, is cut at keys into pieces that are not. So memory is
bounded by a few runs, and neither their size nor the number of ranges changes what is stored.
"""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from blockveil.pipeline.base import durable
from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows
from blockveil.pipeline.data.ingest.identifiers import require_one_spelling
from blockveil.pipeline.data.ingest.operator_counts import OperatorCounts
from blockveil.pipeline.data.ingest.unit_bound import UnitBound
from blockveil.pipeline.data.ingest.units import KEY, Keys, fold, in_order, ranges

Rows = NDArray[Any]
Opened = list[tuple[Any, Any]]
"""Keys and rows of each run, to be sliced."""


class Runs:
    """Sorted runs in a folder.

    Parameters
    ----------
    folder
        Private folder.
    count
        Finished runs; others are overwritten.
    run_bytes
        Bytes of a run, and of what is read at once.
    """

    def __init__(self, folder: Path, count: int, run_bytes: int) -> None:
        self._folder, self.count, self._run_bytes = folder, count, run_bytes
        self._held: list[tuple[Keys, Rows]] = []
        folder.mkdir(mode=0o700, exist_ok=True)

    def append(self, keys: Keys, rows: Rows) -> None:
        """Write one more run; it is on the disk when this returns."""
        for kind, values in zip(("keys", "rows"), in_order(keys, rows), strict=True):
            file = self._file(kind, self.count)
            with open(file, "wb") as stream:
                # Not numpy.save: what it raises on a full disk does not say so.
                npy.write_array_header_1_0(stream, npy.header_data_from_array_1_0(values))
                stream.write(values.reshape(-1).view(np.uint8).data)
            durable.sync(file)
        durable.sync(self._folder)
        self.count += 1

    def hold(self, keys: Keys, rows: Rows) -> None:
        """Keep the only run in memory: a small source leaves nothing on the disk."""
        self._held = [in_order(keys, rows)]

    @property
    def size(self) -> int:
        """Bytes of all runs on the disk."""
        return sum(self._file(kind, run).stat().st_size for run in range(self.count) for kind in ("keys", "rows"))

    def merged(
        self,
        unit: ChosenRows | AggregatedRows,
        dtype: np.dtype[Any],
        parts: int,
        first: int,
        counts: OperatorCounts,
        bound: UnitBound | None = None,
    ) -> Iterator[tuple[int, Rows]]:
        """What is stored for the units of each range.

        Parameters
        ----------
        unit, dtype
            What becomes of the rows of a unit, and the type of the store.
        parts, first
            Number of ranges, and the first of them that is wanted.
        counts
            Counts the units.
        bound
            How many rows of each unit are stored already, and where to note how many more are; None where none are.

        Yields
        ------
        Number of a range, and rows of the store.
        """
        runs = self._opened()
        for number, (low, high) in enumerate(ranges(parts)):
            if number < first:
                continue
            earlier = None if bound is None else bound.earlier(low, high)
            unit_fold = fold(unit, runs[0][1].shape[1] if runs else 0, dtype, earlier)
            behind = None if high is None else high.ljust(KEY.itemsize, b"\0")
            for keys, rows in self.sorted_pieces(low.ljust(KEY.itemsize, b"\0"), behind):
                unit_fold.add(keys, rows)
            if unit.type == "text":
                earlier_units = None if earlier is None else earlier[0]
                require_one_spelling(unit.column, unit_fold.kept_of_units[0], earlier_units)
            counts.of_units(unit_fold.rows_of_units, unit_fold.most)
            if bound is not None:
                bound.keep(number, parts, *unit_fold.kept_of_units)
            yield number, unit_fold.result()

    def sorted_pieces(self, low: bytes, high: bytes | None) -> Iterator[tuple[Keys, Rows]]:
        """Rows from one key to another in the order of their keys, in pieces of a bounded size."""
        stretches = [(run, *_stretch(run[0], low, high)) for run in self._opened()]
        stretches = [(run, start, stop) for run, start, stop in stretches if start < stop]
        size = sum((stop - start) * (KEY.itemsize + _row_bytes(rows)) for (_, rows), start, stop in stretches)
        if size > self._run_bytes and len(stretches) > 1:
            (keys, _), start, stop = max(stretches, key=lambda one: one[2] - one[1])
            border = keys[(start + stop) // 2 : (start + stop) // 2 + 1].tobytes()
            if border == low:  # what lies behind it, else there may be nothing to divide
                border = (int.from_bytes(low) + 1).to_bytes(KEY.itemsize + 1)[1:]
            if border != high and border > low:
                yield from self.sorted_pieces(low, border)
                yield from self.sorted_pieces(border, high)
            else:  # rows of one key are equal: any order of them is the same
                yield from ((keys[start:stop], rows[start:stop]) for (keys, rows), start, stop in stretches)
        elif len(stretches) > 1:
            keys = np.concatenate([keys[start:stop] for (keys, _), start, stop in stretches])
            yield in_order(keys, np.concatenate([rows[start:stop] for (_, rows), start, stop in stretches]))
        else:
            yield from ((keys[start:stop], rows[start:stop]) for (keys, rows), start, stop in stretches)

    def _opened(self) -> Opened:
        return list(self._held) or [self._open(run) for run in range(self.count)]

    def _open(self, run: int) -> tuple[_Part, _Part]:
        return _Part(self._file("keys", run)), _Part(self._file("rows", run))

    def _file(self, kind: str, run: int) -> Path:
        return self._folder / f"{kind}-{run:06d}.npy"


class _Part:
    """An array in a file, of which stretches are read: a map of the whole file would grow to be all of it."""

    def __init__(self, file: Path) -> None:
        memory_map = np.load(file, mmap_mode="r")
        self._file, self._offset = file, memory_map.offset
        self.shape, self.dtype = memory_map.shape, memory_map.dtype

    def __getitem__(self, stretch: slice) -> NDArray[Any]:
        """Rows as an array in memory."""
        row_bytes = _row_bytes(self)
        count = stretch.stop - stretch.start
        with open(self._file, "rb") as stream:
            stream.seek(self._offset + stretch.start * row_bytes)
            content = bytearray(count * row_bytes)
            if stream.readinto(content) != len(content):
                raise OSError(errno.EIO, "a run is cut short")
        return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])


def _row_bytes(rows: Rows | _Part) -> int:
    return rows.dtype.itemsize * int(np.prod(rows.shape[1:]))


def _stretch(keys: Keys | _Part, low: bytes, high: bytes | None) -> tuple[int, int]:
    return _first(keys, low), keys.shape[0] if high is None else _first(keys, high)


def _first(keys: Keys | _Part, border: bytes) -> int:
    """Place of the first key that is not below a border, by bisection."""
    return bisect_left(range(keys.shape[0]), border, key=lambda place: keys[place : place + 1].tobytes())

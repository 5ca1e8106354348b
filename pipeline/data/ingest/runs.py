"""Rows sorted by unit on disk: runs of bounded size, read back by ranges of units.

A run holds adjacent rows of the source in the order of their units. A range of units is then a stretch of each run, and
the runs in their order give the rows of a unit in source order. So memory is bounded by a run and a range, whatever the
number of units, and neither the size of runs nor the number of ranges changes what is stored.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from blockveil.pipeline.base import durable
from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows
from blockveil.pipeline.data.ingest.operator_counts import OperatorCounts
from blockveil.pipeline.data.ingest.unit_bound import UnitBound
from blockveil.pipeline.data.ingest.units import DIGEST, Digests, fold, in_order, ranges

Rows = NDArray[Any]


class Runs:
    """Sorted runs in a folder.

    Parameters
    ----------
    folder
        Private folder.
    count
        Finished runs; others are overwritten.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self.count = folder, count
        self._held: list[tuple[Digests, Rows]] = []
        folder.mkdir(mode=0o700, exist_ok=True)

    def append(self, digests: Digests, rows: Rows) -> None:
        """Write one more run; it is on the disk when this returns."""
        for kind, values in zip(("units", "rows"), in_order(digests, rows), strict=True):
            file = self._file(kind, self.count)
            with open(file, "wb") as stream:
                # Not numpy.save: what it raises on a full disk does not say so.
                npy.write_array_header_1_0(stream, npy.header_data_from_array_1_0(values))
                stream.write(values.reshape(-1).view(np.uint8).data)
            durable.sync(file)
        durable.sync(self._folder)
        self.count += 1

    def hold(self, digests: Digests, rows: Rows) -> None:
        """Keep the only run in memory: a small source leaves nothing on the disk."""
        self._held = [in_order(digests, rows)]

    @property
    def size(self) -> int:
        """Bytes of all runs on the disk."""
        return sum(self._file(kind, run).stat().st_size for run in range(self.count) for kind in ("units", "rows"))

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
        opened: list[tuple[Any, Any]] = list(self._held) or [self._open(run) for run in range(self.count)]
        for number, (low, high) in enumerate(ranges(parts)):
            if number < first:
                continue
            earlier = None if bound is None else bound.earlier(low, high)
            folded = fold(unit, opened[0][1].shape[1] if opened else 0, dtype, earlier)
            for digests, rows in opened:
                start, stop = _stretch(digests, low, high)
                if start < stop:
                    folded.add(digests[start:stop], rows[start:stop])
            counts.of_units(folded.rows_of_units, folded.most)
            if bound is not None:
                bound.keep(number, parts, *folded.kept_of_units)
            yield number, folded.result()

    def _open(self, run: int) -> tuple[_Part, _Part]:
        return _Part(self._file("units", run)), _Part(self._file("rows", run))

    def _file(self, kind: str, run: int) -> Path:
        return self._folder / f"{kind}-{run:06d}.npy"


class _Part:
    """An array in a file, of which stretches are read: a map of the whole file would grow to be all of it."""

    def __init__(self, file: Path) -> None:
        mapped = np.load(file, mmap_mode="r")
        self._file, self._offset = file, mapped.offset
        self.shape, self.dtype = mapped.shape, mapped.dtype

    def __getitem__(self, stretch: slice) -> NDArray[Any]:
        """Rows as an array in memory."""
        row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        count = stretch.stop - stretch.start
        with open(self._file, "rb") as stream:
            stream.seek(self._offset + stretch.start * row_bytes)
            content = bytearray(count * row_bytes)
            if stream.readinto(content) != len(content):
                raise OSError(errno.EIO, "a run is cut short")
        return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])


def _stretch(digests: Digests | _Part, low: bytes, high: bytes | None) -> tuple[int, int]:
    return _first(digests, low), digests.shape[0] if high is None else _first(digests, high)


def _first(digests: Digests | _Part, border: bytes) -> int:
    """Place of the first digest that is not below a border, by bisection."""
    wanted = np.frombuffer(border, DIGEST)
    low, high = 0, digests.shape[0]
    while low < high:
        middle = (low + high) // 2
        if digests[middle : middle + 1] < wanted:
            low = middle + 1
        else:
            high = middle
    return low

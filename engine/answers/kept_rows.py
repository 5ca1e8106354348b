"""Records that several sums of one night read, kept as they were read where there is room.

They stay in the memory of the process that asks for all sums, and end with the object that keeps them. A worker
elsewhere receives the records alone, and reads them for each sum.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource


class KeptRows:
    """Records, of which whole rows are read once; what there is no room for is read again.

    Parameters
    ----------
    source
        Records, shape (n, d).
    room
        Most bytes that are kept.
    """

    def __init__(self, source: RowSource, room: int) -> None:
        self._source, self._room = source, room
        self._kept, self._lock = dict[tuple[int, int], NDArray[Any]](), Lock()
        self.shape: tuple[int, ...] = source.shape

    def __repr__(self) -> str:
        """Show nothing."""
        return "KeptRows()"

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes without what is kept."""
        return _itself, (self._source,)

    def __getitem__(self, key: Any) -> Any:
        """A range of rows, or some columns of one; what is kept of it cannot be written to."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        block = self._kept.get((rows.start, rows.stop))
        if block is not None:
            return block[:, columns]
        values = np.asarray(self._source[key])
        with self._lock:
            if rows is key and values.nbytes <= self._room:
                self._room -= values.nbytes
                values.flags.writeable = False
                self._kept[rows.start, rows.stop] = values
        return values


def _itself(source: RowSource) -> RowSource:
    return source

"""Records of a training that stay where they were read, as integers, from one step to the next.

What no weights change is computed once: the integers of features, their lengths and directions, and what decides in
which steps a record takes part. So a step reads nothing, rounds no record anew, and gives the same integers.

They are in the memory of the process that runs the tasks alone, under the public handle of the noise key, and are
forgotten with it: a task that ends after its key is gone keeps nothing, since nobody would forget it. What an earlier
attempt left, which was killed, makes room for the next one. The records are kept, no sum of them. Where there is no
room, a step reads its records again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.noise import keyring

Array = NDArray[np.float64]
Place = tuple[str, int, int]
"""Name of the training, and the range of rows that were read at once."""


@dataclass(frozen=True)
class Holding:
    """What may be kept.

    Attributes
    ----------
    handle
        Name under which the key is installed where tasks run, and the records are kept.
    name
        Of the attempt: what an earlier one kept is of no use to another.
    room
        Most bytes in a process, of all trainings together.
    rows
        Records of the training, of which any number may come to one process.
    """

    handle: str
    name: str
    room: int
    rows: int


@dataclass(frozen=True, eq=False)
class HeldPiece:
    """Some records as the first layer of a model sees them.

    Attributes
    ----------
    first
        Number of the row of the first.
    features
        Integers of features after the constant, shape (n, d + 1); as the products take them, or packed.
    labels, lengths
        What is to be predicted, and lengths of the rows of features, shape (n,).
    directions
        Integers of features as directions, shape (n, d + 1).
    marks
        What decides the steps of each, shape (n,).
    """

    first: int
    features: NDArray[Any]
    labels: Array
    lengths: Array
    directions: NDArray[Any]
    marks: NDArray[Any]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(int(getattr(self, one.name).nbytes) for one in fields(self) if one.name != "first")


Pieces = tuple[HeldPiece, ...]

_kept: dict[str, dict[Place, Pieces]] = {}
_taken = 0
_lock = Lock()


def fetch(holding: Holding, start: int, stop: int) -> Pieces | None:
    """What is kept of a range of rows; None where nothing is."""
    return _kept.get(holding.handle, {}).get((holding.name, start, stop))


def fits(holding: Holding, size: int) -> bool:
    """Whether there is room for a given number of bytes more."""
    with _lock:
        reclaimable = sum(_size(pieces) for _, pieces in _of_others(holding))
        return _taken - reclaimable + size <= holding.room


def keep(holding: Holding, start: int, stop: int, pieces: Pieces) -> None:
    """Keep a range of rows until :func:`forget`, where there is room and the key is still there."""
    global _taken
    size, place = _size(pieces), (holding.name, start, stop)
    with _lock:
        # The key is forgotten before the records are: whoever finds it here keeps what will be forgotten.
        if not keyring.knows(holding.handle):
            return
        own = _kept.setdefault(holding.handle, {})
        for other, stale in _of_others(holding):
            del own[other]
            _taken -= _size(stale)
        if place not in own and _taken + size <= holding.room:
            own[place] = pieces
            _taken += size


def forget(handle: str) -> None:
    """Keep nothing more of a training, whose key is forgotten; silent where nothing is kept."""
    global _taken
    with _lock:
        _taken -= sum(_size(pieces) for pieces in _kept.pop(handle, {}).values())


def _of_others(holding: Holding) -> list[tuple[Place, Pieces]]:
    """What is kept of other attempts at the same training."""
    return [(place, pieces) for place, pieces in _kept.get(holding.handle, {}).items() if place[0] != holding.name]


def _size(pieces: Pieces) -> int:
    return sum(piece.size for piece in pieces)

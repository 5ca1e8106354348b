"""Which public cell a value of one column falls in, by public edges or by public integer codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOWHERE = -1
"""Cell of a value that counts nowhere."""


class CountError(ValueError):
    """A declared grid or policy is not usable, or a code is not an integer: the message names rule and remedy."""


class Outside(StrEnum):
    """What becomes of a record outside the public grid."""

    CLIP = "clip"
    """It counts in the nearest cell."""

    DROP = "drop"
    """It counts nowhere."""


class Missing(StrEnum):
    """What becomes of a record with a missing or infinite value in a counted column."""

    REFUSE = "refuse"
    """The whole count is refused."""

    DROP = "drop"
    """It counts nowhere."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Cells ``edges[i] <= x < edges[i + 1]``; the last cell also holds its upper edge.

    Parameters
    ----------
    edges
        Public, finite, strictly increasing, at least two numbers, raw units.
    """

    edges: NDArray[np.float64]
    _uniform: bool = field(default=False, repr=False)

    def __init__(self, edges: ArrayLike) -> None:
        values = np.atleast_1d(np.asarray(edges, dtype=np.float64)).copy()
        if values.ndim != 1 or values.size < 2 or not np.all(np.isfinite(values)) or np.any(np.diff(values) <= 0):
            raise CountError("edges must be at least two finite numbers that increase strictly; sort and deduplicate")
        values.setflags(write=False)
        object.__setattr__(self, "edges", values)
        object.__setattr__(self, "_uniform", _nearly_uniform(values))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.edges.size - 1

    def codes(self, values: NDArray[Any], outside: Outside) -> NDArray[np.int64]:
        """Cell of each value, shape of ``values``, int64; -1 where a value is dropped or not finite."""
        numbers = values.astype(np.float64, copy=False)
        low, high = self.edges[0], self.edges[-1]
        inside = np.clip(numbers, low, high)
        finite = np.isfinite(numbers)
        inside[~finite] = low
        indices = self._guess(inside) if self._uniform else np.searchsorted(self.edges, inside, side="right") - 1
        np.minimum(indices, self.cells - 1, out=indices)
        valid = finite if outside is Outside.CLIP else finite & (numbers >= low) & (numbers <= high)
        indices[~valid] = NOWHERE
        cells: NDArray[np.int64] = indices.astype(np.int64, copy=False)
        return cells

    def _guess(self, inside: NDArray[np.float64]) -> NDArray[np.int64]:
        """Cell by one multiplication, corrected against the edges themselves: what searchsorted finds, but faster."""
        low, high = self.edges[0], self.edges[-1]
        guess: NDArray[np.int64] = ((inside - low) * (self.cells / (high - low))).astype(np.int64)
        np.clip(guess, 0, self.cells - 1, out=guess)
        # Each edge is within a quarter of a cell of its uniform place, so a guess is off by one cell at most.
        guess -= inside < self.edges[guess]
        guess += (inside >= self.edges[guess + 1]) & (guess < self.cells - 1)
        return guess


def _nearly_uniform(edges: NDArray[np.float64]) -> bool:
    cells = edges.size - 1
    with np.errstate(over="ignore", invalid="ignore"):
        width = (edges[-1] - edges[0]) / cells
        if not np.isfinite(width) or width <= 2.0**-40 * np.max(np.abs(edges)):
            return False
        return bool(np.all(np.abs(edges - (edges[0] + width * np.arange(cells + 1))) < width / 4.0))


@dataclass(frozen=True)
class Codes:
    """Public integer codes ``0 <= code < cells``.

    Attributes
    ----------
    cells
        Number of codes, at least one.
    """

    cells: int

    def __post_init__(self) -> None:
        """Refuse an empty set of codes."""
        if self.cells < 1:
            raise CountError(f"cells is {self.cells}; there must be at least one code; give the number of codes")

    def codes(self, values: NDArray[Any], outside: Outside) -> NDArray[np.int64]:
        """Cell of each value, int64; -1 where a value is dropped or not finite.

        Raises
        ------
        CountError
            A finite value is not an integer.
        """
        valid = np.ones(values.shape, dtype=bool)
        if values.dtype.kind == "f":
            valid = np.isfinite(values)
            # Beyond 2**53 every float is an integer, and far outside any grid.
            values = np.clip(np.where(valid, values, 0.0).astype(np.float64), -(2.0**53), 2.0**53)
            if np.any(values != np.rint(values)):
                raise CountError("a code is not an integer; declare edges for this column, or encode it as integers")
        elif values.dtype.newbyteorder("=") == np.uint64:
            values = np.minimum(values, np.uint64(2**63 - 1))
        numbers = values.astype(np.int64)
        if outside is Outside.DROP:
            valid = valid & (numbers >= 0) & (numbers < self.cells)
        numbers = np.clip(numbers, 0, self.cells - 1)
        numbers[~valid] = NOWHERE
        return numbers


Axis = Edges | Codes

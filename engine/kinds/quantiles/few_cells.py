"""Few cells of a column in place of all, narrow where noisy balances say that its quantiles are. Post-processing.

A few wide cells and some narrow ones have balances of less noise than many cells (:mod:`.balance_matrix`). Which cells
are joined follows from balances that were released: whoever measures what lies in the few cells then measures public
cells, whose sensitivity and whose intervals are those of any others.

The rank of a quantile at p is known with a standard deviation t, so that it is among the levels ``(p - 1/2) N + a t``
for the multiples a below. Few cells end at borders next to those where fitted balances cross a level, the nearest to a
quantile first; the outermost keep an interval from reaching the ends of the column. Levels in one cell leave borders
over, which cut the widest cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.column_bins import ColumnBins
from blockveil.engine.kinds.quantiles.rank_estimate import ColumnBalances
from blockveil.engine.records.geometry import Vector

_LEVELS = (-0.3, 0.3, -0.9, 0.9, -1.8, 1.8, -4.0, 4.0)
"""In standard deviations of a rank, the nearest first."""


@dataclass(frozen=True)
class JoinedBins:
    """Bins that join neighbouring ones: a value falls in that which holds its own bin; see :class:`ColumnBins`.

    Attributes
    ----------
    bins
        What is joined.
    last
        The bin with which each of these ends, ascending up to the last one of all.
    """

    bins: ColumnBins
    last: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.last)

    @property
    def borders(self) -> tuple[Vector, Vector]:
        """See :class:`ColumnBins`."""
        (lower, upper), last = self.bins.borders, np.array(self.last)
        return lower[np.append(0, last[:-1] + 1)], upper[last]

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Bin of each value."""
        return np.searchsorted(self.last, self.bins.places(values))


def few_cells(cells: int, probabilities: int) -> int:
    """Number of cells in place of all of a column, for quantiles at so many probabilities."""
    return min(cells, len(_LEVELS) * probabilities + 1)


def last_cells(column: ColumnBalances, probabilities: Vector) -> NDArray[np.int64]:
    """Cell of the column with which each of its few cells ends, ascending up to the last one of all, int64."""
    heights = column.heights
    middles = [(p - 0.5) * -2.0 * heights[0] for p in probabilities.tolist()]
    noise = [column.noise.at(p) for p in probabilities.tolist()]
    levels = [middle + a * t for a in _LEVELS for middle, t in zip(middles, noise, strict=True)]
    cells = np.minimum(np.searchsorted(heights[1:], levels), column.balances.size - 1)
    # The border of a level's cell that is further from the quantile; where borders are left over, the other one.
    below = np.repeat(np.array(_LEVELS) < 0.0, probabilities.size)
    ends = [column.balances.size - 1, *(cells - below).tolist(), *(cells - ~below).tolist()]
    chosen = dict.fromkeys(end for end in ends if end >= 0)
    size = few_cells(column.balances.size, probabilities.size)
    few = sorted(list(chosen)[:size])
    while len(few) < size:
        widths = np.diff([-1, *few])
        widest = int(np.argmax(widths))
        few.insert(widest, few[widest] - int(widths[widest]) // 2)
    return np.array(few, dtype=np.int64)

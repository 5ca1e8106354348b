"""Where histograms of columns have their bins: columns differ in their number, rows of the answer do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def places_of(sizes: tuple[int, ...], last: bool) -> NDArray[np.bool_]:
    """Return which entries of histograms are bins, shape (columns, largest number of bins).

    Parameters
    ----------
    sizes
        Bins of each column.
    last
        Whether the last bin of each column is the last entry of its row; else bins lead.
    """
    width = max(sizes)
    places: NDArray[np.bool_] = np.arange(width) < np.asarray(sizes)[:, None] - last
    places[:, width - 1] |= last
    return places

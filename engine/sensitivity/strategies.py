"""A lower bound of what replacing one record changes in the answers of a strategy over a table of counts.

One record changes the answers of a product ``A1 (x) A2`` by the difference of two of its columns (replace-one, where
every record lies in some cell). :mod:`.matrix_mechanism` charges an upper bound of the longest difference; the length
of one that exists says how near it is.

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010 (matrix mechanism), Proposition 3 for add-remove; replace-one is
derived here.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from blockveil.engine.records.geometry import Matrix


def farthest_columns(first: Matrix, second: Matrix) -> float:
    """Largest distance among pairs of a product's columns that are built from the extreme pairs of either factor.

    Some pair is that far apart; others may be farther.

    Parameters
    ----------
    first, second
        Gram matrices of the factors.
    """
    pairs = [(_pairs(first), first), (_pairs(second), second)]
    (left, g), (right, h) = pairs
    squares = (g[j, j] * h[a, a] + g[k, k] * h[b, b] - 2.0 * g[j, k] * h[a, b] for j, k in left for a, b in right)
    return sqrt(max(0.0, *(float(square) for square in squares)))


def _pairs(gram: Matrix) -> list[tuple[int, int]]:
    diagonal = np.diagonal(gram)
    distance = diagonal[:, None] + diagonal[None, :] - 2.0 * gram
    top = int(np.argmax(diagonal))
    places = [int(np.argmin(gram)), int(np.argmax(gram)), int(np.argmax(distance)), int(np.argmin(gram - distance))]
    pairs = [(int(p) // gram.shape[0], int(p) % gram.shape[0]) for p in places]
    return [*pairs, (top, top), (top, int(np.argmin(gram[top])))] + [(k, j) for j, k in pairs]

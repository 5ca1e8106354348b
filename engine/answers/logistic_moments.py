"""The exact second moment of each record's score and of its share of the Fisher matrix, of a logistic regression.

At public weights w let z be the features of a record with the constant in front, each at most one in absolute value, y
its class and ``p = 1 / (1 + exp(-w'z))``. The record becomes the vector

    v = (s, a)    s = (p - y) z    a = sqrt(p (1 - p)) z

with a constant in front. The second moment of these vectors holds the number of records, the score ``sum s``, its
second moment ``B = sum s s'`` and the Fisher matrix ``A = sum a a' = sum p (1 - p) z z'``.

**Claim.** ``|v|^2 = |z|^2 |p - y| <= |z|^2``, so that A is released beside B with no more noise than B has alone.

**Proof.** ``|v|^2 = |z|^2 ((p - y)^2 + p (1 - p))``, where the sum is ``p`` for ``y = 0`` and ``1 - p`` for ``y = 1``.
QED.

Privacy does not rest on it: vectors are clipped to their ball and rounded like any records
(:class:`.records.quantiser.Quantiser`). The map from a record to its vector is elementwise IEEE arithmetic with one
result on every machine.

**Source**: White, 1982 (both matrices and their sandwich).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.gram import RowSource, chunks
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.models import FEATURE_STEPS, Output, sigmoid
from blockveil.engine.answers.second_moment import SecondMomentQuery

Array = NDArray[np.float64]

_PIECE_BYTES = 4 * 2**20


def largest_vector(inputs: int) -> float:
    """Length that no vector exceeds, for so many features and the constant: each is at most one in absolute value."""
    return math.sqrt(inputs)


@dataclass(frozen=True, eq=False)
class LogisticMomentsQuery:
    """A record is a row of features whose last column is the class.

    Attributes
    ----------
    moment
        Clip and quantisation of the vectors, in a ball of the radius :func:`largest_vector`.
    gradients
        The model at public weights, and how it reads a record.
    """

    moment: SecondMomentQuery
    gradients: GradientsQuery

    def __post_init__(self) -> None:
        """Refuse a model that is no logistic regression."""
        model = self.gradients.model
        if model.output is not Output.LOGISTIC or model.hidden:
            raise ValueError("the Fisher matrix of a logistic regression is that of a linear model of two classes")
        if self.moment.quantiser.coordinates.dimension != 2 * model.shapes[0][1]:
            raise ValueError("a record's vector has twice as many coordinates as the model has weights")

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the second moment over a range of rows, exact.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        sums = [np.zeros((tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]), np.int64) for tile in tiles]
        at_once = max(1, _PIECE_BYTES // (8 * self.moment.quantiser.width))
        for chunk in chunks(source, start, stop, chunk_rows, (0, source.shape[1])):
            for at in range(0, len(chunk), at_once):
                vectors = self.vectors(chunk[at : at + at_once])
                # Exact: an entry of all records together is an integer of at most rows K^2 <= 2**62.
                for total, part in zip(sums, self._of(vectors, tiles), strict=True):
                    total += part
        return sums

    def vectors(self, records: NDArray[np.generic]) -> Array:
        """Score and share of the Fisher matrix of each record, shape (n, 2 (features + 1)), in the gradient's units.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        features, labels = self.gradients.model_inputs(records)
        shares = sigmoid(self.gradients.model.reached(features)[:, 0])
        features = features / FEATURE_STEPS
        vectors = np.empty((len(features), 2 * features.shape[1]))
        np.multiply(features, (shares - labels)[:, None], out=vectors[:, : features.shape[1]])
        np.multiply(features, np.sqrt(shares * (1.0 - shares))[:, None], out=vectors[:, features.shape[1] :])
        return vectors

    def _of(self, vectors: Array, tiles: Sequence[Tile]) -> list[NDArray[np.int64]]:
        return self.moment.partial(vectors, 0, len(vectors), len(vectors), tiles)

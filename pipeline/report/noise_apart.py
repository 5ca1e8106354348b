"""Noise of a covariance in a learned ellipsoid, apart from what shortening records to it is expected to take.

Stated deviations hold both. What stands out from the noise is judged by the noise, and of covariances that are zero
shortening takes little. All of it is computed where it is asked for, so that a matrix may be larger than memory.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.shortening import TakenByFeature
from blockveil.pipeline.data.derived_noise import SHORTENED
from blockveil.pipeline.report.matrix import Array, ReleasedMatrix

Places = NDArray[np.intp]


class NoiseApart:
    """Deviations of one release by noise alone."""

    def __init__(self, matrix: ReleasedMatrix) -> None:
        self._matrix = matrix

    @classmethod
    def of(cls, matrix: ReleasedMatrix) -> NoiseApart | None:
        """Of a covariance; None where the deviations that it states are those of its noise."""
        return cls(matrix) if matrix.presenter.follows_from and SHORTENED in matrix.release.arrays else None

    def at(self, rows: Places, columns: Places, value: Array, deviation: Array) -> tuple[Array, Array]:
        """Deviations of entries by their noise, and the same with what shortening would take if they were zero.

        Parameters
        ----------
        rows, columns
            Features of each entry, in shapes that give the one of the entries.
        value, deviation
            Entries and their deviations as stated.
        """
        shortening, unrelated = self._taken.at(rows, columns, value)
        noise = less(deviation, shortening)
        return noise, np.hypot(noise, unrelated)

    @cached_property
    def diagonal(self) -> Array:
        """Deviations of variances by their noise, shape (d,)."""
        value, deviation = self._matrix.diagonal("kind"), self._matrix.diagonal("deviation")
        along = np.arange(value.size)
        return self.at(along, along, value, deviation)[0]

    @cached_property
    def means(self) -> Array:
        """Deviations of means by their noise, shape (d,)."""
        return less(self._matrix.vectors()["mean"][1], self._taken.means)

    @cached_property
    def _taken(self) -> TakenByFeature:
        variances, learned = self._matrix.array(SHORTENED), self._matrix.attributes["learned"]
        share = float(learned["clipped_share"]) + float(learned["clipped_share_standard_deviation"])
        return TakenByFeature.of(np.asarray(variances, np.float64), share, self._matrix.diagonal("kind"))


def less(whole: Array, part: Array) -> Array:
    """Deviations without a part of them that is independent of the rest."""
    deviations: Array = np.sqrt(np.maximum(whole**2 - part**2, 0.0))
    return deviations

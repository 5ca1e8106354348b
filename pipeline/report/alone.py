"""What noise alone gives: how far from zero each number of a release may be though the records say nothing.

All numbers that a report looks at are held at once: every distinct entry of the matrix whether it is listed or not, the
cells of its heat map, and count and mean where the matrix is a ratio. So in 95 of 100 releases no number is called a
finding that is noise alone, whichever of the others are none.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import (
    GaussianNoise,
    LaplaceNoise,
    LaplaceSums,
    RandomDirection,
    Tails,
)
from blockveil.engine.estimates.ratios import RatioErrors
from blockveil.engine.mechanisms.registry import declared
from blockveil.pipeline.report.learned_shape import declared_origin
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix
from blockveil.pipeline.report.noise_apart import NoiseApart
from blockveil.pipeline.report.released_moments import mixed

_LAPLACE = "discrete Laplace"
_RATE = re.compile(r" of rate (\d+)/(\d+)")


class NoiseAlone:
    """Law and reach of the noise of a released matrix.

    Parameters
    ----------
    matrix
        The matrix.
    cells
        Cells of its heat map along each axis.
    band
        Standard deviations that hold all numbers, where more than this matrix is looked at.
    """

    def __init__(self, matrix: ReleasedMatrix, cells: tuple[int, int], band: float | None = None) -> None:
        self.matrix, self._single, self._band = matrix, cells == matrix.shape, band
        distinct = cells[0] * (cells[0] + 1) // 2 if matrix.symmetric else cells[0] * cells[1]
        # Count, sums, and sums of a cell's features.
        of_ratio = matrix.shape[0] + 1 + (0 if self._single else cells[0]) if self._has_means else 0
        self.held = matrix.entries + (0 if self._single else distinct) + of_ratio

    @cached_property
    def tails(self) -> Tails:
        """Law of one entry."""
        mechanism = self._mechanism
        if "concentration" in mechanism:
            return RandomDirection(self.matrix.shape[0])
        rate = laplace_rate(mechanism)
        if rate is None:
            return GaussianNoise()
        if self._joint:
            declaration = declared(str(mechanism.get("mechanism", "")))
            of_an_entry = None if declaration is None else declaration.tails
            # A law that nothing here declares has the bound of sums.
            return LaplaceSums(rate) if of_an_entry is None else of_an_entry(self._label)
        sums = self._has_means or "strategy" in mechanism or mixed(self.matrix.attributes)
        return LaplaceSums(rate) if sums else LaplaceNoise(rate)

    @cached_property
    def band(self) -> float:
        """Standard deviations that noise alone reaches somewhere in 5 of 100 releases."""
        return self.tails.band(self.held) if self._band is None else self._band

    @cached_property
    def band_of_sums(self) -> float:
        """The same for sums of several entries."""
        rate = laplace_rate(self._mechanism)
        return self.band if self._band or rate is None or self._single else LaplaceSums(rate).band(self.held)

    @property
    def dependent(self) -> bool:
        """Whether entries share noise in a way that the release does not tell."""
        shared = self.matrix.presenter.shares_noise(self.matrix.attributes)
        shared = shared or self._joint
        shared = shared or bool(self._mechanism.get("diagonal", {}).get("shared", 0))
        determined = {"strategy", "steps", "concentration"} & self._mechanism.keys() == set() and not shared
        return not determined or mixed(self.matrix.attributes)

    @cached_property
    def ratio(self) -> RatioErrors | None:
        """Errors of entries that are ratios, as of a covariance; None where entries have the noise that is stated."""
        if not self.matrix.presenter.follows_from:
            return None
        return self.means if self._of_noise is None else self._ratios_with(self._of_noise.means)

    @cached_property
    def means(self) -> RatioErrors | None:
        """Errors of the means, which are ratios to the count; None where the release has none."""
        if not self._has_means:
            return None
        return self._ratios_with(self.matrix.vectors()["mean"][1])

    @property
    def moved_origin(self) -> Array:
        """How far the origin is from the declared one, raw units, shape (d,)."""
        attributes = self.matrix.attributes
        shift: Array = np.asarray(attributes["origin"], np.float64) - declared_origin(attributes)
        return shift

    def _ratios_with(self, deviation: Array) -> RatioErrors | None:
        if not self._has_means:
            return None
        vectors = self.matrix.vectors()
        mean, count = vectors["mean"][0], tuple(float(part) for part in vectors["count"])
        joined = bool(self._mechanism.get("diagonal", {}).get("times", 0))
        shift = mean - self.matrix.attributes["origin"]
        return RatioErrors.of(shift, deviation, (count[0], count[1]), self.band, joined)

    @property
    def estimable(self) -> bool:
        """Whether entries have an error at all: a ratio to a count near zero has none."""
        return self.ratio is None or self.ratio.known

    def stands(self, row: int, column: int, signal: Array, deviation: Array) -> NDArray[np.bool_]:
        """Which entries of a block are beyond what noise alone gives.

        Parameters
        ----------
        row, column
            Where the block begins.
        signal, deviation
            Entries and the standard deviations of their noise, shape (rows, columns).
        """
        if self._of_noise is not None:
            places = np.mgrid[row : row + signal.shape[0], column : column + signal.shape[1]]
            return np.abs(signal) > self.reach(places[0], places[1], signal, deviation)
        mask = np.abs(signal) > self.band * deviation
        if self.ratio is not None and mask.any():
            i, j = np.nonzero(mask)  # the error of a ratio is never less than the band
            mask[i, j] = np.abs(signal[i, j]) > self.reach(row + i, column + j, signal[i, j], deviation[i, j])
        return mask

    def reach(self, rows: NDArray[np.intp], columns: NDArray[np.intp], signal: Array, deviation: Array) -> Array:
        """How far from zero noise alone takes entries at some places, in the unit of the answer."""
        # Of what is zero shortening takes nothing: that it is zero is judged by less than its error.
        beside = deviation if self._of_noise is None else self._of_noise.at(rows, columns, signal, deviation)[1]
        linear, rest = self.parts(rows, columns, signal, beside)
        reach: Array = self.band * linear + rest
        return reach

    @property
    def own_noise(self) -> Array:
        """Standard deviations of the diagonal by noise alone, shape (d,)."""
        return self.matrix.diagonal("deviation") if self._of_noise is None else self._of_noise.diagonal

    def noise(self, tile: EntriesTile, value: Array, deviation: Array) -> Array:
        """Standard deviations of a block by noise alone, of its entries and the deviations that it states."""
        if self._of_noise is None:
            return deviation
        rows, columns = np.arange(*tile.rows)[:, None], np.arange(*tile.columns)
        return self._of_noise.at(rows, columns, value, deviation)[0]

    def parts(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], signal: Array, deviation: Array
    ) -> tuple[Array, Array]:
        """Standard deviation of the linear noise of entries at some places, and a bound of what is not linear."""
        if self.ratio is None:
            return deviation, np.zeros(np.shape(deviation))
        return self.ratio.parts(rows, columns, signal, deviation)

    @cached_property
    def _of_noise(self) -> NoiseApart | None:
        return NoiseApart.of(self.matrix)

    @property
    def _joint(self) -> bool:
        """Whether entries get their noise together: by a law of a rate that is not Laplace noise."""
        return _RATE.search(self._label) is not None and not self._label.startswith(_LAPLACE)

    @property
    def _label(self) -> str:
        return str(self._mechanism.get("grid", ""))

    @property
    def _mechanism(self) -> dict[str, Any]:
        return dict(self.matrix.attributes.get("mechanism", {}))

    @cached_property
    def _has_means(self) -> bool:
        matrix = self.matrix
        return (
            matrix.presenter.has_means
            and {"mean", "count"} <= matrix.vectors().keys()
            and len(matrix.attributes.get("origin", ())) == matrix.shape[0]
        )


def laplace_rate(mechanism: dict[str, Any]) -> Fraction | None:
    """Rate of the noise of a mechanism with a pure loss, on whole numbers; None where its noise is Gaussian.

    Sums of such noise keep the bound of sums of Laplace noise (:mod:`.bands`).
    """
    last = mechanism.get("steps", [{}])[-1].get("noise", "")
    match = _RATE.search(str(mechanism.get("grid", last)))
    return None if match is None else Fraction(int(match[1]), int(match[2]))

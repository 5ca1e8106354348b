"""Spectral norm that noise alone does not exceed in 95 of 100 releases, from what a release states of its noise.

A Gaussian matrix whose entries have standard deviations at most those of another has no larger mean norm, since noise
that is added never lowers it (Jensen). So noise in units of rows and columns is held by one of the forms that
:mod:`.error_bounds` bounds: ``D1 G D2`` with independent unit entries, or ``D'SD`` with S of variance 1 on
and 1/2 off the diagonal. With Gaussian concentration and conditional on the sizes of Laplace noise, as there.

The noise of a covariance is ``B Z B' / N`` but for ``-(m^ - m)(m^ - m)'``, which raises no eigenvalue, with Z the noise
of count, sums and second moment, and ``B = (-m, 1)``. Of the true mean m it is known that it is near the released one.

**Source**: Boucheron, Lugosi and Massart, 2013, Theorems 5.6 and 13.3; Chevet, 1978.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.engine.estimates.ratios import RatioErrors
from blockveil.pipeline.report.alone import NoiseAlone, laplace_rate
from blockveil.pipeline.report.matrix import Array, EntriesTile, ReleasedMatrix

_OUTSIDE = 1.0 - CONFIDENCE
_OF_MEANS = 0.01
"""Part of the remaining probability that is for means further from the released ones than is allowed for."""

_OFTEN = math.sqrt(2.0 * math.log(3.0 / _OF_MEANS))
"""Standard deviations that each of three numbers exceeds with less than a third of that probability."""

_FEW = 64


class NoiseShape:
    """Sizes of the noise in units of rows and columns, added up by tiles."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.by_row, self.off_diagonal, self.squares = np.zeros(shape[0]), 0.0, 0.0

    @staticmethod
    def part(tile: EntriesTile, noise: Array) -> tuple[Array, float, float]:
        """What a tile adds: the largest of each row, the sum of squares, and the largest off the diagonal."""
        # Not by BLAS, whose own threads would wait for each other while several tiles are looked at.
        by_row, squares = noise.max(axis=1), float(np.einsum("ij,ij->", noise, noise)) * (2.0 if tile.mirrored else 1.0)
        if tile.on_diagonal:
            noise = noise - np.diag(np.diagonal(noise)) if noise.shape[0] == noise.shape[1] else noise
        return by_row, squares, float(noise.max(initial=0.0))

    def take(self, tile: EntriesTile, part: tuple[Array, float, float]) -> None:
        """Add what :meth:`part` gave for a tile."""
        rows = slice(*tile.rows)
        self.by_row[rows] = np.maximum(self.by_row[rows], part[0])
        self.squares += part[1]
        self.off_diagonal = max(self.off_diagonal, part[2])


def noise_level(matrix: ReleasedMatrix, alone: NoiseAlone, units: tuple[Array, Array], shape: NoiseShape) -> float:
    """Level of a matrix that is divided by units of rows and columns; infinite where nothing is known.

    Parameters
    ----------
    matrix, alone
        The matrix and its noise.
    units
        By row and by column; all the same where noise is dependent.
    shape
        Sizes of the noise in these units.
    """
    if not alone.estimable:
        return math.inf
    if alone.dependent:
        return _stated(matrix, alone, units, shape)
    if not matrix.symmetric:
        largest = float(shape.by_row.max())
        mean = largest * math.sqrt(matrix.shape[1]) + float(np.linalg.norm(shape.by_row))
        return _held(matrix, mean, largest, math.sqrt(shape.squares), _OUTSIDE)
    if alone.ratio is not None:
        return _of_covariance(matrix, alone, alone.ratio, units[0])
    return _of_rows(matrix, np.ones(matrix.shape[0]), shape)


def noise_norm(
    matrix: ReleasedMatrix, alone: NoiseAlone, units: tuple[Array, Array], shape: NoiseShape, level: float
) -> float:
    """Level of the matrix itself, in products of its features' units: the least of two bounds that both hold.

    Parameters
    ----------
    matrix, alone, units, shape
        As for :func:`noise_level`.
    level
        What that gave.
    """
    # Of noise N = D M D, with D the units of the noise, |N| <= max(D)^2 |M|.
    by_units = float(units[0].max() * units[1].max()) * level
    if alone.dependent or not alone.estimable or not matrix.symmetric:
        return by_units
    if alone.ratio is not None:
        return min(by_units, _of_covariance(matrix, alone, alone.ratio, np.ones(matrix.shape[0])))
    return min(by_units, _of_rows(matrix, units[0], shape))


def _of_rows(matrix: ReleasedMatrix, rows: Array, shape: NoiseShape) -> float:
    """Level of ``D M D`` with D these sizes and M independent noise in units of rows and columns."""
    wide, largest = max(1.0, math.sqrt(2.0) * shape.off_diagonal), float(rows.max())
    # With a = D u and b = D v, |aa' - bb'|_F^2 <= 2 max|a|^2 |a - b|^2 + (|a|^2 - |b|^2)^2: compared (Sudakov-Fernique)
    # with sqrt(2) max|a| g.a + |a|^2 z of normal g and z, whose largest value has at most this mean.
    mean = wide * (largest * math.sqrt(2.0 * float(rows @ rows)) + _uneven(largest**2 - float(rows.min()) ** 2))
    return _held(matrix, mean, wide * largest**2, largest**2 * math.sqrt(shape.squares), _OUTSIDE)


def _uneven(squares: float) -> float:
    """Mean of the larger of ``squares z`` and 0 for a normal z: what lengths add whose squares differ by so much."""
    return squares / math.sqrt(2.0 * math.pi)


def _held(matrix: ReleasedMatrix, mean: float, widest: float, frobenius: float, outside: float) -> float:
    """Bound from a bound of the mean norm, the widest standard deviation in any direction, and the Frobenius norm's."""
    if laplace_rate(dict(matrix.attributes.get("mechanism", {}))) is None:
        spectral = mean + widest * math.sqrt(2.0 * math.log(2.0 / outside))
        return min(spectral, frobenius + widest * math.sqrt(2.0 * math.log(1.0 / outside)))
    largest = math.log(2.0 * matrix.entries / outside)
    return math.sqrt(largest) * (mean + widest * math.sqrt(2.0 * math.log(4.0 / outside)))


def _of_covariance(matrix: ReleasedMatrix, alone: NoiseAlone, ratio: RatioErrors, units: Array) -> float:
    variance = alone.own_noise**2
    deviation = np.sqrt(np.maximum(variance - _diagonal_shared(ratio, matrix.diagonal("kind")), 0.0)) / units**2
    sums, means = ratio.sums / units, ratio.shift / units
    positive = deviation > 0.0
    if not positive.all():
        return math.inf
    # Where the diagonal has less noise than isometric noise, the latter holds it (Jensen).
    deviation = deviation * max(1.0, _off_diagonal(matrix, alone, ratio))
    count = ratio.count or float(np.max(2.0 * sums**2 / deviation))
    wide = max(1.0, float(np.max(sums * math.sqrt(2.0) / np.sqrt(deviation * count))))
    longest = _longest_mean(np.linalg.norm(means), sums, ratio.count, laplace_rate(matrix.attributes["mechanism"]))
    # |D|^2 and |D|_F^2 of D = (diagonal, mean): a diagonal and one more row.
    widest, total = float(deviation.max()) + count * longest**2, float(deviation.sum()) + count * longest**2
    mean = math.sqrt(2.0 * widest * total) + _uneven(widest)
    return _held(matrix, wide * mean, wide * widest, math.inf, _OUTSIDE - _OF_MEANS)


def _longest_mean(released: np.floating[Any], sums: Array, count: float, laplace: Fraction | None) -> float:
    """Length that the true mean does not exceed, but for less than the probability that is kept for it.

    With l its length by the released count, s the largest deviation of a sum and g the length of the sums' noise:
    ``|m^|^2 = l^2 + 2 m.g + g^2``, where ``|m.g| <= k l s`` and ``g >= E g - k s``, of which ``(E g)^2 >= sum - s^2``.
    """
    largest, often = float(sums.max()), _OFTEN
    noise = max(0.0, math.sqrt(float(sums @ sums) - largest**2) - often * largest)
    if laplace is not None:  # given the sizes of Laplace noise it is Gaussian; nothing is known from below
        noise, often = 0.0, often * math.sqrt(math.log(2.0 * sums.size / _OF_MEANS))
    if often * count >= 1.0:
        return math.inf
    rest = max(0.0, float(released) ** 2 - noise**2)
    return (often * largest + math.sqrt((often * largest) ** 2 + rest)) / (1.0 - often * count)


def _diagonal_shared(ratio: RatioErrors, value: Array) -> Array:
    """Variance of each feature's own entry that comes from sums and count."""
    variance: Array = 4.0 * (ratio.shift * ratio.sums) ** 2 + (ratio.shift**2 - value) ** 2 * ratio.count**2
    return variance


def _off_diagonal(matrix: ReleasedMatrix, alone: NoiseAlone, ratio: RatioErrors) -> float:
    """Noise of the second moment off the diagonal, over that of isometric noise; it is the same everywhere."""
    few = (0, min(_FEW, matrix.shape[0]))
    first = type(ratio)(ratio.shift[: few[1]], ratio.sums[: few[1]], ratio.count, ratio.band)
    value = matrix.value(few, few)
    noise = alone.noise(EntriesTile(few, few, False), value, matrix.deviation(few, few))
    deviation = np.sqrt(np.maximum(noise**2 - first.shared(value), 0.0))
    size = np.sqrt(np.diagonal(deviation))
    np.fill_diagonal(deviation, 0.0)
    # Steps of the noise are rounded up by at most a part in 65,000.
    return math.sqrt(2.0) * float(np.max(deviation / np.outer(size, size))) * (1.0 + 1e-4)


def _stated(matrix: ReleasedMatrix, alone: NoiseAlone, units: tuple[Array, Array], shape: NoiseShape) -> float:
    """Level of noise whose entries depend on each other: the release's own bound, else Markov's of the whole.

    Of a covariance it holds in 94 of 100 releases, since the release's bound holds in 95 and its means come on top.
    """
    error: dict[str, Any] = matrix.attributes.get("error") or {}
    unit = float(units[0][0] * units[1][0])
    has_bound = "spectral_norm_bound" in error
    if has_bound and error.get("array") == matrix.kind:
        return float(error["spectral_norm_bound"]) / unit
    ratio = alone.ratio
    if ratio is not None and has_bound and error.get("array") == matrix.presenter.follows_from:
        count = float(matrix.vectors()["count"][0])
        sums, longest = float(np.linalg.norm(ratio.sums)), float(np.linalg.norm(ratio.shift))
        sums *= 1.0 + _OFTEN
        longest = (longest + sums) / (1.0 - _OFTEN * ratio.count) if _OFTEN * ratio.count < 1.0 else math.inf
        moment = float(error["spectral_norm_bound"]) / count
        return (moment + 2.0 * longest * sums + longest**2 * alone.band * ratio.count) / unit
    return math.sqrt(shape.squares / _OUTSIDE)

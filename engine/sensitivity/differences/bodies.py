"""Balls, boxes and ellipsoids of differences, each with its norms and its exact loss under independent noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity

UP = 1.0 + 2.0**-46
"""Covers a few roundings of each term and NumPy's pairwise sum of up to 2**30 of them, with room to spare."""


class Differences(Protocol):
    """A set of differences of an answer with ``dimension`` entries, in units of the answer."""

    @property
    def dimension(self) -> int:
        """Number n of entries of the answer; matrices are read row by row."""

    @property
    def l2(self) -> float:
        """Largest Euclidean norm, rounded up."""

    @property
    def l1(self) -> float:
        """Largest sum of absolute values, rounded up; an upper bound where the class says so."""

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Largest ``|K^-1/2 d|`` for independent noise.

        Parameters
        ----------
        variances
            K, n positive numbers in any shape, read row by row; infinite where an entry is not released.

        Returns
        -------
        Rounded-up bound and what is attained; ``exact`` tells whether they agree. Zero where nothing is released.

        Raises
        ------
        CalibrationError
            A variance is zero, negative or no number, or there are not n of them.
        """


class NoiseNorms:
    """Norms by the rule for noise: noise of variance one has the Euclidean norm as its loss."""

    @property
    def l2(self: Differences) -> float:
        """Largest Euclidean norm, rounded up."""
        return self.mu(np.ones(self.dimension)).bound


@dataclass(frozen=True, eq=False)
class FrobeniusBall:
    """``|d|_2 <= radius``, all that is known of most answers; for a matrix of ``dimension`` entries the Frobenius norm.

    Optimal noise is the same on all entries, whatever the importances.
    """

    dimension: int
    radius: float

    def __post_init__(self) -> None:
        """Refuse a ball that bounds nothing."""
        checked_count("dimension", self.dimension)
        checked_positive("radius", self.radius)

    @property
    def l2(self) -> float:
        """The radius."""
        return self.radius

    @property
    def l1(self) -> float:
        """``radius sqrt(n)``."""
        return self.radius * math.sqrt(self.dimension) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """All along the entry with the least noise."""
        return rounded_up(self.radius / math.sqrt(float(np.min(checked_variances(variances, self.dimension)))))


@dataclass(frozen=True, eq=False)
class _Bounded(NoiseNorms):
    half_widths: Vector

    def __post_init__(self) -> None:
        """Keep a private copy."""
        object.__setattr__(self, "half_widths", checked_widths(self.half_widths))

    @property
    def dimension(self) -> int:
        """Number of entries."""
        return self.half_widths.size


@dataclass(frozen=True, eq=False)
class BoxDifferences(_Bounded):
    """``|d_i| <= c_i``: one row of an identity query is replaced; half widths, shape (n,), zeros allowed."""

    @property
    def l1(self) -> float:
        """``sum c``."""
        return float(np.sum(self.half_widths)) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """At a corner."""
        return rounded_up(euclidean(self.half_widths / np.sqrt(checked_variances(variances, self.dimension))))


class HalfBox(BoxDifferences):
    """``0 <= d_i <= c_i`` or all of them negative: a non-negative record of an identity query is added or removed.

    Independent noise cannot tell it from a :class:`BoxDifferences`; correlated noise can. Under replace-one the set is
    the box.
    """


@dataclass(frozen=True, eq=False)
class EllipsoidDifferences(NoiseNorms):
    """``d = E^1/2 u, |u| <= 1``, that is ``d' E^-1 d <= 1``; the shape E is diagonal, shape (n,), or a matrix (n, n).

    The diagonal form holds squared semi-axes.
    """

    shape: Vector | Matrix

    def __post_init__(self) -> None:
        """Keep a private, exactly symmetric copy."""
        shape = np.array(self.shape, dtype=np.float64)
        shape = _positive_definite(shape) if shape.ndim == 2 else checked_widths(shape)
        if shape.ndim == 1 and not np.all(shape > 0):
            raise CalibrationError("a squared semi-axis is zero; every one must be positive; leave the entry out")
        object.__setattr__(self, "shape", shape)

    @property
    def dimension(self) -> int:
        """Number of entries."""
        return int(self.shape.shape[0])

    @property
    def l1(self) -> float:
        """``sqrt(sum E_ii)`` if diagonal; for a matrix an upper bound of ``sup over signs of (s' E s)^1/2``."""
        if self.shape.ndim == 1:
            return math.sqrt(float(np.sum(self.shape))) * UP
        # s' E s <= sum |E_ij|, and |d|_1 <= sqrt(n) |d|_2
        return min(math.sqrt(float(np.sum(np.abs(self.shape)))), math.sqrt(self.dimension) * self.l2) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Root of the largest eigenvalue of ``K^-1/2 E K^-1/2``."""
        deviations = np.sqrt(checked_variances(variances, self.dimension))
        if self.shape.ndim == 1:
            return rounded_up(float(np.max(np.sqrt(self.shape) / deviations)))
        values = np.linalg.eigvalsh(self.shape / deviations[:, None] / deviations[None, :])
        # eigvalsh errs by a small multiple of n 2**-52 of the largest eigenvalue, which is positive here.
        return rounded_up(math.sqrt(max(float(values[-1]), 0.0)), 1.0 + (self.dimension + 8) * 2.0**-48)


@dataclass(frozen=True, eq=False)
class BoxWithBall(_Bounded):
    """``|d_i| <= c_i`` and ``|d|_2 <= C``: features clipped one by one and then together; half widths, shape (n,)."""

    radius: float

    def __post_init__(self) -> None:
        """Keep a private copy."""
        super().__post_init__()
        checked_positive("radius", self.radius)

    @property
    def l1(self) -> float:
        """``sum min(c_i, t)`` at the level t at which ``sum min(c_i, t)^2 = C^2``."""
        level = water_level(self.half_widths, np.ones(self.dimension), self.radius)
        d = np.minimum(self.half_widths, level)
        # Lagrange: sum d <= sum of max (d - d^2 / (2 t)) + C^2 / (2 t) at every t; the maximum is at min(c, t).
        return float(np.sum(d) + (self.radius**2 - np.sum(d**2)) / (2.0 * level)) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Fractional knapsack: room C^2, sizes c_i^2, gain 1/K_i for each unit of size."""
        noise = checked_variances(variances, self.dimension)
        least = float(np.min(noise[self.half_widths > 0]))
        if math.isinf(least):
            return Sensitivity(0.0, 0.0)
        gains = least / np.maximum(noise, least)  # entries of width zero do not matter
        sizes = np.minimum(self.half_widths / self.radius, 1.0) ** 2
        order = np.argsort(-gains, kind="stable")
        split = int(np.searchsorted(np.cumsum(sizes[order]), 1.0))
        price = float(gains[order[split]]) if split < order.size else 0.0
        # Weak duality: sum gain y <= price + sum (gain - price)+ size holds at any price >= 0, so that rounding in the
        # search for the split cannot make the bound too small.
        value = price + float(np.sum(np.maximum(gains - price, 0.0) * sizes))
        return rounded_up(math.sqrt(value) * self.radius / math.sqrt(least))


@dataclass(frozen=True, eq=False)
class SparseBox(_Bounded):
    """``|d_i| <= c_i`` with at most ``nonzero`` entries other than zero: records that touch few entries."""

    nonzero: int

    def __post_init__(self) -> None:
        """Keep a private copy."""
        super().__post_init__()
        checked_count("nonzero", self.nonzero)

    @property
    def l1(self) -> float:
        """Sum of the largest half widths."""
        return float(np.sum(np.sort(self.half_widths)[::-1][: self.nonzero])) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """The entries with the largest ``c_i^2 / K_i``."""
        lengths = np.sort(self.half_widths / np.sqrt(checked_variances(variances, self.dimension)))[::-1]
        return rounded_up(euclidean(lengths[: self.nonzero]))


def water_level(half_widths: Vector, importance: Vector, radius: float) -> float:
    """Level t at which ``sum min(c_i, t sqrt(w_i))^2 = radius^2``; infinite where the box lies within the ball.

    Parameters
    ----------
    half_widths, importance
        c not negative and w positive, shape (n,).
    radius
        Positive.
    """
    c = np.minimum(half_widths / radius, 2.0)
    order = np.argsort(c / np.sqrt(importance))
    below = np.concatenate([[0.0], np.cumsum(c[order] ** 2)])
    above = np.concatenate([np.cumsum(importance[order][::-1])[::-1], [0.0]])
    if below[-1] <= 1.0:
        return math.inf
    # Between two break points the sum is below + t^2 above; the first interval that reaches one holds the level.
    reached = below[:-1] + (c[order] ** 2 / importance[order]) * above[:-1] >= 1.0
    first = int(np.argmax(reached)) if np.any(reached) else order.size - 1
    level = math.sqrt(max(1.0 - below[first], 0.0) / above[first])
    # Rounding may leave nothing for an interval that is just reached; the level is at least its lower end.
    least = float(c[order[first - 1]] / math.sqrt(importance[order[first - 1]])) if first else 0.0
    return radius * max(level, least)


def euclidean(values: Vector) -> float:
    """Euclidean norm that neither overflows nor underflows inside."""
    largest = float(np.max(np.abs(values), initial=0.0))
    return largest * math.sqrt(float(np.sum((values / largest) ** 2))) if largest > 0 else 0.0


def rounded_up(value: float, margin: float = UP) -> Sensitivity:
    """A value that is attained up to rounding, with the bound beyond the rounding."""
    return Sensitivity(value * margin, value)


def checked_variances(variances: ArrayLike, dimension: int) -> Vector:
    """Variances read row by row, shape (dimension,); see :meth:`Differences.mu` for what is refused."""
    noise = np.ascontiguousarray(variances, dtype=np.float64).ravel()
    if noise.size != dimension:
        raise CalibrationError(f"there are {noise.size} variances for {dimension} entries; give one for each")
    if not np.all(noise > 0):
        raise CalibrationError(
            f"a variance is {noise[~(noise > 0)][0]}; it must be positive; use infinity for an entry not released"
        )
    return noise


def checked_widths(values: ArrayLike) -> Vector:
    """A private copy of finite bounds, not negative and not all zero, shape (n,)."""
    widths = np.array(values, dtype=np.float64)
    if widths.ndim != 1 or not np.all(np.isfinite(widths)) or np.any(widths < 0) or not np.any(widths > 0):
        raise CalibrationError(
            "bounds are finite numbers, not negative, not all zero, one for each entry; declare them"
        )
    widths.setflags(write=False)
    return widths


def _positive_definite(matrix: Matrix) -> Matrix:
    if matrix.shape[0] != matrix.shape[1] or matrix.size == 0 or not np.all(np.isfinite(matrix)):
        raise CalibrationError("the shape of an ellipsoid is not a finite square matrix; give E, shape (n, n)")
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=1e-12 * float(np.max(np.abs(matrix)))):
        raise CalibrationError("the matrix of an ellipsoid is not symmetric; give E with E_ij = E_ji")
    symmetric: Matrix = (matrix + matrix.T) / 2.0
    if not float(np.linalg.eigvalsh(symmetric)[0]) > 0:
        raise CalibrationError("the matrix of an ellipsoid is not positive definite; raise its small axes")
    symmetric.setflags(write=False)
    return symmetric


def checked_positive(name: str, value: float) -> None:
    """Refuse what is not positive and finite."""
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; declare it")


def checked_count(name: str, value: int) -> None:
    """Refuse less than one."""
    if value < 1:
        raise CalibrationError(f"{name} is {value}; it must be at least 1; declare it")

"""Outer products, histograms, lists and unions: sets of differences made of simpler ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.differences.bodies import (
    UP,
    BoxDifferences,
    Differences,
    EllipsoidDifferences,
    FrobeniusBall,
    HalfBox,
    NoiseNorms,
    checked_count,
    checked_variances,
    euclidean,
    rounded_up,
)
from blockveil.engine.sensitivity.second_moment import Sensitivity


@dataclass(frozen=True, eq=False)
class OuterProductDifferences(NoiseNorms):
    """``a b'``, one product for each record, as gradients of a linear layer; dimension p q, read row by row.

    Attributes
    ----------
    left, right
        Sets of a (p entries) and of b (q entries): ball, box, half box or diagonal ellipsoid.
    neighbours
        Replace-one doubles the difference, ``a b' - (-a) b'``, unless both factors are non-negative: then entries of
        ``a b' - x y'`` lie in ``[-c_ij, c_ij]`` and nothing is gained over ``a b'``.
    """

    left: FrobeniusBall | BoxDifferences | EllipsoidDifferences
    right: FrobeniusBall | BoxDifferences | EllipsoidDifferences
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse factors without corners."""
        for factor in (self.left, self.right):
            if isinstance(factor, EllipsoidDifferences) and factor.shape.ndim != 1:
                raise CalibrationError("a factor's ellipsoid is a matrix; it must be diagonal; rotate records")

    @property
    def dimension(self) -> int:
        """``p q``."""
        return self.left.dimension * self.right.dimension

    @property
    def factor(self) -> float:
        """How much longer a difference is than one product: 1 or 2."""
        both = isinstance(self.left, HalfBox) and isinstance(self.right, HalfBox)
        return 1.0 if self.neighbours is Neighbours.ADD_REMOVE or both else 2.0

    @property
    def l1(self) -> float:
        """Product of both, times 1 or 2."""
        return self.factor * self.left.l1 * self.right.l1 * UP

    def reach(self) -> tuple[Matrix, tuple[int, ...]]:
        """Largest absolute entries of ``a b'``, shape (p, q), and the axes along which all are reached together."""
        (rows, row_box), (columns, column_box) = _reach(self.left), _reach(self.right)
        return np.outer(rows, columns), tuple(axis for axis, box in enumerate((row_box, column_box)) if box)

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Squares of a and b enter bilinearly: the best corner of each, where a box has one and a simplex one a row."""
        reach, together = self.reach()
        lengths = reach / np.sqrt(checked_variances(variances, self.dimension)).reshape(reach.shape)
        if together == (0,):
            lengths = np.ascontiguousarray(lengths.T)
        match len(together):
            case 0:
                value = float(np.max(lengths))
            case 1:
                value = max(euclidean(row) for row in lengths)
            case _:
                value = euclidean(lengths.ravel())
        return rounded_up(self.factor * value)


@dataclass(frozen=True, eq=False)
class CrossPolytope(NoiseNorms):
    """A histogram of ``dimension`` bins: ``e_i`` when a record comes or goes, ``e_i - e_j`` when it is replaced."""

    dimension: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse a histogram without bins."""
        checked_count("dimension", self.dimension)

    @property
    def _changed(self) -> int:
        # A single bin does not change when a record is replaced.
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else (2 if self.dimension > 1 else 0)

    @property
    def l1(self) -> float:
        """1, under replace-one 2."""
        return float(self._changed)

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """The one or two entries with the least noise."""
        lengths = 1.0 / np.sqrt(np.sort(checked_variances(variances, self.dimension))[: self._changed])
        return rounded_up(euclidean(lengths))


@dataclass(frozen=True, eq=False)
class FiniteSet(NoiseNorms):
    """Listed differences, shape (points, n); with d also -d and their convex hull."""

    points: Matrix

    def __post_init__(self) -> None:
        """Keep a private copy."""
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or not np.all(np.isfinite(points)):
            raise CalibrationError("points are rows of finite numbers, shape (points, n); correct them")
        if not np.any(points):
            raise CalibrationError("no difference is other than zero; then nothing needs noise; correct the set")
        points.setflags(write=False)
        object.__setattr__(self, "points", points)

    @property
    def dimension(self) -> int:
        """Number of entries."""
        return int(self.points.shape[1])

    @property
    def l1(self) -> float:
        """Largest over the points."""
        return float(np.max(np.sum(np.abs(self.points), axis=1))) * UP

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Largest over the points."""
        deviations = np.sqrt(checked_variances(variances, self.dimension))
        return rounded_up(max(euclidean(row) for row in self.points / deviations))


@dataclass(frozen=True, eq=False)
class Union(NoiseNorms):
    """Differences of any of several sets of the same dimension, as when records are of several kinds."""

    members: tuple[Differences, ...]

    def __post_init__(self) -> None:
        """Refuse members of different answers."""
        if len({member.dimension for member in self.members}) != 1:
            raise CalibrationError("the members of a union have different dimensions, or there is none; correct them")

    @property
    def dimension(self) -> int:
        """Number of entries."""
        return self.members[0].dimension

    @property
    def l1(self) -> float:
        """Largest of the members."""
        return max(member.l1 for member in self.members)

    def mu(self, variances: ArrayLike) -> Sensitivity:
        """Largest of the members."""
        found = [member.mu(variances) for member in self.members]
        return Sensitivity(max(each.bound for each in found), max(each.attained for each in found))


def _reach(factor: FrobeniusBall | BoxDifferences | EllipsoidDifferences) -> tuple[Vector, bool]:
    """Largest absolute entries of a factor, and whether all are reached together."""
    match factor:
        case FrobeniusBall():
            return np.full(factor.dimension, factor.radius), False
        case EllipsoidDifferences():
            return np.sqrt(factor.shape), False
    return factor.half_widths, True

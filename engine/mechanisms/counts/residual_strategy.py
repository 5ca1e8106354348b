"""Residuals of marginal tables as a strategy of integers.

For a set A of axes, ``H_A`` is the product over i in A of ``n_i I - 11'``, an integer matrix, and the strategy
measures ``m_A H_A (table over A)``: f_A times the residual of A (:mod:`.marginal_tables`), where f_A is m_A times the
product of the n_i. Its answers are exact in int64. m_A is the largest power of two with which no entry of ``m_A H_A``
exceeds the largest entry of all H: noise has whole steps, and without m_A those of small sets would be far too coarse
beside integers that are as large as those of large sets. Noise of standard deviation s_A in each answer is noise of
s_A / f_A in the residual, of which only the part within the residuals counts: they are projected, which is
post-processing.

Privacy. A record adds a column of ``m_A H_A`` to each answer, and all columns have the same squared norm

``f_A^2 p_A``,  with  ``p_A = product over A of (1 - 1/n_i)``,

since ``(n I - 11')(n I - 11') = n^2 (I - 11'/n)``. So with ``w_A = f_A^2 / s_A^2``, and noise that is Gaussian:

* add-remove: ``mu^2 = sum w_A p_A``, whatever the record: exact.
* replace-one: two records that agree along the axes in S, and nowhere else, are ``2 sum w_A (p_A - q_A(S))`` apart, in
  squares, with q_A(S) the product over A of ``1 - 1/n_i`` for axes in S and of ``-1/n_i`` for others: the scalar
  product of columns of ``I - 11'/n`` at two places. All S but that of all axes occur, because each axis has two cells.
  The largest over S is exact; it is found for all 2^d of them at once, one axis after the other. A record may also
  leave the tables, or enter them: the add-remove value, if that is larger. Beyond 20 axes it is found where axes are
  symmetric (:mod:`.symmetric_axes`); else the sum of the largest of each term bounds it.

Least error. The residuals add up orthogonally within each table, so that the total variance of the tables is
``sum v_A s_A^2 / f_A^2``, where v_A is the sum over tables T above A of the product over A of (n_i - 1), divided by the
cells of T for each cell over A. By Cauchy and Schwarz it is at least ``(sum sqrt(p_A v_A))^2 / mu^2`` under add-remove,
attained by ``s_A^2 / f_A^2`` proportional to ``sqrt(p_A / v_A)``. No Gaussian noise on the tables has less: with M the
map from all N cells to the tables, and a record in each cell equally likely, duality (:mod:`.duality`) gives the
singular value bound ``(sum of singular values of M)^2 / (N mu^2)``. On the residuals of A, which have product over A of
(n_i - 1) dimensions, ``M'M`` is sum over T above A of N / n_T, so that the bound is the same sum. Under replace-one the
sizes and the bound are found by :mod:`.residual_sizes`.

**Source**: Xiao, He, Zhang and Kifer, 2023 (ResidualPlanner: mechanism, add-remove, closed form); Li and Miklau, 2013
(singular value bound). The factors in whole numbers, and the distances under replace-one, are derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts.residual_sizes import (
    MOST_CLASSES,
    MOST_SEARCHED,
    Agreements,
    LeastNoise,
    added,
    replaced,
)
from blockveil.engine.mechanisms.counts.symmetric_axes import SymmetricAxes, symmetric_axes
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.workloads.marginal_tables import Axes, MarginalTables, centred
from blockveil.engine.workloads.range_variances import Shares, mean_errors, mean_shares
from blockveil.engine.workloads.strategy import Arrays
from blockveil.engine.workloads.workload import Kronecker, Workload

MOST_PATTERNS = 20
"""Most axes for which all sets of axes along which two records agree are gone through."""

_LARGEST_SUM = 2**61
_ROUND_UP = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class ResidualStrategy:
    """Residuals of all sets of axes within some tables, measured in integers.

    Answers are laid out in rows of at most 128; each set of axes starts a new row.

    Attributes
    ----------
    tables
        What is asked for.
    records_at_most
        Public bound on the number of records.
    """

    tables: MarginalTables
    records_at_most: int

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64."""
        if self.records_at_most * max(self.tables.size(axes) for axes in self.tables.sets) * 2 > _LARGEST_SUM:
            raise CalibrationError("the answers can exceed 2**60; lower rows_at_most, or declare fewer cells")

    @property
    def cells(self) -> tuple[int, int]:
        """One row of the cells of all tables."""
        return 1, self.tables.cells

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answers."""
        return self.blocks[-1].stop, self.width

    @cached_property
    def width(self) -> int:
        """Columns in which answers are laid out."""
        return min(TILE, max(self.tables.size(axes) for axes in self.tables.sets))

    @property
    def largest(self) -> int:
        """Largest absolute answer."""
        # By a record no answer changes by more than the largest of these: see ``multiples``.
        return self.records_at_most * max(self._entries)

    @cached_property
    def _entries(self) -> list[int]:
        """Largest entry of ``H_A`` for each set of axes: a product of n_i - 1 and of ones."""
        return [prod(n - 1 for n in self.tables.shape(axes)) for axes in self.tables.sets]

    @cached_property
    def multiples(self) -> list[int]:
        """``m_A``, a power of two for each set of axes."""
        # m_A times an entry is at most the largest entry, which is what keeps all answers within ``largest``.
        return [1 << (max(self._entries) // own).bit_length() - 1 for own in self._entries]

    @cached_property
    def blocks(self) -> list[slice]:
        """Rows of the answers of each set of axes."""
        ends = list(accumulate(-(-self.tables.size(axes) // self.width) for axes in self.tables.sets))
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def by_row(self, values: Vector) -> Vector:
        """A number for each set of axes as one for each row of the answers."""
        return np.repeat(values, [block.stop - block.start for block in self.blocks])

    @cached_property
    def norms(self) -> Vector:
        """``p_A`` for each set of axes."""
        shapes = (self.tables.shape(axes) for axes in self.tables.sets)
        return np.array([prod(1.0 - 1.0 / n for n in shape) for shape in shapes])

    @cached_property
    def factors(self) -> Vector:
        """``f_A``, by which answers exceed residuals, for each set of axes."""
        each = zip(self.tables.sets, self.multiples, strict=True)
        return np.array([float(multiple * self._unit(axes)) for axes, multiple in each])

    def _unit(self, axes: Axes) -> int:
        """By how much what is measured of some axes exceeds their residual."""
        return self.tables.size(axes)

    def error_weights(self) -> Vector:
        """``v_A``: total variance of all tables for noise of variance one in the residual of each set."""
        weights = []
        for axes in self.tables.sets:
            own = prod(n - 1.0 for n in self.tables.shape(axes))
            weights.append(own * sum(1.0 / self.tables.others(table, axes) for table in self.tables.above[axes]))
        return np.array(weights)

    @cached_property
    def shares(self) -> Shares:
        """What each axis contributes to the variance of ranges; see :mod:`.range_variances`."""
        return mean_shares(self.tables, {})

    def range_errors(self, deviations: Vector) -> Vector:
        """Mean variance of all that is asked of each table, shape (tables,), in records squared; exact."""
        return mean_errors(self.tables, self.residual_deviations(deviations) ** 2, self.shares)

    @property
    def agreements(self) -> Agreements:
        """Scalar products of what two records add."""
        return Agreements(self.tables.sizes, self.tables.sets)

    @cached_property
    def symmetric(self) -> SymmetricAxes | None:
        """The same where axes are symmetric; None where too many classes of pairs remain."""
        return symmetric_axes(self.tables, MOST_CLASSES)

    def least_noise(self, neighbours: Neighbours) -> LeastNoise:
        """Precisions of the residuals of least total variance for a loss of one, and the bound of it."""
        if neighbours is Neighbours.ADD_REMOVE:
            return added(self.norms, self.error_weights())
        symmetric = self.symmetric if len(self.tables.sizes) > MOST_SEARCHED else None
        return replaced(self.agreements, self.norms, self.error_weights(), symmetric)

    def least_sizes(self, neighbours: Neighbours) -> Vector:
        """Sizes s_A of the least total variance, for a loss of about one, for each set of axes."""
        return self.factors / np.sqrt(self.least_noise(neighbours).precisions)

    def l2(self, sizes: Vector, neighbours: Neighbours) -> Sensitivity:
        """Sensitivity of the answers divided by sizes s_A, one for each set of axes."""
        weights = (self.factors / sizes) ** 2
        added = float(np.sum(weights * self.norms))
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(sqrt(added) * _ROUND_UP, sqrt(added))
        replaced, attained = self._replaced(weights)
        return Sensitivity(sqrt(max(replaced, added)) * _ROUND_UP, sqrt(max(attained, added)))

    def _replaced(self, weights: Vector) -> tuple[float, float]:
        """Largest squared distance of two records within the tables, a bound of it and one that exists."""
        total = 2.0 * float(np.sum(weights * self.norms))
        products = self._products(weights)
        if products is not None:
            # The last pattern is that of two equal records.
            attained = total - 2.0 * float(np.min(products[:-1]))
            # No partial sum exceeds the sum of the weights, and each rounding is by 2**-53 of it: a few an axis, and
            # where axes are symmetric one more for each type that is added.
            times = 8 * len(self.tables.sizes)
            if len(self.tables.sizes) > MOST_PATTERNS and self.symmetric is not None:
                times += len(self.symmetric.first)
            rounded = times * float(np.sum(weights)) * 2.0**-53
            # The last factor on the root covers 2e-12 of the square.
            return (attained if rounded <= 1e-12 * attained else attained + rounded), attained
        sets = self.tables.sets
        # A product with an odd number of factors -1/n is least with a single one, along the axis of the fewest cells.
        least = [-1.0 / (min(self.tables.shape(axes)) - 1.0) if axes else 1.0 for axes in sets]
        differing = [prod(-1.0 / n for n in self.tables.shape(axes)) for axes in sets]
        bound = total - 2.0 * float(np.sum(weights * self.norms * np.array(least)))
        return bound, total - 2.0 * float(np.sum(weights * np.array(differing)))

    def _products(self, weights: Vector) -> NDArray[np.float64] | None:
        """``sum w_A q_A`` of all pairs of records, those of equal ones last; None where they are too many."""
        if len(self.tables.sizes) <= MOST_PATTERNS:
            return self.agreements.products(weights)
        return None if self.symmetric is None else self.symmetric.products(weights)

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answers from the cells of all tables, int64, shape ``shape``; zeros fill up the last row of a set.

        Raises
        ------
        CalibrationError
            These are no counts of these tables.
        """
        if counts.shape != self.cells or counts.dtype != np.int64:
            raise CalibrationError(f"counts must be int64 of shape {self.cells}; build the strategy for these tables")
        own = dict(zip(self.tables.tables, self.tables.apart(counts[0]), strict=True))
        answers = np.zeros(self.shape, dtype=np.int64)
        for axes, block, multiple in zip(self.tables.sets, self.blocks, self.multiples, strict=True):
            table = min(self.tables.above[axes], key=self.tables.size)
            values = self.tables.summed(own[table], table, axes)
            for along, axis in enumerate(axes):
                values = self._measured(values, along, axis)
            answers[block].reshape(-1)[: values.size] = multiple * values.ravel()
        return answers

    def _measured(self, values: NDArray[np.int64], along: int, axis: int) -> NDArray[np.int64]:
        """``n I - 11'`` along one axis of an array, which is the given axis of the records."""
        total: NDArray[np.int64] = np.sum(values, axis=along, keepdims=True, dtype=np.int64)
        return self.tables.sizes[axis] * values - total

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`: exact least squares, whatever the sizes, as residuals are orthogonal."""
        residuals = {}
        for axes, block, factor in zip(self.tables.sets, self.blocks, self.factors, strict=True):
            values = answers[block].reshape(-1)[: self.tables.size(axes)].reshape(self.tables.shape(axes))
            residuals[axes] = centred(values / factor)
        return self.tables.made_of(residuals)[None, :]

    def residual_deviations(self, deviations: Vector) -> Vector:
        """Standard deviation s_A / f_A of the noise before projection, for each set of axes, in records."""
        starts = [block.start for block in self.blocks]
        residuals: Vector = deviations[starts] / self.factors
        return residuals

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`; the same for all cells of a table."""
        variances = dict(zip(self.tables.sets, self.residual_deviations(deviations) ** 2 * self.norms, strict=True))
        by_cell = np.empty(self.cells)
        for table, place in zip(self.tables.tables, self.tables.places, strict=True):
            within = (axes for axes in self.tables.sets if set(axes) <= set(table))
            by_cell[0, place] = sqrt(sum(variances[axes] / self.tables.others(table, axes) ** 2 for axes in within))
        return by_cell

    def widest(self, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`; exact, as residuals of different sets are orthogonal in all tables."""
        above = (self.tables.above[axes] for axes in self.tables.sets)
        lengths = [
            sum(1.0 / self.tables.others(table, axes) for table in tables)
            for axes, tables in zip(self.tables.sets, above, strict=True)
        ]
        return float(np.max(self.residual_deviations(deviations) * np.sqrt(lengths)))

    def workload_error(self, workload: Workload, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`; of the cells themselves, which is all that is asked of tables."""
        return float(np.sum(self.cell_deviations(deviations) ** 2))

    def answer_deviations(self, part: Kronecker, deviations: Vector) -> Matrix | None:
        """None: products of queries along rows and columns are not asked of tables."""
        return None

    def facts(self) -> dict[str, Any]:
        """Kind, and how many residuals there are."""
        return {"kind": "residuals of marginal tables, version 1", "sets": len(self.tables.sets)}

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """Which sets of axes were measured, and the noise of the residual of each before projection."""
        axes = len(self.tables.sizes)
        inside = np.array([[axis in chosen for axis in range(axes)] for chosen in self.tables.sets])
        return {
            "residual_axes": (inside.astype(np.int8), ("residual", "axis")),
            "residual_standard_deviation": (self.residual_deviations(deviations), ("residual",)),
        }

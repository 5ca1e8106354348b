"""Residuals of marginal tables some of whose axes are ordered, so that ranges of their cells have little noise.

As :mod:`.residual_strategy`, with ``H_i`` of :mod:`.ordered_axes` in place of ``n_i I - 11'`` for each ordered axis i.
For a set A of axes the strategy measures ``m_A H_A (table over A)``, H_A the product of the H_i in whole numbers and
m_A a power of two as there. Write ``Q_i = H_i / k_i`` with ``k_i = 2**12`` for ordered axes, and ``k_i = n_i``, ``Q_i =
I - 11' / n_i`` for others; f_A for m_A times the product of the k_i, and ``w_A = f_A^2 / s_A^2`` for noise of standard
deviation s_A.

Privacy. A record x adds to the answers of A m_A times the product of column x_i of H_i over i in A, of squared norm
``f_A^2`` times the product of ``c_i(x_i) = (Q_i'Q_i)_xx``. Therefore, for noise that is Gaussian:

* add-remove: ``mu^2 = max over x of sum w_A product over A of c_i(x_i)``. No w_A and no c_i is negative, so that each
  term is largest where every c_i is, and one record is there for all of them: ``mu^2 = sum w_A p_A`` with p_A the
  product over A of ``max c_i``. Exact: the Gram matrices of H_i are whole numbers that floats hold.
* replace-one: two records are ``sum w_A (product c_i(x_i) + product c_i(y_i) - 2 product g_i(x_i, y_i))`` apart, in
  squares, ``g = Q'Q``. With all axes but one fixed it is ``alpha c_i(x_i) + beta c_i(y_i) - 2 gamma g_i(x_i, y_i)``
  plus a constant, with alpha and beta not negative. So two places x_i, y_i along an axis may be left out if two others
  have norms at least as large and a product that is at most theirs: either these, or two records in the cell of the
  largest norm, whose product no other exceeds (Cauchy and Schwarz), are at least as far apart, whatever the sign of
  gamma. Each axis keeps few kinds of places; the largest distance over all combinations of them is exact. Where these
  are more than a million, two kinds bound each ordered axis: the largest norm twice, with the least product and with
  the largest. A record may also leave the tables, or enter them: the add-remove value, if that is larger.

Least error. What is asked of a table is every combination of a range along each ordered axis and a cell along each
other axis, with the weights of :mod:`.ordered_axes`. Residuals are measured independently, and a residual has the
covariance ``s_A^2 / f_A^2`` times the product of ``C_i = (Q_i'Q_i)^+``. So the total variance is ``sum v_A s_A^2 /
f_A^2`` with v_A the sum over tables T above A of

``product over A of tr(G_i C_i)  times  product over T without A of  1'G_i 1 / n_i^2``,

G_i the Gram matrix of what is asked along axis i, the identity for axes without an order. Sizes follow by the closed
form of :mod:`.residual_sizes`; under replace-one by its search, for two kinds of places along each axis, up to 12 axes.
No noise on residuals has much less total variance of ranges; Gaussian noise that does not measure the residuals apart
may have less, and ``python -m benchmarks.marginals`` prints a bound of it.

**Source**: Xiao, He, Zhang and Kifer, 2023, and their later ResidualPlanner+ for matrices in place of the identity; the
search, the factors in whole numbers and the distances under replace-one are derived here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.counts.residual_sizes import MOST_SEARCHED, Agreements, LeastNoise, added, replaced
from blockveil.engine.mechanisms.counts.residual_strategy import MOST_PATTERNS, ResidualStrategy
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.records.product_threads import one_thread
from blockveil.engine.workloads.marginal_tables import Axes, centred
from blockveil.engine.workloads.ordered_axes import OrderedAxis, along_axis
from blockveil.engine.workloads.range_variances import Shares, mean_shares, share_of
from blockveil.engine.workloads.strategy import Arrays

Kinds = NDArray[np.float64]
"""Squared norms of what two records add along an axis, and their product, shape (kinds, 3)."""


@dataclass(frozen=True, eq=False)
class RangeResiduals(ResidualStrategy):
    """Residuals of all sets of axes within some tables, of which some axes are ordered, measured in integers."""

    def __post_init__(self) -> None:
        """Refuse sums that could leave int64."""
        if len(self.tables.sizes) > MOST_PATTERNS:
            raise CalibrationError(
                f"there are {len(self.tables.sizes)} axes; with ordered ones there are at most {MOST_PATTERNS}; "
                "leave some out, or order none"
            )
        # |sum h_j c_j| <= max |h| sum c along one axis after the other, in every partial sum; n c along axes without
        # an order.
        reached = max(prod(self._factor(axis)[1] for axis in axes) for axes in self.tables.sets)
        if self.records_at_most * reached * 2 > 2**61:
            raise CalibrationError(
                "the answers can exceed 2**60; lower rows_at_most, or ask for tables of fewer ordered axes"
            )

    @cached_property
    def ordered(self) -> dict[int, OrderedAxis]:
        """What is measured along each ordered axis."""
        return {axis: OrderedAxis.of(self.tables.sizes[axis]) for axis in self.tables.ordered}

    def _factor(self, axis: int) -> tuple[int, int, int]:
        """``k_i``, a bound of the integers while an axis is measured, and the largest entry of H_i."""
        if axis in self.ordered:
            strategy = self.ordered[axis]
            return strategy.unit, strategy.largest, strategy.largest
        n = self.tables.sizes[axis]
        return n, n, n - 1

    @cached_property
    def _entries(self) -> list[int]:
        return [prod(self._factor(axis)[2] for axis in axes) for axes in self.tables.sets]

    @cached_property
    def norms(self) -> Vector:
        """``p_A`` for each set of axes."""
        largest = [float(kinds[-1, 0]) for kinds in self._kinds("beyond")]
        return np.array([prod(largest[axis] for axis in axes) for axes in self.tables.sets])

    def _unit(self, axes: Axes) -> int:
        return prod(self._factor(axis)[0] for axis in axes)

    def error_weights(self) -> Vector:
        """``v_A``: total variance of all that is asked for noise of variance one in what is measured of each set."""
        each = (
            (self.tables.size(table) * share_of(table, axes, self.shares) for table in self.tables.above[axes])
            for axes in self.tables.sets
        )
        return np.array([sum(weights) for weights in each])

    @cached_property
    def shares(self) -> Shares:
        """See :class:`.ResidualStrategy`."""
        return mean_shares(self.tables, {axis: own.covariance for axis, own in self.ordered.items()})

    def least_noise(self, neighbours: Neighbours) -> LeastNoise:
        """Precisions of what is measured; the bound is that of noise on residuals in whole numbers alone."""
        if neighbours is Neighbours.ADD_REMOVE or len(self.tables.sizes) > MOST_SEARCHED:
            return added(self.norms, self.error_weights())
        ends = tuple((float(kinds[0, 2]), float(kinds[-1, 2])) for kinds in self._kinds("beyond"))
        pairs = OrderedAgreements(self.tables.sizes, self.tables.sets, ends)
        return replaced(pairs, self.norms, self.error_weights())

    def _replaced(self, weights: Vector) -> tuple[float, float]:
        """Largest squared distance of two records within the tables, a bound of it and one that exists."""
        kinds = self._kinds("pairs")
        exact = kinds is not None and prod(map(len, kinds)) <= 2**MOST_PATTERNS
        bound = self._largest_distance(weights, kinds if exact else self._kinds("beyond"))
        attained = bound if exact else self._largest_distance(weights, self._kinds("farthest"))
        # Three sums of products, none of whose partial sums exceeds the sum of w_A p_A, with a few roundings an axis,
        # each by 2**-53 of it: far below the factor 1 + 1e-12 of the root, but where nearly all of it cancels.
        rounded = 32 * len(self.tables.sizes) * float(np.sum(weights * self.norms)) * 2.0**-53
        return (bound if rounded <= 1e-12 * bound else bound + rounded), attained

    def _kinds(self, which: str) -> Any:
        """Kinds of places of two records along each axis; None where an axis has too many."""
        kinds = []
        for axis, n in enumerate(self.tables.sizes):
            norm = 1.0 - 1.0 / n
            own = getattr(self.ordered[axis], which) if axis in self.ordered else None
            if own is None and axis in self.ordered:
                return None
            kinds.append(np.array([[norm, norm, -1.0 / n], [norm] * 3]) if own is None else own)
        return kinds

    def _largest_distance(self, weights: Vector, kinds: Sequence[Kinds]) -> float:
        first, second, product = (self._sums(weights, [each[:, k] for each in kinds]) for k in range(3))
        return float(np.max(first + second - 2.0 * product))

    def _sums(self, weights: Vector, values: Iterable[Vector]) -> NDArray[np.float64]:
        """``sum w_A product over A of values_i`` for all combinations of the values along each axis."""
        sums = np.zeros((2,) * len(self.tables.sizes))
        for axes, weight in zip(self.tables.sets, weights, strict=True):
            sums[tuple(int(axis in axes) for axis in range(sums.ndim))] = weight
        for each in values:
            # The first axis tells sets without it from sets with it; its values follow as the last one.
            sums = sums[0][..., None] + sums[1][..., None] * each
        return sums

    def _measured(self, values: NDArray[np.int64], along: int, axis: int) -> NDArray[np.int64]:
        own = self.ordered.get(axis)
        return super()._measured(values, along, axis) if own is None else along_axis(own.integers, values, along)

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`: exact least squares, whatever the sizes, as residuals are measured apart."""
        residuals = {}
        # One thread, so that another number of them does not change the last bits of what is published.
        with one_thread():
            for axes, block, factor in zip(self.tables.sets, self.blocks, self.factors, strict=True):
                values = answers[block].reshape(-1)[: self.tables.size(axes)].reshape(self.tables.shape(axes))
                values = centred(values / factor)
                for along, axis in enumerate(axes):
                    if axis in self.ordered:
                        values = along_axis(self.ordered[axis].inverse, values, along)
                residuals[axes] = values
        return self.tables.made_of(residuals)[None, :]

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """See :class:`.strategy.Strategy`."""
        noise = dict(zip(self.tables.sets, self.residual_deviations(deviations) ** 2, strict=True))
        by_cell = np.empty(self.cells)
        for table, place in zip(self.tables.tables, self.tables.places, strict=True):
            total = np.zeros(self.tables.shape(table))
            for axes in (each for k in range(len(table) + 1) for each in combinations(table, k)):
                part = np.array(noise[axes] / self.tables.others(table, axes) ** 2)
                for axis in table:
                    part = part[..., None] * (self._variances(axis) if axis in axes else np.ones(1))
                total = total + part
            by_cell[0, place] = np.sqrt(total).ravel()
        return by_cell

    def _variances(self, axis: int) -> Vector:
        """Diagonal of ``C_i``."""
        n = self.tables.sizes[axis]
        own = self.ordered.get(axis)
        return np.full(n, 1.0 - 1.0 / n) if own is None else np.diagonal(own.covariance).copy()

    def widest(self, deviations: Vector) -> float:
        """See :class:`.strategy.Strategy`; exact, as residuals of different sets are orthogonal in all tables."""
        most = {axis: float(np.linalg.eigvalsh(own.covariance)[-1]) for axis, own in self.ordered.items()}
        lengths = [
            sum(1.0 / self.tables.others(table, axes) for table in self.tables.above[axes])
            * prod(most.get(axis, 1.0) for axis in axes)
            for axes in self.tables.sets
        ]
        return float(np.max(self.residual_deviations(deviations) * np.sqrt(lengths)))

    def facts(self) -> dict[str, Any]:
        """Kind, how many residuals there are, and what is measured along ordered axes."""
        measured = [{"axis": axis, "unit": own.unit, "sha256": own.digest} for axis, own in self.ordered.items()]
        return {
            "kind": "residuals of marginal tables with ranges, version 1",
            "sets": len(self.tables.sets),
            "ordered": measured,
        }

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """As without ordered axes; and Q for each of these, exact."""
        arrays = super().arrays(answers, deviations)
        for axis, own in self.ordered.items():
            names = (f"strategy_answer_{axis + 1}", f"strategy_cell_{axis + 1}")
            arrays[f"axis_{axis + 1}_strategy"] = (own.real, names)
        return arrays


@dataclass(frozen=True, eq=False)
class OrderedAgreements(Agreements):
    """Scalar products of what two records add, with two kinds of places along each axis.

    Attributes
    ----------
    ends
        Along each axis, the product of two records that differ, and of two that agree.
    """

    ends: tuple[tuple[float, float], ...]

    def products(self, weights: Vector) -> NDArray[np.float64]:
        """``sum w_A q_A(S)`` for every S, shape (2^axes,)."""
        products = np.zeros(2 ** len(self.cells))
        products[self.numbers] = weights
        for axis, (differing, agreeing) in enumerate(self.ends):
            pairs = products.reshape(-1, 2, 1 << axis)
            without, within = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0] = without + within * differing
            pairs[:, 1] = without + within * agreeing
        return products

    def means(self, shares: NDArray[np.float64]) -> Vector:
        """``sum share_S q_A(S)`` for every measured A: the transpose of :meth:`products`."""
        sums = shares.copy()
        for axis, (differ, agree) in enumerate(self.ends):
            pairs = sums.reshape(-1, 2, 1 << axis)
            differing, agreeing = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0] = differing + agreeing
            pairs[:, 1] = agreeing * agree + differing * differ
        means: Vector = sums[self.numbers]
        return means

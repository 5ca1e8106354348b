"""How noise is shared among residuals, and what no Gaussian noise is below.

Write w_A for the precision of the residual of A and v_A for what its variance adds to the error
(:mod:`.residual_strategy`). A change of the records costs ``sum c_A w_A``: under add-remove c_A is p_A for all records;
under replace-one it is ``2 (p_A - q_A(S))`` for two records that agree along the axes in S, and p_A for one that leaves
the tables. Least is

``min { sum v_A / w_A : sum c_A w_A <= mu^2 for all changes } = max over shares of (sum sqrt(v_A c_A))^2 / mu^2``,

with c_A the mean over the changes by shares that add up to one, and w_A proportional to ``sqrt(v_A / c_A)`` there. Any
shares give a bound from below, and scaling their precisions by the largest cost makes them private, so the gap between
the two is a proof. It is one for all Gaussian noise, and not only for noise on residuals: all pairs of records that
agree along S are equally likely within its share, so that ``E[d d']`` is c_A times a constant on the residuals of A,
and duality (:mod:`.duality`) gives the same sum. Shares are found by ``share <- share * cost``.

Beyond 12 axes, shares are sought where axes are symmetric (:mod:`.symmetric_axes`), so that few classes of pairs
remain. Else those of add-remove are kept, and two records in different cells, all pairs equally likely, give the bound.

**Source**: as for :mod:`.duality`; derived here for residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.mechanisms.counts.symmetric_axes import SymmetricAxes
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.marginal_tables import Axes

MOST_SEARCHED = 12
"""Most axes for which shares are sought: each round goes through all sets of axes along which records agree."""

MOST_CLASSES = 2**MOST_SEARCHED
"""Most classes of pairs of records for which shares are sought where axes are symmetric."""

_ROUNDS = 2000
_GAP = 1e-3


@dataclass(frozen=True, eq=False)
class Agreements:
    """Scalar products of what two records add to residuals, by the axes along which they agree.

    Sets of axes are numbered by their bits; the last number, that of all axes, belongs to equal records.

    Attributes
    ----------
    cells
        Cells along each axis.
    sets
        Sets of axes that are measured.
    """

    cells: tuple[int, ...]
    sets: tuple[Axes, ...]

    @property
    def numbers(self) -> list[int]:
        """Number of each measured set."""
        return [sum(1 << axis for axis in axes) for axes in self.sets]

    def products(self, weights: Vector) -> NDArray[np.float64]:
        """``sum w_A q_A(S)`` for every S, shape (2^axes,)."""
        products = np.zeros(2 ** len(self.cells))
        products[self.numbers] = weights
        for axis, n in enumerate(self.cells):
            pairs = products.reshape(-1, 2, 1 << axis)
            without, within = pairs[:, 0].copy(), pairs[:, 1].copy()
            # Places without the bit become records that differ along the axis, places with it records that agree.
            pairs[:, 0] = without - within / n
            pairs[:, 1] = without + within * (1.0 - 1.0 / n)
        return products

    def means(self, shares: NDArray[np.float64]) -> Vector:
        """``sum share_S q_A(S)`` for every measured A: the transpose of :meth:`products`."""
        sums = shares.copy()
        for axis, n in enumerate(self.cells):
            pairs = sums.reshape(-1, 2, 1 << axis)
            differing, agreeing = pairs[:, 0].copy(), pairs[:, 1].copy()
            pairs[:, 0] = differing + agreeing
            pairs[:, 1] = agreeing * (1.0 - 1.0 / n) - differing / n
        means: Vector = sums[self.numbers]
        return means

    def costs(self, precisions: Vector, norms: Vector) -> NDArray[np.float64]:
        """``sum c_A w_A`` of two records by S, and in the last place of a record that leaves."""
        added = float(np.sum(precisions * norms))
        costs = 2.0 * (added - self.products(precisions))
        costs[-1] = added
        return costs

    def coefficients(self, shares: NDArray[np.float64], norms: Vector) -> Vector:
        """Mean c_A of all changes, as :meth:`costs` numbers them, by shares that add up to one."""
        leaving, pairs = float(shares[-1]), shares.copy()
        pairs[-1] = 0.0
        return norms * (2.0 - leaving) - 2.0 * self.means(pairs)


@dataclass(frozen=True, eq=False)
class LeastNoise:
    """Precisions of all residuals for a loss of one, and the error below which no Gaussian noise gets.

    Attributes
    ----------
    precisions
        w_A for each measured set; scaled so that the loss is one for :meth:`Agreements.costs`, or under add-remove.
    bound
        Of the total variance, at a loss of one.
    """

    precisions: Vector
    bound: float


def added(norms: Vector, weights: Vector) -> LeastNoise:
    """Under add-remove: exact.

    Parameters
    ----------
    norms, weights
        p_A and v_A for each measured set.
    """
    total = float(np.sum(np.sqrt(norms * weights)))
    return LeastNoise(np.sqrt(weights / norms) / total, total**2)


def replaced(
    agreements: Agreements, norms: Vector, weights: Vector, classes: SymmetricAxes | None = None
) -> LeastNoise:
    """Under replace-one; parameters as for :func:`added`.

    Parameters
    ----------
    agreements, norms, weights
        As for :func:`added`.
    classes
        The same pairs of records where axes are symmetric, for more than :data:`MOST_SEARCHED` of them.
    """
    axes = len(agreements.cells)
    if axes <= MOST_SEARCHED:
        return _searched(agreements, norms, weights, np.ones(len(weights)), 2**axes)
    if classes is not None:
        own = classes.first
        least = _searched(classes, norms[own], weights[own], classes.members, len(classes.sums))
        return LeastNoise(classes.by_set(least.precisions), least.bound)
    cells = prod(float(n) for n in agreements.cells)
    # E[d d'] of all pairs is 2 / (N - 1) times the projection to differences, in which the empty set, the first,
    # has no share.
    shares = np.sqrt(norms * weights)[1:]
    bound = 2.0 * cells / (cells - 1.0) * float(np.sum(shares)) ** 2
    return LeastNoise(added(norms, weights).precisions, bound)


def _searched(
    pairs: Agreements | SymmetricAxes, norms: Vector, weights: Vector, members: Vector, many: int
) -> LeastNoise:
    """Precisions by rounds over the shares of classes of pairs; ``members`` counts the sets of each number."""
    best, shares = LeastNoise(np.ones(len(weights)), 0.0), np.full(many, 1.0 / many)
    error, bound = np.inf, 0.0
    for _ in range(_ROUNDS):
        means = pairs.coefficients(shares, norms)
        bound = max(bound, float(np.sum(members * np.sqrt(weights * means))) ** 2)
        precisions = np.sqrt(weights / means)
        costs = pairs.costs(precisions, norms)
        precisions = precisions / float(np.max(costs))
        if (total := float(np.sum(members * weights / precisions))) < error:
            error, best = total, LeastNoise(precisions, bound)
        if error <= bound * (1.0 + _GAP):
            break
        shares = shares * costs
        shares /= float(np.sum(shares))
    return LeastNoise(best.precisions, bound)

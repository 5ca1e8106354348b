"""How noise is shared within histograms and among their totals, and what no Gaussian noise is below.

Let k columns have ``n_c`` bins, t_c be the number of values of column c that are in any bin, and w_c, a and b be the
precisions of what bins of one column differ in, of what the t_c differ in, and of what they have in common
(:mod:`.histogram_strategy`). A change of the records costs

``sum over singles of w_c (1 - 1/n_c) + sum over both of 2 w_c + a (r - d^2 / k) + b d^2 / k``:

r columns are *single*, of which the change adds or takes away a value, d more of one than of the other; in *both* are
those whose value leaves one bin for another, under replace-one. It is linear in the precisions, and the total variance
is

``sum (n_c - 1) / w_c + (1 - 1/k) H / a + H / (k b)``,  with  ``H = sum 1 / n_c``.

So the least is found as for tables (:mod:`.residual_sizes`): shares of changes that add up to one give a bound for
such noise, and precisions whose largest cost is one are private. The worst change is known for any precisions: of a
given r the columns for which being single costs most are single, and the cost is linear in ``d^2``. It joins those that
have shares until both are within a thousandth.

**All Gaussian noise.** Let the change be equally likely to be any of those with the same numbers of single columns
among columns of equal size, the same d, and all bins. Then by duality (:mod:`.duality`) no Gaussian noise is below
``(tr C^1/2)^2``, where ``C = E[change change']`` is

* on what bins of column c differ in, n_c - 1 dimensions: ``P(single) / n_c + 2 P(both) / (n_c - 1)``;
* on the columns' totals, in orthonormal coordinates: ``E[x_c x_e] / (n_c n_e)^1/2`` with x_c in {-1, 0, 1}, whose
  square has the mean P(single), and whose product, for two single columns of r, ``(d^2 - r) / (r (r - 1))``;

and zero between them, for bins are independent of each other. Columns of one size are alike, so that the second part
has an eigenvalue for all that their totals differ in, and a small matrix for what they have in common.

**Source**: Edmonds, Nikolov and Ullman, 2020 (duality); derived here for histograms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Matrix, Vector

MOST_COLUMNS = 1024
"""Most columns for which shares are sought."""

_ROUNDS, _STEPS, _GAP, _JOINING = 60, 60, 1e-3, 0.05

_BELOW = 0.999
"""How far the noise of a total stays below that of as many independent bins."""


@dataclass(frozen=True, eq=False)
class LeastHistogramNoise:
    """Precisions of histograms for a loss of about one, and the error below which no Gaussian noise gets.

    Attributes
    ----------
    within
        w_c for each column; one where a column has a single bin, so that nothing differs.
    between, together
        a and b.
    bound
        Of the total variance of any Gaussian noise, at a loss of one.
    """

    within: Vector
    between: float
    together: float
    bound: float


@lru_cache(maxsize=16)
def least_noise(sizes: tuple[int, ...], neighbours: Neighbours) -> LeastHistogramNoise:
    """Least noise of two columns or more.

    Parameters
    ----------
    sizes
        Bins of each column, 2 to :data:`MOST_COLUMNS` columns.
    neighbours
        Neighbouring relation.
    """
    bins, place = np.unique(np.asarray(sizes, dtype=np.float64), return_inverse=True)
    kinds = _Kinds(bins, np.bincount(place).astype(np.float64), neighbours is Neighbours.REPLACE_ONE)
    precisions, bound = _searched(kinds)
    precisions = kinds.tempered(precisions)
    precisions = precisions / float(np.max(kinds.costs(kinds.worst(precisions), precisions)))
    within = np.where(bins > 1.0, precisions[:-2], 1.0)[place]
    return LeastHistogramNoise(within, float(precisions[-2]), float(precisions[-1]), bound)


@dataclass(frozen=True, eq=False)
class _Changes:
    """Changes: numbers of single columns by size, shape (changes, sizes), and squares d^2, shape (changes,)."""

    single: Matrix
    squares: Vector

    def with_one(self, other: _Changes, place: int) -> _Changes:
        """These and one of the others."""
        single = np.vstack([self.single, other.single[place : place + 1]])
        return _Changes(single, np.append(self.squares, other.squares[place]))


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Columns by their number of bins.

    Attributes
    ----------
    bins, columns
        Numbers of bins, ascending, and how many columns have each.
    replaced
        Whether records are replaced.
    """

    bins: Vector
    columns: Vector
    replaced: bool

    @property
    def many(self) -> float:
        """Number k of columns."""
        return float(np.sum(self.columns))

    @property
    def alone(self) -> Vector:
        """``1 - 1/n``: squared length of what one value changes within its column."""
        return 1.0 - 1.0 / self.bins

    @property
    def moving(self) -> Vector:
        """Squared length of what a value changes that leaves one bin for another."""
        return np.where(self.bins > 1.0, 2.0 * self.replaced, 0.0)

    @property
    def weights(self) -> Vector:
        """Total variance for a variance of one within columns of each size, between totals, and of all together."""
        inverse = float(np.sum(self.columns / self.bins))
        of_totals = [inverse * (1.0 - 1.0 / self.many), inverse / self.many]
        return np.concatenate([self.columns * (self.bins - 1.0), of_totals])

    def coefficients(self, changes: _Changes) -> Matrix:
        """What precisions are multiplied by in the cost of each change, shape (changes, sizes + 2)."""
        both = self.columns - changes.single
        within = changes.single * self.alone + both * self.moving
        common = changes.squares / self.many
        return np.column_stack([within, np.sum(changes.single, axis=1) - common, common])

    def costs(self, changes: _Changes, precisions: Vector) -> Vector:
        """Cost of each change."""
        costs: Vector = np.sum(self.coefficients(changes) * precisions, axis=1)
        return costs

    def worst(self, precisions: Vector) -> _Changes:
        """The worst changes of each number of single columns; of both squares where a value may be taken away too."""
        order = np.argsort(-precisions[:-2] * (self.alone - self.moving), kind="stable")
        one_by_one = np.repeat(order, self.columns[order].astype(np.intp))
        single = np.zeros((one_by_one.size + 1, self.bins.size))
        single[np.arange(1, one_by_one.size + 1), one_by_one] = 1.0
        single = np.cumsum(single, axis=0)
        numbers = np.arange(one_by_one.size + 1.0)
        if not self.replaced:
            return _Changes(single[1:], numbers[1:] ** 2)
        return _Changes(np.vstack([single, single[1:]]), np.concatenate([numbers % 2.0, numbers[1:] ** 2]))

    def tempered(self, precisions: Vector) -> Vector:
        """Precisions with which no sum of m bins of a column has more than m times the variance of one of them.

        It has m times ``u (1 - m/n) + V m / n^2``, for u of what bins differ in and V of the total: linear in m, and so
        at most what it is for one bin where it is no more for all n of them, ``V / n <= u``.
        """
        total = (1.0 - 1.0 / self.many) / precisions[-2] + 1.0 / (self.many * precisions[-1])
        over = total * float(np.max(np.where(self.bins > 1.0, precisions[:-2] / self.bins, 0.0))) / _BELOW
        return precisions if over <= 1.0 else np.concatenate([precisions[:-2], precisions[-2:] * over])

    def bound(self, changes: _Changes, shares: Vector) -> float:
        """``(tr C^1/2)^2``; see the module."""
        single = np.sum(shares[:, None] * changes.single, axis=0) / self.columns
        leaving = 1.0 - single if self.replaced else np.zeros_like(single)
        own = single / self.bins + np.where(self.bins > 1.0, 2.0 * leaving / np.maximum(self.bins - 1.0, 1.0), 0.0)
        root = float(np.sum(self.columns * (self.bins - 1.0) * np.sqrt(own)))
        numbers = np.sum(changes.single, axis=1)
        means = shares * (changes.squares - numbers) / np.maximum(numbers * (numbers - 1.0), 1.0)
        part = changes.single / self.columns
        products = (means[:, None] * part).T @ part
        # Of two columns of one size, one after the other without putting back.
        others = part * (changes.single - 1.0) / np.maximum(self.columns - 1.0, 1.0)
        alike = np.sum(means[:, None] * others, axis=0)
        root += float(np.sum((self.columns - 1.0) * np.sqrt(np.maximum(single - alike, 0.0) / self.bins)))
        products *= np.sqrt(np.outer(self.columns, self.columns))
        products[np.diag_indices(self.bins.size)] = single + (self.columns - 1.0) * alike
        common = np.linalg.eigvalsh(products / np.sqrt(np.outer(self.bins, self.bins)))
        return (root + float(np.sum(np.sqrt(np.maximum(common, 0.0))))) ** 2


def _searched(kinds: _Kinds) -> tuple[Vector, float]:
    """Precisions of a largest cost of about one, and the bound of all Gaussian noise."""
    weights = kinds.weights
    positive: NDArray[np.bool_] = weights > 0.0
    changes = kinds.worst(np.ones(weights.size))
    shares = np.full(changes.squares.size, 1.0 / changes.squares.size)
    best, error = np.ones(weights.size), np.inf
    for _ in range(_ROUNDS):
        coefficients = kinds.coefficients(changes)
        for _ in range(_STEPS):
            means = np.sum(shares[:, None] * coefficients, axis=0)
            precisions = np.where(positive, np.sqrt(weights / np.where(positive, means, 1.0)), 0.0)
            shares = shares * np.sum(coefficients * precisions, axis=1)
            shares = shares / np.sum(shares)
        means = np.sum(shares[:, None] * coefficients, axis=0)
        precisions = np.where(positive, np.sqrt(weights / np.where(positive, means, 1.0)), 0.0)
        least = float(np.sum(np.sqrt(weights * means))) ** 2
        worst = kinds.worst(precisions)
        costs = kinds.costs(worst, precisions)
        place = int(np.argmax(costs))
        total = float(np.sum(weights[positive] / precisions[positive])) * float(costs[place])
        if total < error:
            error, best = total, precisions
        if error <= least * (1.0 + _GAP):
            break
        changes, shares = changes.with_one(worst, place), np.append(shares * (1.0 - _JOINING), _JOINING)
    return best, kinds.bound(changes, shares)

"""Axes of tables that may be exchanged, so that records need not be distinguished by those that they agree along.

Axes of equally many cells are symmetric if every exchange of them leaves the declared tables as they are, as it does
for all tables of k axes. Then only how many axes of each kind a set A has matters, its type a, and so does how many of
each kind two records agree along, their class s. With q_A as in :mod:`.residual_strategy`, the sum over all sets of a
type is

``sum of q_A over A of type a = product over kinds of the coefficient of x^a in (1 + (1 - 1/n) x)^s (1 - x/n)^(g - s)``

for a kind of g axes of n cells, which is an integer divided by n^a. Twenty columns of two cells have 21 classes in
place of a million sets.

The least noise may be sought among precisions that are the same within a type: averaged over exchanges, precisions cost
no pair of records more than before, and their error is no larger, because it is convex in them.

**Source**: Krawtchouk polynomials, for n = 2; MacWilliams and Sloane, 1977, chapter 5, paragraph 7.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.marginal_tables import MarginalTables

Type = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SymmetricAxes:
    """Scalar products of what two records add to residuals, by how many axes of each kind they agree along.

    Attributes
    ----------
    types
        Type of each measured set.
    sums
        ``sum of q_A(s)`` over the sets of a type, shape (classes, types), the types in the order in which they first
        occur. The last class is that of two equal records.
    """

    types: tuple[Type, ...]
    sums: NDArray[np.float64]

    @cached_property
    def first(self) -> list[int]:
        """A measured set of each type."""
        return [self.types.index(each) for each in dict.fromkeys(self.types)]

    @cached_property
    def members(self) -> Vector:
        """Number of sets of each type."""
        sizes: Vector = np.array([float(many) for many in Counter(self.types).values()])
        return sizes

    def by_set(self, values: Vector) -> Vector:
        """A number for each type as one for each measured set."""
        numbers = {each: number for number, each in enumerate(dict.fromkeys(self.types))}
        by_set: Vector = values[[numbers[each] for each in self.types]]
        return by_set

    def products(self, weights: Vector) -> NDArray[np.float64] | None:
        """``sum w_A q_A`` for every class; None where weights differ within a type."""
        own = weights[self.first]
        return self.sums @ own if np.array_equal(self.by_set(own), weights) else None

    def costs(self, precisions: Vector, norms: Vector) -> NDArray[np.float64]:
        """``sum c_A w_A`` of two records by class, and in the last place of a record that leaves; all by type."""
        added = float(np.sum(self.members * precisions * norms))
        costs = 2.0 * (added - self.sums @ precisions)
        costs[-1] = added
        return costs

    def coefficients(self, shares: NDArray[np.float64], norms: Vector) -> Vector:
        """Mean c_A of all changes, as :meth:`costs` numbers them, for a set of each type."""
        leaving, pairs = float(shares[-1]), shares.copy()
        pairs[-1] = 0.0
        coefficients: Vector = norms * (2.0 - leaving) - 2.0 * (pairs @ self.sums) / self.members
        return coefficients


def symmetric_axes(tables: MarginalTables, most: int) -> SymmetricAxes | None:
    """Axes of some tables by what makes them symmetric; None where there are more classes than ``most``."""
    kinds = _kinds(tables)
    if prod(len(kind) + 1 for kind in kinds) > most:
        return None
    where = {axis: number for number, kind in enumerate(kinds) for axis in kind}
    types = []
    for axes in tables.sets:
        counted = Counter(where[axis] for axis in axes)
        types.append(tuple(counted[number] for number in range(len(kinds))))
    distinct = tuple(dict.fromkeys(types))
    classes = list(product(*(range(len(kind) + 1) for kind in kinds)))
    by_kind = [
        np.array([_coefficients(tables.sizes[kind[0]], len(kind), s) for s in range(len(kind) + 1)]) for kind in kinds
    ]
    sums = np.ones((len(classes), len(distinct)))
    for number, table in enumerate(by_kind):
        rows, columns = [each[number] for each in classes], [each[number] for each in distinct]
        sums *= table[np.ix_(rows, columns)]
    return SymmetricAxes(tuple(types), sums)


def _kinds(tables: MarginalTables) -> list[list[int]]:
    """Axes that may be exchanged, together."""
    declared = set(tables.tables)
    kinds: list[list[int]] = []
    for axis, cells in enumerate(tables.sizes):
        for kind in kinds:
            # Exchanges of one axis of a kind with the new one make all the others.
            if tables.sizes[kind[0]] == cells and _exchanged(declared, kind[0], axis):
                kind.append(axis)
                break
        else:
            kinds.append([axis])
    return kinds


def _exchanged(declared: set[tuple[int, ...]], a: int, b: int) -> bool:
    """Whether the tables are the same after an exchange of two axes."""
    swap = {a: b, b: a}
    return all(tuple(sorted(swap.get(axis, axis) for axis in table)) in declared for table in declared)


def _coefficients(cells: int, axes: int, agreeing: int) -> list[float]:
    """Of x^0, ..., x^axes, rounded once each."""
    coefficients = []
    for a in range(axes + 1):
        exact = sum(
            (comb(agreeing, i) * comb(axes - agreeing, a - i) * (cells - 1) ** i * (-1) ** (a - i))
            for i in range(max(0, a - axes + agreeing), min(agreeing, a) + 1)
        )
        coefficients.append(float(Fraction(exact, cells**a)))
    return coefficients

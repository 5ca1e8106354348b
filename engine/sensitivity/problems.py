"""What is asked of the records, as a mechanism sees it: the answer's shape and what one record can change in it.

Answers are in *coordinates* (:mod:`.geometry`), in which admissible records form a cube, a half cube,
one of these within a ball (:mod:`.reach`), or the unit ball. A mechanism proposes a spread r of the
noise (:mod:`.additive`); a problem tells the sensitivity of the answer divided by it. Write
``N2 = sup |v / r|_2`` and ``N1 = sup |v / r|_1`` over the body.

============== =============================== ======================================= =============================
problem        answer                          L2                                      L1 (distinct entries)
============== =============================== ======================================= =============================
second moment  ``sum v v'`` (d x d)            ``kinds/moments/problem.py``            (N1^2 + N2^2)/2, or less
rows           the records (n x d)             2 N2, half cube N2                      2 N1, half cube N1
outer products ``sum a b'`` (p x q)            ``kinds/outer/problem.py``              the same file
counts         cells (m x n)                   1; replace-one sqrt(2)                  1; replace-one 2
totals         ``sum (1, v)``, ``sum v``       ``kinds/totals/problem.py``             the same file
histograms     bins of d columns               sqrt(d); replace-one sqrt(2 d)          d; replace-one 2 d
marginals      cells of t tables               sqrt(t); replace-one sqrt(2 t)          t; replace-one 2 t
============== =============================== ======================================= =============================

For half cubes replace-one costs no more than add-remove: entries lie in [0, largest], so their differences do too.
For one within a ball: rows sqrt(2) N2 at most. Each problem has a file of its own with its proof, ``problem.py`` of its
kind (``engine/kinds``).

**Source**: MVG (CCS 2018) section 4 for the queries; the constants are derived here and attained unless a sensitivity
says that it is an upper bound.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread


class Problem(Protocol):
    """A query over a geometry under a neighbouring relation."""

    query: ClassVar[str]

    @property
    def neighbours(self) -> Neighbours:
        """Neighbouring relation."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""

    @property
    def symmetric(self) -> bool:
        """Whether the answer is a symmetric matrix."""

    @property
    def units(self) -> tuple[Vector, Vector]:
        """Raw units of one coordinate, by row and by column of the answer."""

    @property
    def scaling(self) -> Scaling:
        """Exact integers of the answer."""

    def spread(self, rows: Vector, columns: Vector) -> Spread:
        """Noise of this relative size; ValueError for sizes that do not fit."""

    def l2(self, spread: Spread) -> Sensitivity:
        """L2 sensitivity of the answer divided by the spread; Frobenius norm where it is symmetric."""

    def l1(self, spread: Spread) -> Sensitivity:
        """L1 sensitivity of the distinct entries of the answer divided by the spread."""

    def largest_norm(self) -> float:
        """Largest Frobenius norm of the answer itself, in coordinates, for any admissible data set."""

"""What a mechanism may ask of a problem besides its protocol, and what holds of a problem that does not say.

A mechanism names no class of problems. It asks for abilities: attributes that a problem of any package may have. One
that bears on privacy, or on the meaning of an answer, is claimed by a flag whose name is the claim, so that no problem
has it by accident, and one that is built on another can take it back. A problem that says nothing is treated as a
matrix of sums in a box without a constant coordinate; whatever needs more than that is refused or not known.

Each problem proves its claims in its own file.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

from numpy.typing import NDArray

from blockveil.engine.noise.banded import Band
from blockveil.engine.noise.sampled_noise import Sampling
from blockveil.engine.records.geometry import AnyBody, Body, Vector
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread
from blockveil.engine.workloads.marginal_tables import MarginalTables
from blockveil.engine.workloads.workload import Workload


def constants(problem: Problem) -> tuple[int, int]:
    """Return how many constant coordinates, which stand for the count, lead the rows and columns; none by default."""
    leads: tuple[int, int] = getattr(problem, "constants", (0, 0))
    return leads


def bodies(problem: Problem) -> tuple[AnyBody, AnyBody]:
    """Set of admissible coordinates by row and by column of the answer; a cube where the side is free."""
    own = getattr(problem, "bodies", None)
    sides: tuple[AnyBody, AnyBody] = (Body.CUBE, Body.CUBE) if own is None else own()
    return sides


def norms_apart(problem: Problem) -> float:
    """Norms of one record by which the answer changes, at most, where it changes along features; one by default."""
    return float(getattr(problem, "norms_apart", 1.0))


def change_by_column(problem: Problem) -> Vector | None:
    """What one record changes in each column, where columns change independently; None where that is not known."""
    change: Vector | None = getattr(problem, "change_by_column", None)
    return change


def features_axis(problem: Problem) -> int | None:
    """Axis of the answer along which published matrix noise is shared; None where the answer is no such matrix."""
    axis: int | None = getattr(problem, "features_axis", 0)
    return axis


def whole_numbers(problem: Problem) -> bool:
    """Whether the answer counts records, so that noise in whole numbers suits it."""
    return _claims(problem, "whole_numbers")


def ranges_asked(problem: Problem) -> MarginalTables | None:
    """Tables of whose ordered axes ranges are asked; None where no range is."""
    tables: MarginalTables | None = getattr(problem, "ranges_asked", None)
    return tables


def places(problem: Problem) -> NDArray[Any] | None:
    """Where the answer has an entry, as true or false; None where it has one everywhere."""
    mask: NDArray[Any] | None = getattr(problem, "there", None)
    return mask


def workload(problem: Problem) -> Workload:
    """Sums of cells that are asked for besides the cells; empty for none."""
    sums: Workload = getattr(problem, "workload", ())
    return sums


def root_bound(problem: Problem, rows: Vector, columns: Vector) -> float | None:
    """Root of the least weighted total variance that Gaussian noise has, at a loss of one; None where not known.

    Parameters
    ----------
    problem
        The query over its declared shape.
    rows, columns
        Raw units times roots of importances, by row and by column of the answer.
    """
    own = getattr(problem, "root_bound", None)
    bound: float | None = None if own is None else own(rows, columns)
    return bound


def _claims(problem: Problem, claim: str) -> bool:
    return bool(getattr(problem, claim, False))


class LedByConstants(Problem, Protocol):
    """A problem whose answer is led by constant coordinates, which have noise of a size of their own."""

    def with_constants(self, rows: Vector, columns: Vector, importance: Vector, norm: int) -> tuple[Vector, Vector]:
        """Spread by row and column with the constants in front.

        Parameters
        ----------
        rows, columns
            Without them.
        importance
            Of each column for squared error in raw units, without the constants.
        norm
            In which the sensitivity is measured: 2 for Gaussian noise, 1 for Laplace noise.
        """


def led_by_constants(problem: Problem) -> TypeGuard[LedByConstants]:
    """Whether constants lead the answer, and the problem knows what noise suits them."""
    return constants(problem) != (0, 0) and hasattr(problem, "with_constants")


class AboutCount(Problem, Protocol):
    """Sums of which means about a noisy count are made."""

    def count_weight(self, importance: Vector) -> float:
        """What the count's variance adds at most to the weighted squared error of sums about means."""


def about_count(problem: Problem) -> TypeGuard[AboutCount]:
    """Whether a mean is off by the noise of a count that leads the sums."""
    return _claims(problem, "about_count")


class ComposedSteps(Problem, Protocol):
    """Sums of several steps, each of which may be over a part of the records."""

    @property
    def sampling(self) -> Sampling | None:
        """Steps over secret samples; None where there are none."""

    @property
    def band(self) -> Band | None:
        """By which noise cancels from step to step; None where noise of steps is independent."""

    @property
    def patterns(self) -> float:
        """How many times what a record changes in one step it changes in all, in L2, where noise cancels."""

    def l2_of_a_step(self, spread: Spread) -> Sensitivity:
        """The largest over the steps, each over all records."""

    def l2_of_the_band(self, spread: Spread, band: Band) -> Sensitivity:
        """Sensitivity of what the band makes of all sums."""


def composed(problem: Problem) -> TypeGuard[ComposedSteps]:
    """Whether the losses of its steps are composed by the problem's own theorem."""
    return _claims(problem, "composed")


class OneRow(Problem, Protocol):
    """Records as rows of the answer, of which one changes."""

    @property
    def row_widths(self) -> Vector | None:
        """By how much each entry of the row changes at most, all of them at once; None where a box is not known."""

    def largest_entry(self, spread: Spread) -> Sensitivity:
        """Largest entry of the answer's change, divided by the spread."""


def one_row(problem: Problem) -> TypeGuard[OneRow]:
    """Whether one row of the answer changes, within a box or another body."""
    return _claims(problem, "changes_one_row")


class InBalls(Problem, Protocol):
    """An answer that changes within a ball, in its own coordinates."""

    @property
    def one_ball(self) -> bool:
        """Whether that is one ball: the answer is not a series of several."""


def in_balls(problem: Problem) -> TypeGuard[InBalls]:
    """Whether the answer changes by its length, in any direction."""
    return _claims(problem, "changes_in_balls")


class MomentProblem(Problem, Protocol):
    """A second moment of records, with or without a constant coordinate."""

    @property
    def body(self) -> AnyBody:
        """Set of admissible coordinates."""

    @property
    def scale(self) -> Vector:
        """Raw units of a coordinate, shape (d,)."""

    @property
    def rows_at_most(self) -> int:
        """Public bound on the number of records."""

    @property
    def largest(self) -> int:
        """Integer that stands for coordinate one."""

    def record_length(self, spread: Spread) -> float:
        """Largest length of a record in units of the spread."""

    def least_products(self, units: Vector, count: float, sums: Vector) -> float | None:
        """Least total variance of products for noise that knows count and sums; None where it is not known."""


def moment(problem: Problem) -> TypeGuard[MomentProblem]:
    """Whether the answer is a sum of squares of records, as their bodies bound them."""
    return _claims(problem, "sum_of_squares")


def own_diagonal(problem: Problem) -> TypeGuard[MomentProblem]:
    """Whether the sensitivity is known for noise with a diagonal of its own: of records in a box."""
    return _claims(problem, "own_diagonal")


def compared_diagonal(problem: Problem) -> TypeGuard[MomentProblem]:
    """Whether ``auto`` compares such noise for the problem."""
    return _claims(problem, "compared_diagonal")


def positive_version(problem: Problem) -> TypeGuard[MomentProblem]:
    """Whether a positive semi-definite version of the answer is published."""
    return _claims(problem, "positive_version")


class LeadingDirections(MomentProblem, Protocol):
    """A second moment of which only leading directions are asked."""

    @property
    def directions(self) -> int:
        """Number k of directions."""


def leading_directions(problem: Problem) -> TypeGuard[LeadingDirections]:
    """Whether directions may be drawn in place of the second moment."""
    return _claims(problem, "leading_directions")


class OneCell(Problem, Protocol):
    """Counts of a grid, in at most one cell of which each record is counted."""

    @property
    def cells(self) -> tuple[int, int]:
        """Shape of the answer."""

    @property
    def rows_at_most(self) -> int:
        """Public bound on the number of records."""

    @property
    def workload(self) -> Workload:
        """Sums of cells that are asked for besides the cells; empty for none."""

    @property
    def axes(self) -> int:
        """Axes of the grid."""


def one_cell(problem: Problem) -> TypeGuard[OneCell]:
    """Whether each record is in one cell of a grid, at most."""
    return _claims(problem, "one_cell")


class OneBinOfEachColumn(Problem, Protocol):
    """Histograms, in at most one bin of each of which each record is counted."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bins of each column."""

    @property
    def rows_at_most(self) -> int:
        """Public bound on the number of records."""

    @property
    def last(self) -> bool:
        """Whether the last bin of each column is the last entry of its row; else bins lead."""


def one_bin_of_each_column(problem: Problem) -> TypeGuard[OneBinOfEachColumn]:
    """Whether each record is in one bin of each column, at most."""
    return _claims(problem, "one_bin_of_each_column")


class OneCellOfEachTable(Problem, Protocol):
    """Tables, in one cell of each of which a record is counted, or in none at all."""

    @property
    def tables(self) -> MarginalTables:
        """Which tables."""

    @property
    def rows_at_most(self) -> int:
        """Public bound on the number of records."""


def one_cell_of_each_table(problem: Problem) -> TypeGuard[OneCellOfEachTable]:
    """Whether each record is in one cell of each table, or in none."""
    return _claims(problem, "one_cell_of_each_table")

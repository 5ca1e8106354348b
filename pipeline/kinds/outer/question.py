"""Sums of outer products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.outer_products import OuterProductsQuery
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.estimates.rounding_error import RoundingError, entry_deviations, extremes
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Vector, reaches_both_ends
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.outer.section import OuterProductsSection
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks, Large, OuterBlocks
from blockveil.pipeline.questions.question import Answer, additive, ends_in_coordinates, extent, quantiser, span, text
from blockveil.pipeline.questions.rounded_sides import RoundedSide, RoundedSums, error_of, rounded_side

_PAIR = ("row", "column")


@dataclass(frozen=True, eq=False)
class Outer:
    """Sum of outer products.

    Attributes
    ----------
    sides
        How each factor is rounded: both at places by content, or both to nearest.
    alike
        How often one content occurs at most, where that is declared.
    """

    problem: OuterProducts
    query: OuterProductsQuery
    left: tuple[str, ...]
    right: tuple[str, ...]
    sides: tuple[RoundedSide, RoundedSide]
    alike: int | None = None

    @property
    def sums(self) -> RoundedSums:
        """Sums of products of a value of each factor."""
        records, largest = self.problem.rows_at_most, self.problem.largest
        return RoundedSums(self.sides, self.query.left, self.rounding, 0, records, largest, self.alike, products=True)

    @property
    def rounding(self) -> RoundingError | None:
        """Error by rounding, which every stated error includes; None where a factor is rounded to nearest."""
        return error_of(*self.sides, self.problem.rows_at_most, self.alike)

    @property
    def origin(self) -> Vector:
        """Origins of both shapes."""
        return np.concatenate([self.query.left.coordinates.origin, self.query.right.coordinates.origin])

    def answer(self, design: Design) -> Answer:
        """The sum with noise."""
        return OuterAnswer(self, additive(design))


@dataclass(frozen=True, eq=False)
class OuterAnswer:
    """A sum of outer products with noise; see :class:`.question.Answer`."""

    question: Outer
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "outer_products"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum."""
        return self.design.shape

    def facts(self) -> dict[str, Any]:
        """Shapes of both factors."""
        problem = self.question.problem
        return {
            "left_body": problem.left.value,
            "right_body": problem.right.value,
            "largest_integer": problem.largest,
            **self.question.sides[0].facts("left_"),
            **self.question.sides[1].facts("right_"),
        }

    def work(self, rows: int) -> Work:
        """All products."""
        return Work(GrowthKind.PRODUCTS, rows, sum(self.shape), self.shape, largest=self.question.problem.largest)

    def error(self) -> ErrorReport:
        """Expected error of the sum."""
        return error_report(self.design, *self.question.problem.units)

    def error_sentence(self) -> str:
        """Relative to the product of the two half widths, at the largest number of rows."""
        lead = f"at {self.question.problem.rows_at_most:,} rows, an entry's standard deviation per row is"
        return f"{lead} {span(self._shares())} of the product of the two half widths"

    def noise_over_largest(self) -> tuple[float, float]:
        """An outer product's entry is at most the product of two half widths."""
        return extent(self.design.extremes().entry_standard_deviation() / self.question.problem.rows_at_most)

    def _shares(self) -> NDArray[np.float64]:
        """Least and largest standard deviations over the largest number of rows, in products of half widths."""
        return entry_deviations(*extremes(self.design, self.question.rounding)) / self.question.problem.rows_at_most

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Sum over records of ``(a - origin)(b - origin)'`` and its error."""
        query = self.question.query
        left, right = query.left.coordinates, query.right.coordinates
        products = matrices.outer_products(released, self.design, left, right, self.question.rounding)
        return {
            **self._axes(),
            "outer_products": (products.value, _PAIR),
            "outer_products_standard_deviation": (products.standard_deviation, _PAIR),
        }

    def blocks(self, rows: int) -> Blocks | None:
        """Matrix and error."""
        left, right = self.question.query.left.coordinates, self.question.query.right.coordinates
        if left.mixing is not None or right.mixing is not None:
            return None
        return OuterBlocks(Large(self.shape, _PAIR), self._axes(), self.design, (left, right), self.question.rounding)

    def _axes(self) -> ReleaseArrays:
        return {"row": (text(self.question.left), ("row",)), "column": (text(self.question.right), ("column",))}


def build(loaded: LoadedConfig, asked: OuterProductsSection) -> Outer:
    """Question of a config."""
    shapes = asked.left, asked.right
    sides = [rounded_side(quantiser(loaded, shape, augmented=False), shape) for shape in shapes]
    if any(side.rounded is None for side in sides):
        sides = [RoundedSide(quantiser(loaded, shape, augmented=False), None) for shape in shapes]
    left, right = (side.quantiser for side in sides)
    gram.check_no_overflow(asked.rows_at_most, left.largest)
    problem = OuterProducts(
        left.coordinates.body,
        right.coordinates.body,
        left.coordinates.scale,
        right.coordinates.scale,
        loaded.config.privacy.neighbours,
        left.largest,
        asked.rows_at_most,
        even=any(reaches_both_ends(side.coordinates, side.largest) for side in (left, right)),
        left_ends=ends_in_coordinates(left),
        right_ends=ends_in_coordinates(right),
    )
    names = asked.columns
    columns = names[: left.width], names[left.width :]
    return Outer(problem, OuterProductsQuery(left, right), *columns, (sides[0], sides[1]), asked.duplicates_at_most)


QUESTION = build

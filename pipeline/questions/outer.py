"""Sums of outer products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.cost import GrowthKind, Work
from blockveil.engine.answers.outer_products import OuterProductsQuery
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Vector, reaches_both_ends
from blockveil.engine.sensitivity.problems import OuterProducts
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks, Large, OuterBlocks
from blockveil.pipeline.questions.question import extent, quantiser, span, text


@dataclass(frozen=True, eq=False)
class Outer:
    """Sum of outer products."""

    problem: OuterProducts
    query: OuterProductsQuery
    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "outer_products"

    @property
    def origin(self) -> Vector:
        """Origins of both shapes."""
        return np.concatenate([self.query.left.coordinates.origin, self.query.right.coordinates.origin])

    def check(self, design: NoiseDesign) -> None:
        """Factors have no full matrix shapes."""

    def facts(self, design: NoiseDesign) -> dict[str, Any]:
        """Shapes of both factors."""
        return {
            "left_body": self.problem.left.value,
            "right_body": self.problem.right.value,
            "largest_integer": self.problem.largest,
        }

    def work(self, rows: int) -> Work:
        """All products."""
        shape = self.problem.shape
        return Work(GrowthKind.PRODUCTS, rows, sum(shape), shape, largest=self.problem.largest)

    def error(self, design: NoiseDesign) -> ErrorReport:
        """Of the sum."""
        return error_report(design, *self.problem.units)

    def error_sentence(self, design: NoiseDesign) -> str:
        """Relative to the product of the two half widths, at the largest number of rows."""
        rows = self.problem.rows_at_most
        lead = f"at {rows:,} rows, an entry's standard deviation per row is"
        return (
            f"{lead} {span(design.extremes().entry_standard_deviation() / rows)} of the product of the two half widths"
        )

    def noise_over_largest(self, design: NoiseDesign) -> tuple[float, float]:
        """An outer product's entry is at most the product of two half widths."""
        return extent(design.extremes().entry_standard_deviation() / self.problem.rows_at_most)

    def arrays(self, released: NDArray[np.int64], design: NoiseDesign, rows: int) -> ReleaseArrays:
        """Sum over records of ``(a - origin)(b - origin)'`` and its error."""
        found = matrices.outer_products(released, design, self.query.left.coordinates, self.query.right.coordinates)
        pair = ("row", "column")
        return {
            "row": (text(self.left), ("row",)),
            "column": (text(self.right), ("column",)),
            "outer_products": (found.value, pair),
            "outer_products_standard_deviation": (found.standard_deviation, pair),
        }

    def blocks(self, design: NoiseDesign, rows: int) -> Blocks | None:
        """Matrix and error."""
        del rows
        left, right = self.query.left.coordinates, self.query.right.coordinates
        if left.mixing is not None or right.mixing is not None:
            return None
        axes: ReleaseArrays = {"row": (text(self.left), ("row",)), "column": (text(self.right), ("column",))}
        return OuterBlocks(Large(self.problem.shape, ("row", "column")), axes, design, left, right)


def build(loaded: LoadedConfig, asked: declared.OuterProductsSection) -> Outer:
    """Question of a config."""
    left, right = (quantiser(loaded, side, augmented=False) for side in (asked.left, asked.right))
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
    )
    names = asked.columns
    return Outer(problem, OuterProductsQuery(left, right), names[: left.width], names[left.width :])

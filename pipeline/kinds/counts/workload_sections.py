"""``workload`` of a counts query: which sums of cells are asked for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from blockveil.pipeline.sections.fields import Length, Section, Whole, refusal

MOST_COEFFICIENTS = 2**22
"""Most intervals times cells along one axis: chosen intervals are held as a matrix."""


class Intervals(Section):
    """Chosen sums of neighbouring cells."""

    intervals: Annotated[tuple[tuple[Annotated[Whole, Field(ge=0)], Whole], ...], Field(min_length=1)]
    """the first cell of each sum and the cell after its last, counted from 0"""


Along = Annotated[
    Annotated[Literal["cells", "total", "prefixes", "ranges"], Tag("<kind>")] | Annotated[Intervals, Tag("<chosen>")],
    Discriminator(lambda value: "<kind>" if isinstance(value, str) else "<chosen>"),
]


class Product(Section):
    """Every sum along the rows with every sum along the columns."""

    rows: Along
    """the sums along the rows: "cells", "total", "prefixes", "ranges", or { intervals = [[0, 10], [10, 20]] }"""
    columns: Along
    """the sums along the columns, as for rows"""
    weight: Length = 1.0
    """the importance of its answers: their errors count times this number"""


def _tag(value: Any) -> str:
    return "<named>" if isinstance(value, str) else "<products>"


Workload = Annotated[
    Annotated[Literal["cells", "prefixes", "ranges", "marginals", "cells-and-total"], Tag("<named>")]
    | Annotated[tuple[Product, ...], Field(min_length=1), Tag("<products>")],
    Discriminator(_tag),
]


def check_workload(workload: str | tuple[Product, ...] | None, cells: tuple[int, int]) -> None:
    """Refuse intervals outside the grid."""
    if workload is None or isinstance(workload, str):
        return
    for number, product in enumerate(workload):
        for side, size in (("rows", cells[0]), ("columns", cells[1])):
            along = getattr(product, side)
            if not isinstance(along, Intervals):
                continue
            key = f"workload[{number}].{side}.intervals"
            for first, end in along.intervals:
                if not first < end <= size:
                    raise refusal(
                        key, f"[{first}, {end}]", f"An interval lies within 0 to {size}, first below end", "Correct it"
                    )
            if len(along.intervals) * size > MOST_COEFFICIENTS:
                raise refusal(
                    key,
                    f"{len(along.intervals)} intervals of {size} cells",
                    f"Intervals times cells are at most {MOST_COEFFICIENTS}",
                    'Ask for fewer intervals, or for "ranges"',
                )

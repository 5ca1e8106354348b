"""``[[columns]]`` of an ingest that a public map makes of several columns, one record at a time."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from blockveil.pipeline.sections.fields import SMALLEST, Bound, Label, LocalPath, Number, Section, Whole, refusal, rule


class MapInput(Section):
    """Columns of the source that a map takes, all within the same bounds."""

    name: Label
    """the name of the column, or the common part of several"""
    count: Annotated[Whole, Field(ge=1, le=10**6)] | None = None
    """the number of columns of this kind, name1, name2, ...; without it one column of this very name"""
    lower: Bound
    """the least value; values below count as this one"""
    upper: Bound
    """the largest value; values above count as this one"""

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the source."""
        return (self.name,) if self.count is None else tuple(f"{self.name}{i + 1}" for i in range(self.count))

    @rule
    def _ordered(self) -> None:
        if self.upper - self.lower < SMALLEST:
            raise refusal("upper", f"{self.upper:g}", "It is above lower", "Correct the bounds")


class _Mapped(Section):
    name: Label
    """the common part of the names of the features, name1, name2, ..."""
    author: Label
    """who chose the map, such as "the statistics office" """
    fitted_on: Literal["nothing", "public-records", "these-records"]
    """the data that the map and its settings were fitted on; "these-records" is refused, because a map is public"""
    missing: Literal["refuse", "drop"]
    """what to do with a record that lacks a value: "refuse", or "drop" it"""

    @property
    def drops(self) -> bool:
        """Whether a record may be left out."""
        return self.missing == "drop"

    @rule
    def _public(self) -> None:
        if self.fitted_on == "these-records":
            raise refusal(
                "fitted_on",
                '"these-records"',
                "A map is public, and what it learnt of the records would be published at no charge",
                "Choose the map by public records, or by none",
            )


class FourierColumn(_Mapped):
    """Random Fourier features of numbers: a linear model of them is one with a Gaussian kernel."""

    kind: Literal["fourier"]
    """the map"""
    columns: Annotated[tuple[MapInput, ...], Field(min_length=1)]
    """the numbers that it takes, with their public bounds"""
    features: Annotated[Whole, Field(ge=1, le=2**14)]
    """the number of features; each lies between -1 and 1"""
    bandwidth: Annotated[Number, Field(ge=1e-3, le=1e6)]
    """the bandwidth of the kernel, for numbers that are scaled to lie between -1 and 1"""
    seed: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """any text, which fixes the map"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return tuple(name for each in self.columns for name in each.names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        return tuple(f"{self.name}{i + 1}" for i in range(self.features))


class OnnxColumn(_Mapped):
    """Features by a public network, a file of ONNX, that takes one record at a time."""

    kind: Literal["onnx"]
    """the map"""
    columns: Annotated[tuple[MapInput, ...], Field(min_length=1)]
    """the numbers that the network takes, with their public bounds"""
    file: LocalPath
    """the file of the network"""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """the SHA-256 of that file, 64 hexadecimal digits"""
    trained_on: Label
    """what the network was trained on, such as "ImageNet, 2012" """
    shape: Annotated[tuple[Annotated[Whole, Field(ge=1, le=10**6)], ...], Field(min_length=1, max_length=8)] | None = (
        None
    )
    """the shape in which the network takes one record, such as [1, 28, 28]; without it a row of numbers"""
    output: Label | None = None
    """the name of the output that holds the features; without it the first one"""
    features: Annotated[Whole, Field(ge=1, le=2**14)]
    """the number of features that it gives"""
    lower: Bound
    """the least value of a feature; those below count as this one"""
    upper: Bound
    """the largest value of a feature; those above count as this one"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return tuple(name for each in self.columns for name in each.names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        return tuple(f"{self.name}{i + 1}" for i in range(self.features))

    @property
    def taken(self) -> tuple[int, ...]:
        """The shape in which the network takes one record."""
        return self.shape or (len(self.inputs),)

    @rule
    def _fits(self) -> None:
        if self.upper - self.lower < SMALLEST:
            raise refusal("upper", f"{self.upper:g}", "It is above lower", "Correct the bounds")
        if math.prod(self.taken) != len(self.inputs):
            raise refusal(
                "shape",
                f"{list(self.taken)}",
                f"It holds the {len(self.inputs):,} columns of one record",
                "Correct shape or columns",
            )


class GradientsColumn(_Mapped):
    """Histograms of oriented gradients (HOG) of an image whose pixels are columns, row by row."""

    kind: Literal["oriented-gradients"]
    """the map"""
    pixels: Label
    """the common part of the names of the pixels, pixel1, pixel2, ..."""
    height: Annotated[Whole, Field(ge=2, le=1024)]
    """the rows of pixels of an image"""
    width: Annotated[Whole, Field(ge=2, le=1024)]
    """the columns of pixels of an image"""
    cell: Annotated[Whole, Field(ge=1, le=256)]
    """the side of a cell in pixels, which divides height and width"""
    orientations: Annotated[Whole, Field(ge=2, le=64)] = 8
    """the number of orientations of edges; each feature lies between 0 and 1"""
    contrast: Annotated[Number, Field(gt=0, le=1e9)]
    """the difference of pixels below which an edge counts less, such as a tenth of their range"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return tuple(f"{self.pixels}{i + 1}" for i in range(self.height * self.width))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store."""
        cells = self.height // self.cell * (self.width // self.cell)
        return tuple(f"{self.name}{i + 1}" for i in range(cells * self.orientations))

    @rule
    def _even(self) -> None:
        if self.height % self.cell or self.width % self.cell:
            raise refusal("cell", str(self.cell), "It divides height and width", "Choose such a side")


class CrossedCategory(Section):
    """One of the columns whose categories are crossed."""

    name: Label
    """the name of the column"""
    categories: Annotated[tuple[str, ...] | tuple[Whole, ...], Field(min_length=1, max_length=10**4)]
    """the public list of its categories, all text or all whole numbers"""


class CrossColumn(_Mapped):
    """A column of 0 or 1 for each combination of categories; a record with another category has none."""

    kind: Literal["cross"]
    """the map"""
    columns: Annotated[tuple[CrossedCategory, ...], Field(min_length=2, max_length=4)]
    """the columns whose categories are crossed"""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the source."""
        return tuple(each.name for each in self.columns)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of the store, the last column's categories fastest."""
        names = [""]
        for each in self.columns:
            names = [f"{prefix}{'&' if prefix else ''}{label}" for prefix in names for label in each.categories]
        return tuple(f"{self.name}={category}" for category in names)

    @rule
    def _few(self) -> None:
        size = 1
        for each in self.columns:
            size *= len(each.categories)
        if len({type(each.categories[0]) for each in self.columns}) > 1:
            raise refusal("columns", "text and whole numbers", "Crossed columns are of one type", "Read both as text")
        if size > 10**5:
            raise refusal("columns", f"{size:,} combinations", "There are at most 100,000", "Cross fewer categories")


MappedColumn = FourierColumn | GradientsColumn | OnnxColumn | CrossColumn
"""A column that a public map makes."""

"""``[query]`` of histograms of columns: which bins the values of each column are counted in."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from blockveil.pipeline.sections.fields import SMALLEST, Bound, Label, Section, Whole, refusal, rule, unique_names
from blockveil.pipeline.sections.geometry_section import BY_DIGITS, repeated
from blockveil.pipeline.sections.query_sections import QuerySection

MOST_BINS = 2**24
"""Most bins of all columns together: 128 MiB of counts."""

Power = Annotated[Whole, Field(ge=-300, le=300)]


class BinnedFeature(Section):
    """One column whose values are counted in bins."""

    name: Label
    """the name of the feature in the release: printable text of at most 120 characters"""
    edges: Annotated[tuple[Bound, ...], Field(min_length=2, max_length=2**12 + 1)] | None = None
    """the edges of this column's bins, ascending, in its unit, with a bin beyond each end; powers of two by default"""
    histogram: bool | None = None
    """whether this column gets a histogram; false for a column of the records that needs none"""

    @rule
    def _ascending(self) -> None:
        if self.edges is not None and any(b - a < SMALLEST for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise refusal(
                "edges",
                f'those of feature "{self.name}" do not',
                "Edges increase strictly",
                "Sort and deduplicate them",
            )


class ColumnHistogramsSection(QuerySection):
    """A histogram of each column in public bins, all in one charge: where the values of unknown columns lie."""

    no_features: ClassVar[str] = "all columns of histograms count the same"
    in_one_shape: ClassVar[bool] = False

    kind: Literal["column-histograms"]
    """what is released"""
    rows_at_most: Annotated[Whole, Field(ge=1, le=10**15)]
    """a public bound on the number of records"""
    missing: Literal["refuse", "drop", "count"]
    """what to do with a missing value: refuse all, count it in no bin, or count it in a bin of its own"""
    powers: tuple[Power, Power] | None = None
    """the least and the greatest power of two, such as [-10, 40], that borders bins of either sign; zero has its own"""
    digits: Annotated[Whole, Field(ge=1, le=20)] | None = None
    """the binary digits after the leading one, such as 10, that a second histogram of each column without edges counts;
    it finds narrow bounds of values far from zero"""
    features: Annotated[
        tuple[BinnedFeature, ...], Field(min_length=1), BeforeValidator(repeated), AfterValidator(unique_names)
    ]
    """one table a column, in the order of the columns"""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the records."""
        return tuple(feature.name for feature in self.features)

    @property
    def counted(self) -> tuple[BinnedFeature, ...]:
        """Columns that have a histogram."""
        return tuple(feature for feature in self.features if feature.histogram is not False)

    @rule
    def _something_is_counted(self) -> None:
        if not self.counted:
            raise refusal("features", "none is counted", "A histogram is of a column", "Leave histogram out of one")
        for feature in self.features:
            if feature.histogram is False and feature.edges is not None:
                raise refusal(
                    "edges",
                    f'given for feature "{feature.name}", which has no histogram',
                    "Edges are borders of bins",
                    "Leave them out",
                )

    @rule
    def _bordered(self) -> None:
        by_powers = [feature.name for feature in self.counted if feature.edges is None]
        if (self.powers is not None) != bool(by_powers):
            raise refusal(
                "powers",
                f'missing, and feature "{by_powers[0]}" has no edges' if by_powers else "given where all have edges",
                "Bins are bordered by powers of two or by edges, and are public",
                "Give powers, such as [-10, 40]" if by_powers else "Leave powers out",
            )
        if self.powers is not None and self.powers[0] > self.powers[1]:
            raise refusal("powers", f"{list(self.powers)}", "The least power comes first", "Write them in order")

    @rule
    def _digits_of_powers(self) -> None:
        if self.digits is None:
            return
        if self.powers is None:
            raise refusal(
                "digits",
                "given without powers",
                "Digits say where between two powers of two a value lies",
                "Give powers, such as [-10, 40], or leave digits out",
            )
        names = [each.name for each in self.counted if each.name.endswith(BY_DIGITS)]
        if names:
            raise refusal(
                "digits",
                f'given beside feature "{names[0][:60]}"',
                f'A name that ends in "{BY_DIGITS}" is that of a histogram by digits',
                "Name the feature otherwise",
            )

    @rule
    def _within_memory(self) -> None:
        low, high = self.powers or (0, 0)
        of_powers = max(2 * (high - low) + 5, 0 if self.digits is None else 2 ** (self.digits + 1) + 1)
        widest = max(of_powers if each.edges is None else len(each.edges) + 1 for each in self.counted)
        if len(self.counted) * (1 if self.digits is None else 2) * (widest + 1) > MOST_BINS:
            raise refusal(
                "features",
                f"{len(self.counted)} columns with up to {widest + 1} bins each",
                f"Histograms have at most {MOST_BINS} bins together",
                "Declare fewer powers or edges, or ask for fewer columns at once",
            )


SECTION = ColumnHistogramsSection

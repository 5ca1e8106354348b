"""Which part of the records an ingest keeps: those with one value of a column, whose values divide the records."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.printable import visible
from blockveil.pipeline.base.spelling import REMEDIES, RULES, PartType, alike, is_canonical
from blockveil.pipeline.sections.fields import Label, Section, Whole, refusal, rule


class OnlySection(Section):
    """Which records are kept, by one column."""

    column: Label
    """the column of the source"""
    type: PartType
    """what the column holds: "whole" numbers, a "date" or a "text"; each value has one spelling, and a text that is
    another spelling is refused"""
    equals: Label | Annotated[Whole, Field(ge=-(2**63), lt=2**63)]
    """the value of the records that are kept: a text, a whole number, or a date as text such as "2026-11-20" """
    values: Annotated[tuple[Label, ...], Field(min_length=1, max_length=10**5)] | None = None
    """of a "text": the public list of all values that divide the records, or a file with one a line or with a column of
    that name (.csv); budgets add up what two lists divide"""

    @property
    def value(self) -> str:
        """The one spelling of the value."""
        return str(self.equals)

    @property
    def listed(self) -> str | None:
        """Digest of the list of values, whatever their order; None where there is none."""
        return None if self.values is None else digest(sorted(self.values))

    @rule
    def _spelled(self) -> None:
        for key, text in (("equals", self.value), *(("values", text) for text in self.values or ())):
            if not is_canonical(text, self.type):
                raise refusal(key, f'"{visible(text)}" of type "{self.type}"', RULES[self.type], REMEDIES[self.type])

    @rule
    def _listed(self) -> None:
        if (self.type == "text") != (self.values is not None):
            raise refusal(
                "values",
                f'{"not given" if self.values is None else "given"} with type = "{self.type}"',
                "Texts have no end of spellings, so those that divide records are listed; other types need no list",
                "List all values" if self.values is None else "Leave values out",
            )
        if self.values is None:
            return
        spellings: dict[str, str] = {}
        for text in self.values:
            other = spellings.get(alike(text))
            spellings[alike(text)] = text
            if other is not None:
                raise refusal(
                    "values",
                    f'"{visible(other)}" and "{visible(text)}"',
                    "A reader may take one for the other, so that records of one would be divided into two parts",
                    "Write each value in one spelling in the source, and list it once",
                )
        if self.value not in self.values:
            raise refusal("equals", f'"{visible(self.value)}"', "It is one of values", "Correct it, or list it")

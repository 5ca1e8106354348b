"""The queries that a config may ask: one section of each kind."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from blockveil.pipeline.base.kinds import kinds
from blockveil.pipeline.sections.query_sections import QuerySection

GROWING = tuple(query for kind in kinds() if kind.grows for query in kind.titles)
"""Queries whose answer is a sum over all records so far, which nights can share noise for."""


def _any_of_them() -> Any:
    sections: list[Any] = [kind.part("section", QuerySection) for kind in kinds()]
    return Annotated[reduce(or_, sections), Field(discriminator="kind")]


if TYPE_CHECKING:
    Query = QuerySection
else:
    Query = _any_of_them()

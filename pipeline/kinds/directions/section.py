"""``[query]`` of principal directions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from blockveil.pipeline.sections.fields import Whole
from blockveil.pipeline.sections.query_sections import OneShapeSection


class DirectionsSection(OneShapeSection):
    """The leading principal directions of the records about the origin of their shape."""

    of_features: ClassVar[bool] = True

    kind: Literal["principal-directions"]
    """what is released"""
    directions: Annotated[Whole, Field(ge=1, le=2**15)]
    """the number of directions, below the number of features"""


SECTION = DirectionsSection

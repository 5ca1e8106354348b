"""What-if questions: plans of configs that lie in no file. They name no place, read no data and can spend nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import ComputeSection, LoadedConfig, PrivacySection, ReleaseConfig, ReleaseSection
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.mechanism_sections import AllocatedSection, Mechanism
from blockveil.pipeline.config.queries import Query
from blockveil.pipeline.plan.planning import Plan, make_plan
from blockveil.pipeline.sections.fields import Section
from blockveil.pipeline.sections.geometry_section import BoxGeometry, EllipsoidGeometry

_NOWHERE = Path("what-if.toml")
_FORM = "the form"
_BOUNDS = ("bounds", "bounds_sha256", "bounds_release")
_SECTIONS = ("release", "query", "privacy", "mechanism", "compute")


class WhatIf(Section):
    """The part of a release's config that decides cost and error."""

    release: ReleaseSection
    """what would be released"""
    query: Query
    """what would be asked of the records"""
    privacy: PrivacySection
    """what would be promised"""
    mechanism: Mechanism
    """how noise would be shaped"""
    compute: ComputeSection = ComputeSection()
    """the memory and block size"""


class WhatIfQuestion(BaseModel):
    """Everything that the form of the plan flow takes."""

    question: WhatIf
    """the release in question"""
    budget_of: str | None
    """the name of a reviewed config, whose budget the question is compared with"""
    logical_date: date | None
    """the night in question, as YYYY-MM-DD"""


def parse(question: Any, budget_of: Any, logical_date: Any) -> WhatIfQuestion:
    """Validate what came from a form, whether or not the form has checked it.

    Raises
    ------
    ConfigError
        A value is missing, unknown or not allowed.
    """
    tree = {"question": question, "budget_of": budget_of, "logical_date": logical_date}
    return validated(WhatIfQuestion, tree, _FORM)


def question_of(config: ReleaseConfig) -> dict[str, Any]:
    """Plain values of a reviewed config, as the start of a question; bounds from a file are numbers in it."""
    tree = config.model_dump(mode="json", exclude_none=True, include=set(_SECTIONS))
    for shape in config.query.geometries:
        for key in _BOUNDS:
            tree["query"][shape].pop(key, None)
    return tree


def _files(question: WhatIf) -> Iterator[tuple[str, str]]:
    """Keys of a question that name a file, and what to write instead."""
    geometry = question.query.geometries.get("geometry")
    if isinstance(geometry, EllipsoidGeometry) and geometry.shape != "diagonal":
        yield "query.geometry.shape", 'Use "diagonal"'
    for key, shape in question.query.geometries.items():
        if isinstance(shape, BoxGeometry) and shape.bounds is not None:
            yield f"query.{key}.bounds", "Leave it out, with its digest and release: bounds are numbers there"
    for key, remedy in question.query.public_files():
        yield f"query.{key}", remedy
    if isinstance(question.mechanism, AllocatedSection) and question.mechanism.directions is not None:
        yield "mechanism.directions", "Leave it out, with its digest and source"


def plan_of(question: WhatIf, logical_date: date) -> Plan:
    """Plan of a question.

    Raises
    ------
    ConfigError
        The parts do not fit together, or one names a file: what a file holds, or whether it is there, must not show.
    """
    for key, remedy in _files(question):
        raise ConfigError(
            f"{key} names a file",
            "A what-if question names no files",
            f"{remedy}, or plan a reviewed config with a dry run",
        )
    tree = {
        **question.model_dump(mode="json", exclude_none=True),
        "data": {"store": "nowhere"},
        "output": {"root": "nowhere/releases", "ledger": "nowhere/ledger", "keys": "nowhere/keys"},
    }
    return make_plan(LoadedConfig(validated(ReleaseConfig, tree, _FORM), _NOWHERE), logical_date)

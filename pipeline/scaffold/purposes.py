"""What a first release can be for: the part ``interview`` of each kind of query, and how it is asked and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.config.toml import toml_lines

if TYPE_CHECKING:
    from blockveil.pipeline.scaffold.answers import Answers


@dataclass(frozen=True, kw_only=True)
class PurposeQuestion:
    """A question that belongs to some purposes alone.

    Attributes
    ----------
    key
        The answer that it gives; see :class:`.Answers`.
    text, help
        The question, and what a good answer takes into account.
    whole
        Whether its answer is a whole number; else it is text.
    suggestion
        What an empty line means; an empty text where a decision is asked for.
    """

    key: str
    text: str
    help: str
    whole: bool = True
    suggestion: Callable[[Answers], str] = lambda given: ""


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """One purpose of a release, as people call it, and the tables of its config.

    Attributes
    ----------
    name
        The answer.
    meaning
        What is released, in a few words.
    synonyms
        What else people call it.
    questions
        What is asked for this purpose.
    query
        Values of ``[query]`` besides what every query has.
    answered
        Answers that are values of ``[query]`` too.
    remark
        Comment above ``[query]``.
    further
        Tables below ``[query.geometry]``.
    counted
        Whether records are counted in cells; else they have a geometry.
    stepped
        Whether the steps of features count, as where records are added up.
    learn
        What a night learns the shape of its noise for; empty where it learns none.
    most_learned
        Features up to which a night learns, by whether some bounds are unknown.
    noise
        ``[mechanism]`` where nothing else asks for Gaussian noise.
    gaussian
        Kind of mechanism where something does.
    """

    name: str
    meaning: str
    query: Mapping[str, Any]
    synonyms: tuple[str, ...] = ()
    questions: tuple[PurposeQuestion, ...] = ()
    answered: tuple[str, ...] = ()
    remark: str = ""
    further: Callable[[Answers], Iterator[str]] = lambda answers: iter(())
    counted: bool = False
    stepped: bool = False
    learn: str = ""
    most_learned: Callable[[bool], int] = lambda unknown: 0
    noise: Mapping[str, Any] = field(default_factory=lambda: {"kind": "auto", "minimise": "total"})
    gaussian: str = "shaped-gaussian"


RELATIVE = {"kind": "auto", "minimise": "relative"}
"""Noise of the least relative error: by another the column of the largest unit would decide."""


def table(name: str, values: Mapping[str, Any], *comments: str) -> str:
    """A table of a config with comments above it; values that are None are left out."""
    entries = {key: each for key, each in values.items() if each is not None}
    return "\n".join([*comments, f"[{name}]", *toml_lines(entries)])

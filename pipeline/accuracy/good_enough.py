"""All that answers "is it good enough?" of one plan: errors, levers, a preview and what meets a target.

It is displayed and decides nothing. It reads no records, opens no ledger, and is part of no digest, no charge, no
parameter of a run and no file but a page that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.assessment import EVERY, Assessment
from blockveil.pipeline.accuracy.levers import BEST, Lever, levers
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.rehearsal import Rehearsal, rehearse
from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.accuracy.shading import side_by_side
from blockveil.pipeline.accuracy.target import TargetAnswer, answer_target
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.showing import as_page_part, as_text
from blockveil.pipeline.plan.planning import Plan

Rows = list[tuple[str, str]]

_FEW, _MANY = 4, 12
"""Features that a terminal lists without and with a guess of the number of records."""


_TITLE = "Is it good enough?"


@dataclass(frozen=True)
class AccuracyQuestion:
    """What somebody wants to know of a plan's accuracy.

    Attributes
    ----------
    supposed
        What the records are supposed to be.
    options, preview
        Whether all options, and a preview, are wanted.
    target
        An accuracy to reach, as :meth:`.target.AccuracyTarget.parse` takes it; None for none.
    rhythm
        How often it is released; as its folder says where it is None.
    """

    supposed: Supposed = field(default_factory=Supposed)
    options: bool = False
    preview: bool = False
    target: str | None = None
    rhythm: Rhythm | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing was asked beyond the plan itself."""
        return self == AccuracyQuestion(rhythm=self.rhythm)


@dataclass(frozen=True, eq=False)
class GoodEnough:
    """The answer.

    Attributes
    ----------
    asked
        What was to be known.
    bound, guess
        Errors for as many records as there may be, and for a guessed number where one was given.
    levers
        What would make the release more exact, the best first; None where nobody asked.
    preview
        A preview, or why there is none; None where nobody asked.
    target
        What meets the target; None where none was named.
    """

    asked: AccuracyQuestion
    bound: Assessment
    guess: Assessment | None
    levers: tuple[Lever, ...] | None
    preview: Rehearsal | str | None
    target: TargetAnswer | None

    @property
    def lines(self) -> Rows:
        """Lines (what, value): errors, the target, and levers; as many as a terminal shows."""
        return self._lines(whole=False)

    @property
    def all_lines(self) -> Rows:
        """The same with all features and levers, for a page."""
        return self._lines(whole=True)

    def _lines(self, whole: bool) -> Rows:
        assessment = self.guess or self.bound
        rows = assessment.lines(EVERY if whole else (_FEW if self.asked.is_plain else _MANY))
        if self.guess is not None:
            rows.append(("At the bound", _compared(self.bound, self.guess)))
        rows += self.target.lines if self.target is not None else []
        return rows + self._levers(whole)

    def _levers(self, whole: bool) -> Rows:
        if self.levers is None and whole:
            return []
        if self.levers is None:
            hint = "--rows N states it for a guess of N records, with options; --preview shows a simulated release"
            return [("More", hint)]
        if not self.levers:
            return [("Options", "none that gives noticeably less noise was found")]
        choices = self.levers if self.asked.options or whole else self.levers[:BEST]
        more = len(self.levers) - len(choices)
        head = "each planned by itself" + (f"; --options shows {more} more" if more else "")
        return [("Options", head), *((f"  {lever.effect}", lever.words) for lever in choices)]

    @property
    def text(self) -> list[str]:
        """The preview as lines of text; nothing where nobody asked."""
        if self.preview is None:
            return []
        if isinstance(self.preview, str):
            return [self.preview]
        return [*self.preview.sentences, *side_by_side(self.preview)]

    def __repr__(self) -> str:
        """Its lines, and its preview."""
        return "\n".join([as_text(_TITLE, self.lines), *self.text])

    def _repr_html_(self) -> str:
        return as_page_part(_TITLE, self.all_lines)

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        tree: dict[str, Any] = {"at_the_bound": self.bound.plain}
        if self.guess is not None:
            tree["at_a_guess"] = self.guess.plain
        if self.levers is not None:
            tree["options"] = [lever.plain for lever in self.levers]
        if self.preview is not None:
            tree["preview"] = {"unavailable": self.preview} if isinstance(self.preview, str) else self.preview.plain
        if self.target is not None:
            tree["target"] = self.target.plain
        return tree


def good_enough(plan: Plan, asked: AccuracyQuestion) -> GoodEnough:
    """Answer whether a plan is good enough, as far as somebody asks.

    Parameters
    ----------
    plan
        The plan.
    asked
        What is to be known; by default nothing beyond the errors at the bound.

    Raises
    ------
    ConfigError
        What is supposed cannot be of records in the declared bounds, or what is wanted is no number of this release.
    """
    supposed = asked.supposed
    if asked.target is not None and supposed.rows is None:
        raise ConfigError(
            f'--target "{asked.target[:60]}" without --rows',
            "How exact a number is depends on the number of records",
            "Give --rows with a guess of it",
        )
    here = Population.of(plan, supposed)
    bound = assess(plan, here.with_rows(plan.config.query.rows_at_most, is_bound=True))
    more = asked.options or supposed.rows is not None
    return GoodEnough(
        asked,
        bound,
        None if here.is_bound else assess(plan, here),
        tuple(levers(plan, here, asked.rhythm)) if more else None,
        rehearse(plan, supposed) if asked.preview else None,
        None if asked.target is None else answer_target(plan, here, asked.target, asked.rhythm),
    )


def _compared(bound: Assessment, guess: Assessment) -> str:
    """How much better numbers are known for as many records as there may be."""
    rows = f"{bound.population.rows:,} records"
    ratios = [ratio for ratio in _ratios((*guess.errors, *guess.pairs), (*bound.errors, *bound.pairs)) if ratio > 0]
    if not ratios:
        directions = bound.directions
        return f"with {rows}: {'as many' if directions is None else directions.found} principal directions are found"
    low, high = min(ratios), max(ratios)
    if high < 1.01:
        return f"with {rows} these errors are the same"
    size = f"{low:.2g} times" if high < 1.01 * low else f"{low:.2g} to {high:.2g} times"
    return f"with {rows}, as many as there may be, these errors are {size} smaller"


def _ratios(guess: Sequence[Any], bound: Sequence[Any]) -> list[float]:
    ratios = []
    for one, other in zip(guess, bound, strict=False):
        if one.known and other.known and other.size > 0.0:
            ratios.append(one.size / other.size)
    return ratios

"""What a person grants: a cap, what may be spent on what, caps for periods, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.budget.filter import Accountant, Cap
from blockveil.pipeline.budget.parts import Sum
from blockveil.pipeline.ledger.periods import Period

_PLAIN = Cap(1.0, 0.5)


@dataclass(frozen=True)
class Grant:
    """A budget as granted.

    Attributes
    ----------
    cap
        Largest loss, and its parts.
    neighbours, unit
        Relation and privacy unit that it is for.
    periods
        Caps for stretches of time.
    """

    cap: Cap
    neighbours: Neighbours
    unit: str
    periods: tuple[Period, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that promise nothing."""
        cap = self.cap
        if not (0 < cap.epsilon <= 1000 and 0 < cap.delta < 1):
            raise LedgerError(
                f"A budget of epsilon {cap.epsilon:g} and delta {cap.delta:g} is not usable",
                "epsilon lies in (0, 1000] and delta in (0, 1)",
                "Give both explicitly",
            )
        if not (0 <= cap.reserve <= cap.level and 0 < cap.slack < 1):
            raise LedgerError(
                f"A reserve of {cap.reserve:g} and a slack of {cap.slack:g} are not usable",
                f"The reserve is a part of epsilon, at most {cap.level:g} here, and the slack a share of delta below 1",
                "Correct them",
            )
        if len({period.length for period in self.periods}) < len(self.periods):
            raise LedgerError("A period is capped twice", "Each period has one cap", "Give it once")

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Grant:
        """Build from a BUDGET entry."""
        cap = Cap(
            payload["epsilon"],
            payload["delta"],
            payload.get("reserve", _PLAIN.reserve),
            payload.get("slack", _PLAIN.slack),
            Accountant(payload.get("accountant", _PLAIN.accountant)),
        )
        periods = tuple(Period(length, epsilon) for length, epsilon in payload.get("periods", {}).items())
        return cls(cap, Neighbours(payload["neighbours"]), payload["unit"], periods)

    def payload(self) -> dict[str, Any]:
        """What a BUDGET entry says; parts that are as usual are left out."""
        cap = self.cap
        terms = {"epsilon": cap.epsilon, "delta": cap.delta, "neighbours": self.neighbours.value, "unit": self.unit}
        parts = {"reserve": cap.reserve, "slack": cap.slack, "accountant": cap.accountant.value}
        terms |= {name: value for name, value in parts.items() if value != getattr(_PLAIN, name)}
        return terms | ({"periods": {period.length: period.epsilon for period in self.periods}} if self.periods else {})

    def period_cap(self, period: Period) -> Cap:
        """Cap of a period; its reserve is the same share of epsilon."""
        cap = self.cap
        reserve = cap.reserve * period.epsilon / cap.epsilon
        return Cap(period.epsilon, cap.delta, reserve, cap.slack, cap.accountant)


def check_change(dataset: str, present: Cap, total: Sum, new: Cap) -> None:
    """Refuse a grant below what is spent, or one that moves what may be spent on what after it was looked at.

    Raises
    ------
    LedgerError
        With what is spent, or what is fixed.
    """
    spent = total.ticks
    parts = (present.reserve, present.slack, present.accountant)
    # While only pure losses are charged, no outcome has exceeded epsilon, and the split may still be chosen.
    if (spent.loss or spent.failure) and parts != (new.reserve, new.slack, new.accountant):
        raise LedgerError(
            f"'{dataset}' has charges, so its reserve, slack and accountant stay as they are",
            "What may be spent on what is fixed before anything is released",
            "Leave them out, or grant another budget for other people",
        )
    if not new.holds(spent, total.charges):
        raise LedgerError(
            f"A budget of epsilon {new.epsilon:g} at delta {new.delta:g} is below what '{dataset}' has spent",
            f"At that delta epsilon {spent.epsilon(new.delta, new.accountant):.4g} is spent",
            "Give at least that",
        )


def named_grant(by: str | None, why: str | None, new_budget: str | None = None) -> dict[str, str]:
    """Who grants a budget and why, as its entry says it; empty where nothing is given.

    Parameters
    ----------
    by, why
        Who grants it, and why so much.
    new_budget
        Why the same people have another budget in another ledger.

    Raises
    ------
    LedgerError
        One is given without the other, or it is not a line of text.
    """
    apart = {} if new_budget is None else {"new_budget": new_budget}
    if by is None and why is None:
        return apart
    if not all(text and text.strip() and text.isprintable() and len(text) <= 200 for text in (by, why)):
        raise LedgerError(
            "It is not stated who decides this, or why",
            "Both are given or neither, each as a line of 1 to 200 printable characters",
            "Give --by and --why",
        )
    return {"granted_by": str(by), "why": str(why), **apart}


def granted_words(payload: Mapping[str, Any]) -> str:
    """Who granted a budget and why, by its BUDGET entry, as the end of a sentence; empty where nobody is named."""
    grantor = f"; granted by {payload['granted_by']}: {payload['why']}" if "granted_by" in payload else ""
    beside = payload.get("new_budget")
    return grantor if beside is None else f"{grantor}; beside another budget of the same people: {beside}"


def parse_periods(texts: Sequence[str]) -> tuple[Period, ...]:
    """Periods as they are written on a command line."""
    return tuple(Period.parse(text) for text in texts)


def changed_cap(
    before: Cap, wanted: Cap, reserve: float | None, slack: float | None, accountant: Accountant | None
) -> Cap:
    """A cap of wanted epsilon and delta, whose other parts stay as they were where they are None.

    Parameters
    ----------
    before, wanted
        The cap as it stands, and one with the wanted epsilon and delta.
    reserve, slack, accountant
        What is to change.
    """
    return Cap(
        wanted.epsilon,
        wanted.delta,
        before.reserve if reserve is None else float(reserve),
        before.slack if slack is None else float(slack),
        before.accountant if accountant is None else accountant,
    )

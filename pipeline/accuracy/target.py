"""From accuracy to budget: which epsilon, rows per unit or nights meet a target. One search, by planning again.

Nothing is inverted by a formula: each option was planned, and its plan meets the target. It decides nothing; a person
writes it into the config, or does not.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.assessment import Assessment
from blockveil.pipeline.accuracy.levers import replanned
from blockveil.pipeline.accuracy.number_error import short_number
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.accuracy.priced_change import (
    MOST_EPSILON,
    PricedChange,
    fewer_rows,
    other_epsilon,
    paid_by_promise,
    rarer_release,
)
from blockveil.pipeline.accuracy.rhythm import Rhythm, rhythm_of
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import short
from blockveil.pipeline.plan.planning import Plan

_MOST_NIGHTS = 366
_SHOWN = 4


@dataclass(frozen=True)
class AccuracyTarget:
    """An accuracy that a release has to have.

    Attributes
    ----------
    what
        One of the numbers that a plan states an error of, ``correlation``, or ``directions``.
    amount
        Half of the width of its 95 % interval at most, in its own unit; of directions, how many are to be found.
    """

    what: str
    amount: float

    @classmethod
    def parse(cls, text: str, errors: Assessment) -> AccuracyTarget:
        """What a person wrote, such as ``correlation 0.05``, ``mean of delay 0.5`` or ``directions 3``.

        Parameters
        ----------
        text
            What was written.
        errors
            The errors of the plan, which say what can be wanted of it.

        Raises
        ------
        ConfigError
            It is not a number of this release, or not a positive amount.
        """
        what, _, last = " ".join(text.split()).rpartition(" ")
        allowed = _allowed(errors)
        try:
            amount = float(last.replace("±", ""))
        except ValueError:
            amount = math.nan
        target = cls(what.removesuffix(" ±"), amount)
        whole = target.what != "directions" or (math.isfinite(amount) and amount == round(amount))
        if target.what not in allowed or not (math.isfinite(amount) and amount > 0.0 and whole):
            raise _refused(text, allowed)
        return target

    def ratio(self, errors: Assessment) -> float:
        """How far a plan is from the target: at most 1 where it meets it."""
        if self.what == "directions":
            count = 0 if errors.directions is None else errors.directions.found
            return self.amount / count if count else math.inf
        numbers = errors.pairs if self.what == "correlation" else errors.errors
        sizes = [number.size for number in numbers if self.what in ("correlation", number.what)]
        return max(sizes) / self.amount if sizes else math.inf

    @property
    def words(self) -> str:
        """The target in words."""
        if self.what == "directions":
            return f"{self.amount:.0f} principal directions found"
        return f"{self.what} ± {short_number(self.amount)}"


def _refused(text: str, allowed: Sequence[str]) -> ConfigError:
    names = ", ".join(f'"{short(each, 40)}"' for each in allowed[:_SHOWN]) or "nothing"
    example = 'one such as "correlation 0.05"' if "correlation" in allowed else "one of these and an amount"
    return ConfigError(
        f'--target "{short(text, 60)}" is not a number of this release with a positive amount',
        f"What can be wanted is {names}{', ...' if len(allowed) > _SHOWN else ''}",
        f"Write {example}",
    )


def _allowed(errors: Assessment) -> list[str]:
    """What can be wanted of a plan."""
    names = ["correlation"] if errors.pairs else []
    names += ["directions"] if errors.directions is not None else []
    return [*names, *dict.fromkeys(error.what for error in errors.errors)]


@dataclass(frozen=True)
class Option:
    """One change that is enough on its own.

    Attributes
    ----------
    key
        What is changed: ``privacy.epsilon``, ``privacy.rows_per_unit`` or ``nights``.
    value
        Its new value.
    words
        For a person, with the price.
    """

    key: str
    value: float
    words: str


@dataclass(frozen=True)
class TargetAnswer:
    """Which changes meet a target.

    Attributes
    ----------
    target
        The target.
    met
        Whether the plan meets it as it is.
    options
        Changes, each enough on its own; where it is met, the smallest epsilon that still does.
    reason
        Why there is none; empty where there is one.
    """

    target: AccuracyTarget
    met: bool
    options: tuple[Option, ...]
    reason: str = ""

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value)."""
        state = "reached as it is" if self.met else "not reached as it is"
        rows = [("Target", f"{self.target.words}: {state}")]
        rows += [("  enough", option.words) for option in self.options]
        return [*rows, ("  none", self.reason)] if self.reason else rows

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "what": self.target.what,
            "amount": self.target.amount,
            "met": self.met,
            "options": {option.key: option.value for option in self.options},
            **({"reason": self.reason} if self.reason else {}),
        }


def answer_target(plan: Plan, population: Population, text: str, rhythm: Rhythm | None = None) -> TargetAnswer:
    """Find what meets a target.

    Parameters
    ----------
    plan
        The plan.
    population
        Supposed records.
    text
        The target; see :meth:`AccuracyTarget.parse`.
    rhythm
        How often it is released; as its folder says where not given.

    Raises
    ------
    ConfigError
        It is nothing that can be wanted of this release.
    """
    errors = assess(plan, population)
    search = _Search(plan, population, AccuracyTarget.parse(text, errors), rhythm or rhythm_of(plan.loaded))
    met = search.target.ratio(errors) <= 1.0
    options = tuple(search.less_epsilon() if met else search.more())
    return TargetAnswer(search.target, met, options, "" if met or options else search.reason(errors))


@dataclass(frozen=True)
class _Search:
    """Plans of one question with other values.

    Values are tried in an order in which each gives less noise than the one before, until it cannot be planned; so the
    first that is enough is found by halving.
    """

    plan: Plan
    population: Population
    target: AccuracyTarget
    rhythm: Rhythm

    def more(self) -> Iterator[Option]:
        """For each of three keys, the change nearest to the plan that is enough."""
        yield from self._first("privacy.epsilon", self._larger_epsilons(), self._epsilon)
        yield from self._first(
            "privacy.rows_per_unit",
            range((self.plan.config.privacy.rows_per_unit or 1) - 1, 0, -1),
            lambda rows: fewer_rows(self.plan, int(rows)),
        )
        most = min(_MOST_NIGHTS, paid_by_promise(self.plan) or _MOST_NIGHTS) if self.rhythm.repeats else 0
        yield from self._first("nights", range(2, most + 1), self._nights)

    def less_epsilon(self) -> Iterator[Option]:
        """The least epsilon that is still enough, where it is noticeably smaller than that of the plan."""
        values = _EPSILONS[: bisect_left(_EPSILONS, 0.99 * self.plan.config.privacy.epsilon)]
        yield from self._first("privacy.epsilon", values, self._epsilon, until_planned=True)

    def reason(self, errors: Assessment) -> str:
        """Why nothing meets it."""
        directions = self.target.what == "directions"
        if directions and errors.directions is not None and self.target.amount > errors.directions.of:
            return f"there are {errors.directions.of} directions to be found"
        values = [self.plan.config.privacy.epsilon, *self._larger_epsilons()]
        place = bisect_left(values, True, lo=1, key=lambda epsilon: self._planned(self._epsilon(epsilon)) is None) - 1
        variant = self._planned(self._epsilon(values[place])) or self.plan
        ratio = self.target.ratio(assess(variant, self.population))
        size = f", which gives ± {short_number(ratio * self.target.amount)}" if math.isfinite(ratio) else ""
        return (
            f"not even epsilon {values[place]:.3g} is enough, the largest that can be planned"
            f"{'' if directions else size}; nor are fewer rows per unit, nor one release in {_MOST_NIGHTS} nights. "
            "More records or narrower bounds may be: --options"
        )

    def _first(
        self,
        key: str,
        values: Sequence[float],
        change: Callable[[float], PricedChange | None],
        *,
        until_planned: bool = False,
    ) -> Iterator[Option]:
        """The first of values that is enough; none where none is.

        Parameters
        ----------
        key
            What is changed.
        values
            Values in the order in which noise falls.
        change
            The change to one of them.
        until_planned
            Whether it is the first values that cannot be planned, and not the last.
        """

        def is_enough(value: float) -> bool:
            variant = self._planned(change(value))
            return not until_planned if variant is None else self._meets(variant)

        place = bisect_left(values, True, key=is_enough)
        nearest = change(values[place]) if place < len(values) else None
        variant = self._planned(nearest)
        if nearest is not None and variant is not None:
            yield Option(key, values[place], nearest.words(self.plan, variant))

    def _meets(self, changed: Plan) -> bool:
        return self.target.ratio(assess(changed, self.population)) <= 1.0

    def _planned(self, change: PricedChange | None) -> Plan | None:
        return None if change is None else replanned(self.plan, change.loaded)

    def _epsilon(self, epsilon: float) -> PricedChange:
        return other_epsilon(self.plan, epsilon)

    def _nights(self, nights: float) -> PricedChange | None:
        return rarer_release(self.plan, self.rhythm, int(nights))

    def _larger_epsilons(self) -> Sequence[float]:
        return _EPSILONS[bisect_right(_EPSILONS, self.plan.config.privacy.epsilon) :]


_EPSILONS = [float(f"{digits}e{power}") for power in range(-6, 1) for digits in range(100, 1000)] + [MOST_EPSILON]
"""Values of epsilon of three digits."""

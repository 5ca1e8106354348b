"""From accuracy to budget: which epsilon, rows per unit or nights reach a wanted accuracy. Found by planning again.

Nothing is inverted by a formula: each answer was planned, and the plan reaches what is wanted. What is found decides
nothing; a person writes it into the config, or does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.assessment import Assessment
from blockveil.pipeline.accuracy.changes import one_of, paid_by_promise, with_rows_per_unit
from blockveil.pipeline.accuracy.levers import replanned
from blockveil.pipeline.accuracy.number_error import short_number
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.accuracy.rhythm import Rhythm, rhythm_of
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import short
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger.guessing import LARGE_EPSILON, percent, with_loss, with_promise
from blockveil.pipeline.plan.excess_noise import with_epsilon
from blockveil.pipeline.plan.planning import Plan

_MOST_EPSILON = 1000.0
_LEAST_EPSILON = 1e-4
_MOST_NIGHTS = 366
_GROWTH = 1.2
_SHOWN = 4


@dataclass(frozen=True)
class Wanted:
    """A wanted accuracy.

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
    def parse(cls, text: str, found: Assessment) -> Wanted:
        """What a person wrote, such as ``correlation 0.05``, ``mean of delay 0.5`` or ``directions 3``.

        Parameters
        ----------
        text
            What was written.
        found
            The errors of the plan, which say what can be wanted of it.

        Raises
        ------
        ConfigError
            It is not a number of this release, or not a positive amount.
        """
        what, _, last = " ".join(text.split()).rpartition(" ")
        allowed = _allowed(found)
        try:
            amount = float(last.replace("±", ""))
        except ValueError:
            amount = math.nan
        wanted = cls(what.removesuffix(" ±"), amount)
        whole = wanted.what != "directions" or (math.isfinite(amount) and amount == round(amount))
        if wanted.what not in allowed or not (math.isfinite(amount) and amount > 0.0 and whole):
            raise _refused(text, allowed)
        return wanted

    def ratio(self, found: Assessment) -> float:
        """How far a plan is from what is wanted: at most 1 where it reaches it."""
        if self.what == "directions":
            reached = 0 if found.directions is None else found.directions.found
            return self.amount / reached if reached else math.inf
        errors = found.pairs if self.what == "correlation" else found.errors
        sizes = [error.size for error in errors if self.what in ("correlation", error.what)]
        return max(sizes) / self.amount if sizes else math.inf

    @property
    def words(self) -> str:
        """The wanted accuracy in words."""
        if self.what == "directions":
            return f"{self.amount:.0f} principal directions found"
        return f"{self.what} ± {short_number(self.amount)}"


def _refused(text: str, allowed: Sequence[str]) -> ConfigError:
    shown = ", ".join(f'"{short(each, 40)}"' for each in allowed[:_SHOWN]) or "nothing"
    example = 'one such as "correlation 0.05"' if "correlation" in allowed else "one of these and an amount"
    return ConfigError(
        f'--target "{short(text, 60)}" is not a number of this release with a positive amount',
        f"What can be wanted is {shown}{', ...' if len(allowed) > _SHOWN else ''}",
        f"Write {example}",
    )


def _allowed(found: Assessment) -> list[str]:
    """What can be wanted of a plan."""
    names = ["correlation"] if found.pairs else []
    names += ["directions"] if found.directions is not None else []
    return [*names, *dict.fromkeys(error.what for error in found.errors)]


@dataclass(frozen=True)
class Way:
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
class WantedAnswer:
    """Which changes reach a wanted accuracy.

    Attributes
    ----------
    wanted
        What is wanted.
    reached
        Whether the plan reaches it as it is.
    ways
        Changes, each enough on its own; where it is reached, the smallest epsilon that still does.
    reason
        Why there is none; empty where there is one.
    """

    wanted: Wanted
    reached: bool
    ways: tuple[Way, ...]
    reason: str = ""

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines (what, value)."""
        state = "reached as it is" if self.reached else "not reached as it is"
        rows = [("Target", f"{self.wanted.words}: {state}")]
        rows += [("  enough", way.words) for way in self.ways]
        return [*rows, ("  none", self.reason)] if self.reason else rows

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "what": self.wanted.what,
            "amount": self.wanted.amount,
            "met": self.reached,
            "options": {way.key: way.value for way in self.ways},
            **({"reason": self.reason} if self.reason else {}),
        }


def answer_wanted(plan: Plan, population: Population, text: str, rhythm: Rhythm | None = None) -> WantedAnswer:
    """Find what reaches a wanted accuracy.

    Parameters
    ----------
    plan
        The plan.
    population
        Supposed records.
    text
        What is wanted; see :meth:`Wanted.parse`.
    rhythm
        How often it is released; as its folder says where not given.

    Raises
    ------
    ConfigError
        It is nothing that can be wanted of this release.
    """
    wanted = Wanted.parse(text, assess(plan, population))
    search = _Search(plan, population, wanted, rhythm or rhythm_of(plan.loaded))
    reached = search.ratio(plan.loaded) <= 1.0
    if reached:
        return WantedAnswer(wanted, True, tuple(search.less_epsilon()))
    ways = (*search.more_epsilon(), *search.fewer_rows(), *search.fewer_nights())
    return WantedAnswer(wanted, False, ways, "" if ways else search.reason())


@dataclass(frozen=True)
class _Search:
    """Plans of one question with other values."""

    plan: Plan
    population: Population
    wanted: Wanted
    rhythm: Rhythm

    def ratio(self, loaded: LoadedConfig) -> float:
        """As :meth:`Wanted.ratio` for a changed config; infinite where it cannot be planned."""
        changed = replanned(self.plan, loaded)
        return math.inf if changed is None else self.wanted.ratio(assess(changed, self.population))

    def _reaches(self, epsilon: float) -> bool:
        return self.ratio(with_epsilon(self.plan.loaded, epsilon)) <= 1.0

    def more_epsilon(self) -> Iterator[Way]:
        """The least larger epsilon that is enough, to three digits."""
        low = self.plan.config.privacy.epsilon
        high = _first(self._reaches, low, _MOST_EPSILON)
        if high is not None:
            yield self._epsilon_way(_least(self._reaches, max(low, high / _GROWTH), high))

    def less_epsilon(self) -> Iterator[Way]:
        """The least epsilon that is still enough, where it is smaller than that of the plan."""
        high = self.plan.config.privacy.epsilon
        low = high
        while low > _LEAST_EPSILON and self._reaches(low / 2.0):
            low /= 2.0
        found = _least(self._reaches, low / 2.0, low)
        if found < 0.99 * high:
            yield self._epsilon_way(found)

    def _epsilon_way(self, epsilon: float) -> Way:
        changed = replanned(self.plan, with_epsilon(self.plan.loaded, epsilon))
        if changed is None:
            raise RuntimeError("an epsilon that was planned can be planned again")
        guess = min(with_promise(changed.guarantee), with_loss(changed.charge))
        little = "; an epsilon above 10 promises little" if epsilon > LARGE_EPSILON else ""
        return Way(
            "privacy.epsilon",
            epsilon,
            f"epsilon {epsilon:g} in place of {self.plan.config.privacy.epsilon:g}: a guess is then right at most "
            f"{percent(guess)} of the time in place of {percent(self.plan.guess)}{little}",
        )

    def fewer_rows(self) -> Iterator[Way]:
        """The most rows of one unit that are few enough."""
        now = self.plan.config.privacy.rows_per_unit or 1

        def reaches(rows: int) -> bool:
            return self.ratio(with_rows_per_unit(self.plan.loaded, rows)) <= 1.0

        if now == 1 or not reaches(1):
            return
        low, high = 1, now
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if reaches(middle) else (low, middle)
        dropped = 100.0 * (1.0 - low / now)
        yield Way(
            "privacy.rows_per_unit",
            low,
            f"rows per unit {low} in place of {now}: a new ingest drops at most {dropped:.0f} % of all rows, and as "
            "many records have to be left",
        )

    def fewer_nights(self) -> Iterator[Way]:
        """The fewest nights whose charges together pay for one release that is enough, where there are several."""
        if not self.rhythm.repeats:
            return

        def reaches(nights: int) -> bool:
            rarer = one_of(self.plan, nights)
            return rarer is not None and self.ratio(rarer.loaded) <= 1.0

        most = min(_MOST_NIGHTS, paid_by_promise(self.plan) or _MOST_NIGHTS)
        low, high = 1, min(2, most)
        while not reaches(high):
            if high >= most:
                return
            low, high = high, min(2 * high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        rarer = one_of(self.plan, high)
        if rarer is not None:
            yield Way(
                "nights", high, f"{self.rhythm.one_of(high)}, {rarer.words}: the budget lasts as long as it does now"
            )

    def reason(self) -> str:
        """Why nothing reaches it."""
        if self.wanted.what == "directions":
            most = assess(self.plan, self.population).directions
            if most is not None and self.wanted.amount > most.of:
                return f"there are {most.of} directions to be found"
        return (
            f"{self._furthest()}; nor are fewer rows per unit, nor one release in {_MOST_NIGHTS} nights. More records "
            "or narrower bounds may be: --options"
        )

    def _furthest(self) -> str:
        """What the largest epsilon reaches that can be planned."""
        epsilon, ratio = self.plan.config.privacy.epsilon, self.ratio(self.plan.loaded)
        while epsilon < _MOST_EPSILON:
            larger = min(_GROWTH * epsilon, _MOST_EPSILON)
            after = self.ratio(with_epsilon(self.plan.loaded, larger))
            if not math.isfinite(after):
                break
            epsilon, ratio = larger, after
        known = math.isfinite(ratio) and self.wanted.what != "directions"
        size = f", which gives ± {short_number(ratio * self.wanted.amount)}" if known else ""
        return f"not even epsilon {epsilon:.3g} is enough, about the largest that can be planned{size}"


def _first(reaches: Callable[[float], bool], low: float, most: float) -> float | None:
    """The first of values that grow by a fifth that is enough; None up to the largest."""
    value = low
    while value < most:
        value = min(_GROWTH * value, most)  # small steps, for above some epsilon nothing can be planned
        if reaches(value):
            return value
    return None


def _least(reaches: Callable[[float], bool], low: float, high: float) -> float:
    """The least value between two, to three digits rounded up, that is enough; ``high`` is."""
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reaches(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 2)
    rounded = float(f"{math.ceil(high / unit - 1e-9) * unit:.3g}")
    return rounded if reaches(rounded) else high

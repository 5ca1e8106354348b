"""How long a budget lasts: at the present rate, for a night's releases, and with more noise until a date.

Everything here follows from the ledger, from plans and from the schedule beside their configs; no data is read and
nothing is spent. Each night has the same releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Cap, Ticks, most
from blockveil.pipeline.budget.parts import Tally
from blockveil.pipeline.config.cadence import Cadence, cadence_of
from blockveil.pipeline.ledger import BudgetStatus, Entry
from blockveil.pipeline.ledger.entries import counted
from blockveil.pipeline.plan.planning import Plan

RATE_DAYS = 28
"""The present rate is that of this many days before today."""

_LONGEST = 36_500


@dataclass(frozen=True)
class NightCost:
    """What one release would cost.

    Attributes
    ----------
    release
        ``dataset/name``.
    epsilon
        On its own at the budget's delta.
    share
        Of the whole budget.
    """

    release: str
    epsilon: float
    share: float


@dataclass(frozen=True)
class PeriodAhead:
    """What a capped period holds.

    Attributes
    ----------
    period
        In words, such as ``this month``.
    nights_left
        Nights that still fit into it now.
    nights
        Nights that fit into a whole one.
    """

    period: str
    nights_left: int
    nights: int


@dataclass(frozen=True)
class Forecast:
    """What lies ahead of a budget.

    Attributes
    ----------
    dataset, epsilon, delta
        The budget.
    unit, often, schedule
        What nights are counted in, such as "weeks", how often they are, and from where that is known.
    used
        Share of it that is spent.
    costs
        What each release of a night would cost.
    nights_left
        Nights that still fit.
    lasts_until
        The last of them; None where there is none, or more than a hundred years.
    rate_share
        Share of the budget that one of the unit cost lately, a day where releases are at no even distance; 0 where
        nothing was charged.
    rate_until
        Day on which the budget would be spent at that rate, or None.
    until, nights_until, noise_factor, epsilons
        A date to last to, its nights, the factor on every standard deviation that lets the budget last (1 where no more
        noise is needed, None where nothing is left), and the epsilon to write into each config then.
    periods
        The same for each capped period; all other numbers are for the cap for ever.
    """

    dataset: str
    epsilon: float
    delta: float
    unit: str
    often: str
    schedule: str
    used: float
    costs: tuple[NightCost, ...]
    nights_left: int
    lasts_until: date | None
    rate_share: float
    rate_until: date | None
    until: date | None
    nights_until: int | None
    noise_factor: float | None
    epsilons: tuple[float, ...]
    periods: tuple[PeriodAhead, ...]

    @property
    def unit_of_rate(self) -> str:
        """What the rate is by: a unit, or a day where releases are at no even distance."""
        return "day" if self.unit in ("nights", "releases") else self.unit.removesuffix("s")

    def plain(self) -> dict[str, Any]:
        """Plain JSON values."""

        def simple(value: Any) -> Any:
            if isinstance(value, date):
                return value.isoformat()
            if isinstance(value, NightCost | PeriodAhead):
                return dict(value.__dict__)
            return [simple(item) for item in value] if isinstance(value, tuple) else value

        return {name: simple(value) for name, value in self.__dict__.items()}


def forecast(
    budget: BudgetStatus,
    history: Sequence[Entry],
    plans: Sequence[Plan],
    today: date,
    until: date | None,
    cadence: Cadence | None = None,
) -> Forecast:
    """Forecast for a night that consists of the releases of plans.

    Parameters
    ----------
    budget, history
        Of the data set, as its ledger has them.
    plans
        Releases of one night.
    today
        Nights are counted from the day after; from today where its schedule has one that is not booked yet.
    until
        Date to last to; None asks for none.
    cadence
        How nights follow each other; None for what is scheduled beside the configs.

    Raises
    ------
    ConfigError
        The date to last to is not after today, plans are scheduled differently, or their nights do not add up.
    """
    cadence = cadence or cadence_of_all(plans)
    if until is not None and until <= today:
        raise ConfigError(f"{until} is not after {today}", "A budget lasts to a date that is ahead", "Give a later one")
    _require_nights_that_add_up(plans)
    cap, losses = budget.cap, [plan.charge for plan in plans]
    nights = _nights(cap, budget.spent, losses)
    first = _first_date(plans, history, today, cadence)
    rate = _rate(cap, history, today, cadence)
    remainder = max(0.0, 1.0 - cap.used(budget.spent))
    ahead = None if rate <= 0 else math.ceil(remainder / rate * cadence.unit_days)
    outlook = Forecast(
        dataset=budget.dataset,
        epsilon=budget.epsilon,
        delta=budget.delta,
        unit=cadence.unit,
        often=cadence.words,
        schedule=cadence.source,
        used=cap.used(budget.spent),
        costs=tuple(_cost(cap, plan) for plan in plans),
        nights_left=nights,
        lasts_until=_last_date(cadence, first, nights),
        rate_share=rate,
        rate_until=None if ahead is None or ahead > _LONGEST else today + timedelta(days=ahead),
        until=until,
        nights_until=None if until is None else _count_until(cadence, first, until),
        noise_factor=None,
        epsilons=(),
        periods=tuple(
            PeriodAhead(
                part.period.words,
                min(nights, _nights(part.cap, part.spent, losses)),
                _nights(part.cap, NOTHING, losses),
            )
            for part in budget.periods
        ),
    )
    return outlook if until is None else _until(outlook, budget, plans)


def _require_nights_that_add_up(plans: Sequence[Plan]) -> None:
    shared = next((plan for plan in plans if plan.series is not None), None)
    if shared is not None:
        raise ConfigError(
            f"'{shared.release_id}' is one of several nights that share a charge",
            "A forecast is for nights that are charged one by one",
            "See its charge with `blockveil plan`, and forecast with the other configs",
        )
    parts = next((plan for plan in plans if plan.new_part is not None), None)
    if parts is not None:
        raise ConfigError(
            f"'{parts.release_id}' is of one part of the records",
            "A forecast is for nights that add up; of parts the one that costs most counts",
            "See what a further part holds with `blockveil plan`, and forecast with the other configs",
        )


def cadence_of_all(plans: Sequence[Plan]) -> Cadence:
    """How nights of these plans follow each other, by the schedule beside their configs.

    Raises
    ------
    ConfigError
        The schedule has different days for them.
    """
    cadences = [cadence_of(plan.loaded) for plan in plans]
    if any((each.calendar, each.zone) != (cadences[0].calendar, cadences[0].zone) for each in cadences):
        raise ConfigError(
            "These configs are scheduled on different days",
            "A forecast is for nights that have the same releases",
            "Forecast with the configs of one schedule, or give the days from one night to the next with --every",
        )
    return cadences[0]


def _first_date(plans: Sequence[Plan], history: Sequence[Entry], today: date, cadence: Cadence) -> date:
    """First date that is still to be paid for."""
    sections = [plan.config.release for plan in plans]
    of_today = {f"{each.dataset}/{each.name}/{today.isoformat()}" for each in sections}
    booked = of_today & {entry.release_id for entry in history}
    waiting = cadence.calendar is not None and today in cadence.calendar and not booked
    return today if waiting else today + timedelta(days=1)


def _last_date(cadence: Cadence, first: date, nights: int) -> date | None:
    """Date of the last of so many nights."""
    end = first + timedelta(days=_LONGEST)
    if nights < 1 or nights > _LONGEST:
        return None
    dates = takewhile(lambda day: day <= end, cadence.dates(first))
    return next(islice(dates, nights - 1, None), None)


def _count_until(cadence: Cadence, first: date, until: date) -> int:
    """Nights from the first date to another, both included."""
    return sum(1 for _ in takewhile(lambda day: day <= until, cadence.dates(first)))


def _cost(cap: Cap, plan: Plan) -> NightCost:
    booked = cap.book(plan.charge, NOTHING)
    section = plan.config.release
    return NightCost(f"{section.dataset}/{section.name}", booked.epsilon(cap.delta, cap.accountant), cap.used(booked))


def _night(cap: Cap, spent: Ticks, losses: Sequence[Loss]) -> Ticks:
    """What one night costs after what is spent; the order of its releases is that of the configs."""
    total = NOTHING
    for loss in losses:
        total = total + cap.book(loss, spent + total)
    return total


def _fits(cap: Cap, spent: Ticks, losses: Sequence[Loss], nights: int) -> bool:
    night = _night(cap, spent, losses)
    # From the second night on a pure loss may be booked otherwise; the larger of the two counts for all nights.
    later = _night(cap, spent + night, losses)
    whole = night + (later if nights > 1 else night).times(nights - 1)
    return cap.holds(spent + whole, nights * len(losses) if spent == NOTHING else None)


def _nights(cap: Cap, spent: Ticks, losses: Sequence[Loss]) -> int:
    return most(lambda nights: _fits(cap, spent, losses, nights)) if losses else 0


def _rate(cap: Cap, history: Sequence[Entry], today: date, cadence: Cadence) -> float:
    """Share of the budget by the unit of nights, over the last days or since the first charge, if that is shorter."""
    booked = [entry for entry in counted(history) if entry.ticks != NOTHING]
    if not booked:
        return 0.0
    # Of less than one unit nothing can be said: a charge of today is that of its whole week.
    least = math.ceil(cadence.unit_days)
    days = min(max(RATE_DAYS, least), max(least, (today - day_of(booked[0])).days + 1))
    tally, before = Tally(), NOTHING
    for entry in booked:
        tally.add(entry.ticks, entry.of_part)
        before = before if (today - day_of(entry)).days < days else tally.total.ticks
    recent = tally.total.ticks + -before
    return cap.used(recent) / days * cadence.unit_days if min(recent.loss, recent.pure) >= 0 else 0.0


def day_of(entry: Entry) -> date:
    """Day, in UTC, on which an entry was booked."""
    return datetime.fromisoformat(entry.time).date()


def _scaled(loss: Loss, factor: float) -> Loss:
    """Loss of the same release with noise that many times as large."""
    return replace(loss, mu=loss.mu / factor, epsilon=loss.epsilon / factor)


def _until(found: Forecast, budget: BudgetStatus, plans: Sequence[Plan]) -> Forecast:
    nights = found.nights_until or 0
    losses = [plan.charge for plan in plans]

    def enough(factor: float) -> bool:
        return _fits(budget.cap, budget.spent, [_scaled(loss, factor) for loss in losses], nights)

    factor: float | None = 1.0
    if nights and not enough(1.0):
        low, high = 1.0, 2.0
        while high < 1e9 and not enough(high):
            low, high = high, 2.0 * high
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        factor = high if enough(high) else None
    epsilons: tuple[float, ...] = ()
    if factor is not None:
        # Rounded down to three digits: a config is written by hand, and less epsilon still lasts.
        epsilons = tuple(
            _down(Ticks.of(_scaled(plan.charge, factor)).epsilon(plan.guarantee.delta))
            if factor > 1.0
            else plan.guarantee.epsilon
            for plan in plans
        )
    return Forecast(**{**found.__dict__, "noise_factor": factor, "epsilons": epsilons})


def _down(value: float) -> float:
    if value <= 0:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.floor(value / step) * step:.3g}")

"""A budget as it stands: what was granted, what was booked, what is left, and what one more release takes."""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.budget.filter import Cap, Ticks
from blockveil.pipeline.budget.parts import Part, Tally
from blockveil.pipeline.ledger.grants import Grant
from blockveil.pipeline.ledger.periods import Period


@dataclass(frozen=True)
class PeriodStatus:
    """A period's cap and what was booked in it.

    Attributes
    ----------
    period
        The stretch of time and its epsilon.
    cap
        The same as a cap.
    start
        Its first moment.
    tally
        What was booked since then.
    """

    period: Period
    cap: Cap
    start: str
    tally: Tally

    @property
    def spent(self) -> Ticks:
        """The most that all charges of a unit cost together."""
        return self.tally.total.ticks

    @property
    def charges(self) -> int:
        """How many charges there are."""
        return self.tally.charges

    @property
    def used(self) -> float:
        """Share of the cap that is spent."""
        return self.cap.used(self.spent)


@dataclass(frozen=True)
class Taken:
    """What one more release takes of a budget.

    Attributes
    ----------
    share
        Share of the whole budget, beside what is spent.
    epsilon
        Its epsilon by itself at the budget's delta.
    nights
        How many such releases fit, periods left aside.
    soon
        How many fit into what is left of each period, at most as many as fit at all.
    """

    share: float
    epsilon: float
    nights: int
    soon: tuple[tuple[Period, int], ...]


@dataclass(frozen=True)
class BudgetStatus:
    """A budget, of a data set or of several that share people, and what is left of it.

    Attributes
    ----------
    dataset
        Its name.
    grant
        What was granted.
    tally
        What was booked.
    periods
        The same for each capped period.
    """

    dataset: str
    grant: Grant
    tally: Tally
    periods: tuple[PeriodStatus, ...] = ()

    @property
    def spent(self) -> Ticks:
        """The most that all charges of a unit cost together."""
        return self.tally.total.ticks

    @property
    def charges(self) -> int:
        """How many charges there are."""
        return self.tally.charges

    @property
    def cap(self) -> Cap:
        """The cap for ever."""
        return self.grant.cap

    @property
    def neighbours(self) -> Neighbours:
        """Neighbouring relation that the budget is for."""
        return self.grant.neighbours

    @property
    def privacy_unit(self) -> str:
        """Privacy unit that the budget is for."""
        return self.grant.unit

    @property
    def epsilon(self) -> float:
        """Epsilon of the cap."""
        return self.cap.epsilon

    @property
    def delta(self) -> float:
        """Delta of the cap."""
        return self.cap.delta

    @property
    def spent_mu(self) -> float:
        """Gaussian loss of all charges together."""
        return self.spent.mu if self.spent.loss else 0.0

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of all charges together at the cap's delta."""
        return self.spent.epsilon(self.cap.delta, self.cap.accountant)

    @property
    def used(self) -> float:
        """Share of the budget that is spent."""
        return self.cap.used(self.spent)

    @property
    def left_mu(self) -> float:
        """Largest Gaussian loss that still fits."""
        return self.cap.left(self.spent)

    @property
    def remaining_epsilon(self) -> float:
        """Epsilon, on its own at the cap's delta, of the largest release that still fits."""
        return self.cap.remaining_epsilon(self.spent)

    def nights_left(self, loss: Loss, part: Part | None = None) -> int:
        """How many more releases of this loss fit, all of one part of the records, periods left aside."""
        return self.tally.nights(self.cap, self.tally.book(self.cap, loss, part), part)

    def taken_by(self, loss: Loss, part: Part | None = None) -> Taken:
        """What one more release of a loss takes, of all records or of one part of them."""
        booked = self.tally.book(self.cap, loss, part)
        nights = self.tally.nights(self.cap, booked, part)
        soon = ((one.period, min(nights, one.tally.nights(one.cap, booked, part))) for one in self.periods)
        share, epsilon = self.cap.used(booked, self.spent), booked.epsilon(self.cap.delta, self.cap.accountant)
        return Taken(share, epsilon, nights, tuple(soon))

"""What charges cost together, and whether a budget holds one more: a privacy filter.

Releases are chosen in view of earlier ones, so what may be spent on what is fixed when a budget is granted, before
anything is released:

* Gaussian losses share one ``M``: their mu squared may add up to ``B(epsilon - reserve, delta (1 - slack))^2``, with B
  the analytic Gaussian's mu. Every other event may be booked there as the least Gaussian above it
  (:mod:`.domination`).
* Pure losses may add up to the ``reserve``; where nothing else is charged, to epsilon.
* Failures (the delta of an event, the certified error of a composition) may add up to half the slack's delta, and the
  samplers' distances, times ``1 + e^epsilon``, to the other half.
* A first charge is also held where on its own it keeps (epsilon, delta): nothing was seen when it was chosen.

**Why this is a filter.** Let l be the loss so far, m, e, f what is left, and ``W = f + D(epsilon - l - e; m)`` with D
the Gaussian's delta at ``mu^2 = m``. A step of Gaussian loss m1 keeps the mean of W where it is (Gaussians compose), a
pure step e1 or one that is dominated cannot raise it (D falls with its first argument; domination survives products),
a failure moves f1 from f into the mean. So W before anything is drawn, ``f + D(epsilon - e; m) <= delta``, bounds delta
at the end for every way of choosing steps. A path with pure losses alone never exceeds epsilon and adds nothing. The
samplers' distances add up over the whole interaction, counted once for either data set. *Trading* one kind for another
on the way is no filter: which trade is best depends on l, so a rule that accepts any mixture on
``D(epsilon - e; m) = delta`` would be beaten by a choice that looks at outcomes first.

With the accountant ``zcdp`` the currency is rho instead: mu squared counts as 2 rho, a pure loss as its square, and M
is twice the largest rho that proves (epsilon - reserve, delta (1 - slack)). Gaussian releases cost a little more there,
zero-concentrated ones much less.

The ledger stores integers rounded up, so that sums are exact and never understate.

**Source**: Smith and Thakurta, 2022, and Koskela, Tobaben and Honkela, 2022 (Gaussian losses are a filter); Rogers,
Roth, Ullman and Vadhan, 2016 (filters; pure losses); Feldman and Zrnic, 2021 (Renyi, hence zero-concentrated, filters);
Dong, Roth and Su, 2022 (composition); Dwork and Roth, 2014, Theorem 3.16 (pure losses add up).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.domination import dominating, pure_mu
from blockveil.engine.guarantees.events import Series
from blockveil.engine.guarantees.guarantee import ZCDP, Loss, PureDP

LOSS_TICK = Fraction(1, 2**50)
"""Unit of a stored mu squared and of a stored pure epsilon."""

SAMPLER_TICK = Fraction(1, 2**105)
"""Unit of a stored total variation."""

FAILURE_TICK = Fraction(1, 2**62)
"""Unit of a stored probability of failure."""

_MARGIN = 1e-12

_LEAST_DISTANCE = 2.0**-70
"""Samplers' distances up to this are held at every epsilon that a cap counts with."""


class Accountant(StrEnum):
    """The currency of a budget."""

    GAUSSIAN = "gaussian"
    """mu squared; exact for Gaussian releases."""

    ZCDP = "zcdp"
    """rho; for budgets that also pay zero-concentrated releases, or many small pure ones."""


@dataclass(frozen=True)
class Ticks:
    """Summed charges as stored: mu squared, total variation, pure epsilon and failure in whole ticks."""

    loss: int
    sampler: int
    pure: int = 0
    failure: int = 0

    @classmethod
    def of(cls, loss: Loss) -> Ticks:
        """Stored integers of a loss, rounded up."""
        return cls(
            math.ceil(Fraction(loss.mu) ** 2 / LOSS_TICK),
            math.ceil(Fraction(loss.total_variation) / SAMPLER_TICK),
            math.ceil(Fraction(loss.epsilon) / LOSS_TICK),
            math.ceil(Fraction(loss.failure) / FAILURE_TICK),
        )

    def __add__(self, other: Ticks) -> Ticks:
        """Sum, exact."""
        return Ticks(
            self.loss + other.loss,
            self.sampler + other.sampler,
            self.pure + other.pure,
            self.failure + other.failure,
        )

    def __neg__(self) -> Ticks:
        """What gives a charge back."""
        return Ticks(-self.loss, -self.sampler, -self.pure, -self.failure)

    def not_negative(self) -> Ticks:
        """The same without parts below zero."""
        return Ticks(max(self.loss, 0), max(self.sampler, 0), max(self.pure, 0), max(self.failure, 0))

    @property
    def storable(self) -> bool:
        """Whether each part fits the ledger's whole numbers of 64 bits."""
        return max(self.loss, self.sampler, self.pure, self.failure) < 2**63

    def times(self, count: int) -> Ticks:
        """So many equal charges."""
        return Ticks(self.loss * count, self.sampler * count, self.pure * count, self.failure * count)

    @property
    def mu(self) -> float:
        """Gaussian loss of everything together, rounded up."""
        return math.sqrt(float(self.loss * LOSS_TICK)) * (1.0 + _MARGIN)

    @property
    def pure_epsilon(self) -> float:
        """Pure loss of everything together, rounded up."""
        return float(self.pure * LOSS_TICK) * (1.0 + _MARGIN)

    @property
    def total_variation(self) -> float:
        """Distance of all samplers together, rounded up."""
        return float(self.sampler * SAMPLER_TICK) * (1.0 + _MARGIN)

    @property
    def failure_probability(self) -> float:
        """Probability of failure of everything together, rounded up."""
        return float(self.failure * FAILURE_TICK) * (1.0 + _MARGIN)

    def delta(self, epsilon: float) -> float:
        """Delta of everything together at an epsilon, rounded up; 1 below the pure part.

        Holds for charges that were fixed in advance; what holds for charges chosen on the way is the cap.
        """
        if self == NOTHING:
            return 0.0
        if self.pure * LOSS_TICK > epsilon:  # exact, in whole ticks
            return 1.0
        gaussian = gaussian_delta(self.mu, max(epsilon - self.pure_epsilon, 0.0)) if self.loss else 0.0
        sampler = (1.0 + math.exp(min(epsilon, 700.0))) * self.total_variation
        return (gaussian + sampler + self.failure_probability) * (1.0 + _MARGIN)

    def epsilon(self, delta: float, accountant: Accountant = Accountant.GAUSSIAN) -> float:
        """Smallest epsilon at a delta, rounded up; infinite where failures and samplers exceed delta.

        Parameters
        ----------
        delta
            In (0, 1).
        accountant
            What mu squared stands for: a Gaussian loss, or twice a rho, which proves less.
        """
        if self == NOTHING:
            return 0.0
        if accountant is Accountant.ZCDP:
            return self._concentrated(delta)
        if 2.0 * self.total_variation + self.failure_probability >= delta:
            return math.inf
        room = delta - self.failure_probability
        for _ in range(60):
            # Each pass takes the samplers' share at the last epsilon from delta; it grows to a fixed point from below.
            epsilon = self.pure_epsilon + (gaussian_epsilon(self.mu, room) if self.loss else 0.0)
            if self.delta(epsilon) <= delta:
                return epsilon
            sampler = (1.0 + math.exp(min(epsilon, 700.0))) * self.total_variation
            room = (delta - self.failure_probability - sampler) * (1.0 - 1e-9)
            if room <= 0:
                return math.inf
        return math.inf

    def _concentrated(self, delta: float) -> float:
        # A part of delta is kept for the samplers.
        room = delta - self.failure_probability - 2.0**-20 * delta
        if room <= 0:
            return math.inf
        rho = float(self.loss * LOSS_TICK) / 2.0 * (1.0 + _MARGIN)
        epsilon = self.pure_epsilon + (ZCDP(rho).to_approx(room).epsilon if rho else 0.0)
        sampler = (1.0 + math.exp(min(epsilon, 700.0))) * self.total_variation
        return epsilon if sampler <= 2.0**-20 * delta else math.inf


NOTHING = Ticks(0, 0)


Chargeable = Loss | Series
"""What a charge is for: the loss of a release, or a series of events that is fixed before its first step."""


@dataclass(frozen=True)
class Cap:
    """A budget: what all charges together may cost, and what may be spent on what.

    Attributes
    ----------
    epsilon, delta
        The largest loss.
    reserve
        Part of epsilon that is kept for pure losses beside others.
    slack
        Part of delta, in (0, 1), that is kept for failures and for the samplers' distances.
    accountant
        The currency.
    """

    epsilon: float
    delta: float
    reserve: float = 0.0
    slack: float = 1e-3
    accountant: Accountant = Accountant.GAUSSIAN

    @property
    def level(self) -> float:
        """Epsilon that the cap counts with: where it is very large, one at which samplers still fit into the slack."""
        # (e, delta)-privacy at any e up to epsilon implies it at epsilon.
        return min(self.epsilon, math.log(max(self.slack * self.delta / 2.0 / _LEAST_DISTANCE, 2.0)))

    @property
    def most_loss(self) -> int:
        """Ticks that may be spent on mu squared (or 2 rho), rounded down."""
        # The reserve in whole ticks is below what is taken off here.
        reserved = self.reserve + 2.0**-48 if self.reserve else 0.0
        return _most_loss(self.level - reserved, self.delta * (1.0 - self.slack), self.accountant)

    @property
    def most_pure(self) -> int:
        """Ticks that may be spent on pure losses beside others."""
        return math.ceil(Fraction(self.reserve) / LOSS_TICK)

    def holds(self, spent: Ticks, charges: int | None = None) -> bool:
        """Whether charges stay within the cap.

        Parameters
        ----------
        spent
            All of them together.
        charges
            How many they are; one alone is also held where it keeps the cap on its own. None: more than one.
        """
        if charges == 1 and spent.delta(self.level) <= self.delta and self.accountant is Accountant.GAUSSIAN:
            return True
        sampler = (1.0 + math.exp(self.level)) * spent.total_variation
        half = 0.5 * self.slack * self.delta
        if sampler > half or spent.failure_probability > half:
            return False
        if spent.loss == 0:
            return spent.pure * LOSS_TICK <= Fraction(self.level)
        return spent.loss <= self.most_loss and spent.pure <= self.most_pure

    def book(self, charge: Chargeable, spent: Ticks) -> Ticks:
        """What a charge costs this budget.

        A pure loss is booked as one while the reserve holds it, or while nothing else has been charged; else as the
        least Gaussian above it.
        """
        if not isinstance(charge, Loss):
            return self._book_series(charge)
        plain = Ticks.of(charge)
        alone = spent.loss == 0 and self.accountant is Accountant.GAUSSIAN
        if plain.pure == 0 or alone or (spent + plain).pure <= self.most_pure:
            return plain
        return self._above(charge, plain)

    def _above(self, charge: Loss, plain: Ticks) -> Ticks:
        """A loss with its pure part as the least Gaussian (or rho) above it."""
        above = charge.epsilon if self.accountant is Accountant.ZCDP else pure_mu(charge.epsilon)
        return Ticks(plain.loss + math.ceil(Fraction(above) ** 2 / LOSS_TICK), plain.sampler, 0, plain.failure)

    def covers(self, charge: Chargeable, booked: Ticks) -> bool:
        """Whether what was booked is no less than :meth:`book` may have returned, whatever was spent then.

        Parts may be lower by 2**-30 of them, for libraries that round a bound otherwise.
        """
        if isinstance(charge, Loss):
            plain = Ticks.of(charge)
            ways = [plain, self._above(charge, plain)] if plain.pure else [plain]
        else:
            ways = [self._book_series(charge)]

        def enough(way: Ticks) -> bool:
            parts = zip(astuple(booked), astuple(way), strict=True)
            return all(stored >= part - (part >> 30) for stored, part in parts)

        return any(enough(way) for way in ways)

    def _book_series(self, series: Series) -> Ticks:
        loss, failure = Fraction(0), 0.0
        rest = []
        for step in series:
            if self.accountant is Accountant.ZCDP and isinstance(step.event, ZCDP | PureDP):
                rho = step.event.rho if isinstance(step.event, ZCDP) else step.event.to_zcdp().rho
                loss += 2 * Fraction(rho) * step.count
            else:
                rest.append(step)
        if rest:
            above = dominating(tuple(rest))
            loss, failure = loss + Fraction(above.mu) ** 2, above.failure
        return Ticks(math.ceil(loss / LOSS_TICK), 0, 0, math.ceil(Fraction(failure) / FAILURE_TICK))

    def left(self, spent: Ticks) -> float:
        """Largest mu of one more charge (with a sampler distance of at most 2**-70), rounded down; 0 if none."""
        if spent == NOTHING:
            return _alone(self)
        if not self.holds(spent + Ticks(1, 0)):
            return 0.0
        return math.sqrt(float((self.most_loss - spent.loss) * LOSS_TICK)) * (1.0 - _MARGIN)

    def remaining_epsilon(self, spent: Ticks) -> float:
        """Epsilon, on its own at the cap's delta, of the largest charge of any kind that still fits; 0 if none."""
        return max(self.epsilon_of(self.left(spent)), self.left_pure(spent))

    def left_pure(self, spent: Ticks) -> float:
        """Largest pure loss that still fits as one, rounded down; beside other charges, that of the reserve."""
        if (self.accountant is Accountant.ZCDP and self.reserve == 0) or not self.holds(spent + Ticks(0, 0, 1)):
            return 0.0
        alone = spent.loss == 0 and self.accountant is Accountant.GAUSSIAN
        room = (Fraction(self.level) if alone else self.most_pure * LOSS_TICK) - spent.pure * LOSS_TICK
        return max(0.0, float(room) * (1.0 - _MARGIN))

    def nights(self, spent: Ticks, charge: Ticks) -> int:
        """How many more charges like this one fit."""
        first = spent == NOTHING
        return self.further(lambda count: (spent + charge.times(count), 1 if first and count == 1 else None))

    def further(self, together: Callable[[int], tuple[Ticks, int | None]]) -> int:
        """How many further charges are held; ``together`` gives what all cost with that many, and how many all are."""
        return most(lambda count: self.holds(*together(count)))

    def epsilon_of(self, mu: float) -> float:
        """Epsilon of a loss on its own at the cap's delta; 0 for no loss."""
        return gaussian_epsilon(mu, self.delta) if mu > 0 else 0.0

    def used(self, spent: Ticks, beside: Ticks = NOTHING) -> float:
        """Share of the budget that is spent: the largest over its parts; a fixed plan's cost of a single charge.

        Shares of one part add up: those of mu squared (or rho), or those of pure losses.

        Parameters
        ----------
        spent
            What is spent, or what one charge costs.
        beside
            What else is spent; beside a Gaussian loss a pure one takes its share of the reserve.
        """
        # Where all of epsilon is the reserve, only a first charge alone can have a Gaussian loss, and it takes all.
        shares = [(spent.loss / self.most_loss if self.most_loss else 1.0) if spent.loss else 0.0]
        room = self.reserve if spent.loss or beside.loss else self.level
        if spent.pure:
            shares.append(float(spent.pure * LOSS_TICK) / room if room > 0 else math.inf)
        half = 0.5 * self.slack * self.delta
        shares += [spent.failure_probability / half, (1.0 + math.exp(self.level)) * spent.total_variation / half]
        return max(shares)


def most(fits: Callable[[int], bool]) -> int:
    """Largest count that fits; 0 where one does not."""
    if not fits(1):
        return 0
    least, beyond = 1, 2
    while fits(beyond):
        least, beyond = beyond, 2 * beyond
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (middle, beyond) if fits(middle) else (least, middle)
    return least


def _alone(cap: Cap) -> float:
    """Largest mu of a first charge, rounded down."""
    split = math.sqrt(float(cap.most_loss * LOSS_TICK)) * (1.0 - _MARGIN)
    if cap.accountant is Accountant.ZCDP:
        return split
    sampler = (1.0 + math.exp(cap.level)) * _LEAST_DISTANCE
    return max(split, gaussian_mu(cap.level, (cap.delta - sampler) * (1.0 - 1e-9)) * (1.0 - 1e-9))


@lru_cache(maxsize=4096)
def _most_loss(epsilon: float, delta: float, accountant: Accountant) -> int:
    if epsilon < 0:
        return 0
    if accountant is Accountant.GAUSSIAN:
        return math.floor(Fraction(gaussian_mu(epsilon, delta)) ** 2 / LOSS_TICK)
    low, high = 0.0, max(epsilon, 1e-12)
    # rho <= epsilon always, since zero-concentrated privacy proves no epsilon below rho at a delta below 1/2.
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ZCDP(middle).to_approx(delta).epsilon <= epsilon else (low, middle)
    return math.floor(2 * Fraction(low) / LOSS_TICK)

"""How often a guess can be right: a promise over one release, over all releases of a budget, and over all it allows.

The attacker knows everything but one bit: which of two neighbouring data sets was used. Both are equally likely
beforehand, and they guess once, by any method. A coin is right half of the time. Where the laws of an output under the
two data sets differ by a total variation of T, the best guess is right ``(1 + T) / 2`` of the time.

**One Gaussian and one pure loss together.** Let mu be the Gaussian loss of all releases and e their pure loss. Then

    (1 + T) / 2 <= p Phi(mu / 2 + e / mu) + (1 - p) Phi(mu / 2 - e / mu),  p = e^e / (1 + e^e),

which is ``Phi(mu / 2)`` without a pure loss and p without a Gaussian one. Any e-private output follows from a
randomised answer R that is right with probability p, and any Gaussian loss of mu from two unit Gaussians G that are mu
apart; the right side is the probability that the likelier of the two data sets, given R and G, is the true one.

**Also for releases that are chosen in view of earlier ones.** Let l be the loss so far, m and e what the budget still
holds of mu squared and of pure losses, and ``V(l; m, e) = E[(1 - exp(-l - L))+]``, L the loss of R and G at m and e. A
Gaussian step keeps the mean of V, since Gaussians divide. A pure step e1 does not raise it: R at e1 and R at e - e1
together are e-private, so they follow from R at e, and what follows from something has no larger hockey stick at any
l, also beside G. So T is at most V before anything was drawn, ``V(0; m, e)``.

So m and e are fixed beforehand, as those of a cap are. Of what is spent so far the same holds where it would have been
spent whatever was drawn; among those who stop because of an outcome more are right.

Failures add to T, and so do the samplers' distances, once for either data set. A budget in rho proves a divergence
of at most ``r = rho + e^2 / 2`` in either direction, and so ``T <= min(sqrt(r / 2), sqrt(1 - e^-r))``.

What is (epsilon, delta)-private as a whole, as everything within a cap is, has ``(1 + T) / 2 <= 1 - (1 - delta) / (1 +
e^epsilon)``.

**Source**: Dong, Roth and Su, 2022, Section 2.2 (Gaussian losses); Kairouz, Oh and Viswanath, 2015, Theorem 2.1 (pure
and approximate losses); Canonne, 2022, "A short note on an inequality between KL and TV" (Pinsker; Bretagnolle, Huber).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import expit, ndtr

from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.pipeline.budget.filter import LOSS_TICK, NOTHING, Accountant, Cap, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import BudgetStatus

LARGE_EPSILON = 10.0
"""Above it a promise is answered with a warning: somebody who guesses is nearly always right."""

_ROUND_UP = 1e-15


def with_loss(loss: Loss) -> float:
    """Bound of a guess with one release of a loss."""
    return _bound(_of_two(loss.mu, loss.epsilon), 2.0 * loss.total_variation + loss.failure)


def with_promise(promise: ApproxDP) -> float:
    """Bound of a guess with anything that is (epsilon, delta)-private as a whole."""
    return min(1.0, 1.0 - (1.0 - promise.delta) * float(expit(-promise.epsilon)) + _ROUND_UP)


def with_ticks(spent: Ticks, accountant: Accountant = Accountant.GAUSSIAN) -> float:
    """Bound of a guess with everything that was booked, where how much that is was not chosen in view of outcomes."""
    if spent == NOTHING:
        return 0.5
    return _with_parts(spent, accountant, 2.0 * spent.total_variation + spent.failure_probability)


def with_all_of(cap: Cap, spent: Ticks = NOTHING, charges: int | None = None) -> float:
    """Bound of a guess with everything that a budget can still come to hold, whatever will be chosen.

    Parameters
    ----------
    cap
        The budget.
    spent
        What it holds already: it decides what may follow, such as pure losses.
    charges
        How many charges that is; None for more than one.
    """
    whole = with_promise(ApproxDP(cap.level, cap.delta))
    if spent == NOTHING:
        return whole
    slips = max(cap.slack * cap.delta, 2.0 * spent.total_variation + spent.failure_probability)
    mixed = Ticks(max(spent.loss, cap.most_loss), 0, max(spent.pure, cap.most_pure))
    bound = _with_parts(mixed, cap.accountant, slips)
    if spent.loss == 0 and cap.accountant is Accountant.GAUSSIAN:  # nothing but pure losses may follow up to epsilon
        pure = max(spent.pure, math.ceil(cap.level / LOSS_TICK))
        bound = max(bound, _with_parts(Ticks(0, 0, pure), cap.accountant, slips))
    # What lies outside a cap that was lowered later does not keep its epsilon.
    return min(bound, whole) if cap.holds(spent, charges) else bound


def _with_parts(parts: Ticks, accountant: Accountant, slips: float) -> float:
    mu, pure = (parts.mu if parts.loss else 0.0), (parts.pure_epsilon if parts.pure else 0.0)
    if accountant is Accountant.GAUSSIAN:
        return _bound(_of_two(mu, pure), slips)
    divergence = 0.5 * (mu * mu + pure * pure)
    distance = min(math.sqrt(0.5 * divergence), math.sqrt(-math.expm1(-divergence)))
    return _bound(0.5 * (1.0 + distance), slips)


def _of_two(mu: float, epsilon: float) -> float:
    """Probability that the likelier of two data sets is the true one, after a Gaussian and a pure loss."""
    if mu == 0.0:
        return float(expit(epsilon))
    likely, half, lead = float(expit(epsilon)), mu / 2.0, epsilon / mu
    return likely * float(ndtr(half + lead)) + float(expit(-epsilon)) * float(ndtr(half - lead))


def _bound(guess: float, slips: float) -> float:
    return min(1.0, guess + 0.5 * slips + _ROUND_UP)


@dataclass(frozen=True)
class Together:
    """Bounds of a guess with the releases of a budget together.

    Attributes
    ----------
    so_far
        With all releases so far.
    allowed
        With all that the budget can still come to hold besides.
    cap
        With anything that keeps the budget's epsilon and delta.
    epsilon
        Epsilon of the budget.
    """

    so_far: float
    allowed: float
    cap: float
    epsilon: float

    @classmethod
    def of(cls, budget: BudgetStatus, loss: Loss | None = None, part: Part | None = None) -> Together:
        """Bounds of a budget, with one further release of a loss where one is given, of a part of the records."""
        spent, charges = budget.spent, budget.charges
        if loss is not None:
            spent = budget.tally.after(budget.tally.book(budget.cap, loss, part), part).ticks
            charges += 1
        return cls(
            with_ticks(spent, budget.cap.accountant),
            with_all_of(budget.cap, spent, charges),
            with_all_of(budget.cap),
            budget.epsilon,
        )


def percent(share: float) -> str:
    """A bound of a guess in per cent, rounded up: to a tenth, near 100 % to the first digit that is not a nine."""
    if share >= 1.0:
        return "100 %"
    miss = 100.0 * (1.0 - share) + 1e-13  # what floats take from the difference
    digits = max(1, -math.floor(math.log10(miss)))
    complement = math.floor(miss * 10.0**digits) / 10.0**digits
    return f"{100.0 - complement:.{digits}f} %"


def listed(bounds: Sequence[tuple[float, str]]) -> str:
    """Bounds and what they are for, in words: "at most 54.8 % of the time with this release"."""
    (first, of), *others = bounds
    sentences = [
        f"at most {percent(first)} of the time {of}",
        *(f"at most {percent(bound)} {what}" for bound, what in others),
    ]
    return sentences[0] if not others else f"{', '.join(sentences[:-1])} and {sentences[-1]}"


def bounds_of(together: Together, so_far: str = "with all releases so far") -> list[tuple[float, str]]:
    """Bounds of the releases of a budget and what they are for, as :func:`listed` takes them."""
    return [(together.so_far, so_far), (together.allowed, "with all that the budget allows")]


def coin(unit: str, neighbours: Neighbours, bounds: Sequence[tuple[float, str]]) -> str:
    """What a promise means for one unit, for a reader without mathematics.

    Parameters
    ----------
    unit
        The privacy unit.
    neighbours
        What is to be guessed: whether it is there, or what it holds.
    bounds
        As for :func:`listed`.
    """
    if neighbours is Neighbours.ADD_REMOVE:
        guess = f"whether {unit} was in the data at all"
    else:
        guess = f"which of two given values {unit} had"
    return (
        f"Somebody who knows all other records must guess {guess}, and either is equally likely beforehand. "
        f"The guess is right half of the time by tossing a coin, and {listed(bounds)}, whatever method or further "
        "knowledge is used."
    )


def cap_sentence(together: Together) -> str:
    """What the epsilon of a budget says by itself."""
    epsilon, bound = f"{together.epsilon:g}", percent(together.cap)
    return f"The budget's epsilon of {epsilon} by itself, whatever is released within it, says at most {bound}."


def warning(epsilon: float, bound: float, of: str) -> str | None:
    """A warning where an epsilon is so large that it says little; None elsewhere.

    Parameters
    ----------
    epsilon, bound
        What is promised, and the bound of a guess with it.
    of
        What it is made with, such as "with this release".
    """
    if epsilon <= LARGE_EPSILON:
        return None
    return (
        f"An epsilon of {epsilon:g} promises little: a guess {of} may be right {percent(bound)} of the time, where a "
        f"coin is right half of the time. An epsilon of 1 keeps it to {percent(float(expit(1.0)))}."
    )

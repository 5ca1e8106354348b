"""The refusal of a charge that a budget does not hold: what was asked, what is left, and what would fit."""

from __future__ import annotations

import math
from dataclasses import replace

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.base.errors import BudgetExhausted
from blockveil.pipeline.budget.filter import Cap, Chargeable, Ticks
from blockveil.pipeline.budget.parts import Part, Tally
from blockveil.pipeline.ledger.budget_status import BudgetStatus, PeriodStatus

_LARGE = 1000.0
"""An epsilon of a budget above which no more is held."""


def exhausted(
    budget: BudgetStatus, charge: Chargeable, ticks: Ticks, part: Part | None, period: PeriodStatus | None = None
) -> BudgetExhausted:
    """Refusal of a charge that a budget, or its cap for a period, does not hold: asked, left, and what would fit."""
    cap, tally = (budget.cap, budget.tally) if period is None else (period.cap, period.tally)
    spent, when = tally.of(part), "" if period is None else f" in {period.period.words}"
    when += "" if part is None else f" for {part.words}"
    # Of the kind that was asked for: without a reserve, what pure losses leave is for pure losses.
    remainder = cap.remaining_epsilon(spent) if ticks.pure else cap.epsilon_of(cap.left(spent))
    epsilon = ticks.epsilon(cap.delta, cap.accountant)
    amount = "more than it can state" if math.isinf(epsilon) else f"{epsilon:.3g}"
    return BudgetExhausted(
        f"The budget of '{budget.dataset}' does not hold this release: asked epsilon {amount}, "
        f"left epsilon {remainder:.3g} of {cap.epsilon:g}{when} (each at delta {cap.delta:g})",
        _rule(budget, charge, ticks, part, period),
        _reserve_first(budget, ticks, part)
        if period is None and _lacks_reserve(budget, ticks, part)
        else _fits(tally.fitting_factor(cap, charge, part), _grows(cap, tally, ticks, part), period),
    )


def _grows(cap: Cap, tally: Tally, ticks: Ticks, part: Part | None) -> bool:
    """Whether a larger epsilon of the budget, or what else may be raised, would hold the charge."""
    after = tally.after(ticks, part)
    failing = after.ticks.failure_probability > 0.5 * cap.slack * cap.delta
    return failing or replace(cap, epsilon=max(cap.epsilon, _LARGE)).holds(after.ticks, after.charges)


def _lacks_reserve(budget: BudgetStatus, ticks: Ticks, part: Part | None) -> bool:
    """Whether pure losses were charged before anything else, and no reserve holds them beside it."""
    together = budget.tally.after(ticks, part).ticks
    return bool(together.loss) and together.pure > budget.cap.most_pure


def _reserve_first(budget: BudgetStatus, ticks: Ticks, part: Part | None) -> str:
    """Which reserve holds the pure losses that were charged: it may be chosen until another loss is charged."""
    after = budget.tally.after(ticks, part)
    pure = after.ticks.pure_epsilon
    unit = 10.0 ** (math.floor(math.log10(pure)) - 3)
    reserve = math.ceil(pure / unit - 1e-6) * unit
    enough = replace(budget.cap, reserve=reserve).holds(after.ticks, after.charges)
    return (
        f"Keep a reserve for them with `blockveil ledger grant --reserve {reserve:.6g}`"
        f"{'' if enough else ' and a larger epsilon'}, which may be chosen until another loss is charged"
    )


def _rule(
    budget: BudgetStatus, charge: Chargeable, ticks: Ticks, part: Part | None, period: PeriodStatus | None
) -> str:
    cap, together = budget.cap, budget.tally.after(ticks, part).ticks
    half = 0.5 * cap.slack * cap.delta
    if period is None and together.failure_probability > half:
        failure = ticks.failure_probability
        return f"Failures add up to at most half of the slack, {half:.3g} here; this asks {failure:.3g}"
    if period is None and _lacks_reserve(budget, ticks, part):
        return f"Beside other releases, pure losses add up to at most the reserve, {cap.reserve:g} here"
    if isinstance(charge, Loss) and charge.epsilon > 0.0 and ticks.pure == 0:
        return (
            f"Beside other releases a pure loss beyond the reserve, {cap.reserve:g} here, counts as the Gaussian loss "
            "that covers it; a Gaussian mechanism costs less, and a new budget can keep one (`ledger grant --reserve`)"
        )
    return "All releases together stay within the budget, for ever and in each capped period"


def _fits(factor: float | None, grows: bool, period: PeriodStatus | None) -> str:
    """How much more noise would let the release fit, where any does, and whether a larger budget would."""
    noise = "No noise makes it fit" if factor is None else f"With {factor:.3g} times the noise it fits"
    wait = "" if period is None else ", or wait"
    if not grows:
        other = "release something else" if factor is None else "lower privacy.epsilon"
        return f"{noise}: {other}{wait}; no larger epsilon of the budget holds it"
    return (
        f"{noise}: {'' if factor is None else 'lower privacy.epsilon, or '}raise the budget with "
        f"`blockveil ledger grant`{wait}"
    )

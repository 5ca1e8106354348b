"""What a plan promises, in words: the guarantee in one sentence, and what an attacker's guess can reach."""

from __future__ import annotations

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger.guessing import cap_sentence, coin
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price


def sentence(plan: Plan, part: Part | None = None) -> str:
    """Return the guarantee in one sentence; in another one, which part of the records it is of."""
    change = "adding or removing" if plan.neighbours is Neighbours.ADD_REMOVE else "replacing"
    scope = "this release" if plan.series is None else f"all {plan.series.nights} nights of this release together"
    return (
        f"Whatever an attacker knows already, {change} {plan.config.privacy.unit} multiplies the probability of "
        f"any conclusion drawn from {scope} by at most e^{plan.guarantee.epsilon:g} and adds at most "
        f"{plan.guarantee.delta:g} to it.{_part_sentence(plan, part)}"
    )


def in_words(plan: Plan, price: Price | None) -> str:
    """What a guess reaches with a plan's release, with all so far, and with all that its budget allows."""
    bounds = [guess_alone(plan), *([] if price is None else price.bounds)]
    reached = coin(plan.config.privacy.unit, plan.neighbours, bounds)
    return reached if price is None else f"{reached} {cap_sentence(price.together)}"


def guess_alone(plan: Plan) -> tuple[float, str]:
    """Bound of a guess with a plan's release alone, or with all nights that share its charge."""
    return plan.guess, "with this release" if plan.series is None else f"with all {plan.series.nights} of its nights"


def _part_sentence(plan: Plan, part: Part | None) -> str:
    column = plan.config.data.partition_by
    if column is None:
        return ""
    which = f"one {column}, which its store names," if part is None else part.words
    return (
        f" It is of the records of {which} alone, and as each unit has one record, with one {column}, the budget "
        f"counts such releases once, for the {column} that costs most."
    )

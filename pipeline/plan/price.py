"""What a planned release takes of the budget that would pay: found once, and then shown, and asked of a person."""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.pipeline.ledger import BudgetStatus
from blockveil.pipeline.ledger.guessing import Together, bounds_of
from blockveil.pipeline.plan.balance import Rows, balance, nights_left, share_text
from blockveil.pipeline.plan.planning import Plan


@dataclass(frozen=True)
class Price:
    """A release beside its budget.

    Attributes
    ----------
    budget
        What would pay.
    adds
        Whether the release would be a new charge, and there is room for it.
    share, epsilon
        Share of the whole budget that it takes, and its epsilon by itself at the budget's delta.
    together
        How often a guess is right at most with all releases of the budget, and with all that it allows.
    lines
        The budget in lines, and how many more such releases it holds where each is charged.
    """

    budget: BudgetStatus
    adds: bool
    share: float
    epsilon: float
    together: Together
    lines: Rows

    @property
    def bounds(self) -> list[tuple[float, str]]:
        """How often a guess is right at most, and with which releases."""
        return bounds_of(self.together, f"with {'this and ' if self.adds else ''}all releases so far")

    @property
    def charge(self) -> str:
        """The charge beside the budget: a share, which adds up, and an epsilon, which does not."""
        alone = f"alone epsilon {self.epsilon:.4g} at the budget's delta {self.budget.delta:g}"
        return f"{share_text(self.share)} of the budget ({alone})"

    @property
    def sentence(self) -> str:
        """What the release costs beside what is spent."""
        budget = self.budget
        used = share_text(budget.used)
        return (
            f"It costs {share_text(self.share)} of the whole budget, of which {used} is spent. At the budget's delta "
            f"of {budget.delta:g} it is epsilon {self.epsilon:.4g} by itself, and the whole budget is epsilon "
            f"{budget.epsilon:g}."
        )


def price_of(plan: Plan, budget: BudgetStatus, paid: bool = False) -> Price:
    """Price of a planned release.

    Parameters
    ----------
    plan
        The release.
    budget
        What would pay.
    paid
        Whether it costs nothing more: what is spent holds its charge already.
    """
    charge, part = plan.charge, plan.new_part
    usage = budget.taken_by(charge, part)
    lines = balance(budget)
    adds = not paid and usage.nights > 0
    lines += [] if plan.charge_of_a_night is None else [nights_left(usage, part)]
    return Price(budget, adds, usage.share, usage.epsilon, Together.of(budget, charge if adds else None, part), lines)

"""A budget in words and numbers: what it holds, what is spent and left of it, and what a guess reaches."""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.budget.filter import Cap
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import BudgetStatus
from blockveil.pipeline.ledger.budget_status import PeriodStatus, Taken
from blockveil.pipeline.ledger.guessing import Together, bounds_of, cap_sentence, listed, warning

Rows = list[tuple[str, str]]


def share_text(share: float) -> str:
    """A share of a budget in per cent."""
    return f"{100 * share:.3g} %"


def budget_lines(budget: BudgetStatus, loss: Loss | None = None, part: Part | None = None) -> Rows:
    """Lines of a budget: cap, spent, left, what a guess reaches, and how often a charge still fits."""
    together, rows = Together.of(budget), balance(budget)
    rows += [] if loss is None else [nights_left(budget.taken_by(loss, part), part)]
    guess = ("Guesses", f"{guesses(bounds_of(together))} {cap_sentence(together)}")
    text = warning(budget.epsilon, together.allowed, "with all that the budget allows")
    return [*rows[:3], guess, *rows[3:], *([] if text is None else [("Warning", text)])]


def guesses(bounds: Sequence[tuple[float, str]]) -> str:
    """What a guess reaches, in short; bounds as for :func:`.guessing.listed`."""
    return f"right {listed(bounds)}; a coin is right half of the time."


def balance(budget: BudgetStatus) -> Rows:
    """Lines of a budget without those on guesses: cap, spent and left."""
    used = budget.used
    rows: Rows = [
        ("Budget", f"epsilon {budget.epsilon:g} at delta {budget.delta:g} for '{budget.dataset}'"),
        (
            "Spent",
            f"{share_text(used)} of it by {budget.charges} release{'' if budget.charges == 1 else 's'}, "
            f"together epsilon {budget.spent_epsilon:.4g} at that delta",
        ),
        (
            "Left",
            f"{share_text(max(0.0, 1.0 - used))} of it; one more {_kind(budget)} alone may take epsilon "
            f"{budget.remaining_epsilon:.4g} at that delta",
        ),
    ]
    rows += [(part.period.words.capitalize(), _period(part)) for part in budget.periods]
    return [*rows, *_parts(budget.cap)]


def nights_left(taken: Taken, part: Part | None) -> tuple[str, str]:
    """Line on how many more such releases a budget and its periods hold, all of one part of the records."""
    soon = [f"; {nights} of them in {period.words}" for period, nights in taken.soon]
    like = "like this one" if part is None else f"like this one of each {part.column} that has none yet"
    return "Nights left", f"{taken.nights} more release{'' if taken.nights == 1 else 's'} {like}{''.join(soon)}"


def _kind(budget: BudgetStatus) -> str:
    kind = "release of pure loss" if budget.left_mu == 0 < budget.remaining_epsilon else "release"
    return f"{kind} of all records" if budget.tally.has_parts else kind


def _period(part: PeriodStatus) -> str:
    cap, used = part.cap, part.used
    count = f"{part.charges} release{'' if part.charges == 1 else 's'}"
    return (
        f"{share_text(used)} of epsilon {cap.epsilon:g} by {count}; {share_text(max(0.0, 1.0 - used))} left, one more "
        f"release alone may take epsilon {cap.remaining_epsilon(part.spent):.4g}"
    )


def _parts(cap: Cap) -> Rows:
    """What is kept apart, where it is not as usual."""
    usual = Cap(cap.epsilon, cap.delta)
    rows = [("Reserve", f"epsilon {cap.reserve:g} for pure losses beside others")] if cap.reserve else []
    rows += [("Slack", f"{cap.slack:g} of delta for failures and samplers")] if cap.slack != usual.slack else []
    return rows + ([("Accountant", cap.accountant.value)] if cap.accountant != usual.accountant else [])

"""The budget that a plan would be charged to."""

from __future__ import annotations

from typing import Any

from blockveil.pipeline.ledger import BudgetStatus, Ledger
from blockveil.pipeline.ledger.guessing import Together
from blockveil.pipeline.plan import approval
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price, price_of


def granted(plan: Plan, ledger: Ledger) -> BudgetStatus | None:
    """Budget of a plan's data set in its ledger, or None where nobody has granted one yet.

    Raises
    ------
    LedgerError, StoreError
        The ledger is damaged or cannot be read: that is not the same as an empty one.
    """
    dataset = plan.config.release.account
    if not ledger.exists():
        return None
    return ledger.budget(dataset) if dataset in ledger.datasets() else None


def has_charge(plan: Plan, ledger: Ledger) -> bool:
    """Whether the ledger holds a charge for this release: finishing it costs nothing more."""
    return granted(plan, ledger) is not None and ledger.find(plan.release_id) is not None


def is_paid(plan: Plan, ledger: Ledger) -> bool:
    """Whether the release costs nothing more: it has a charge, or an earlier night has paid for it."""
    return granted(plan, ledger) is not None and _is_paid(plan, ledger)


def price(plan: Plan, ledger: Ledger) -> Price | None:
    """What a release takes of its budget, or None where nobody has granted one yet."""
    status = granted(plan, ledger)
    if status is None:
        return None
    is_charged = _is_paid(plan, ledger)
    return price_of(plan, status, is_charged)


def _is_paid(plan: Plan, ledger: Ledger) -> bool:
    """The same of a budget that was granted."""
    if ledger.find(plan.release_id) is not None:
        return True
    return plan.series is not None and bool(ledger.nights(plan.release_id, plan.public))


def nights_left(plan: Plan, ledger: Ledger, status: BudgetStatus) -> int:
    """How many more nights like this one fit; of nights that share a charge, how many come after this one.

    Of releases of parts of the records, it is how many a part holds of which nothing was released.

    Parameters
    ----------
    plan
        The release.
    ledger
        The ledger that its config names.
    status
        Budget that pays, as that ledger has it.
    """
    if plan.series is None:
        return status.nights_left(plan.charge, plan.new_part)
    return plan.series.nights - plan.series.night if is_paid(plan, ledger) else 0


def approval_needed(plan: Plan, ledger: Ledger) -> approval.ApprovalRequest | None:
    """What a person must be asked before this release is charged, or None."""
    status = granted(plan, ledger)
    return None if status is None else approval.question(plan, status, _is_paid(plan, ledger))


def in_numbers(status: BudgetStatus) -> dict[str, Any]:
    """A budget in numbers, for programs: shares of it add up, epsilons do not."""
    return {
        "dataset": status.dataset,
        "epsilon": status.epsilon,
        "delta": status.delta,
        "releases": status.charges,
        "spent_share": status.used,
        "spent_epsilon": status.spent_epsilon,
        "remaining_epsilon": status.remaining_epsilon,
        "guess_right_at_most": Together.of(status),
    }

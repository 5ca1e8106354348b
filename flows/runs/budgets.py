"""The budget that a plan would be charged to."""

from __future__ import annotations

from blockveil.pipeline.ledger import BudgetStatus, Ledger
from blockveil.pipeline.plan import approval
from blockveil.pipeline.plan.planning import Plan


def granted(plan: Plan) -> BudgetStatus | None:
    """Budget of a plan's data set, or None where nobody has granted one yet.

    Raises
    ------
    LedgerError, StoreError
        The ledger is damaged or cannot be read: that is not the same as an empty one.
    """
    ledger, dataset = Ledger(plan.loaded.ledger_url), plan.config.release.account
    if not ledger.exists():
        return None
    return ledger.budget(dataset) if dataset in ledger.datasets() else None


def has_charge(plan: Plan) -> bool:
    """Whether the ledger holds a charge for this release: finishing it costs nothing more."""
    return granted(plan) is not None and Ledger(plan.loaded.ledger_url).find(plan.release_id) is not None


def is_paid(plan: Plan) -> bool:
    """Whether the release costs nothing more: it has a charge, or an earlier night has paid for it."""
    if has_charge(plan):
        return True
    return plan.series is not None and bool(
        granted(plan) is not None and Ledger(plan.loaded.ledger_url).nights(plan.release_id, plan.public)
    )


def nights_left(plan: Plan, status: BudgetStatus) -> int:
    """How many more nights like this one fit; of nights that share a charge, how many come after this one.

    Of releases of parts of the records, it is how many a part holds of which nothing was released.
    """
    if plan.series is None:
        return status.nights_left(plan.charge, plan.new_part)
    return plan.series.nights - plan.series.night if is_paid(plan) else 0


def approval_needed(plan: Plan) -> approval.ApprovalRequest | None:
    """What a person must be asked before this release is charged, or None."""
    return approval.question(plan, granted(plan), is_paid(plan))

"""What a ledger says of each release that it calls released: what it was charged, and what its budget has left now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blockveil.pipeline.ledger import BudgetStatus, Entry
from blockveil.pipeline.ledger.entries import State
from blockveil.pipeline.ledger.statement import Line, statement
from blockveil.pipeline.plan.balance import budget_lines, share_text
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.report.facts import Rows


@dataclass(frozen=True)
class PaidNight:
    """One release in its ledger.

    Attributes
    ----------
    share, epsilon
        What it was charged, as a share of its budget and as epsilon of that loss alone at the budget's delta; None
        where an earlier night paid.
    rows
        The same, what its budget has left and how many more nights fit, as lines.
    """

    share: float | None
    epsilon: float | None
    rows: Rows


Paid = Mapping[tuple[str, str], PaidNight]
"""Releases of ledgers by ``dataset/name/date`` and SHA-256 of their content."""


def paid_nights(history: Sequence[Entry], status: BudgetStatus, plans: Sequence[Plan]) -> Paid:
    """Releases that the entries of one budget call released.

    Parameters
    ----------
    history
        Entries of the budget, in order.
    status
        The budget now.
    plans
        Plans of releases that it pays; for these it is stated how many more nights fit.
    """
    contents = {each.charge_id: str(each.payload["output_digest"]) for each in history if each.kind == State.RELEASED}
    charges = {each.sequence: each.charge_id for each in history}
    left = {f"{plan.config.release.dataset}/{plan.config.release.name}": _left(status, plan) for plan in plans}
    others, found = budget_lines(status), {}
    for line in statement(history):
        content = contents.get(charges[line.sequence])
        if line.kind == State.RESERVED and line.release_id is not None and content is not None:
            rows = [("Charged", _charged(line)), *left.get(line.release_id.rpartition("/")[0], others)]
            found[line.release_id, content] = PaidNight(line.cost_share, line.cost, rows)
    return found


def _left(status: BudgetStatus, plan: Plan) -> list[tuple[str, str]]:
    rows = budget_lines(status, plan.charge_of_a_night, plan.new_part)
    return rows if plan.series is None else [*rows, ("Nights left", "one charge pays for all nights of this series")]


def _charged(line: Line) -> str:
    if line.cost_share is None or line.delta is None:
        return "nothing: an earlier night that shares its charge has paid for it"
    alone = "" if line.cost is None else f"; alone it is epsilon {line.cost:.4g} at delta {line.delta:g}"
    return f"{share_text(line.cost_share)} of the budget{alone}"

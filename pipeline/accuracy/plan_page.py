"""What a run's page says of a plan before anything is read or spent: its lines, its accuracy, and what was compared."""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.pipeline.accuracy.accuracy_page import errors_markdown
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, summary
from blockveil.pipeline.plan.balance import Rows
from blockveil.pipeline.plan.mechanisms_compared import compared_rows
from blockveil.pipeline.plan.planning import Plan


@dataclass(frozen=True)
class PlanPage:
    """A plan as text.

    Attributes
    ----------
    rows
        Lines (what, value), in the order a reader asks for them.
    accuracy
        How exact its numbers will be for as many records as there may be, as markdown.
    compared
        Rows of the comparison of mechanisms; empty where none were compared.
    in_clear
        Whether the parts of the cluster may talk in clear.
    """

    rows: Rows
    accuracy: str
    compared: list[dict[str, str]]
    in_clear: bool


def plan_page(plan: Plan, ledger: Ledger, store: Looked | None) -> PlanPage:
    """What a run's page says of a plan.

    Parameters
    ----------
    plan, ledger
        The plan, and the ledger that would pay.
    store
        What the store says of its records; None where it was not looked at.
    """
    try:
        accuracy = errors_markdown(assess(plan, Population.of(plan, Supposed())))
    except Exception as error:  # noqa: BLE001 - what is shown must not decide what is released
        accuracy = f"How exact its numbers will be is not known ({type(error).__name__})."
    rows = summary.describe(plan, budgets.price(plan, ledger), store=store)
    return PlanPage(rows, accuracy, compared_rows(plan.compared, plan.least), plan.config.in_clear)

"""What a run's page says of a plan before anything is read or spent: its lines, its accuracy, and what was compared."""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.pipeline.accuracy.accuracy_page import errors_markdown
from blockveil.pipeline.accuracy.assessing import assess
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.data.preview import Looked
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.balance import Rows
from blockveil.pipeline.plan.mechanisms_compared import compared_rows
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.price import Price


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


def plan_page(plan: Plan, price: Price | None, store: Looked | None) -> PlanPage:
    """What a run's page says of a plan.

    Parameters
    ----------
    plan
        The plan.
    price
        What it takes of its budget; None where nobody has granted one.
    store
        What the store says of its records; None where it was not looked at.
    """
    try:
        accuracy = errors_markdown(assess(plan, Population.of(plan, Supposed())))
    except Exception as error:  # noqa: BLE001 - what is shown must not decide what is released
        accuracy = f"How exact its numbers will be is not known ({type(error).__name__})."
    rows, compared = summary.describe(plan, price, store=store), compared_rows(plan.compared, plan.least)
    return PlanPage(rows, accuracy, compared, plan.config.in_clear)

"""Budgets that configs name, what each has paid, and how long it lasts: public facts of the ledgers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from operator import itemgetter

from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.ledger import BudgetStatus, Entry, Ledger
from blockveil.pipeline.ledger.entries import State
from blockveil.pipeline.ledger.statement import Line, statement
from blockveil.pipeline.plan.balance import budget_lines, share_text
from blockveil.pipeline.plan.forecast import forecast
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.report.burndown import Balance
from blockveil.pipeline.report.facts import Rows

Paid = Mapping[tuple[str, str], Rows]
"""Releases of ledgers by ``dataset/name/date`` and SHA-256 of their content: what each was charged, what its budget has
left and how many more nights fit."""


@dataclass(frozen=True)
class FoundBudget:
    """One budget.

    Attributes
    ----------
    account
        Its name.
    balance
        What is left; None where nothing is granted, or its ledger cannot be read.
    problem
        Why there is no balance, or an empty text.
    ahead
        ``dataset/name`` of each release that it pays, and how long it lasts for that.
    paid
        Releases that it has paid.
    """

    account: str
    balance: Balance | None
    problem: str
    ahead: Rows = ()
    paid: Paid = field(default_factory=dict)


def look_at_budgets(configs: Iterable[LoadedConfig], today: date) -> tuple[FoundBudget, ...]:
    """Budgets of configs, each once, in the order of their names; nights are counted from ``today`` on."""
    # An address may hold a password: it tells budgets apart here, and is shown nowhere.
    groups: dict[tuple[str, str], list[LoadedConfig]] = {}
    for loaded in configs:
        try:
            address = loaded.ledger_url
        except BlockveilError:
            address = ""
        groups.setdefault((loaded.config.release.account, address), []).append(loaded)
    return tuple(_look(*names, group, today) for names, group in sorted(groups.items(), key=itemgetter(0)))


def _look(account: str, url: str, configs: list[LoadedConfig], today: date) -> FoundBudget:
    if not url:
        return FoundBudget(account, None, "Its ledger cannot be found.")
    try:
        ledger = Ledger(url)
        if not ledger.exists() or account not in ledger.datasets():
            return FoundBudget(account, None, "Nobody has granted it yet.")
        status, history = ledger.budget(account), ledger.history(account)
        plans = [plan for loaded in configs if (plan := _plan(loaded, today)) is not None]
        if not plans:
            return FoundBudget(account, None, "None of its configs can be planned.")
        balance = Balance.of(ledger, plans[0], status)
    except BlockveilError as error:
        return FoundBudget(account, None, f"Its ledger cannot be read ({type(error).__name__}).")
    # How often a release still fits is stated with each release below.
    rows = [row for row in balance.rows if row[0] != "Nights left"]
    ahead = [(_owner(plan), _ahead(plan, status, history, today)) for plan in plans]
    account_balance = Balance(rows, balance.together, balance.spent)
    return FoundBudget(account, account_balance, "", ahead, paid_nights(history, status, plans))


def _plan(loaded: LoadedConfig, today: date) -> Plan | None:
    try:
        return plan_near(loaded, today)
    except BlockveilError:
        return None


def _owner(plan: Plan) -> str:
    return f"{plan.config.release.dataset}/{plan.config.release.name}"


def _ahead(plan: Plan, status: BudgetStatus, history: list[Entry], today: date) -> str:
    if plan.series is not None:
        return "One charge pays for all of its nights."
    if plan.new_part is not None:
        count = status.nights_left(plan.charge, plan.new_part)
        return f"{count} more of each part of the records that has none yet"
    outlook = forecast(status, history, [plan], today, None)
    until = "" if outlook.lasts_until is None else f", {outlook.often} until {outlook.lasts_until}"
    return f"{outlook.nights_left} more like this{until}"


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
    balances = {_owner(plan): _left(status, plan) for plan in plans}
    others, nights = budget_lines(status), {}
    for line in statement(history):
        content = contents.get(charges[line.sequence])
        if line.kind == State.RESERVED and line.release_id is not None and content is not None:
            rows = balances.get(line.release_id.rpartition("/")[0], others)
            nights[line.release_id, content] = [("Charged", _charged(line)), *rows]
    return nights


def _left(status: BudgetStatus, plan: Plan) -> list[tuple[str, str]]:
    rows = budget_lines(status, plan.charge_of_a_night, plan.new_part)
    return rows if plan.series is None else [*rows, ("Nights left", "one charge pays for all nights of this series")]


def _charged(line: Line) -> str:
    if line.cost_share is None or line.delta is None:
        return "nothing: an earlier night that shares its charge has paid for it"
    alone = "" if line.cost is None else f"; alone it is epsilon {line.cost:.4g} at delta {line.delta:g}"
    return f"{share_text(line.cost_share)} of the budget{alone}"

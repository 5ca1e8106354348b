"""Budgets that configs name, and how many nights each of their releases has left: public facts of the ledgers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.ledger import BudgetStatus, Entry, Ledger
from blockveil.pipeline.plan.forecast import forecast
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.report.burndown import Balance
from blockveil.pipeline.report.paid_nights import Paid, paid_nights


@dataclass(frozen=True)
class NightsAhead:
    """How long a budget lasts for one release.

    Attributes
    ----------
    release
        ``dataset/name``.
    words
        In words.
    nights
        How many more fit; None where that is not how it is paid.
    """

    release: str
    words: str
    nights: int | None


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
        Nights left of each release that it pays.
    numbers
        The budget in numbers.
    paid
        Releases that it has paid.
    """

    account: str
    balance: Balance | None
    problem: str
    ahead: tuple[NightsAhead, ...]
    numbers: dict[str, Any]
    paid: Paid = field(default_factory=dict)


def look_at_budgets(configs: Iterable[LoadedConfig], today: date) -> tuple[FoundBudget, ...]:
    """Budgets of configs, each once, in the order of their names."""
    # An address may hold a password: it tells budgets apart here, and is shown nowhere.
    grouped: dict[tuple[str, str], list[LoadedConfig]] = {}
    for loaded in configs:
        try:
            address = loaded.ledger_url
        except BlockveilError:
            address = ""
        grouped.setdefault((loaded.config.release.account, address), []).append(loaded)
    return tuple(_look(account, url, group, today) for (account, url), group in sorted(grouped.items(), key=_first))


def _first(item: tuple[tuple[str, str], list[LoadedConfig]]) -> tuple[str, str]:
    return item[0]


def _look(account: str, url: str, configs: list[LoadedConfig], today: date) -> FoundBudget:
    if not url:
        return FoundBudget(account, None, "Its ledger cannot be found.", (), {})
    try:
        ledger = Ledger(url)
        if not ledger.exists() or account not in ledger.datasets():
            return FoundBudget(account, None, "Nobody has granted it yet.", (), {})
        status, history = ledger.budget(account), ledger.history(account)
        plans = [plan for loaded in configs if (plan := _plan(loaded, today)) is not None]
        if not plans:
            return FoundBudget(account, None, "None of its configs can be planned.", (), {})
        balance = Balance.of(ledger, plans[0], status)
    except BlockveilError as error:
        return FoundBudget(account, None, f"Its ledger cannot be read ({type(error).__name__}).", (), {})
    # How often a release still fits is stated with each release below.
    rows = [row for row in balance.rows if row[0] != "Nights left"]
    ahead = tuple(_ahead(plan, status, history, today) for plan in plans)
    shown, paid = Balance(rows, balance.together, balance.spent), paid_nights(history, status, plans)
    return FoundBudget(account, shown, "", ahead, _numbers(status), paid)


def _plan(loaded: LoadedConfig, today: date) -> Plan | None:
    try:
        return plan_near(loaded, today)
    except BlockveilError:
        return None


def _ahead(plan: Plan, status: BudgetStatus, history: list[Entry], today: date) -> NightsAhead:
    release = f"{plan.config.release.dataset}/{plan.config.release.name}"
    if plan.series is not None:
        return NightsAhead(release, "One charge pays for all of its nights.", None)
    if plan.new_part is not None:
        left = status.nights_left(plan.charge, plan.new_part)
        return NightsAhead(release, f"{left} more of each part of the records that has none yet", left)
    found = forecast(status, history, [plan], today, None)
    until = "" if found.lasts_until is None else f", {found.often} until {found.lasts_until}"
    return NightsAhead(release, f"{found.nights_left} more like this{until}", found.nights_left)


def _numbers(status: BudgetStatus) -> dict[str, Any]:
    return {
        "epsilon": status.epsilon,
        "delta": status.delta,
        "spent_share": status.used,
        "spent_epsilon": status.spent_epsilon,
        "releases": status.charges,
    }

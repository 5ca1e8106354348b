"""``blockveil.budget``: what a data set may spend, has spent and has left, by the rules of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from datetime import date as day
from typing import Any

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.python.sources import Given, config_of, day_of
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.base.showing import as_page_part, as_text
from blockveil.pipeline.budget.filter import Accountant
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.cadence import Cadence, cadence_of
from blockveil.pipeline.ledger import BudgetStatus, Ledger
from blockveil.pipeline.ledger.grants import named_grant, parse_periods
from blockveil.pipeline.plan import forecast as ahead
from blockveil.pipeline.plan.balance import budget_lines
from blockveil.pipeline.plan.forecast import Forecast
from blockveil.pipeline.plan.forecast_lines import forecast_lines
from blockveil.pipeline.plan.planning import Plan, plan_near
from blockveil.pipeline.releases import lost_ledger


class BudgetForecast:
    """How long a budget lasts; it prints as the command line shows it.

    Parameters
    ----------
    forecast
        The forecast.
    """

    def __init__(self, forecast: Forecast) -> None:
        self.forecast = forecast

    @property
    def nights_left(self) -> int:
        """Nights that still fit."""
        return self.forecast.nights_left

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What it says: (what, value) as text."""
        return tuple(forecast_lines(self.forecast))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the same as ``blockveil ledger forecast --json``."""
        return self.forecast.plain()

    def __str__(self) -> str:
        """Lines of the forecast."""
        return as_text(f"Forecast of '{self.forecast.dataset}'", self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_page_part(f"Forecast of '{self.forecast.dataset}'", self.rows)


class BudgetOfConfig:
    """The budget that pays for the releases of a config; each question asks the ledger anew.

    Parameters
    ----------
    loaded
        The config.
    """

    def __init__(self, loaded: LoadedConfig) -> None:
        self._loaded = loaded

    @property
    def account(self) -> str:
        """Name of the budget."""
        return self._loaded.config.release.account

    @property
    def granted(self) -> bool:
        """Whether a budget was granted."""
        return self._status() is not None

    @property
    def epsilon(self) -> float:
        """Epsilon of all releases together; LedgerError where none is granted, here and below."""
        return self._require().epsilon

    @property
    def delta(self) -> float:
        """Delta of all releases together."""
        return self._require().delta

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of all releases so far together, at the budget's delta."""
        return self._require().spent_epsilon

    @property
    def remaining_epsilon(self) -> float:
        """Epsilon that one more release may take, at the budget's delta; epsilons of several do not simply add up."""
        return self._require().remaining_epsilon

    @property
    def nights_left(self) -> int | None:
        """How many more releases like this one fit; None where several nights share a charge."""
        plan, status = self._plan(), self._require()
        return None if plan.series is not None else status.nights_left(plan.charge, plan.new_part)

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What it says: (what, value) as text."""
        status = self._status()
        if status is None:
            return (("Budget", f"none granted for '{self.account}' yet: call .grant(epsilon=..., delta=...)"),)
        plan = self._plan()
        return tuple(budget_lines(status, plan.charge_of_a_night, plan.new_part))

    def grant(
        self,
        *,
        epsilon: float,
        delta: float,
        reserve: float | None = None,
        slack: float | None = None,
        accountant: str | None = None,
        periods: Sequence[str] | None = None,
        after_loss: str | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> BudgetOfConfig:
        """Grant or change the budget, for the config's privacy unit and neighbouring relation; there is no default.

        Parameters
        ----------
        epsilon, delta
            Of all releases together, for ever: P <= e^epsilon P' + delta for every set of outputs.
        reserve
            Part of epsilon that is kept for pure losses beside Gaussian ones.
        slack
            Share of delta that is kept for failures and for distances of samplers.
        accountant
            What adds up: ``gaussian`` (mu squared) or ``zcdp`` (rho).
        periods
            Caps on epsilon in periods besides, such as ``["month:0.5"]``; an empty list lifts them.
        after_loss
            Why a budget is granted although the ledger has forgotten releases; kept for ever.
        by, why
            Who grants it, and why so much; kept in the ledger.

        Returns
        -------
        This budget.

        Raises
        ------
        LedgerError
            The parameters are out of range, less than is spent, or would mix relations or units, or the ledger has
            forgotten what it paid for.
        ConfigError
            A period is none.
        """
        config = self._loaded.config
        ledger = Ledger(self._loaded.ledger_url)
        lost_ledger.check_grant(self._loaded, ledger, after_loss)
        ledger.set_budget(
            dataset=self.account,
            epsilon=_number("epsilon", epsilon),
            delta=_number("delta", delta),
            neighbours=Neighbours(config.privacy.neighbours),
            privacy_unit=config.privacy.unit,
            reserve=reserve,
            slack=slack,
            accountant=None if accountant is None else _accountant(accountant),
            periods=None if periods is None else parse_periods(list(periods)),
            after_loss=after_loss,
            granted_by=named_grant(by, why, self._loaded.config.output.new_budget),
        )
        return self

    def forecast(self, until: day | str | None = None, every: int | None = None) -> BudgetForecast:
        """How many nights are left, and the noise that lets the budget last until a date.

        Parameters
        ----------
        until
            Date to last to, a date or ``YYYY-MM-DD``; None asks for none.
        every
            Days from one night to the next; None for the schedule beside the config.

        Raises
        ------
        LedgerError
            No budget is granted.
        ConfigError
            The date is not ahead, or the config's nights are not charged one by one.
        """
        status, cadence = self._require(), cadence_of(self._loaded) if every is None else Cadence.each(every)
        history = Ledger(self._loaded.ledger_url).history(self.account)
        last, today = None if until is None else day_of(until), cadence.today(datetime.now(UTC))
        return BudgetForecast(ahead.forecast(status, history, [self._plan()], today, last, cadence))

    def to_dict(self) -> dict[str, Any]:
        """Cap, spent and left as plain JSON values; only the account where none is granted."""
        status = self._status()
        if status is None:
            return {"account": self.account, "granted": False}
        return {
            "account": self.account,
            "granted": True,
            "epsilon": status.epsilon,
            "delta": status.delta,
            "neighbours": status.neighbours.value,
            "privacy_unit": status.privacy_unit,
            "releases": status.charges,
            "spent_share": status.used,
            "spent_epsilon": status.spent_epsilon,
            "remaining_epsilon": status.remaining_epsilon,
            "nights_left": self.nights_left,
        }

    def _plan(self) -> Plan:
        return plan_near(self._loaded, day_of(None))

    def _status(self) -> BudgetStatus | None:
        ledger = Ledger(self._loaded.ledger_url)
        return ledger.budget(self.account) if ledger.exists() and self.account in ledger.datasets() else None

    def _require(self) -> BudgetStatus:
        status = self._status()
        if status is None:
            raise LedgerError(
                f"No budget is granted for '{self.account}'",
                "A data set spends what somebody has granted it",
                "Call .grant(epsilon=..., delta=...)",
            )
        return status

    def __str__(self) -> str:
        """Lines of the budget."""
        return as_text(f"Budget of '{self.account}'", self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_page_part(f"Budget of '{self.account}'", self.rows)


def _number(name: str, given: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise LedgerError(f"{name} is not a number", "Nothing that decides privacy has a default", "Give a number")
    return float(given)


def _accountant(name: str) -> Accountant:
    try:
        return Accountant(name)
    except ValueError:
        pass
    names = " or ".join(f'"{each.value}"' for each in Accountant)
    raise LedgerError("accountant is not known", f"It is {names}", "Correct it")


def budget(config: Given = None, /, **tables: Any) -> BudgetOfConfig:
    """The budget that pays for the releases of a config.

    Parameters
    ----------
    config
        Path of a config, or a config as nested tables.
    **tables
        Tables of the config by name, laid over what is given, or all of it.

    Returns
    -------
    BudgetOfConfig
        Prints what is left; ``grant`` grants and ``forecast`` looks ahead.

    Raises
    ------
    ConfigError
        The config cannot be read.
    """
    return BudgetOfConfig(config_of(config, tables))

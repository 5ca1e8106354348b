"""``blockveil.plan``: what a release would cost and how exact it would be. Reads no data and spends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date as day
from typing import Any

from blockveil.flows.python.sources import Given, config_of, day_of
from blockveil.flows.runs import budgets
from blockveil.pipeline.analysis.showing import as_page_part, as_text
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import summary
from blockveil.pipeline.plan.drowning import drowned
from blockveil.pipeline.plan.machine_speed import measure as rates_of
from blockveil.pipeline.plan.planning import Plan, make_plan


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """A plan; it prints as the command line shows it.

    Attributes
    ----------
    rows
        What it says: (what, value) as text, in the order a reader asks for them.
    plan
        The plan itself.
    """

    rows: tuple[tuple[str, str], ...]
    plan: Plan = field(repr=False)

    @property
    def release_id(self) -> str:
        """``dataset/name/date``."""
        return self.plan.release_id

    @property
    def digest(self) -> str:
        """SHA-256 of its public description."""
        return self.plan.digest

    @property
    def warnings(self) -> list[str]:
        """What speaks against the release, one sentence each."""
        return summary.warnings(self.plan)

    def to_dict(self) -> dict[str, Any]:
        """All numbers that decide the release, as plain JSON values; the same as ``blockveil plan --json``."""
        noise = drowned(self.plan)
        warned = {} if noise is None else {"warning": noise.plain}
        return {**self.plan.public, "plan_digest": self.plan.digest, **warned}

    def __str__(self) -> str:
        """Lines of the plan."""
        return as_text(f"Plan of {self.release_id}", self.rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_page_part(f"Plan of {self.release_id}", self.rows)


def plan(
    config: Given = None, /, *, date: day | str | None = None, measure: bool = False, **tables: Any
) -> PlannedRelease:
    """Plan a release: noise, expected error, charge, memory and time. Reads no data and spends nothing.

    Parameters
    ----------
    config
        Path of a config, or a config as nested tables.
    date
        Logical date, a date or ``YYYY-MM-DD``; today where not given.
    measure
        Whether to measure this machine for a second, to predict the time on it.
    **tables
        Tables of the config by name, such as ``privacy={"epsilon": 2.0}``, laid over what is given, or all of it.

    Returns
    -------
    PlannedRelease
        Prints as the command line shows a plan; ``to_dict()`` holds the numbers.

    Raises
    ------
    ConfigError
        The config cannot be read or planned; the message says what to change.
    DataError
        The store is there and does not fit what the config declares.
    """
    made = make_plan(config_of(config, tables), day_of(date))
    store, ledger = look(made.loaded), Ledger(made.loaded.ledger_url)
    rates = rates_of(made.machine().slots) if measure else None
    rows = summary.describe(made, budgets.granted(made, ledger), rates, store, budgets.is_paid(made, ledger))
    return PlannedRelease(tuple(rows), made)

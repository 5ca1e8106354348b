"""``blockveil.plan``: what a release would cost and how exact it would be. Reads no data and spends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date as day
from typing import Any

from blockveil.flows.python.sources import Given, config_of, day_of, fraction, guess
from blockveil.pipeline.accuracy.accuracy_page import accuracy_html
from blockveil.pipeline.accuracy.good_enough import AccuracyQuestion, GoodEnough, good_enough
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.base.showing import as_page_part, as_text
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, summary
from blockveil.pipeline.plan.begun_plans import plan_ahead
from blockveil.pipeline.plan.excess_noise import ExcessNoise, advised
from blockveil.pipeline.plan.planning import Plan


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """A plan; it prints as the command line shows it.

    Attributes
    ----------
    rows
        What it says: (what, value) as text, in the order a reader asks for them.
    plan
        The plan itself.
    accuracy
        Whether it is good enough: expected errors, options, a preview and what reaches a target. It is
        displayed, and part of no digest and no release.
    noise
        Noise that exceeds anything that records can give, and what would end that; None where it does not.
    """

    rows: tuple[tuple[str, str], ...]
    plan: Plan = field(repr=False)
    accuracy: GoodEnough = field(repr=False)
    noise: ExcessNoise | None = field(repr=False, default=None)

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
        return [sentence for what, sentence in self.rows if what == "Warning"]

    def to_dict(self) -> dict[str, Any]:
        """All numbers that decide the release, as plain JSON values; the same as ``blockveil plan --json``."""
        warning = {} if self.noise is None else {"warning": self.noise.plain}
        return {
            **self.plan.public,
            "plan_digest": self.plan.digest,
            "accuracy": self.accuracy.plain,
            **warning,
        }

    def page(self) -> str:
        """The plan as one HTML page, with a preview where one was asked for."""
        return accuracy_html(self.plan, list(self.rows), self.accuracy)

    def __str__(self) -> str:
        """Lines of the plan, and its preview."""
        table = as_text(f"Plan of {self.release_id}", (*self.rows, *self.accuracy.lines))
        return "\n".join([table, *self.accuracy.text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_page_part(f"Plan of {self.release_id}", (*self.rows, *self.accuracy.lines))


def plan(
    config: Given = None,
    /,
    *,
    date: day | str | None = None,
    measure: bool = False,
    rows: int | None = None,
    correlation: float = 0.5,
    spread: float = 1.0 / 6.0,
    options: bool = False,
    preview: bool = False,
    target: str | None = None,
    **tables: Any,
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
    rows, correlation, spread
        What the records are supposed to be, for display alone: a guess of their number, the correlation of neighbouring
        features, and the standard deviation of a feature as a share of the width of its bounds.
    options, preview
        Whether to show all that would give less noise, and a release of simulated records.
    target
        What is to be reached, such as ``"correlation 0.05"``; with ``rows``.
    **tables
        Tables of the config by name, such as ``privacy={"epsilon": 2.0}``, laid over what is given, or all of it.

    Returns
    -------
    PlannedRelease
        Prints as the command line shows a plan; ``to_dict()`` holds the numbers.

    Raises
    ------
    ConfigError
        The config cannot be read or planned, or what is supposed or the target is none of this release.
    DataError
        The store is there and does not fit what the config declares.
    """
    assumptions = Supposed(guess(rows), fraction("correlation", correlation), fraction("spread", spread))
    loaded = config_of(config, tables)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_ahead(loaded, day_of(date), ledger)
    store = look(plan.loaded)
    accuracy = good_enough(plan, AccuracyQuestion(assumptions, options, preview, target))
    rates = None
    if measure:
        from blockveil.pipeline.plan.machine_speed import measure as rates_of  # takes long to import

        rates = rates_of(plan.effort.machine().slots)
    noise = advised(plan)
    lines = summary.describe(plan, budgets.price(plan, ledger), rates, store, None if noise is None else noise.advice)
    return PlannedRelease(tuple(lines), plan, accuracy, noise)

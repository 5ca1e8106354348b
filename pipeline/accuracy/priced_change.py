"""A change of a config with its price, and the three that can be of any size: rows per unit, fewer nights, epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger.guessing import LARGE_EPSILON, percent, with_loss, with_promise
from blockveil.pipeline.plan.excess_noise import with_epsilon, with_section
from blockveil.pipeline.plan.planning import Plan

MOST_EPSILON = 1000.0
"""The largest epsilon that a change names."""


@dataclass(frozen=True, eq=False)
class PricedChange:
    """One change of a config.

    Attributes
    ----------
    what
        The change, for a person.
    price
        What it costs besides, for a person; ``{guess}`` stands for the bound of a guess with the changed plan.
    loaded
        The changed config.
    setting
        The change as ``--set`` takes it; empty where it is more than one value.
    times_rows
        How many times as many records are supposed with it.
    """

    what: str
    price: str
    loaded: LoadedConfig
    setting: str = ""
    times_rows: int = 1

    def price_of(self, plan: Plan, changed: Plan) -> str:
        """The price, with what the plans say."""
        before, after = (percent(min(with_promise(each.guarantee), with_loss(each.charge))) for each in (plan, changed))
        return self.price.format(guess=f"a guess is right at most {after} of the time in place of {before}")

    def words(self, plan: Plan, changed: Plan) -> str:
        """The change with its price, for a person."""
        return in_words(self.what, self.setting, self.price_of(plan, changed))


def in_words(what: str, setting: str, price: str) -> str:
    """A change, the option that sets it and its price, as one line."""
    return f"{what}{f' (--set {setting})' if setting else ''}. The price: {price}"


def fewer_rows(plan: Plan, fewer: int) -> PricedChange:
    """Fewer rows of one unit."""
    most = plan.config.privacy.rows_per_unit or 1
    share = 100.0 * (1.0 - fewer / most)
    return PricedChange(
        f"rows per unit {fewer} in place of {most}",
        f"a new ingest keeps at most {fewer} row{'s' * (fewer > 1)} of each unit and drops at most {share:.0f} % "
        "of all rows; what it drops takes back as much of the gain",
        with_section(plan.loaded, "privacy", {"rows_per_unit": fewer}),
        f"privacy.rows_per_unit={fewer}",
    )


def other_epsilon(plan: Plan, epsilon: float) -> PricedChange:
    """Another epsilon, larger or smaller."""
    now = plan.config.privacy.epsilon
    little = "; an epsilon above 10 promises little" if epsilon > LARGE_EPSILON else ""
    return PricedChange(
        f"epsilon {epsilon:g} in place of {now:g}",
        f"{'less protection, as' if epsilon > now else 'none, for'} {{guess}}{little}",
        with_epsilon(plan.loaded, epsilon),
        f"privacy.epsilon={epsilon:g}",
    )


def rarer_release(plan: Plan, rhythm: Rhythm, releases: int) -> PricedChange | None:
    """One release that costs as much as several of a plan; None where that is not defined.

    Where releases share a promise, it takes their shares together. Nights that share a charge are not divided further.
    """
    share, loaded = plan.config.privacy.share, plan.loaded
    if share is not None:
        if releases > (paid_by_promise(plan) or 0):
            return None
        share = min(1.0, float(f"{share * releases:.6g}"))
        words, setting = f"with a share of {share:.6g}", f"privacy.share={share:.6g}"
        loaded = with_section(loaded, "privacy", {"share": share})
    else:
        epsilon = epsilon_of_nights(plan, releases)
        if epsilon is None:
            return None
        words, setting = f"of epsilon {epsilon:.4g}", f"privacy.epsilon={epsilon:.4g}"
        loaded = with_epsilon(loaded, epsilon)
    return PricedChange(
        rhythm.one_of(releases),
        f"{releases - 1} of {releases} releases are left out; one {words} costs what {releases} do now, so the budget "
        "lasts as long, and with one of them {guess}",
        loaded,
        setting,
    )


def paid_by_promise(plan: Plan) -> int | None:
    """How many releases as large as a plan share its promise; None where it is not shared."""
    share = plan.config.privacy.share
    return None if share is None else math.floor(1.0 / share * (1.0 + 1e-9))


def epsilon_of_nights(plan: Plan, nights: int) -> float | None:
    """Epsilon of one release that costs as much as several releases of a plan; None where that is not defined.

    It is rounded down to six digits, so that the one release never costs more. Nights that share a charge and releases
    that share a guarantee are not divided further.
    """
    if plan.series is not None or plan.config.privacy.share is not None:
        return None
    epsilon = Ticks.of(plan.charge).times(nights).epsilon(plan.guarantee.delta)
    rounded = float(f"{epsilon * (1.0 - 1e-6):.6g}")
    return rounded if rounded <= MOST_EPSILON else None


def with_table(loaded: LoadedConfig, **tables: Any) -> LoadedConfig:
    """The config with whole tables replaced by others, which are not validated together again."""
    return replace(loaded, config=loaded.config.model_copy(update=tables))

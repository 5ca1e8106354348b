"""The first step of a plan: from a config and a date to a question, a mechanism and a guarantee.

Nothing is read but public files that the config names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import Designer
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig
from blockveil.pipeline.plan.earlier_shape import EarlierShape
from blockveil.pipeline.plan.grouping import guarantee_of_a_row
from blockveil.pipeline.plan.mechanism_choice import mechanism_of
from blockveil.pipeline.plan.nights import SharedNight
from blockveil.pipeline.plan.rounded import by_bits
from blockveil.pipeline.plan.shares import guarantee_of
from blockveil.pipeline.questions import Question, ask


@dataclass(frozen=True, eq=False)
class Resolved:
    """What is asked, how it may be answered, and what is to be promised.

    Attributes
    ----------
    loaded
        The config as it was read.
    config
        The same with as many bits as the question has.
    question, mechanism
        What it asks, and the mechanism that it names.
    guarantee, of_a_row
        What is promised for one unit, and the same for one row.
    night
        Which of the nights that share a charge it is for; None where it is charged alone.
    settled
        Whether the number of bits is settled; else it suits only noise beside which their rounding is negligible.
    earlier
        Where records lay on an earlier night, of a night that learns from it; None elsewhere.
    """

    loaded: LoadedConfig
    config: ReleaseConfig
    question: Question
    mechanism: Designer
    guarantee: ApproxDP
    of_a_row: ApproxDP
    night: SharedNight | None
    settled: bool
    earlier: EarlierShape | None = None


def resolve(
    loaded: LoadedConfig, logical_date: date, number: int | None = None, earlier: EarlierShape | None = None
) -> Iterator[Resolved]:
    """Yield what a config asks: with few bits where they may be enough, and at last with those that it declares.

    Parameters
    ----------
    loaded, logical_date
        The config and the night.
    number
        Of the night among those that share its charge, by the ledger; None plans them as new.
    earlier
        Where records lay on an earlier night, of a night that learns from it.

    Raises
    ------
    ConfigError
        The date is not among the nights that share a charge.
    ValueError
        The declared shape, privacy and size cannot be combined.
    """
    privacy, night = loaded.config.privacy, SharedNight.of(loaded.config.continual, logical_date, number)
    guarantee = guarantee_of(privacy)
    of_a_row = guarantee_of_a_row(guarantee, privacy)
    for variant, settled in by_bits(loaded):
        mechanism = mechanism_of(variant.config)
        yield Resolved(loaded, variant.config, ask(variant), mechanism, guarantee, of_a_row, night, settled, earlier)

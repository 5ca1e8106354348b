"""Changes of a config that give less noise, each with its price. They are planned, never estimated.

A change makes a config that lies in no file. What becomes of the noise is seen by planning it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pydantic import TypeAdapter

from blockveil.pipeline.accuracy.priced_change import (
    MOST_EPSILON,
    PricedChange,
    fewer_rows,
    other_epsilon,
    paid_by_promise,
    rarer_release,
    with_table,
)
from blockveil.pipeline.accuracy.rhythm import Rhythm
from blockveil.pipeline.accuracy.shape_changes import bound_changes, feature_changes
from blockveil.pipeline.config.mechanism_sections import AutoSection, Mechanism
from blockveil.pipeline.config.model import ContinualSection, ReleaseConfig, can_be_shared
from blockveil.pipeline.config.queries import GROWING
from blockveil.pipeline.plan.excess_noise import with_rows, with_section
from blockveil.pipeline.plan.planning import Plan

SHARED = 28
"""Nights that share a charge, where none do, or more than these."""

MOST_NIGHTS = 3660
"""Nights that can share a charge."""


def changes(plan: Plan, rows: int, rhythm: Rhythm) -> Iterator[PricedChange]:
    """Changes that may give less noise; whether they do, their plans tell.

    Parameters
    ----------
    plan
        What is to be changed.
    rows
        Supposed number of records.
    rhythm
        How often it is released.
    """
    learns = plan.learns_shape
    most = plan.config.privacy.rows_per_unit or 1
    yield from (fewer_rows(plan, fewer) for fewer in sorted({1, max(1, most // 5)} - {most}, reverse=True))
    if not learns:  # the noise follows where records lie, and not the bounds
        yield from bound_changes(plan)
    releases = min(rhythm.rarer, paid_by_promise(plan) or rhythm.rarer)
    rarer = rarer_release(plan, rhythm, releases) if rhythm.repeats and releases > 1 else None
    if rarer is not None:
        yield rarer
    if rhythm.nightly and not learns:  # nights that share a charge have one shape
        yield from _shared_nights(plan, rhythm)
    epsilon = 2.0 * plan.config.privacy.epsilon
    if epsilon <= MOST_EPSILON:
        yield other_epsilon(plan, epsilon)
    yield from feature_changes(plan)
    yield from _mechanism(plan)
    yield from _records(plan, rows)


def _shared_nights(plan: Plan, rhythm: Rhythm) -> Iterator[PricedChange]:
    if plan.series is not None:
        yield from _fewer_shared_nights(plan, SHARED if plan.series.nights > SHARED else plan.series.nights // 2)
        return
    nights = paid_by_promise(plan) or SHARED
    together, mechanism, kind = rarer_release(plan, rhythm, nights), _shareable(plan.config), plan.config.query.kind
    # Gradients are a sum at one file of weights, and whoever trains moves the weights every night.
    grows = kind in GROWING and kind != "gradients" and not plan.config.data.partition_by
    if together is None or mechanism is None or not grows or not 2 <= nights <= MOST_NIGHTS:
        return
    whole = with_section(together.loaded, "privacy", {"share": None})
    variant = with_table(whole, mechanism=mechanism, continual=_ending(plan, nights))
    epsilon = variant.config.privacy.epsilon
    by = "" if mechanism == plan.config.mechanism else f', with mechanism "{mechanism.kind}"'
    yield PricedChange(
        f"{nights} nights in one shared charge ([continual]) in place of one charge each{by}",
        f"records are only ever appended, and each night is of all so far; epsilon {epsilon:.4g} of all nights "
        f"together costs what {nights} releases do now, which the first night spends, and with them {{guess}}",
        variant,
    )


def _fewer_shared_nights(plan: Plan, nights: int) -> Iterator[PricedChange]:
    section = plan.config.continual
    if section is None or nights < 2:
        return
    fewer = _ending(plan, nights)
    if (plan.logical_date - section.first).days < nights:
        fewer = fewer.model_copy(update={"first": section.first})
    windows = [each for each in section.windows or () if each < nights]
    yield PricedChange(
        f"{nights} nights in one shared charge in place of {section.nights}",
        f"the nights after them need another charge as large, so that the budget lasts {nights} nights where it lasted "
        f"{section.nights}",
        with_table(plan.loaded, continual=fewer.model_copy(update={"windows": tuple(windows) or None})),
    )


def _ending(plan: Plan, nights: int) -> ContinualSection:
    """So many nights of which the planned one is the last, whose noise is the largest."""
    return ContinualSection(nights=nights, first=plan.logical_date - timedelta(days=nights - 1))


def _shareable(config: ReleaseConfig) -> Mechanism | None:
    """The mechanism, or the one that nights share noise of where the best is chosen; None where they share none."""
    mechanism = config.mechanism
    if can_be_shared(mechanism):
        return mechanism
    if not isinstance(mechanism, AutoSection):
        return None
    aim = "relative-error" if mechanism.minimise == "relative" else "absolute-error"
    table = config.query.shared_noise or {"kind": "shaped-gaussian", "optimise_for": aim}
    return TypeAdapter(Mechanism).validate_python(table)


def _mechanism(plan: Plan) -> Iterator[PricedChange]:
    query = plan.config.query
    if isinstance(plan.config.mechanism, AutoSection) or plan.series is not None:
        return
    least = "workload" if getattr(query, "workload", None) is not None else query.least_error
    auto = AutoSection.model_validate({"kind": "auto", "minimise": least})
    yield PricedChange(
        f'mechanism "auto" with minimise = "{least}"',
        f"none, for the guarantee is the same; it takes the proven mechanism of the least {least} error",
        with_table(plan.loaded, mechanism=auto),
    )


def _records(plan: Plan, rows: int) -> Iterator[PricedChange]:
    at_most = plan.config.query.rows_at_most
    enough = max(at_most, 2 * rows)
    if plan.config.privacy.delta >= 1.0 / enough:
        return  # such a delta would allow to publish one record in clear
    yield PricedChange(
        f"twice as many records, {2 * rows:,}",
        "they have to be there, such as by other sites or a longer time, with each unit still counted once",
        with_rows(plan.loaded, enough),
        times_rows=2,
    )

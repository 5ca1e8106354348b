"""A preview: simulated records go the way of a release, in memory, with a key that is thrown away.

The exact sum, the noise and the estimates are those of a release, by the same functions. Nothing is read, charged,
stored or published, and no ledger and no key store is opened. So that millions of records can be supposed, each
simulated one stands for several: the exact answer of copies is a multiple of that of one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.graph import assembled
from blockveil.engine.noise import keyring
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.level_strategy import as_read
from blockveil.pipeline.accuracy.learned_answers import in_learned_shape
from blockveil.pipeline.accuracy.levers import replanned
from blockveil.pipeline.accuracy.number_error import INTERVAL, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population, Supposed
from blockveil.pipeline.accuracy.preview import USUAL, Preview, Table
from blockveil.pipeline.accuracy.shape_changes import with_features
from blockveil.pipeline.accuracy.simulated_records import simulated_records
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.questions.stepwise import Stepwise, course_of
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.in_memory import drawn, summed
from blockveil.pipeline.sections.query_sections import OneShapeSection

MOST_FEATURES = 150
"""Features of a preview; of wider matrices it is of the first ones."""

MOST_STEPS = 500

_MOST_VALUES = 1_000_000
_MOST_RECORDS = 200
"""Records of which a preview of a release of records is made."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A simulated release beside the truth about its simulated records.

    Attributes
    ----------
    what
        The matrix that is shown, such as ``correlation``.
    rows, columns
        Names along its sides; empty where there are none.
    truth, released
        The same matrix without and with noise, two axes.
    covered, entries
        How many distinct entries have the truth in their 95 % interval, and how many there are; means are among them.
        Both are 0 where nothing states an interval.
    simulated, copies
        How many records were simulated, and for how many each of them stands.
    correlation
        Between neighbouring features.
    sized_down
        What was left out of the preview, in words; empty where nothing was.
    """

    what: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    truth: Table
    released: Table
    covered: int
    entries: int
    simulated: int
    copies: int
    correlation: float
    sized_down: str = ""

    @property
    def sentences(self) -> list[str]:
        """What it is and what it shows, for a person."""
        each = "" if self.copies == 1 else f", each for {self.copies:,}"
        lines = [
            f"{self.simulated:,} simulated records{each}, neighbouring features correlated by {self.correlation:g}, "
            "went the way of a release in memory; nothing was read, charged or kept, and its key is gone."
        ]
        if self.entries:
            share = 100.0 * self.covered / self.entries
            lines.append(
                f"{self.covered:,} of {self.entries:,} numbers ({share:.1f} %) have the truth in their 95 % interval."
            )
        return [*lines, self.sized_down] if self.sized_down else lines

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values, without the matrices."""
        return {
            "matrix": self.what,
            "simulated_records": self.simulated,
            "each_stands_for": self.copies,
            "correlation": self.correlation,
            "covered": self.covered,
            "numbers": self.entries,
            **({"sized_down": self.sized_down} if self.sized_down else {}),
        }


def rehearse(plan: Plan, supposed: Supposed, key: NoiseKey | None = None) -> Rehearsal | str:
    """Release simulated records in memory.

    Parameters
    ----------
    plan
        What would be released.
    supposed
        What the records are supposed to be.
    key
        Key of the noise; one that nobody knows and that is thrown away where none is given.

    Returns
    -------
    The preview, or why there is none.
    """
    small, left_out = _sized(plan)
    if small is None:
        return left_out
    population = Population.of(small, supposed)
    if not population.names:
        return "There is no preview of this kind of query: no records are simulated for it."
    small = in_learned_shape(small, population)
    simulated, copies = _numbers(small, population.rows)
    records = simulated_records(small, population, simulated)
    exact, released = _both(small, records, copies, key or NoiseKey.derive(secrets.token_bytes(32), b"a preview"))
    rows = simulated * copies
    noisy = small.answer.arrays(released, rows)
    preview = _preview(small)
    truth = preview.truth(small, exact, rows)
    pictures = preview.shown(small, truth), preview.shown(small, noisy)
    covered, entries = _coverage(small, truth, noisy)
    sides = _sides(small, pictures[0])
    return Rehearsal(
        preview.what(small), *sides, *pictures, covered, entries, simulated, copies, supposed.correlation, left_out
    )


def _preview(plan: Plan) -> Preview:
    return plan.config.kind.part("preview", USUAL)


def _sized(plan: Plan) -> tuple[Plan | None, str]:
    """A plan that is small enough for a preview, and what it leaves out; no plan and the reason where there is none."""
    too_large = _preview(plan).too_large(plan.question)
    if too_large:
        return None, too_large
    if plan.steps > MOST_STEPS:
        return None, f"There is no preview of {plan.steps:,} steps of training."
    query = plan.config.query
    if len(query.columns) <= MOST_FEATURES:
        return plan, ""
    small = replanned(plan, with_features(plan.loaded, MOST_FEATURES)) if isinstance(query, OneShapeSection) else None
    if small is None:
        return None, f"There is no preview of records of {len(query.columns):,} columns."
    return small, (
        f"The preview is of the first {MOST_FEATURES} of {len(query.columns):,} features alone, as if only these were "
        "released; the noise of the whole matrix is larger, as the errors above say."
    )


def _numbers(plan: Plan, rows: int) -> tuple[int, int]:
    """How many records are simulated, and for how many each stands; together hardly fewer than are supposed."""
    if _preview(plan).by_record:
        return min(rows, _MOST_RECORDS), 1
    copies = -(-rows * len(plan.columns) // _MOST_VALUES)
    return rows // copies, copies


def _both(plan: Plan, records: Table, copies: int, key: NoiseKey) -> tuple[NDArray[np.int64], Released]:
    """Exact and released integers, as a release computes them; of a night that is read with others, what is read."""
    course = course_of(plan.question, plan.design)
    if course is not None:
        return _trained(plan, course, records, copies, key)
    compute, name = ThreadCompute(), f"preview-{secrets.token_hex(8)}"
    chunk_rows = min(plan.effort.chunk_rows(1), len(records))
    sums, layout = summed(plan, plan.question.query, records, chunk_rows, compute, name)
    sums = [tile * copies for tile in sums]
    digits = additive(plan.design).weight_digits[1] if plan.series else 1
    measured = [np.zeros((digits, *tile.shape)[digits == 1 :], np.int64) for tile in sums] if plan.series else sums
    released = drawn(plan.design, measured, layout, compute, key, name)
    exact = assembled(sums, layout, plan.design.symmetric)
    return exact, as_read(additive(plan.design), exact, released) if plan.series else released


def _trained(
    plan: Plan, course: Stepwise, records: Table, copies: int, key: NoiseKey
) -> tuple[NDArray[np.int64], Released]:
    """Exact and released sums of all steps of a training, each at the weights that the released ones before it give."""
    exact, released = (np.empty(plan.design.shape, np.int64) for _ in range(2))
    rows, columns = plan.design.shape[0] // plan.steps, (0, plan.design.shape[1])
    handle = f"preview-{secrets.token_hex(8)}"
    keyring.install(handle, key)
    try:
        while not course.done:
            own = slice(course.step * rows, (course.step + 1) * rows)
            exact[own] = course.query(handle).total(records, 0, len(records), len(records)) * copies
            released[own] = plan.design.release(key, exact[own], ((own.start, own.stop), columns)) - course.taken(key)
            course.follow(released[own])
    finally:
        keyring.forget(handle)
    return exact, released


def _coverage(plan: Plan, truth: ReleaseArrays, noisy: ReleaseArrays) -> tuple[int, int]:
    """How many distinct numbers have the truth in their 95 % interval, and how many there are."""
    matrix, design = plan.answer.matrix, plan.design.additive
    if design is None:
        return 0, 0
    covered = entries = 0
    for name in ("mean", matrix):
        if name not in noisy:
            continue
        # Means and covariances add up several noises; entries of other matrices have one each.
        reach = INTERVAL if _preview(plan).adds_up_noise else interval_of_an_entry(design)
        values, exact, deviation = (
            np.asarray(each, dtype=np.float64)
            for each in (noisy[name][0], truth[name][0], noisy[f"{name}_standard_deviation"][0])
        )
        inside = np.abs(values - exact) <= reach * np.broadcast_to(deviation, values.shape)
        if design.symmetric and name == matrix:
            inside = inside[np.triu_indices(inside.shape[0])]
        covered, entries = covered + int(np.sum(inside)), entries + int(inside.size)
    return covered, entries


def _sides(plan: Plan, shown: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names along both sides of what is shown, where each has one."""
    names: Sequence[str] = plan.columns
    sides = [tuple(names) if len(names) == length else () for length in shown.shape]
    return sides[0], sides[1]

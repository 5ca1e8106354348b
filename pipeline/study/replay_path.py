"""The path of a config from stored records to released integers, under keys that pay for nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import numpy as np
import zarr
from numpy.typing import NDArray

from blockveil.engine.answers.graph import Query
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.abilities import one_row
from blockveil.engine.noise.design import Design
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.level_strategy import Levels
from blockveil.pipeline.accuracy.extreme_rows import Row
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.stepwise import Stepwise, course_of
from blockveil.pipeline.releases.compute import Compute
from blockveil.pipeline.releases.in_memory import drawn, summed
from blockveil.pipeline.releases.measurement import weighted_query
from blockveil.pipeline.study.contributions import others

Records = NDArray[np.float64]
Released = NDArray[np.int64]
Drawn = TypeVar("Drawn", bound=Design)

_COMMON_ROWS = 40
"""Rows of everybody else, in several chunks."""

_CHUNK_ROWS = 16
_SEED, _AWAY = 20261127, 2.0
"""Weights away from those of the config: normal, of this standard deviation."""


class ReplayPath(Generic[Drawn]):
    """Releases of constructed records, as the config would make them.

    Parameters
    ----------
    plan
        What the config releases.
    design
        Its additive noise, or the exact answer in place of a release.
    compute
        Runs the graphs.
    rows
        What a unit may have.

    Attributes
    ----------
    copies
        Rows that one unit has.
    replaces
        Whether neighbours differ in what a unit has; else in whether it is there.
    levels
        Weights of records by age, where the config releases nights in one charge.
    away
        Whether training begins at weights away from those of the config, which may give small gradients alone.
    """

    def __init__(self, plan: Plan, design: Drawn, compute: Compute, rows: list[Row]) -> None:
        self.plan, self.design, self._compute = plan, design, compute
        self.copies = plan.config.privacy.rows_per_unit or 1
        self.replaces = plan.neighbours is Neighbours.REPLACE_ONE
        self.units: list[Row | None] = list(rows) if self.replaces else [None, *rows]
        number = design.shape[0] - self.copies if one_row(plan.question.problem) else _COMMON_ROWS
        self._common = others(rows, max(number, 0)).reshape(-1, len(plan.columns))
        self.away = False
        self.levels: Levels | None = plan.series.levels if plan.series is not None else None

    @property
    def course(self) -> Stepwise | None:
        """Training from its first step; None where the config asks for none."""
        course = course_of(self.plan.question, self.design)
        if course is None or not self.away:
            return course
        rng = np.random.default_rng(_SEED)
        return course.begun_at({layer: rng.normal(0.0, _AWAY, array.shape) for layer, array in course.weights.items()})

    @property
    def pairs(self) -> int:
        """Pairs of neighbours among the units; each is compared from two weights where there is training."""
        units = len(self.units)
        pairs = units * (units - 1) // 2 if self.replaces else units - 1
        return pairs if self.course is None else 2 * pairs

    def records(self, unit: Row | None) -> Records:
        """Everybody else's rows, and those of a unit in their midst unless it is absent."""
        if unit is None:
            return self._common
        half = len(self._common) // 2
        own = np.repeat(unit.values[None, :], self.copies, axis=0)
        return np.concatenate([self._common[:half], own, self._common[half:]])

    def releases(self, units: list[Row | None], key: NoiseKey, steps: int | None = None) -> Iterator[Released]:
        """Releases under one key, in grid steps, one with each of these units.

        The steps of a training are made at the weights that follow from the first of these releases, in all of them:
        what an attacker knows of the past is the same in both neighbours.

        Parameters
        ----------
        units
            Contributions of one unit.
        key
            Of the noise.
        steps
            First steps of a training that are made, each over all records; None for all steps, as the config has them.
        """
        course = self.course
        if course is not None:
            return iter(self._trained(course, [self.records(unit) for unit in units], key, steps))
        return (self._stored(self.records(unit), key) for unit in units)

    def night(self, unit: Row | None, number: int, key: NoiseKey) -> Released:
        """What is measured in a night of several in one charge, in grid steps.

        Everybody else's rows and the unit arrive in the first night, and one further row in each night after it.
        """
        first = self.records(unit)
        later = np.resize(self._common, (number - 1, first.shape[1]))
        return self._drawn(np.concatenate([first, later]), self._weighed(len(first), number), key)

    def _weighed(self, first: int, number: int) -> Query:
        levels = self.levels
        if levels is None:
            raise RuntimeError("the nights of this config are not weighed by age")
        ends = (max(0, first + number - age - 1) if number > age else 0 for age in reversed(levels.ages[1:]))
        return weighted_query(self.plan, levels, (*ends, first + number - 1))

    def _stored(self, records: Records, key: NoiseKey) -> Released:
        """Stored, read by chunks, summed and drawn as a release is."""
        if self.levels is not None:
            return self._drawn(records, self._weighed(len(records), 1), key)
        with TemporaryDirectory() as folder:
            store = zarr.create_array(
                Path(folder) / "records", shape=records.shape, chunks=(_CHUNK_ROWS, records.shape[1]), dtype="f8"
            )
            store[...] = records
            return self._drawn(store, self.plan.question.query, key)

    def _drawn(self, source: Records | zarr.Array[Any], query: Query, key: NoiseKey) -> Released:
        name = f"audit-{secrets.token_hex(8)}"
        sums, layout = summed(self.plan, query, source, _CHUNK_ROWS, self._compute, name)
        return drawn(self.design, sums, layout, self._compute, key, name)

    def _trained(self, course: Stepwise, every: list[Records], key: NoiseKey, steps: int | None) -> list[Released]:
        releases = [np.zeros(self.design.shape, np.int64) for _ in every]
        height, columns = self.design.shape[0] // self.plan.steps, (0, self.design.shape[1])
        while not course.done and course.step != steps:
            own, history = (course.step * height, (course.step + 1) * height), course.taken(key)
            # Of secret samples both ends of the mixture are compared: the unit in the sample of a step, and absent.
            query = course.query() if steps is None and not course.secret else course.of_all_records()
            for records, release in zip(every, releases, strict=True):
                exact = query.total(records, 0, len(records), _CHUNK_ROWS)
                release[slice(*own)] = self.design.release(key, exact, (own, columns)) - history
            course.follow(releases[0][slice(*own)])
        return releases


def throwaway_key() -> NoiseKey:
    """A key that nobody knows and that pays for nothing."""
    return NoiseKey.derive(secrets.token_bytes(32), b"an audit")

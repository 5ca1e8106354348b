"""Answers that are measured in steps, each of which follows from what the steps before it released."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.graph import Query
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.noise.design import Design, Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.questions.question import Question


class StepSum(Query, Protocol):
    """Sum of one step, as a part of an answer that has those of all steps one below the other."""

    @property
    def holding(self) -> Holding | None:
        """Where integers of records stay for the next step; None where they do not."""

    def total(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Sum of the step over a range of rows, exact, read ``chunk_rows`` at once."""


class Stepwise(Protocol):
    """A measurement in steps under way: which sum comes next, and what follows from it."""

    @property
    def step(self) -> int:
        """The step that comes next, counted from 0."""

    @property
    def done(self) -> bool:
        """Whether all steps have been made."""

    @property
    def weights(self) -> dict[str, NDArray[Any]]:
        """What follows from the steps so far, by name."""

    @property
    def secret(self) -> bool:
        """Whether steps are over secret samples, so that the key must be there before a sum."""

    def begun_at(self, weights: dict[str, NDArray[Any]]) -> Stepwise:
        """The same measurement from its first step, at other weights."""

    def query(self, handle: str = "", holding: Holding | None = None) -> StepSum:
        """The sum of the next step, as a part of the whole answer.

        Parameters
        ----------
        handle
            Name under which the key is installed, for steps over secret samples.
        holding
            Where integers of records stay for the next step; None where they do not.
        """

    def of_all_records(self) -> StepSum:
        """The sum of the next step as if it were over all records: it reads and checks each of them."""

    def taken(self, key: NoiseKey) -> NDArray[Any]:
        """What the next step's noise takes away of that of earlier ones, in grid steps; called once for each step."""

    def follow(self, released: Released) -> None:
        """Make a step along its released sum: grid integers of its rows of the whole answer."""

    def lengths(self, released: Released) -> tuple[float, float]:
        """Length of the released sum of the next step beside that of its noise; public."""


def steps_of(question: Question) -> int:
    """Sums that an answer is made of, each at what follows from those before it; one of most questions."""
    return int(getattr(question, "steps", 1))


def course_of(question: Question, design: Design) -> Stepwise | None:
    """A measurement in steps from its first one; None where all is measured at once."""
    begin = getattr(question, "course", None)
    return None if begin is None else begin(design)


def step_lines(question: Question, design: Design) -> list[tuple[str, str]]:
    """Lines (what, value) of what one step costs, and all of them; none where all is measured at once."""
    lines = getattr(question, "step_lines", None)
    return [] if lines is None else lines(design)

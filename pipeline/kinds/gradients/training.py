"""Training of a model: the sums of gradients of all its steps, and the weights that they give, as one answer.

The sums stand one below the other, so that noise, charge and published array are those of one matrix. The weights of a
step follow from the released sums before it by :mod:`.descent`: whoever has the release can follow each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.answers.models import Model
from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.answers.step_records import Batches, FixedBatches, PoissonBatches
from blockveil.engine.estimates.descent import Descent, Rule, Schedule, Trained
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.kinds.gradients.model_sections import TrainingSection
from blockveil.pipeline.questions.arrays import ReleaseArrays

MOST_ENTRIES = 2**25
"""Most entries of the sums of all steps together: 256 MiB as they are released."""

Weights = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Training:
    """The steps of one release.

    Attributes
    ----------
    descent
        How weights follow the sums.
    examples
        Public number of records that a step is over, which its sum is divided by.
    start
        Weights of the first step, by layer.
    batches
        How a step takes part of the records; None where each is over all of them.
    publishes
        What is published in place of the sums of all steps; None where these are.
    errors_share
        Share of mu squared for what errors of the coefficients follow from; None where they have none.
    """

    descent: Descent
    examples: float
    start: Weights
    batches: Batches | None = None
    publishes: Literal["last-weights", "weights"] | None = None
    errors_share: float | None = None

    @classmethod
    def of(cls, asked: TrainingSection, start: Weights, query: GradientsQuery) -> Training:
        """Steps of a config.

        Parameters
        ----------
        asked
            What it declares.
        start
            Weights of the first step, by layer.
        query
            The sum of one step.

        Raises
        ------
        ValueError
            The sums of all steps are too large to be kept.
        """
        rows, columns = query.shape
        if asked.steps * rows * columns > MOST_ENTRIES:
            raise ValueError(
                f"{asked.steps:,} steps of {rows * columns:,} weights are more than {MOST_ENTRIES:,} numbers; "
                "train fewer steps or a smaller model"
            )
        descent = Descent(
            Rule(asked.optimiser),
            Schedule(asked.schedule),
            asked.learning_rate,
            asked.steps,
            asked.momentum or 0.0,
            asked.weight_decay,
        )
        batches = _batches(asked)
        examples = asked.examples * (1.0 if batches is None else batches.share)
        return cls(descent, examples, start, batches, asked.publishes, asked.errors_share)

    @property
    def steps(self) -> int:
        """Number of sums."""
        return self.descent.steps

    @property
    def all_examples(self) -> float:
        """Public number of all records."""
        return self.examples / (1.0 if self.batches is None else self.batches.share)


class Course:
    """Training under way: which sum comes next, and what follows from it.

    Parameters
    ----------
    training
        The steps.
    query
        The sum of the first step.
    design
        Noise of the sums of all steps.
    """

    def __init__(self, training: Training, query: GradientsQuery, design: NoiseDesign) -> None:
        self._training, self._query, self._design = training, query, design
        self._trained = Trained(training.descent, training.start)
        self._taken: Callable[[], NDArray[np.int64]] | None = None

    @property
    def step(self) -> int:
        """The step that comes next, counted from 0."""
        return self._trained.step

    @property
    def done(self) -> bool:
        """Whether all steps have been made."""
        return self.step == self._training.steps

    @property
    def weights(self) -> dict[str, NDArray[np.float64]]:
        """Weights as far as training has come, by layer."""
        return dict(self._trained.weights)

    @property
    def secret(self) -> bool:
        """Whether steps are over secret samples, so that the key must be there before a sum."""
        return isinstance(self._training.batches, PoissonBatches)

    def begun_at(self, weights: Weights) -> Course:
        """The same training from its first step, at other weights."""
        return Course(replace(self._training, start=weights), self._query, self._design)

    def query(self, handle: str = "", holding: Holding | None = None) -> GradientsAtStep:
        """The sum of the next step, as a part of the whole answer.

        Parameters
        ----------
        handle
            Name under which the key is installed, for steps over secret samples.
        holding
            Where integers of records stay for the next step; None where they do not.
        """
        batches = self._training.batches
        batch = None if batches is None else batches.at(self.step, handle)
        return GradientsAtStep(self._at_weights(), self.step * self._query.shape[0], batch, holding)

    def of_all_records(self) -> GradientsAtStep:
        """The sum of the next step as if it were over all records: it reads and checks each of them."""
        return GradientsAtStep(self._at_weights(), self.step * self._query.shape[0])

    def _at_weights(self) -> GradientsQuery:
        return replace(self._query, model=with_weights(self._query.model, self._trained.weights))

    def taken(self, key: NoiseKey) -> NDArray[np.int64]:
        """What the next step's noise takes away of that of earlier ones, in grid steps; called once for each step.

        Zero, of no axes, where noise of steps is independent.
        """
        if self.step == 0:
            self._taken = self._design.taken_by_step(key)
        return np.zeros((), np.int64) if self._taken is None else self._taken()

    def follow(self, released: Released) -> None:
        """Make a step along its released sum: grid integers of its rows of the whole answer."""
        first = self.step * self._query.shape[0]
        rows = (first, first + released.shape[0])
        sums = self.sums(released, rows)
        layers = zip(self._query.model.layers, sums, strict=True)
        self._trained.follow({layer: part / self._training.examples for layer, part in layers})

    def read(self, released: Released) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Released sum of the next step and the standard deviation of its noise by weight, in the gradient's units."""
        first = self.step * self._query.shape[0]
        block = (first, first + released.shape[0]), (0, released.shape[1])
        noise = zip(self._query.split(self._design.standard_deviations(*block)), self._query.units, strict=True)
        parts = self.sums(released, block[0]), [part * unit for part, unit in noise]
        sums, deviations = (np.concatenate([part.ravel() for part in each]) for each in parts)
        return sums, deviations

    def lengths(self, released: Released) -> tuple[float, float]:
        """Length of the released sum of the next step beside that of its noise, in the gradient's units; public."""
        sums, deviations = self.read(released)
        return _length(sums), _length(deviations)

    def sums(self, released: Released, rows: tuple[int, int]) -> list[NDArray[np.float64]]:
        """Sum of one step by layer, in the gradient's units, from the grid integers of these rows of the answer."""
        columns = (0, released.shape[1])
        value = released.astype(np.float64) * self._design.steps(rows, columns) / self._design.shifted_unit
        parts = self._query.split(value)
        return [part * unit for part, unit in zip(parts, self._query.units, strict=True)]


def _batches(asked: TrainingSection) -> Batches | None:
    if asked.batch_count is not None and asked.batch_seed is not None:
        return FixedBatches(asked.batch_count, asked.batch_seed, asked.band or 1)
    return None if asked.sampling_probability is None else PoissonBatches(asked.sampling_probability)


def layer_axes(model: Model) -> dict[str, tuple[str, str]]:
    """Names of the two axes of each layer: its outputs, and its inputs with the constant."""
    *hidden, last = model.layers
    units = ["unit"] if len(hidden) == 1 else [f"unit_{i + 1}" for i in range(len(hidden))]
    inputs = ["input", *(["hidden"] if len(hidden) == 1 else [f"{unit}_and_constant" for unit in units])]
    return dict(zip((*hidden, last), zip((*units, "output"), inputs, strict=True), strict=True))


def with_weights(model: Model, weights: Weights) -> Model:
    """The same model at other weights."""
    return Model.at(model.output, model.activation, weights)


def arrays(training: Training, query: GradientsQuery, design: NoiseDesign, released: Released) -> ReleaseArrays:
    """What is published of a training: sums of steps by weight, their noise, and the weights after the last step.

    All of it is a function of the released sums of all steps, which is what the charge is for: what is left out was
    paid for all the same, and what is shown in its place needs no proof of its own.

    Parameters
    ----------
    training, query, design
        The steps, the sum of the first one, and the noise.
    released
        Grid integers of all steps, one below the other.
    """
    course, rows, after = Course(training, query, design), query.shape[0], list[NDArray[np.float64]]()
    whole, lengths = training.publishes is None, list[tuple[float, float]]()
    # Step by step: of a large model, arrays of all steps are most of what a run needs in memory.
    value = np.empty((training.steps if whole else 1, sum(int(np.prod(shape)) for shape in query.model.shapes)))
    deviation = np.empty_like(value)
    while not course.done:
        own, place = released[course.step * rows : (course.step + 1) * rows], course.step if whole else 0
        value[place], deviation[place] = course.read(own)
        lengths.append((_length(value[place]), _length(deviation[place])))
        course.follow(own)
        if training.publishes == "weights":
            after.append(np.concatenate([part.ravel() for part in course.weights.values()]))
    along = "step" if whole else "last_step"
    of_sums, of_noise = (np.array(each) for each in zip(*lengths, strict=True))
    release_arrays: dict[str, tuple[Any, tuple[str, ...]]] = {
        "gradients": (value, (along, "weight")),
        "gradients_standard_deviation": (deviation, (along, "weight")),
        "gradient_length": (of_sums, ("step",)),
        "gradient_length_of_noise": (of_noise, ("step",)),
    }
    if training.publishes == "weights":
        release_arrays["after_each_step"] = (np.array(after), ("step", "weight"))
    axes = layer_axes(query.model)
    for layer, array in course.weights.items():
        release_arrays[f"{layer}_weights"] = (array, axes[layer])
    return release_arrays


def _length(row: NDArray[np.float64]) -> float:
    """Length, by a sum that is rounded once, so that every machine has the same."""
    return math.sqrt(math.fsum((row * row).tolist()))

"""Sums of clipped gradients of a model at public weights, of one step or of all steps of a training."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output
from blockveil.engine.answers.step_records import FixedBatches, PoissonBatches
from blockveil.engine.answers.work import GrowthKind, Work
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.noise.banded import Band, independent
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.gradients.routes import route
from blockveil.pipeline.kinds.gradients.section import GradientsSection
from blockveil.pipeline.kinds.gradients.training import Course, Training, arrays, layer_axes
from blockveil.pipeline.public import weights
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.question import Answer, Question, additive, extent, geometry, span, text


@dataclass(frozen=True, eq=False)
class Gradients:
    """Sum of clipped gradients, or such sums of all steps of a training, one below the other."""

    problem: GradientProblem
    query: GradientsQuery
    features: tuple[str, ...]
    training: Training | None = None

    @property
    def origin(self) -> Vector:
        """Point that features are seen from, by column, the label's last."""
        return np.append(self.query.features.coordinates.origin, sum(self.query.label) / 2.0)

    def answer(self, design: Design) -> Answer:
        """The sum with noise."""
        return GradientsAnswer(self, additive(design))

    @property
    def steps(self) -> int:
        """Sums that the answer is made of, each at weights that follow from those before it."""
        return 1 if self.training is None else self.training.steps

    def course(self, design: Design) -> Course | None:
        """Training from its first step; None where nothing is trained."""
        return None if self.training is None else Course(self.training, self.query, additive(design))

    def step_lines(self, design: Design) -> list[tuple[str, str]]:
        """Lines (what, value) of what one step of a training costs, and all of them; none where nothing is trained."""
        return _step_lines(self, design)


@dataclass(frozen=True, eq=False)
class GradientsAnswer:
    """A sum of clipped gradients with noise; see :class:`.question.Answer`."""

    question: Gradients
    design: NoiseDesign

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "gradients"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum."""
        return self.design.shape

    def facts(self) -> dict[str, Any]:
        """Sizes of the model and how it is computed."""
        training = self.question.training
        steps: dict[str, Any] = {} if training is None else {"training": "elementwise IEEE arithmetic, version 1"}
        if training is not None and training.batches is not None:
            steps["batches"] = "keyed hash of the record, or of the key and its row, version 1"
        sampling = self.question.problem.sampling
        sampling_facts = {} if sampling is None else {"sampling": asdict(sampling)}
        return {
            "layers": [list(shape) for shape in self.question.query.model.shapes],
            "largest_integer": self.question.problem.largest,
            "model": "integer products, elementwise IEEE arithmetic, version 1",
            **steps,
            **sampling_facts,
        }

    def work(self, rows: int) -> Work:
        """The products of each layer, of one step: forward, of its errors, and back where a layer is below it."""
        features, shape = len(self.question.features) + 1, self.question.query.shape
        # They are multiplied in double precision however few bits they have.
        largest = max(self.question.problem.largest, 2**15 - 1)
        passes = 3 if len(self.question.query.model.shapes) > 1 else 2
        return Work(GrowthKind.PRODUCTS, rows, features, shape, largest=largest, indivisible=True, passes=passes)

    def error(self) -> ErrorReport:
        """Expected error of what is published: of the sums of all steps, or of the last one's alone."""
        training, (left, right) = self.question.training, self.question.problem.units
        band = self.question.problem.band
        design = self.design if band is None else independent(self.design, band)
        if training is not None and training.publishes is not None:
            own = self.question.query.shape[0]
            last = replace(design, spread=replace(design.spread, rows=design.spread.rows[-own:]))
            return error_report(last, left[-own:], right)
        report, further = error_report(design, left, right), 1.0 if band is None else band.stretch
        return replace(report, spectral=report.spectral * further, frobenius=report.frobenius * further)

    def error_sentence(self) -> str:
        """The expected error of the sum, and of a row at the largest number of rows."""
        training = self.question.training
        batches = None if training is None else training.batches
        share = 1.0 if batches is None else batches.share
        rows, size = max(1, round(self.question.problem.rows_at_most * share)), self._deviations()
        steps = self.question.problem.steps
        which = "" if steps == 1 else f"in each of {steps:,} steps "
        return (
            f"{which}an entry's standard deviation is {span(size)}; at {rows:,} rows {span(size / rows)} a row, where "
            f"one gradient has a norm of at most {self.question.query.clip:.6g}"
        )

    def noise_over_largest(self) -> tuple[float, float]:
        """An entry of a gradient is at most its norm."""
        return extent(self._deviations() / (self.question.problem.rows_at_most * self.question.query.clip))

    def _deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each entry, by the model's weights."""
        return self.design.entry_standard_deviation() * np.outer(*self.question.problem.units)

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Sum of clipped gradients by the model's weights, for features between -1 and 1 of their bounds."""
        if self.question.training is not None:
            names = _places(self.question)
            trained = arrays(self.question.training, self.question.query, self.design, released)
            steps = _numbered("step", self.question.training.steps)
            last = {} if self.question.training.publishes is None else {"last_step": (text(steps[-1:]), ("last_step",))}
            return {"step": (text(steps), ("step",)), **last, "weight": (text(names), ("weight",)), **trained}
        query, units = self.question.query, np.outer(*self.question.problem.units)
        noisy = matrices.coordinate_estimate(released, self.design)
        value, deviation = noisy.value * units, noisy.standard_deviation * units
        parts = zip(query.split(value), query.split(deviation), strict=True)
        inputs = ("constant", *self.question.features)
        if len(query.model.shapes) == 1:
            [(one, error)] = parts
            return {
                "output": (text(_numbered("output", one.shape[0])), ("output",)),
                "input": (text(inputs), ("input",)),
                "gradients": (one, ("output", "input")),
                "gradients_standard_deviation": (error, ("output", "input")),
            }
        release_arrays: dict[str, tuple[Any, tuple[str, ...]]] = {
            "weight": (text(_places(self.question)), ("weight",)),
            "gradients": (value.ravel(), ("weight",)),
            "gradients_standard_deviation": (deviation.ravel(), ("weight",)),
        }
        for (layer, axes), (part, error) in zip(layer_axes(query.model).items(), parts, strict=True):
            release_arrays[f"{layer}_gradients"] = (part, axes)
            release_arrays[f"{layer}_gradients_standard_deviation"] = (error, axes)
        return release_arrays

    def blocks(self, rows: int) -> Blocks | None:
        """A model is put together whole."""


def _places(question: Gradients) -> tuple[str, ...]:
    """Names of all weights, in the order of a released sum."""
    names = ("constant", *question.features)
    places: list[str] = []
    for layer, (outputs, _) in zip(question.query.model.layers, question.query.model.shapes, strict=True):
        units = _numbered("output" if layer == "last" else layer.replace("hidden", "unit"), outputs)
        places += [f"{unit} of {name}" for unit in units for name in names]
        names = ("constant", *units)
    return tuple(places)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name} {i + 1}" for i in range(count))


def build(loaded: LoadedConfig, asked: GradientsSection) -> Gradients:
    """Question of a config; reads the pinned weights."""
    if asked.training is not None and asked.training.sampling_probability is not None:
        _check_one_row(loaded)
    largest = 2 ** (asked.quantisation_bits - 1) - 1
    gram.check_no_overflow(asked.rows_at_most, largest)
    features = Quantiser(geometry(loaded, asked.geometry).coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
    target = asked.model.target
    if target.classes is None:
        label = float(target.lower or 0.0), float(target.upper or 0.0)
    else:
        label = 0.0, float(target.classes - 1)
    start = _start(loaded, asked, features.width)
    query = GradientsQuery(_model(asked, start), features, label, asked.clipping_norm, largest)
    training = None if asked.training is None else Training.of(asked.training, start, query)
    steps = 1 if training is None else training.steps
    rows, columns = query.shape
    raw = [np.full(np.prod(shape), unit) for shape, unit in zip(query.model.shapes, query.units, strict=True)]
    by_column = raw[0][:columns] if len(raw) == 1 else np.concatenate(raw)
    problem = GradientProblem(
        Body.BALL,
        Body.BALL,
        np.ones(steps * rows),
        by_column,
        loaded.config.privacy.neighbours,
        largest,
        asked.rows_at_most,
        steps=steps,
        batches=None if training is None else training.batches,
    )
    return Gradients(problem, query, asked.columns[:-1], training)


def _check_one_row(loaded: LoadedConfig) -> None:
    rows = loaded.config.privacy.rows_per_unit or 1
    if rows > 1:
        raise ValueError(
            f'batches = "poisson" with privacy.rows_per_unit = {rows}: the loss of a sample is proven for one row a '
            'unit; choose batches = "full" or "fixed"'
        )


def _start(loaded: LoadedConfig, asked: GradientsSection, width: int) -> weights.Weights:
    """Weights of a config; zeros where it names none."""
    model = asked.model
    outputs = model.target.classes if model.loss == "softmax" else 1
    shapes = weights.shapes(width, model.hidden, int(outputs or 1))
    return weights.read(loaded, model.weights, model.weights_sha256, shapes)


def _model(asked: GradientsSection, at: weights.Weights) -> Model:
    model = asked.model
    return Model.at(Output(model.loss), Activation(model.activation or "tanh"), at)


def _route_lines(question: Question, mu: float) -> list[tuple[str, str]]:
    """Whether steps or a covariance is the better way to a linear classifier; nothing of other models."""
    match question:
        case Gradients(training=Training() as training, query=query):
            classes = int(query.label[1]) + 1
            if query.model.output is Output.SQUARED or query.model.hidden or mu <= 0.0:
                return []
            choice = route(training.all_examples, len(question.features), classes, mu, training.steps)
            return [("Route", choice.sentence)]
    return []


def _step_lines(question: Gradients, design: Design) -> list[tuple[str, str]]:
    steps = question.steps
    if steps == 1:
        return []
    loss, batches = design.loss, None if question.training is None else question.training.batches
    most = batches.most(steps) if isinstance(batches, FixedBatches) else steps
    alone = loss.mu / math.sqrt(most)
    of_steps = "a step alone has " + (f"mu {alone:.4g}" if alone > 0 else f"epsilon {loss.epsilon / most:.4g}")
    together = f"mu {loss.mu:.4g}" if alone > 0 else f"epsilon {loss.epsilon:.4g}"
    over, noise = "all records", design.additive
    if isinstance(batches, FixedBatches):
        over = f"one of {batches.count:,} batches"
        of_steps = f"{of_steps} for the records of its batch, each of which is in at most {most:,} steps"
    if isinstance(batches, FixedBatches) and batches.band > 1:
        share = Band(batches.band, steps).share_of_the_sum
        over = f"{over}, with noise that takes away noise of the {batches.band - 1:,} steps before"
        of_steps = f"noise {share:.2g} times that of independent steps is left in the sum of all steps so far"
    if isinstance(batches, PoissonBatches) and noise is not None:
        over = f"a secret sample of {batches.probability:g} of the records"
        multiplier = noise.scale / noise.sensitivity.bound
        of_steps = f"a step alone has noise {multiplier:.4g} times what a record changes in a step over all"
        together = f"{together} and a failure of {loss.failure:.2g} by the law of their loss"
    training = question.training
    beside = "" if training is None or training.errors_share is None else " with what errors follow from"
    return [
        (
            "Training",
            f"{steps:,} steps, each over {over}; {of_steps}, all together {together}, "
            f"booked as one charge{beside}. How good the model will be depends on the records, which a plan does not "
            "read",
        ),
        *_route_lines(question, loss.mu),
    ]


QUESTION = build

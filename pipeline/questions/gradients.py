"""Sums of clipped gradients of a model at public weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.cost import GrowthKind, Work
from blockveil.engine.answers.gradients import GradientProblem, GradientsQuery
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output, PublicMap
from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.noise.design import Design, NoiseDesign, Released
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.questions import weights
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.question import Answer, additive, extent, geometry, span, text


@dataclass(frozen=True, eq=False)
class Gradients:
    """Sum of clipped gradients."""

    problem: GradientProblem
    query: GradientsQuery
    features: tuple[str, ...]

    @property
    def origin(self) -> Vector:
        """Point that features are seen from, by column, the label's last."""
        return np.append(self.query.features.coordinates.origin, sum(self.query.label) / 2.0)

    def answer(self, design: Design) -> Answer:
        """The sum with noise."""
        return GradientsAnswer(self, additive(design))


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
        """Of the sum."""
        return self.design.shape

    def facts(self) -> dict[str, Any]:
        """Sizes of the model and how it is computed."""
        return {
            "layers": [list(shape) for shape in self.question.query.model.shapes],
            "largest_integer": self.question.problem.largest,
            "model": "integer products, elementwise IEEE arithmetic, version 1",
        }

    def work(self, rows: int) -> Work:
        """The product of each layer; its forward and backward pass cost as much again each."""
        return Work(GrowthKind.PRODUCTS, rows, len(self.question.features) + 1, self.shape)

    def error(self) -> ErrorReport:
        """Of the sum."""
        return error_report(self.design, *self.question.problem.units)

    def error_sentence(self) -> str:
        """For the sum, and a row at the largest number of rows."""
        rows, size = self.question.problem.rows_at_most, self._deviations()
        return (
            f"an entry's standard deviation is {span(size)}; at {rows:,} rows {span(size / rows)} a row, where one "
            f"gradient has a norm of at most {self.question.query.clip:.6g}"
        )

    def noise_over_largest(self) -> tuple[float, float]:
        """An entry of a gradient is at most its norm."""
        return extent(self._deviations() / (self.question.problem.rows_at_most * self.question.query.clip))

    def _deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each entry, by the model's weights."""
        return self.design.entry_standard_deviation() * np.outer(*self.question.problem.units)

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Sum of clipped gradients by the model's weights, for features between -1 and 1 of their bounds."""
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
        (hidden, hidden_error), (last, last_error) = parts
        units_, outputs = _numbered("unit", hidden.shape[0]), _numbered("output", last.shape[0])
        places = [f"{unit} of {name}" for unit in units_ for name in inputs]
        places += [f"{output} of {name}" for output in outputs for name in ("constant", *units_)]
        return {
            "weight": (text(tuple(places)), ("weight",)),
            "gradients": (value.ravel(), ("weight",)),
            "gradients_standard_deviation": (deviation.ravel(), ("weight",)),
            "hidden_gradients": (hidden, ("unit", "input")),
            "hidden_gradients_standard_deviation": (hidden_error, ("unit", "input")),
            "last_gradients": (last, ("output", "hidden")),
            "last_gradients_standard_deviation": (last_error, ("output", "hidden")),
        }

    def blocks(self, rows: int) -> Blocks | None:
        """A model is put together whole."""


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name} {i + 1}" for i in range(count))


def build(loaded: LoadedConfig, asked: declared.GradientsSection) -> Gradients:
    """Question of a config; reads the pinned weights."""
    largest = 2 ** (asked.quantisation_bits - 1) - 1
    gram.check_no_overflow(asked.rows_at_most, largest)
    features = Quantiser(geometry(loaded, asked.geometry).coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
    target = asked.model.target
    if target.classes is None:
        label = float(target.lower or 0.0), float(target.upper or 0.0)
    else:
        label = 0.0, float(target.classes - 1)
    query = GradientsQuery(_model(loaded, asked, features.width), features, label, asked.largest_gradient, largest)
    rows, columns = query.shape
    raw = [np.full(np.prod(shape), unit) for shape, unit in zip(query.model.shapes, query.units, strict=True)]
    by_column = raw[0][:columns] if len(raw) == 1 else np.concatenate(raw)
    problem = GradientProblem(
        Body.BALL, Body.BALL, np.ones(rows), by_column, loaded.config.privacy.neighbours, largest, asked.rows_at_most
    )
    return Gradients(problem, query, asked.columns[:-1])


def _model(loaded: LoadedConfig, asked: declared.GradientsSection, width: int) -> Model:
    declared_ = asked.model
    outputs = declared_.target.classes if declared_.predicts == "softmax" else 1
    shapes = weights.shapes(width, declared_.hidden_units, int(outputs or 1))
    found = weights.read(loaded, declared_.weights, declared_.weights_sha256, shapes)
    hidden = PublicMap.of(found["hidden"]) if "hidden" in found else None
    return Model(
        Output(declared_.predicts), PublicMap.of(found["last"]), hidden, Activation(declared_.activation or "tanh")
    )

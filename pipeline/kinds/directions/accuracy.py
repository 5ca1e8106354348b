"""How exactly principal directions will be known: of a noisy matrix, or drawn alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.directions import Directions
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import ExpectedError
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.directions.question import DrawnDirections, NoisyDirections
from blockveil.pipeline.kinds.moments import feature_errors
from blockveil.pipeline.kinds.moments.directions_found import (
    angles_in_noise,
    found_in_noise,
    found_of,
    supposed_spectrum,
)

_Answer = NoisyDirections | DrawnDirections


def _errors(answer: _Answer, population: Population) -> Sequence[ExpectedError]:
    return () if isinstance(answer, DrawnDirections) else feature_errors.errors_by_feature(answer, population)


def _pairs(answer: _Answer, population: Population) -> Sequence[ExpectedError]:
    return () if isinstance(answer, DrawnDirections) else feature_errors.correlations(answer, population)


def _found(answer: _Answer, population: Population) -> Directions | None:
    if not isinstance(answer, DrawnDirections):
        return found_in_noise(answer, population)
    return Directions(found_of(sine_of_draws(answer, population)), answer.design.count)


def _angles(answer: _Answer, population: Population, count: int) -> float:
    if not isinstance(answer, DrawnDirections):
        return angles_in_noise(answer, population, count)
    return math.sqrt(float(np.sum(sine_of_draws(answer, population)[:count])))


def _typical(answer: _Answer, population: Population, names: Sequence[str] = ()) -> float:
    """Angles of all directions that are asked for."""
    del names
    return _angles(answer, population, answer.question.problem.directions)


def sine_of_draws(answer: DrawnDirections, population: Population) -> Vector:
    """Expected squared sine of the angle between each drawn direction and the true one, first order; shape (k,).

    Near its mode the law is Gaussian with variance ``1 / (2 c (lambda_i - lambda_j))`` along another direction.
    """
    spectrum = supposed_spectrum(population, answer.question.features, answer.question.coordinates.scale)
    lost = []
    for k in range(answer.design.count):
        gaps = np.abs(np.delete(spectrum, k) - spectrum[k]) * population.rows
        lost.append(float(np.sum(np.minimum(1.0, 1.0 / (2.0 * answer.design.concentration * gaps)))))
    return np.array(lost)


ACCURACY = Accuracy(_errors, _typical, _pairs, _found, _angles)

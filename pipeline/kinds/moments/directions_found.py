"""How many principal directions of a noisy matrix will be found, and how far from the true ones.

Angles are those of first order in the noise, for a spectrum that is supposed and stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.directions import Directions
from blockveil.pipeline.accuracy.number_error import MOST_FEATURES
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.moments.feature_errors import listed_features, moments_of
from blockveil.pipeline.kinds.moments.question import MomentAnswer

FOUND = 0.2
"""A direction is found where the expected squared sine of its angle to the true one, first order, is at most this.

What is first order understates it there by less than a quarter of it: the root mean square angle is at most 30 degrees.
"""


def found_in_noise(answer: MomentAnswer, population: Population) -> Directions | None:
    """How many of the directions of a noisy matrix are found, of as many as are asked for; None of one feature."""
    features = len(answer.question.features)
    if features < 2:
        return None
    directions = getattr(answer.question.problem, "directions", features)
    return Directions(min(found_of(sine_of_noise(answer, population)), directions), directions)


def angles_in_noise(answer: MomentAnswer, population: Population, count: int) -> float:
    """Root of the expected squared sines of a given number of leading directions of a noisy matrix together."""
    return math.sqrt(float(np.sum(sine_of_noise(answer, population)[:count])))


def supposed_spectrum(population: Population, names: Sequence[str], scale: Vector) -> Vector:
    """Supposed variance along each principal direction of some features, in scaled features, descending, shape (d,).

    All of it together is what the supposed features have; along the k-th direction it is one k-th of that along the
    first, which is stated wherever it is used.
    """
    shares = 1.0 / np.arange(1, len(names) + 1)
    total = float(np.sum((population.size[population.places(names)] / scale) ** 2))
    return np.asarray(total * shares / np.sum(shares))


def sine_of_noise(answer: MomentAnswer, population: Population) -> Vector:
    """Expected squared sine of the angle between each principal direction of a noisy matrix and the true one.

    First order in the noise, for the spectrum of :func:`supposed_spectrum`, in scaled features; a bound where the noise
    differs between entries. Shape (d,), each at most d - 1.
    """
    spectrum = supposed_spectrum(population, answer.question.features, answer.question.coordinates.scale)
    deviation = _along_any_pair(answer, population)
    return np.array([_lost(spectrum, k, deviation**2) for k in range(min(spectrum.size, MOST_FEATURES))])


def _lost(spectrum: Vector, k: int, variance: float) -> float:
    gaps = np.delete(spectrum, k) - spectrum[k]
    with np.errstate(divide="ignore"):
        return float(np.sum(np.minimum(1.0, variance / gaps**2)))


def _along_any_pair(answer: MomentAnswer, population: Population) -> float:
    """Bound of the noise's standard deviation between two orthogonal directions, per record, in scaled features.

    ``Var v'Zw`` is at most the largest of the variances off the diagonal and of half of those on it, for independent
    entries and orthogonal unit vectors v and w; both are equal where the noise is isometric and even. Of h_i that the
    diagonal shares, ``v'diag(h)w`` is at most half of what the largest exceeds the least by.
    """
    names = listed_features(answer)
    ordered = sorted(names, key=lambda name: _scaled(answer, population, [name])[0])
    few = [*ordered[:1], *ordered[-2:]] if len(ordered) > 2 else ordered
    alone, common = max(_scaled(answer, population, few)), _shared(answer, population, few)
    return math.hypot(alone, float(np.ptp(common)) / 2.0)


def _shared(answer: MomentAnswer, population: Population, names: Sequence[str]) -> Vector:
    """Standard deviation of what each feature's own entry has in common with the others, per record, scaled."""
    moments, lead = moments_of(answer, population, names), answer.question.lead
    if moments.noise.common is None:
        return np.zeros(len(names))
    scale = answer.question.coordinates.scale[[answer.question.features.index(name) for name in names]]
    noise: Vector = moments.noise.common[lead:] * (np.diagonal(moments.noise.to_raw)[lead:] / scale) ** 2 / moments.rows
    return noise


def _scaled(answer: MomentAnswer, population: Population, names: Sequence[str]) -> list[float]:
    """Noise of variances over the root of two, and of covariances, per record, in scaled features."""
    moments = moments_of(answer, population, names)
    scale = answer.question.coordinates.scale[[answer.question.features.index(name) for name in names]]
    deviations = []
    for i in range(len(names)):
        own = 1.0 if answer.question.lead else 0.0
        deviations.append(moments.product_deviation(i, i, own) / (math.sqrt(2.0) * float(scale[i]) ** 2))
        deviations += [moments.product_deviation(i, j, 0.0) / float(scale[i] * scale[j]) for j in range(i)]
    return deviations


def found_of(sines: Vector) -> int:
    """How many leading directions are found, one after the other."""
    lost = np.flatnonzero(sines > FOUND)
    return int(lost[0]) if lost.size else int(sines.size)

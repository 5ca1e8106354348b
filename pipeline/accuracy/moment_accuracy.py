"""How exactly means, standard deviations, correlations and principal directions will be known.

Errors are those of the estimates that a release publishes, to first order in the noise (:mod:`.linear_forms`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from blockveil.engine.estimates.linear_forms import FeatureNoise, SupposedMoments
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Vector
from blockveil.pipeline.accuracy.number_error import INTERVAL, ExpectedError, short_number
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.questions.moment import MomentAnswer

MOST_FEATURES = 100
"""Features whose errors are computed: the first ones."""

_MOST_MIXED = 12
"""The same where a matrix mixes the features, so that each error takes the noise of all of them."""

_OF_EACH_KIND = 3
"""How many of the features with the least noise, and of those with the most, are paired for correlations."""

FOUND = 0.2
"""A direction is found where the expected squared sine of its angle to the true one, first order, is at most this.

What is first order understates it there by less than a quarter of it: the root mean square angle is at most 30 degrees.
"""


def moments_of(answer: MomentAnswer, population: Population, names: Sequence[str]) -> SupposedMoments:
    """Supposed records of few features, and the noise of their second moment.

    Parameters
    ----------
    answer
        What is released.
    population
        Supposed records; it may have more features than the answer, and in other bounds.
    names
        The features, all of them in both.
    """
    question = answer.question
    chosen, own = [question.features.index(name) for name in names], population.places(names)
    noise = FeatureNoise.of(answer.design, question.coordinates, question.lead, chosen)
    mean = population.mean[own] - question.origin[chosen]
    size = population.size[own]
    if not question.lead:
        size = np.hypot(size, mean)  # root mean square from the origin
    elif question.problem.neighbours is Neighbours.REPLACE_ONE:
        noise = noise.with_public_count()
    return SupposedMoments(noise, population.rows, mean, size)


def listed_features(answer: MomentAnswer) -> tuple[str, ...]:
    """Features whose errors are computed."""
    most = MOST_FEATURES if answer.question.coordinates.mixing is None else _MOST_MIXED
    return answer.question.features[:most]


def errors_by_feature(answer: MomentAnswer, population: Population) -> list[ExpectedError]:
    """Error of the mean and the standard deviation of each feature, in the feature's own unit.

    Without a constant coordinate there is no mean and no count: it is the error of the root mean square from the
    origin, at the supposed number of records.
    """
    found = []
    for name in listed_features(answer):
        moments = moments_of(answer, population, [name])
        own = float(moments.size[0])
        if answer.question.lead:
            worst = INTERVAL * _furthest(answer, population, name).mean_deviation(0)
            found.append(ExpectedError(f"mean of {name}", INTERVAL * moments.mean_deviation(0), worst))
        size, what = INTERVAL * moments.size_deviation(0), "standard deviation"
        # Where the error of a variance is as large as the variance, that of its root is not known.
        size = size if 2.0 * size < own else math.inf
        what = what if answer.question.lead else "root mean square"
        found.append(ExpectedError(f"{what} of {name}", size))
    return found


def _furthest(answer: MomentAnswer, population: Population, name: str) -> SupposedMoments:
    """As :func:`moments_of` for one feature, its mean at the bound that is further from the origin."""
    coordinates, position = answer.question.coordinates, answer.question.features.index(name)
    reach = min(
        float(coordinates.scale[position]),
        max(
            float(coordinates.upper[position] - coordinates.origin[position]),
            float(coordinates.origin[position] - coordinates.lower[position]),
        ),
    )
    moments = moments_of(answer, population, [name])
    return SupposedMoments(moments.noise, moments.rows, np.array([reach]), moments.size)


def correlations(answer: MomentAnswer, population: Population) -> list[ExpectedError]:
    """Error of a correlation of the supposed size: for the pair that is known best and the one that is known worst.

    One error where both are the same; none of one feature. Each says beside it what holds where standard deviations are
    a third of those that are supposed: bounds are often much wider than that.
    """
    names = listed_features(answer)
    if len(names) < 2:
        return []
    noisy = {name: _relative(answer, population, name) for name in names}
    ordered = sorted(names, key=noisy.__getitem__)
    few = [name for name in names if name in {*ordered[:_OF_EACH_KIND], *ordered[-_OF_EACH_KIND:]}]
    pairs = list(combinations(few, 2))
    sizes = [_of_a_pair(answer, population, pair) for pair in pairs]
    narrow = replace(population, size=population.size / _NARROW)
    found = []
    for size, pair in sorted(zip(sizes, pairs, strict=True))[:: max(1, len(pairs) - 1)]:
        which = "alike for all pairs" if max(sizes) <= 1.01 * min(sizes) else " with ".join(pair)
        less = short_number(_of_a_pair(answer, narrow, pair))
        note = f"{which}; ± {less} where standard deviations are a third of that"
        found.append(ExpectedError(f"correlation of {population.correlation:g}", size, of=1.0, note=note))
    return found[:1] if max(sizes) <= 1.01 * min(sizes) else found


_NARROW = 3.0


def _of_a_pair(answer: MomentAnswer, population: Population, pair: Sequence[str]) -> float:
    """Half of the width of the 95 % interval of the correlation of two features."""
    return INTERVAL * moments_of(answer, population, pair).correlation_deviation(0, 1, population.correlation)


def _relative(answer: MomentAnswer, population: Population, name: str) -> float:
    """Noise of a feature's variance over the variance."""
    moments = moments_of(answer, population, [name])
    return moments.product_deviation(0, 0, 1.0) / float(moments.size[0]) ** 2


def typical_correlation(answer: MomentAnswer, population: Population, names: Sequence[str]) -> float:
    """Geometric mean of the errors of the correlations of features; of one feature, the error of its variance."""
    moments = moments_of(answer, population, names)
    if len(names) < 2:
        return _relative(answer, population, names[0])
    pairs = combinations(range(len(names)), 2)
    logs = [math.log(moments.correlation_deviation(i, j, population.correlation)) for i, j in pairs]
    return math.exp(math.fsum(logs) / len(logs))


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
    entries and orthogonal unit vectors v and w; both are equal where the noise is isometric and even.
    """
    names = listed_features(answer)
    ordered = sorted(names, key=lambda name: _scaled(answer, population, [name])[0])
    few = [*ordered[:1], *ordered[-2:]] if len(ordered) > 2 else ordered
    return max(_scaled(answer, population, few))


def _scaled(answer: MomentAnswer, population: Population, names: Sequence[str]) -> list[float]:
    """Noise of variances over the root of two, and of covariances, per record, in scaled features."""
    moments = moments_of(answer, population, names)
    scale = answer.question.coordinates.scale[[answer.question.features.index(name) for name in names]]
    found = []
    for i in range(len(names)):
        own = 1.0 if answer.question.lead else 0.0
        found.append(moments.product_deviation(i, i, own) / (math.sqrt(2.0) * float(scale[i]) ** 2))
        found += [moments.product_deviation(i, j, 0.0) / float(scale[i] * scale[j]) for j in range(i)]
    return found


def found_of(sines: Vector) -> int:
    """How many leading directions are found, one after the other."""
    lost = np.flatnonzero(sines > FOUND)
    return int(lost[0]) if lost.size else int(sines.size)

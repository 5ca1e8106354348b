"""How exactly means, standard deviations and correlations will be known.

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
from blockveil.pipeline.accuracy.number_error import INTERVAL, MOST_FEATURES, ExpectedError, short_number
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.moments.question import MomentAnswer

_MOST_MIXED = 12
"""The same where a matrix mixes the features, so that each error takes the noise of all of them."""

_OF_EACH_KIND = 3
"""How many of the features with the least noise, and of those with the most, are paired for correlations."""


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
    indices, own = [question.features.index(name) for name in names], population.places(names)
    noise = FeatureNoise.of(answer.design, question.coordinates, question.lead, indices, question.rounding)
    mean = population.mean[own] - question.origin[indices]
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
    errors = []
    for name in listed_features(answer):
        moments = moments_of(answer, population, [name])
        own = float(moments.size[0])
        if answer.question.lead:
            size = INTERVAL * moments.mean_deviation(0)
            # A shape that is learned has its centre where the records are.
            worst = size if _learned(answer) else INTERVAL * _furthest(answer, population, name).mean_deviation(0)
            errors.append(ExpectedError(f"mean of {name}", size, worst))
        size, what = INTERVAL * moments.size_deviation(0), "standard deviation"
        # Where the error of a variance is as large as the variance, that of its root is not known.
        size = size if 2.0 * size < own else math.inf
        what = what if answer.question.lead else "root mean square"
        errors.append(ExpectedError(f"{what} of {name}", size))
    return errors


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
    errors = []
    for size, pair in sorted(zip(sizes, pairs, strict=True))[:: max(1, len(pairs) - 1)]:
        which = "the same for all pairs" if max(sizes) <= 1.01 * min(sizes) else " with ".join(pair)
        worse = f"; ± {short_number(_of_a_pair(answer, narrow, pair))} where standard deviations are a third of that"
        if _learned(answer):  # noise grows with the square of the radius
            wider = f"; ± {short_number(4.0 * size)} where tails are so heavy that the ellipsoid is twice as wide"
            worse = "" if population.earlier else wider
        note = f"{which}{worse}"
        errors.append(ExpectedError(f"correlation of {population.correlation:g}", size, of=1.0, note=note))
    return errors[:1] if max(sizes) <= 1.01 * min(sizes) else errors


_NARROW = 3.0


def _learned(answer: MomentAnswer) -> bool:
    """Whether the shape follows the records."""
    return answer.question.shortening is not None


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

"""Gaussian noise of given sizes on a second moment, for tests of what is built on it."""

from __future__ import annotations

import numpy as np

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.gaussian import least_noise
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body, Vector


def calibrate(
    body: Body, weights: Vector, constant_weight: float, guarantee: ApproxDP, neighbours: Neighbours, largest: int
) -> NoiseDesign:
    """Least noise on a second moment whose coordinates have these weights (inverse squared spreads).

    Parameters
    ----------
    body
        Set of admissible coordinates.
    weights
        Positive, shape (d,).
    constant_weight
        Weight of the constant coordinate; 0 where there is none.
    guarantee
        The asked loss.
    neighbours
        Neighbouring relation.
    largest
        K, the integer that stands for coordinate one.

    Raises
    ------
    CannotCalibrate
        delta is too small for the sampler's distance at this epsilon and size, or the noise leaves the exact range.
    """
    augmented = constant_weight > 0
    everything = np.concatenate([[constant_weight], weights]) if augmented else weights
    problem = SecondMoment(body, np.ones(weights.size), neighbours, largest, 2**62 // largest**2, augmented)
    spread = everything**-0.5
    return least_noise(problem, problem.spread(spread, spread), guarantee)

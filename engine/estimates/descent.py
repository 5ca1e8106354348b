"""Weights that follow from released sums of gradients: gradient descent, with momentum, and Adam.

All of it is post-processing. It is elementwise arithmetic in float64 (add, multiply, divide, root), which has one
result on every machine, so the weights of a step are the same wherever a release is made or finished.

**Source**: Polyak, 1964 (momentum); Kingma and Ba, 2015, algorithm 1 (Adam); Loshchilov and Hutter, 2019 (weight decay
apart from the gradient, and the cosine schedule).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[np.float64]]
"""Weights, or gradients of them, by layer."""

LARGEST_SUM = 2.0**19
"""Weights are scaled down to absolute row and column sums of at most this, where training diverges."""

_FIRST, _SECOND, _LEAST = 0.9, 0.999, 1e-8


class Rule(StrEnum):
    """How weights follow a gradient."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"


class Schedule(StrEnum):
    """How the rate changes over the steps."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


@dataclass(frozen=True)
class Descent:
    """How weights follow the gradients of all steps.

    Attributes
    ----------
    rule
        How they follow one gradient.
    schedule
        How the rate changes.
    rate
        Length of the first step, in units of a mean gradient ("adam": of a weight).
    steps
        Number of steps.
    momentum
        Share of the last movement that is kept.
    weight_decay
        Share of the weights, times the rate, that is taken off in each step.
    """

    rule: Rule
    schedule: Schedule
    rate: float
    steps: int
    momentum: float
    weight_decay: float

    def rate_of(self, step: int) -> float:
        """Rate of a step, counted from 0."""
        match self.schedule:
            case Schedule.LINEAR:
                return self.rate * (1.0 - step / self.steps)
            case Schedule.COSINE:
                return self.rate * _half_cosine(step / self.steps)
        return self.rate


class Trained:
    """The weights as far as training has come.

    Parameters
    ----------
    descent
        How they follow gradients.
    start
        Weights of the first step.
    """

    def __init__(self, descent: Descent, start: Weights) -> None:
        self._descent, self.step, self._powers = descent, 0, (1.0, 1.0)
        self.weights = {layer: _within(array) for layer, array in start.items()}
        self._moved = {layer: np.zeros_like(array) for layer, array in self.weights.items()}
        self._squares = {layer: np.zeros_like(array) for layer, array in self.weights.items()}

    def follow(self, gradients: Weights) -> None:
        """Go one step along the mean gradient of a layer each, of the layer's shape."""
        self.step += 1
        # Multiplied step by step: powers of a library differ between machines.
        self._powers = (self._powers[0] * _FIRST, self._powers[1] * _SECOND)
        rate = self._descent.rate_of(self.step - 1)
        for layer, gradient in gradients.items():
            weights = self.weights[layer] * (1.0 - rate * self._descent.weight_decay)
            self.weights[layer] = _within(weights - rate * self._direction(layer, gradient))

    def _direction(self, layer: str, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        match self._descent.rule:
            case Rule.SGD:
                return gradient
            case Rule.MOMENTUM:
                self._moved[layer] = self._descent.momentum * self._moved[layer] + gradient
                return self._moved[layer]
        self._moved[layer] = _FIRST * self._moved[layer] + (1.0 - _FIRST) * gradient
        self._squares[layer] = _SECOND * self._squares[layer] + (1.0 - _SECOND) * (gradient * gradient)
        first = self._moved[layer] / (1.0 - self._powers[0])
        second = self._squares[layer] / (1.0 - self._powers[1])
        return np.asarray(first / (np.sqrt(second) + _LEAST))


def _within(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights whose absolute row and column sums stay within what a model takes."""
    sizes = np.abs(weights)
    largest = float(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))
    return weights.copy() if largest <= LARGEST_SUM else weights * (LARGEST_SUM / largest)


def _half_cosine(share: float) -> float:
    """``(1 + cos(pi share)) / 2`` within 1e-15, by a sum that every machine adds in the same order."""
    angle = 3.141592653589793 * (0.5 - abs(share - 0.5))  # at most pi / 2, where the sum converges fast
    term, cosine = 1.0, 1.0
    for k in range(1, 15):
        term *= -angle * angle / ((2 * k - 1) * (2 * k))
        cosine += term
    return (1.0 + cosine) / 2.0 if share <= 0.5 else (1.0 - cosine) / 2.0

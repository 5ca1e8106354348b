"""Forward and backward passes of small models that give the same bits on every machine and for every blocking.

A float matrix product depends on the order of its sums, and so on blocks and on the machine; a rounded integer would
follow it. Here every product is one of integers that is exact in float64 in any order, and everything else is
elementwise IEEE arithmetic (add, multiply, divide, root, rounding), which has one result. Exponentials are evaluated in
that arithmetic too, because those of a library differ between processors.

=============== ============================================== ==========================================
number          grid                                           limit
=============== ============================================== ==========================================
features        2**20 - 1 steps to a half width                the declared box
weights         2**-bits, bits from the size of the matrix     absolute row and column sums of 2**20
hidden values   2**-16                                         16 (tanh stays below 1)
errors, going   2**-16                                         16
back
=============== ============================================== ==========================================

**Source**: the chain rule; exp by reduction to ``|r| <= ln(2) / 2`` and its Taylor polynomial (Cody and Waite, 1980).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEATURE_STEPS = 2**20 - 1
"""Integer that stands for a feature of one half width."""

LARGEST_WEIGHTS = 2.0**20
"""Largest sum of absolute weights in a row or a column."""

_STEPS = 2.0**16
_LIMIT = 16.0
_SUM_BITS = 33
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_TAYLOR = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))


class Output(StrEnum):
    """What a model predicts, and its loss."""

    SQUARED = "squared"
    """A number; half the squared error."""
    LOGISTIC = "logistic"
    """The probability of code 1; its negative logarithm."""
    SOFTMAX = "softmax"
    """The probability of each code; the negative logarithm of the true one's."""


class Activation(StrEnum):
    """What a hidden unit does to its input."""

    TANH = "tanh"
    RELU = "relu"


class Factors(NamedTuple):
    """Per-example gradients of one layer as outer products, never multiplied out.

    Attributes
    ----------
    errors
        Derivative of the loss by each output of the layer, shape (n, outputs).
    inputs
        Inputs of the layer as integers, the constant one first, shape (n, inputs + 1).
    steps
        Integer that stands for an input of one.
    """

    errors: Array
    inputs: Array
    steps: float


@dataclass(frozen=True, eq=False)
class PublicMap:
    """A public matrix as integers: ``integers * 2**-bits``.

    Attributes
    ----------
    integers
        Shape (outputs, inputs), float64 holding integers; absolute row and column sums of at most 2**33.
    bits
        Bits after the point.
    """

    integers: Array
    bits: int

    @classmethod
    def of(cls, matrix: Array) -> PublicMap:
        """Round a matrix to the finest grid that is exact.

        Raises
        ------
        ValueError
            It is not finite, or its absolute row or column sums exceed 2**20.
        """
        values = np.ascontiguousarray(matrix, dtype=np.float64)
        largest = _largest_sum(values)
        if not largest <= LARGEST_WEIGHTS:
            raise ValueError("weights must be finite, with absolute row and column sums of at most 2**20")
        bits = min(_SUM_BITS - 1 - math.frexp(largest)[1], 52) if largest > 0 else 0
        integers = np.rint(np.ldexp(values, bits))
        # Rounding moves each by at most 1/2: below 2**32 + 2**15 / 2 <= 2**33.
        if _largest_sum(integers) > 2.0**_SUM_BITS:
            raise ValueError("more than 2**15 units in a layer; use a smaller model")
        return cls(integers, bits)

    def forward(self, inputs: Array) -> Array:
        """Products with integers of at most 2**20, shape (n, inputs) to (n, outputs): exact in any order of sums."""
        # |sum of products| <= 2**20 * 2**33 = 2**53, partial sums too.
        return np.ldexp(inputs @ self.integers.T, -self.bits)

    def backward(self, errors: Array) -> Array:
        """Products of the transpose with integers of at most 2**20, shape (n, outputs) to (n, inputs): exact too."""
        return np.ldexp(errors @ self.integers, -self.bits)


@dataclass(frozen=True, eq=False)
class Model:
    """A linear or softmax model, or one with a hidden layer, at public weights.

    Attributes
    ----------
    output
        What it predicts.
    last
        Weights of the last layer, shape (outputs, inputs + 1), the constant's first.
    hidden
        Weights of the hidden layer, shape (units, features + 1), or None.
    activation
        Of the hidden layer.
    """

    output: Output
    last: PublicMap
    hidden: PublicMap | None = None
    activation: Activation = Activation.TANH

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of the gradient of each layer, the first layer first."""
        layers = (self.last,) if self.hidden is None else (self.hidden, self.last)
        return tuple((int(layer.integers.shape[0]), int(layer.integers.shape[1])) for layer in layers)

    def factors(self, features: Array, labels: Array) -> tuple[Factors, ...]:
        """Per-example gradients of each layer.

        Parameters
        ----------
        features
            Integers of at most :data:`FEATURE_STEPS`, the constant (that number itself) first, shape (n, d + 1).
        labels
            The number to predict in its coordinate, or the whole code of the class, shape (n,).
        """
        if self.hidden is None:
            errors = self._errors(self.last.forward(features) / FEATURE_STEPS, labels)
            return (Factors(errors, features, float(FEATURE_STEPS)),)
        reached = self.hidden.forward(features) / FEATURE_STEPS
        values = tanh(reached) if self.activation is Activation.TANH else np.maximum(reached, 0.0)
        inputs = np.empty((features.shape[0], values.shape[1] + 1))
        inputs[:, 0], inputs[:, 1:] = _STEPS, _steps(values)
        errors = self._errors(self.last.forward(inputs) / _STEPS, labels)
        slopes = 1.0 - values * values if self.activation is Activation.TANH else (reached > 0.0).astype(np.float64)
        back = self.last.backward(_steps(errors))[:, 1:] / _STEPS * slopes
        return Factors(back, features, float(FEATURE_STEPS)), Factors(errors, inputs, _STEPS)

    def _errors(self, reached: Array, labels: Array) -> Array:
        if self.output is Output.SQUARED:
            return reached - labels[:, None]
        if self.output is Output.LOGISTIC:
            return sigmoid(reached) - labels[:, None]
        found = softmax(reached)
        found[np.arange(labels.size), labels.astype(np.int64)] -= 1.0
        return found


def exp(values: Array) -> Array:
    """Exponential of numbers of at most 0, within 4 units in the last place; 0 from -700 on."""
    values = np.maximum(values, -700.0)
    powers = np.rint(values * (1.0 / math.log(2.0)))
    rest = (values - powers * _LN2_HIGH) - powers * _LN2_LOW
    found = np.full_like(rest, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        found = found * rest + coefficient
    return np.where(values > -700.0, np.ldexp(found, powers.astype(np.int32)), 0.0)


def sigmoid(values: Array) -> Array:
    """``1 / (1 + e^-x)``."""
    small = exp(-np.abs(values))
    return np.where(values >= 0.0, 1.0, small) / (1.0 + small)


def tanh(values: Array) -> Array:
    """Hyperbolic tangent, within 2**-52 absolutely."""
    small = exp(-2.0 * np.abs(values))
    return np.sign(values) * ((1.0 - small) / (1.0 + small))


def softmax(values: Array) -> Array:
    """Probabilities by row, in steps of 2**-40 of the largest, so that their sum is exact."""
    sizes = np.rint(np.ldexp(exp(values - values.max(axis=1, keepdims=True)), 40))
    # At most 2**15 classes of at most 2**40: exact in int64 and in float64, in any order.
    total = sizes.astype(np.int64).sum(axis=1, keepdims=True)
    found: Array = sizes / total.astype(np.float64)
    return found


def _steps(values: Array) -> Array:
    """Integers of at most 2**20."""
    return np.rint(np.clip(values, -_LIMIT, _LIMIT) * _STEPS)


def _largest_sum(matrix: Array) -> float:
    sizes = np.abs(matrix)
    return float(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))

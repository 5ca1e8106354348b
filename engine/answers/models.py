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

**Source**: the chain rule; Hendrycks and Gimpel, 2016 (gelu); exp by reduction to ``|r| <= ln(2) / 2`` and its Taylor
polynomial (Cody and Waite, 1980).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
_GELU = 0.7978845608028654
_SUM_BITS = 33
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_BIAS, _FRACTION_BITS = 1023, 52
_AT_ONCE = 2**14
"""Exponentials that are computed together: what is between them stays in a core's cache."""
_FEW_CLASSES, _SHORT = 2**13, 32
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
    GELU = "gelu"


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

    def forward(self, inputs: Array, steps: float = 1.0) -> Array:
        """Products with integers of at most 2**20 that stand for whole ``steps``, shape (n, inputs) to (n, outputs).

        The products are exact in any order of sums, and rounded once.
        """
        # |sum of products| <= 2**20 * 2**33 = 2**53, partial sums too.
        products: Array = inputs @ self.integers.T
        products /= steps * 2.0**self.bits  # exact: steps of less than 2**21 by a power of two
        return products

    def backward(self, errors: Array) -> Array:
        """Products of the transpose without the constant with such integers of 2**-16, exact in any order too.

        Shape (n, outputs) to (n, inputs - 1).
        """
        products: Array = errors @ np.ascontiguousarray(self.integers[:, 1:])
        products *= 2.0**-self.bits / _STEPS  # a power of two: exact
        return products


@dataclass(frozen=True, eq=False)
class Model:
    """A linear or softmax model, or one with hidden layers, at public weights.

    Attributes
    ----------
    output
        What it predicts.
    last
        Weights of the last layer, shape (outputs, inputs + 1), the constant's first.
    hidden
        Weights of the hidden layers, the first layer first, shape (units, inputs + 1) each.
    activation
        Of the hidden layers.
    """

    output: Output
    last: PublicMap
    hidden: tuple[PublicMap, ...] = ()
    activation: Activation = Activation.TANH

    @classmethod
    def at(cls, output: Output, activation: Activation, weights: Mapping[str, Array]) -> Model:
        """Model at weights by the names of :func:`layer_names`; ValueError as :meth:`PublicMap.of`."""
        *hidden, last = (PublicMap.of(weights[name]) for name in layer_names(len(weights) - 1))
        return cls(output, last, tuple(hidden), activation)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, the first layer first."""
        return layer_names(len(self.hidden))

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shape of the gradient of each layer, the first layer first."""
        layers = (*self.hidden, self.last)
        return tuple((int(layer.integers.shape[0]), int(layer.integers.shape[1])) for layer in layers)

    def reached(self, features: Array) -> Array:
        """Outputs before the last function (logistic, softmax), shape (n, outputs); features as for :meth:`factors`."""
        return self._passed(features)[0]

    def factors(self, features: Array, labels: Array) -> tuple[Factors, ...]:
        """Per-example gradients of each layer.

        Parameters
        ----------
        features
            Integers of at most :data:`FEATURE_STEPS`, the constant (that number itself) first, shape (n, d + 1).
        labels
            The number to predict in its coordinate, or the whole code of the class, shape (n,).
        """
        reached, inputs, slopes = self._passed(features)
        errors, gradients = self._errors(reached, labels), list[Factors]()
        for layer, (own, steps), slope in zip((*self.hidden, self.last)[::-1], inputs[::-1], slopes[::-1], strict=True):
            gradients.append(Factors(errors, own, steps))
            if slope is not None:
                slope *= layer.backward(_steps(errors))
                errors = slope
        return tuple(gradients[::-1])

    def _passed(self, features: Array) -> tuple[Array, list[tuple[Array, float]], list[Array | None]]:
        """Outputs; for each layer its inputs with their steps, and slopes of the units that made them, if any did."""
        inputs, slopes = [(features, float(FEATURE_STEPS))], list[Array | None]([None])
        for layer in self.hidden:
            own, steps = inputs[-1]
            values, slope = _activated(layer.forward(own, steps), self.activation)
            inputs.append((_with_one(values), _STEPS))
            slopes.append(slope)
        own, steps = inputs[-1]
        return self.last.forward(own, steps), inputs, slopes

    def _errors(self, reached: Array, labels: Array) -> Array:
        if self.output is Output.SQUARED:
            return reached - labels[:, None]
        if self.output is Output.LOGISTIC:
            return sigmoid(reached) - labels[:, None]
        errors = softmax(reached)
        errors[np.arange(labels.size), labels.astype(np.int64)] -= 1.0
        return errors


def layer_names(hidden: int) -> tuple[str, ...]:
    """Names of the layers of a model with a given number of hidden ones, the first layer first."""
    if hidden == 1:
        return ("hidden", "last")
    return (*(f"hidden_{i + 1}" for i in range(hidden)), "last")


def _activated(reached: Array, activation: Activation) -> tuple[Array, Array]:
    """Values of hidden units, and the slopes there."""
    match activation:
        case Activation.TANH:
            values = tanh(reached)
            slopes = values * values
            return values, np.subtract(1.0, slopes, out=slopes)
        case Activation.RELU:
            return np.maximum(reached, 0.0), (reached > 0.0).astype(np.float64)
    # x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), the usual form of the Gaussian error linear unit.
    # Beyond +-30 it is x or 0 to the last bit.
    inside = np.clip(reached, -30.0, 30.0)
    square = inside * inside
    share = tanh(_GELU * (inside + 0.044715 * (inside * square)))
    slopes = 0.5 * (1.0 + share) + 0.5 * inside * (1.0 - share * share) * (_GELU * (1.0 + 3.0 * 0.044715 * square))
    return 0.5 * reached * (1.0 + share), slopes


def exp(values: Array) -> Array:
    """Exponential of numbers of at most 0, within 4 units in the last place; 0 from -700 on."""
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    exponentials = np.empty_like(flat)
    rest, powers = (np.empty(min(flat.size, _AT_ONCE)) for _ in range(2))
    for start in range(0, flat.size, _AT_ONCE):
        own = flat[start : start + _AT_ONCE]
        _exp_of_some(own, exponentials[start : start + _AT_ONCE], rest[: own.size], powers[: own.size])
    return exponentials.reshape(np.shape(values))


def _exp_of_some(values: Array, found: Array, rest: Array, powers: Array) -> None:
    """:func:`exp`, with room for what is between."""
    inside = bool(values.min() > -700.0)
    near = values if inside else np.maximum(values, -700.0)
    np.multiply(near, 1.0 / math.log(2.0), out=powers)
    np.rint(powers, out=powers)
    np.subtract(near, np.multiply(powers, _LN2_HIGH, out=found), out=rest)
    rest -= np.multiply(powers, _LN2_LOW, out=found)
    np.multiply(rest, _TAYLOR[0], out=found)
    found += _TAYLOR[1]
    for coefficient in _TAYLOR[2:]:
        found *= rest
        found += coefficient
    # Exact: powers from -1010 on are those of normal numbers, and so is what they give. Beside 2**52 the last bits of a
    # float are the whole number that is added, here an exponent, which the shift moves to its place.
    powers += 2.0**_FRACTION_BITS + _BIAS
    exponents = powers.view(np.int64)
    exponents <<= _FRACTION_BITS
    found *= powers
    if not inside:
        np.copyto(found, 0.0, where=~(values > -700.0))


def sigmoid(values: Array) -> Array:
    """``1 / (1 + e^-x)``."""
    small = np.abs(values)
    small = exp(np.negative(small, out=small))
    probabilities = np.where(values >= 0.0, 1.0, small)
    small += 1.0
    probabilities /= small
    return probabilities


def tanh(values: Array) -> Array:
    """Hyperbolic tangent, within 2**-52 absolutely."""
    small = np.abs(values)
    small *= -2.0
    small = exp(small)
    tangents: Array = 1.0 - small
    small += 1.0
    tangents /= small
    return np.copysign(tangents, values, out=tangents)


def softmax(values: Array) -> Array:
    """Probabilities by row, in steps of 2**-40 of the largest, so that their sum is exact."""
    probabilities = exp(values - largest_by_row(values)[:, None])
    probabilities *= 2.0**40
    np.rint(probabilities, out=probabilities)
    if values.shape[1] <= _FEW_CLASSES:
        # At most 2**13 classes of at most 2**40: whole numbers up to 2**53, exact in float64 in any order.
        probabilities /= (probabilities @ np.ones(values.shape[1]))[:, None]
        return probabilities
    # At most 2**15 classes: exact in int64.
    probabilities /= probabilities.astype(np.int64).sum(axis=1, keepdims=True).astype(np.float64)
    return probabilities


def largest_by_row(values: Array) -> Array:
    """Largest number of each row, shape (n,); a maximum has no order of sums."""
    # NumPy goes through short rows one by one.
    maxima: Array = np.ascontiguousarray(values.T).max(axis=0) if values.shape[1] < _SHORT else values.max(axis=1)
    return maxima


def _with_one(values: Array) -> Array:
    """Hidden values as integers, after the constant one."""
    inputs = np.empty((values.shape[0], values.shape[1] + 1))
    inputs[:, 0], inputs[:, 1:] = _STEPS, _steps(values)
    return inputs


def _steps(values: Array) -> Array:
    """Integers of at most 2**20."""
    steps: Array = np.clip(values, -_LIMIT, _LIMIT)
    steps *= _STEPS
    return np.rint(steps, out=steps)


def _largest_sum(matrix: Array) -> float:
    sizes = np.abs(matrix)
    return float(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))

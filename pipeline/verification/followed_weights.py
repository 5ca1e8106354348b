"""Weights that follow from released sums of gradients: each step of a training is followed again.

**Source**: Polyak, 1964 (momentum); Kingma and Ba, 2015, algorithm 1 (Adam); Loshchilov and Hutter, 2019 (weight decay
apart from the gradient, and the cosine schedule).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import CheckedArrays
from blockveil.pipeline.verification.stated_grid import Values
from blockveil.pipeline.verification.stated_numbers import stated_count, stated_number

_LARGEST_SUM = 2.0**19
"""Absolute sums of rows and columns to which weights are scaled down where training diverges."""

_NEAR = 1e-6
"""Part of the largest weight by which rounding may move one over all steps."""

_NOT_HELD = "of sums that were charged and are not published"
_START = "after steps that begin at weights of which it states the digest alone"

Layers = Mapping[str, tuple[int, int]]


def followed(check: CheckedArrays, layers: Layers, asked: Mapping[str, Any]) -> None:
    """Weights after the last step, where the sums of all steps are published and training began at zero.

    Parameters
    ----------
    check
        Arrays of the release.
    layers
        Shape of each layer by its name.
    asked
        The training, as the query states it.

    Raises
    ------
    OtherArray
        Weights are others, or have another shape.
    KeyError, TypeError, ValueError, ArithmeticError
        What they follow from is not stated, or cannot be.
    """
    names = [f"{layer}_weights" for layer in layers]
    for name, shape in zip(names, layers.values(), strict=True):
        check.of(name, shape)
    publishes = asked.get("publishes")
    if publishes == "weights":
        _last_of_all(check, layers, names, stated_count(asked, "steps"))
        return
    if publishes is not None:
        why = _NOT_HELD
    elif len(layers) > 1 or check.query["model"].get("weights_sha256") is not None:
        why = _START
    else:
        [(layer, shape)] = layers.items()
        weights = _descent(check, shape, asked)
        check.sums_to(f"{layer}_weights", weights, float(np.max(np.abs(weights))) * _NEAR / 1e-8)
        return
    for name in (*names, "gradient_length") if publishes is not None else names:
        check.skip(name, why)


def _last_of_all(check: CheckedArrays, layers: Layers, names: list[str], steps: int) -> None:
    """Weights after the last step are the last of those after each step."""
    check.skip("after_each_step", _NOT_HELD)
    sizes = [rows * columns for rows, columns in layers.values()]
    last, start = np.asarray(check.of("after_each_step", (steps, sum(sizes)))[steps - 1], np.float64), 0
    for name, shape, size in zip(names, layers.values(), sizes, strict=True):
        check.require(name, bool(np.array_equal(check.read(name, shape).ravel(), last[start : start + size])))
        start += size
    check.skip("gradient_length", _NOT_HELD)


def _descent(check: CheckedArrays, shape: tuple[int, int], asked: Mapping[str, Any]) -> Values:
    """Weights of one layer after all steps."""
    steps, examples = stated_count(asked, "steps"), stated_number(asked, "examples")
    if asked["batches"] == "fixed":
        examples *= 1.0 / stated_count(asked, "batch_count")
    elif asked["batches"] == "poisson":
        examples *= stated_number(asked, "sampling_probability")
    kind, rate, decay = asked["optimiser"], stated_number(asked, "learning_rate"), stated_number(asked, "weight_decay")
    momentum = stated_number(asked, "momentum") if kind == "momentum" else 0.9
    sums, weights = check.of("gradients", (steps, shape[0] * shape[1])), np.zeros(shape)
    velocity, squares = np.zeros(shape), np.zeros(shape)
    for step in range(steps):
        mean = np.asarray(sums[step], np.float64).reshape(shape) / examples
        now = rate * _share(asked["schedule"], step / steps)
        direction = mean
        if kind == "momentum":
            direction = velocity = momentum * velocity + mean
        elif kind == "adam":
            velocity, squares = 0.9 * velocity + 0.1 * mean, 0.999 * squares + 0.001 * mean**2
            root = np.sqrt(squares / (1.0 - 0.999 ** (step + 1)))
            direction = velocity / (1.0 - 0.9 ** (step + 1)) / (root + 1e-8)
        elif kind != "sgd":
            raise ValueError("optimiser")
        weights = weights * (1.0 - now * decay) - now * direction
        size = max(np.abs(weights).sum(axis=0).max(), np.abs(weights).sum(axis=1).max())
        weights = weights if size <= _LARGEST_SUM else weights * (_LARGEST_SUM / size)
    return weights


def _share(schedule: object, part: float) -> float:
    """Share of the rate after a part of the steps."""
    if schedule == "linear":
        return 1.0 - part
    if schedule == "cosine":
        return (1.0 + math.cos(math.pi * part)) / 2.0
    if schedule != "constant":
        raise ValueError("schedule")
    return 1.0

"""Sums of gradients, of one step or of all steps of a training, and the weights that follow from them.

A sum is stated by layers. One coordinate of a layer stands for ``C K / (K - sqrt(inputs) / 2)`` units of the gradient,
C the largest length of a gradient and K the largest integer, because directions are rounded within that length. With a
band, a step has noise of those before it too, with the coefficients of ``v_0 / v(x)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import DEVIATION, CheckedArrays
from blockveil.pipeline.verification.followed_weights import followed
from blockveil.pipeline.verification.stated_grid import Values, same
from blockveil.pipeline.verification.stated_numbers import largest_integer, stated_count, stated_number

_MOST_STEPS = 100_000


def gradients(check: CheckedArrays) -> None:
    """Of gradients; parameters and errors as :func:`.released_counts.cells`."""
    layers = [(int(rows), int(columns)) for rows, columns in check.mechanism["layers"]]
    if not layers or min(min(layer) for layer in layers) < 1:
        raise ValueError("layers")
    units = np.concatenate([np.full(rows * columns, _unit(check, columns)) for rows, columns in _stored(check, layers)])
    training = check.query.get("training")
    if training is None:
        _one_sum(check, layers, units)
        return
    _all_steps(check, layers, units, training)


def _stored(check: CheckedArrays, layers: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The layers, where as many numbers are stored, before anything of their size is made; raises ValueError."""
    stored = check.stored("gradients", None).shape
    size = sum(rows * columns for rows, columns in layers)
    if stored[-1] != size and tuple(stored) != layers[0]:
        raise ValueError("layers")
    return layers


def _unit(check: CheckedArrays, inputs: int) -> float:
    largest = largest_integer(check.stated)
    within = largest - (math.sqrt(inputs) / 2.0) * (1.0 + 1e-9) - 1e-3
    if within <= 0.0:
        raise ValueError("layers")
    return stated_number(check.query, "clipping_norm") * largest / within


def _one_sum(check: CheckedArrays, layers: Sequence[tuple[int, int]], units: Values) -> None:
    single = len(layers) == 1
    shape = layers[0] if single else (1, units.size)
    grid, whole = check.grid(shape), slice(None)
    of_each = units.reshape(shape)
    stored = shape if single else (units.size,)
    value, deviation = (check.read(f"gradients{ending}", stored).reshape(shape) for ending in ("", DEVIATION))
    low, high = (each * of_each for each in grid.steps(whole, whole))
    check.on_grid("gradients", value, (low, high), 2.0**-50 * np.abs(value))
    expected = (each * of_each for each in grid.deviations(whole, whole))
    check.require(f"gradients{DEVIATION}", same(deviation, *expected))
    features = [str(feature["name"]) for feature in check.query["geometry"]["features"]]
    if single:
        check.texts("output", [f"output {place}" for place in range(1, shape[0] + 1)])
        check.texts("input", ["constant", *features])
        return
    _weights(check, layers, features)
    start = 0
    for name, (rows, columns) in zip(_names(layers), layers, strict=True):
        part = slice(start, start + rows * columns)
        for ending, flat in (("", value), (DEVIATION, deviation)):
            own = f"{name}_gradients{ending}"
            check.require(own, bool(np.array_equal(check.read(own, (rows, columns)).ravel(), flat.ravel()[part])))
        start = part.stop


def _all_steps(
    check: CheckedArrays, layers: Sequence[tuple[int, int]], units: Values, asked: Mapping[str, Any]
) -> None:
    steps, weights = stated_count(asked, "steps"), units.size
    if steps > _MOST_STEPS or check.of("gradient_length", (steps,)) is None:
        raise ValueError("steps")
    rows = layers[0][0] if len(layers) == 1 else 1
    columns = weights // rows
    # Rows of all steps have one size of noise where they are stated as one number.
    if isinstance(check.mechanism["row_spread"], list):
        raise ValueError("row_spread")
    grid = check.grid((rows, columns))
    factors, first = _band(check.mechanism, steps)
    grid = replace(grid, integers=grid.integers * first)
    publishes = asked.get("publishes")
    step_numbers = range(steps) if publishes is None else range(steps - 1, steps)
    value = check.of("gradients", (len(step_numbers), weights))
    deviation = check.of(f"gradients{DEVIATION}", (len(step_numbers), weights))
    flat = units.reshape(rows, columns)
    low, high = ((each * flat).ravel() for each in grid.steps(slice(None), slice(None)))
    of_grid = [(each * flat).ravel() for each in grid.deviations(slice(None), slice(None))]
    of_noise = check.read("gradient_length_of_noise", (steps,))
    check.require("gradient_length_of_noise", same(of_noise, *(np.linalg.norm(each) * factors for each in of_grid)))
    lengths = check.read("gradient_length", (steps,))
    for place, step in enumerate(step_numbers):
        own = np.asarray(value[place], np.float64)
        check.on_grid("gradients", own[None, :], (low[None, :], high[None, :]), 2.0**-49 * np.abs(own))
        check.require(f"gradients{DEVIATION}", same(deviation[place], *(each * factors[step] for each in of_grid)))
        near = abs(lengths[step] - float(np.linalg.norm(own))) <= 1e-9 * float(np.linalg.norm(own))
        check.require("gradient_length", bool(near))
    _step_names(check, steps, publishes)
    _weights(check, layers, [str(feature["name"]) for feature in check.query["geometry"]["features"]])
    followed(check, dict(zip(_names(layers), layers, strict=True)), asked)


def _step_names(check: CheckedArrays, steps: int, publishes: object) -> None:
    check.texts("step", [f"step {step}" for step in range(1, steps + 1)])
    if publishes is not None:
        check.texts("last_step", [f"step {steps}"])


def _band(mechanism: Mapping[str, Any], steps: int) -> tuple[Values, float]:
    """Noise of each step over that of the first, and the first weight of the band."""
    weights = [stated_count({"weight": each}, "weight") for each in mechanism.get("band", [1])]
    if len(weights) > 1024:
        raise ValueError("band")
    inverse = np.zeros(steps)
    for step in range(steps):
        back = min(len(weights) - 1, step)
        convolution = float(np.dot(np.array(weights[1 : back + 1], np.float64), inverse[step - back : step][::-1]))
        inverse[step] = (step == 0) - convolution / weights[0]
    return np.sqrt(np.cumsum(inverse**2)), float(weights[0])


def _names(layers: Sequence[tuple[int, int]]) -> list[str]:
    """What the layers are called."""
    hidden = ["hidden"] if len(layers) == 2 else [f"hidden_{place}" for place in range(1, len(layers))]
    return [*hidden, "last"] if len(layers) > 1 else ["last"]


def _weights(check: CheckedArrays, layers: Sequence[tuple[int, int]], features: Sequence[str]) -> None:
    """Names of all weights, in the order of a sum."""
    inputs, names = ["constant", *features], list[str]()
    for name, (rows, _) in zip(_names(layers), layers, strict=True):
        unit = "output" if name == "last" else name.replace("hidden", "unit")
        units = [f"{unit} {place}" for place in range(1, rows + 1)]
        names += [f"{each} of {one}" for each in units for one in inputs]
        inputs = ["constant", *units]
    check.texts("weight", names)

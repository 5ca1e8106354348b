"""Whether a release of gradients is what it states: how far one gradient moves it, and sums and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from blockveil.pipeline.verification.moved_sums import multiplied
from blockveil.pipeline.verification.released_gradients import gradients
from blockveil.pipeline.verification.stated_noise import StatedLaw, replaces
from blockveil.pipeline.verification.stated_numbers import Moved, least_size, stated_count, weights
from blockveil.pipeline.verification.stated_sensitivity import integers
from blockveil.pipeline.verification.stated_shapes import Shape

_MOST_LISTED = 2**16
"""Entries of a gradient up to which their sum of absolute values is bounded."""


def _moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    """Of a gradient of the largest length that the query allows, which it is cut to; two may be opposite."""
    mechanism, largest = stated["mechanism"], integers(stated, 2)
    layers = [[stated_count({"units": units}, "units") for units in layer] for layer in mechanism["layers"]]
    if layers != _layers(stated["query"]):
        raise ValueError("layers")
    rows, inputs = sum(layer[0] for layer in layers), max(layer[1] for layer in layers)
    size = [least_size(mechanism, key) for key in ("row_spread", "column_spread")]
    twice = 4 if replaces(stated) else 1
    if power == 1 and all(not isinstance(mechanism[key], list) for key in ("row_spread", "column_spread")):
        shape = layers[0] if len(layers) == 1 else [1, sum(math.prod(layer) for layer in layers)]
        if math.prod(shape) <= _MOST_LISTED:
            return _spread_gradient(shape, size, largest).times(Fraction(twice))
    length = Fraction(Shape(largest, rows).radius * Shape(largest, inputs).radius, largest**2)
    # Along one weight, that of the least noise.
    most = twice / (Fraction(size[0]) * Fraction(size[1])) ** 2
    return Moved(length**2 * most, most if power == 2 else None)


def _layers(query: Mapping[str, Any]) -> list[list[int]]:
    """Outputs and inputs of each layer, one of these the constant."""
    model, hidden = query["model"], query["model"].get("hidden_units") or []
    outputs = [*(hidden if isinstance(hidden, list) else [hidden])]
    outputs.append(model["target"]["classes"] if model["loss"] == "softmax" else 1)
    inputs = [len(query["geometry"]["features"]), *outputs]
    return [[units, before + 1] for units, before in zip(outputs, inputs, strict=False)]


def _spread_gradient(shape: Sequence[int], size: Sequence[float], largest: int) -> Moved:
    """In all weights alike, by the sum of its entries: as outer products of two records in balls."""
    balls = [Shape(largest, count) for count in shape]
    each = [weights([own] * count, 1) for own, count in zip(size, shape, strict=True)]
    return multiplied(balls, each, 1, replaced=False)


RELEASE_CHECKS = {
    "moved": _moved,
    "arrays": gradients,
    "laws": (StatedLaw.GAUSSIAN, StatedLaw.LAPLACE, StatedLaw.LENGTH),
}

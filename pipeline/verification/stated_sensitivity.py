"""Whether the sensitivity that a release states can be that of what it declares.

The answer moves by what one record changes in it, over the relative sizes of the noise, in the norm of the noise. Two
numbers are computed from the declared bounds alone, and from nothing that made the release: how far some records that
are written down move it, in whole steps, and a simple bound that none passes. A stated sensitivity below the first is
refuted. One that is not below the second is recomputed. Between the two it is not refuted, and no more is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from blockveil.pipeline.verification import moved_counts
from blockveil.pipeline.verification.checked_arrays import kind_checks
from blockveil.pipeline.verification.moved_diagonals import own_diagonal
from blockveil.pipeline.verification.moved_moments import entries, frobenius
from blockveil.pipeline.verification.moved_strategies import Arrays
from blockveil.pipeline.verification.moved_sums import largest_entry, multiplied, summed
from blockveil.pipeline.verification.stated_noise import StatedLaw, replaces, stated_law
from blockveil.pipeline.verification.stated_numbers import (
    Moved,
    largest_integer,
    least_size,
    sizes,
    stated_count,
    weights,
)
from blockveil.pipeline.verification.stated_shapes import Shape, stated_shape
from blockveil.pipeline.verification.stated_steps import nights_factor, steps_factor

_MOMENTS = {"second-moment": 0, "covariance": 1, "principal-directions": 0}
"""Answers that are second moments, and how many constant coordinates lead their records."""

_COUNTS = {"counts": moved_counts.cells, "column-histograms": moved_counts.bins, "marginals": moved_counts.tables}

_UNSCALED = ("analyze-gauss", "mod-sulq")
"""Mechanisms whose noise is as large off the diagonal as on it."""

_MOST_LISTED = 2**16
"""Entries of a gradient up to which their sum of absolute values is bounded."""


def moved(stated: Mapping[str, Any], arrays: Arrays | None = None) -> Moved:
    """How far one record moves what a release states, over the sizes of its noise.

    Parameters
    ----------
    stated
        Attributes of the release.
    arrays
        Arrays of the release by name, of which those of a searched strategy are read; None where they are not at hand.

    Raises
    ------
    KeyError
        It does not state what is needed, or something that is not known here.
    TypeError, ValueError, ArithmeticError
        What it states cannot be.
    """
    # What leaves the range of floats cannot be, and must not become something that no comparison finds.
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        return _moved(stated, arrays or {})


def _moved(stated: Mapping[str, Any], arrays: Arrays) -> Moved:
    kind, law = stated["query"]["kind"], stated_law(stated["mechanism"])
    power = 1 if law is StatedLaw.LAPLACE else 2
    of_kind = kind_checks(kind).get("moved")
    if (kind in _COUNTS or of_kind is not None) and law not in (StatedLaw.GAUSSIAN, StatedLaw.LAPLACE):
        raise ValueError(kind)
    if of_kind is not None:
        moved: Moved = of_kind(stated, arrays, power)
    elif kind in _COUNTS:
        moved = _COUNTS[kind](stated, arrays, power, replaced=replaces(stated))
    elif kind in _MOMENTS:
        moved = _of_moment(stated, law, _MOMENTS[kind])
    elif kind in ("rows", "totals"):
        moved = _of_sums(stated, law, counted=kind == "totals" and not replaces(stated))
    elif kind == "outer-products":
        moved = _of_products(stated, power)
    elif kind == "gradients":
        moved = _of_gradients(stated, power)
    else:
        raise KeyError(kind)
    return moved.times(Fraction(steps_factor(stated, power)) * nights_factor(stated))


def _whole(stated: Mapping[str, Any], power: int) -> int:
    """K, of which the unit of the answer is a power."""
    found = largest_integer(stated)
    if stated_count(stated["mechanism"], "unit") != found**power:
        raise ValueError("unit")
    return found


def _of_moment(stated: Mapping[str, Any], law: StatedLaw, lead: int) -> Moved:
    mechanism, replaced = stated["mechanism"], replaces(stated)
    shape = stated_shape(stated["query"]["geometry"], _whole(stated, 2), mechanism)
    spread = sizes(mechanism, "row_spread", lead + shape.features)
    if mechanism["column_spread"] != "as by row" or law not in (StatedLaw.GAUSSIAN, StatedLaw.LAPLACE):
        raise ValueError("column_spread")
    if mechanism.get("diagonal") is not None:
        if law is not StatedLaw.GAUSSIAN:
            raise ValueError("diagonal")
        return own_diagonal(shape, spread, lead, mechanism["diagonal"], replaced=replaced)
    if law is StatedLaw.LAPLACE:
        return entries(shape, weights(spread, 1), lead, replaced=replaced)
    unscaled = mechanism["mechanism"] in _UNSCALED
    return frobenius(shape, weights(spread, 2), lead, replaced=replaced, unscaled=unscaled)


def _of_sums(stated: Mapping[str, Any], law: StatedLaw, *, counted: bool) -> Moved:
    mechanism, replaced = stated["mechanism"], replaces(stated)
    shape = stated_shape(stated["query"]["geometry"], _whole(stated, 1), mechanism)
    row = least_size(mechanism, "row_spread")
    spread = [row * size for size in sizes(mechanism, "column_spread", counted + shape.features)]
    if stated["query"]["kind"] == "rows" and not replaced:
        raise ValueError("neighbours")  # the number of rows would be private, and is shown
    if law is StatedLaw.LARGEST:
        if not shape.high or counted:
            raise ValueError("grid")
        return largest_entry(shape, weights(spread, 1))
    power = 1 if law is StatedLaw.LAPLACE else 2
    return summed(shape, weights(spread, power), power, counted=counted, replaced=replaced)


def _of_products(stated: Mapping[str, Any], power: int) -> Moved:
    mechanism, query = stated["mechanism"], stated["query"]
    largest = _whole(stated, 2)
    shapes = [stated_shape(query[side], largest, mechanism, f"{side}_") for side in ("left", "right")]
    spreads = [
        weights(sizes(mechanism, key, shape.features), power)
        for key, shape in zip(("row_spread", "column_spread"), shapes, strict=True)
    ]
    return multiplied(shapes, spreads, power, replaced=replaces(stated))


def _of_gradients(stated: Mapping[str, Any], power: int) -> Moved:
    """Of a gradient of the largest length that the query allows, which it is cut to; two may be opposite."""
    mechanism, largest = stated["mechanism"], _whole(stated, 2)
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
    reached = Fraction(Shape(largest, rows).radius * Shape(largest, inputs).radius, largest**2)
    # Along one weight, that of the least noise.
    most = twice / (Fraction(size[0]) * Fraction(size[1])) ** 2
    return Moved(reached**2 * most, most if power == 2 else None)


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

"""Whether the sensitivity that a release states can be that of what it declares.

The answer moves by what one record changes in it, over the relative sizes of the noise, in the norm of the noise. Two
numbers are computed from the declared bounds alone, and from nothing that made the release: how far some records that
are written down move it, in whole steps, and a simple bound that none passes. A stated sensitivity below the first is
refuted. One that is not below the second is recomputed. Between the two it is not refuted, and no more is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import kind_checks
from blockveil.pipeline.verification.moved_strategies import Arrays
from blockveil.pipeline.verification.moved_sums import summed
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

_USUAL = (StatedLaw.GAUSSIAN, StatedLaw.LAPLACE)
"""Laws of noise where the checks of a kind name no others."""


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
    checks, power = kind_checks(kind), 1 if law is StatedLaw.LAPLACE else 2
    if "moved" not in checks:
        raise KeyError(kind)
    if law not in checks.get("laws", _USUAL):
        raise ValueError(kind)
    sensitivity: Moved = checks["moved"](stated, arrays, power)
    return sensitivity.times(Fraction(steps_factor(stated, power)) * nights_factor(stated))


def integers(stated: Mapping[str, Any], power: int) -> int:
    """Largest integer K of a coordinate, of which the unit of the answer is a power."""
    largest = largest_integer(stated)
    if stated_count(stated["mechanism"], "unit") != largest**power:
        raise ValueError("unit")
    return largest


def stated_sums(stated: Mapping[str, Any], *, counted: bool) -> tuple[Shape, list[float]]:
    """Shape of a record that is added to one row, and the sizes of its noise, the count's first where it is asked."""
    mechanism = stated["mechanism"]
    shape = stated_shape(stated["query"]["geometry"], integers(stated, 1), mechanism)
    row = least_size(mechanism, "row_spread")
    return shape, [row * size for size in sizes(mechanism, "column_spread", counted + shape.features)]


def moved_sums_of(stated: Mapping[str, Any], power: int, *, counted: bool) -> Moved:
    """How far one record moves sums of records, or the row that is its own; see :func:`.moved_sums.summed`."""
    shape, spread = stated_sums(stated, counted=counted)
    return summed(shape, weights(spread, power), power, counted=counted, replaced=replaces(stated))

"""Steps and deviations of the noise of every entry, from what a release states of its noise and its bounds.

An entry of the answer has ``unit`` integers for one, times ``2^shift``. Noise of a scale b and relative sizes r and c
of its row and column is drawn from a law on whole steps whose own scale is w, so that one step is ``b r c unit 2^shift
/ w`` integers, rounded up. In a Frobenius norm each entry beside the diagonal counts twice, so that its noise is
smaller by the root of two. An entry of the diagonal may have noise of its own, and shares some with others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.stated_noise import StatedLaw, stated_law
from blockveil.pipeline.verification.stated_numbers import sizes, stated_count, stated_number
from blockveil.pipeline.verification.stated_rounding import StatedRounding

Values = NDArray[np.float64]

_NEAR = 1e-11
"""Part of a step by which its ideal size may be off, so that either of two whole numbers may be its rounded one."""

_SAME = 1e-9
"""Relative distance of two ways to compute a number in floats."""

_MOST_STEPS = 2.0**44
"""Steps of a value beyond which a float does not show whether they are whole."""

_SECOND, _THIRD = 1087, 1_180_000
"""Factors of the second and third part of a number that is drawn (Micciancio and Walter, 2017)."""

_MOST_NIGHTS = 10_000

WINDOW = "window of nights"
"""Key by which a check says of which last nights its arrays are."""

_TRANSFER = 100
"""Variance that a sum of discrete parts is taken to lack of a whole one."""


@dataclass(frozen=True, eq=False)
class StatedGrid:
    """Steps and deviations of the entries of an answer.

    Attributes
    ----------
    rows, columns
        Relative sizes of the noise.
    step
        Integers of a step where these are one.
    beside
        Factor of an entry beside the diagonal.
    integers
        Integers of one unit of the answer.
    deviation
        Of the law of the noise, in steps.
    own
        Integers of a step of each entry of the diagonal; None where they follow from its row and column.
    common
        How often each entry of the diagonal takes the numbers that are shared, and how many there are.
    rounding
        Error by rounding of records, which deviations include; None where they are those of the noise alone.
    """

    rows: Values
    columns: Values
    step: float
    beside: float
    integers: float
    deviation: float
    own: Values | None
    common: tuple[Values, float] | None
    rounding: StatedRounding | None = None

    def steps(self, rows: slice, columns: slice) -> tuple[Values, Values]:
        """Steps of a block, in units of the answer, rounded up from just below and from just above their ideal size."""
        ideal = np.multiply.outer(self.rows[rows], self.columns[columns]) * self.step
        diagonal = np.add.outer(np.arange(self.rows.size)[rows], -np.arange(self.columns.size)[columns]) == 0
        if self.beside != 1.0 or self.own is not None:
            ideal = np.where(diagonal, ideal, ideal * self.beside)
        if self.own is not None:
            ideal[diagonal] = self.own[rows][np.flatnonzero(diagonal.any(axis=1))]
        low, high = (np.maximum(np.ceil(ideal * factor), 1.0) for factor in (1.0 - _NEAR, 1.0 + _NEAR))
        return low / self.integers, high / self.integers

    def deviations(self, rows: slice, columns: slice) -> tuple[Values, Values]:
        """Standard deviations of a block, by both of its steps, in units of the answer."""
        low, high = (step * self.deviation for step in self.steps(rows, columns))
        if self.common is not None:
            times, shared = self.common
            growth = np.diag(np.sqrt(1.0 + shared * times**2) - 1.0)[rows, columns] + 1.0
            low, high = low * growth, high * growth
        if self.rounding is not None:
            beside = self.rounding.deviations(rows, columns)
            low, high = np.hypot(low, beside), np.hypot(high, beside)
        return low, high


def law_deviation(mechanism: Mapping[str, Any]) -> tuple[float, float]:
    """Standard deviation of the stated law in steps, and its scale: that of continuous noise that is no more private.

    Raises
    ------
    KeyError
        The law is not one whose deviation is computed here.
    """
    law, numbers = stated_law(mechanism), [int(each) for each in re.findall(r"\d+", str(mechanism["grid"]))]
    if law is StatedLaw.GAUSSIAN:
        levels, width = numbers
        if levels not in (2, 3) or not 0 < width < 2**31:
            raise ValueError("grid")
        variance = width**2 * (1 + _SECOND**2 + (_THIRD**2 if levels == 3 else 0))
        return math.sqrt(variance), math.sqrt(variance - _TRANSFER)
    top, below, *entries = numbers
    if not (0 < top < 2**63 and 0 < below < 2**63):
        raise ValueError("grid")
    if law is StatedLaw.LAPLACE:
        return laplace_deviation(top, below), below / top
    if not 0 < entries[0] < 2**53:
        raise ValueError("grid")
    # Radii have the law of a gamma variable, of d + 1 for a cube and of d for a ball, and directions an even one.
    of_one = (entries[0] + 1.0) * (entries[0] + 2.0) / 3.0 if law is StatedLaw.LARGEST else entries[0] + 1.0
    return math.sqrt(of_one) * below / top, below / top


def laplace_deviation(top: int, below: int) -> float:
    """Standard deviation of discrete Laplace noise of a rate, in steps: ``Var = 2 q / (1 - q)^2``, ``q = e^-rate``."""
    rate = top / below
    return math.sqrt(2.0 * math.exp(-rate)) / -math.expm1(-rate)


def stated_grid(mechanism: Mapping[str, Any], shape: Sequence[int], lead: int, *, unscaled: bool) -> StatedGrid:
    """Grid of an answer that gets additive noise.

    Parameters
    ----------
    mechanism
        As the release states it.
    shape
        Rows and columns of the answer.
    lead
        Constant coordinates in front.
    unscaled
        Whether noise of a symmetric answer is as large beside the diagonal as on it.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, not known here, or cannot be.
    """
    symmetric = mechanism["column_spread"] == "as by row"
    rows = np.array(_by_row(mechanism, shape[0]))
    columns = rows if symmetric else np.array(sizes(mechanism, "column_spread", shape[1]))
    deviation, scale = law_deviation(mechanism)
    deviation *= read_factor(mechanism)
    grid_deviation = stated_number(mechanism, "grid_standard_deviation")
    if abs(grid_deviation - deviation) > _SAME * deviation and WINDOW not in mechanism.get("continual", {}):
        raise ValueError("grid_standard_deviation")
    shift = mechanism["shift"]
    if type(shift) is not int or abs(shift) > 1000:
        raise ValueError("shift")
    integers = stated_number(mechanism, "unit") * 2.0**shift
    step = stated_number(mechanism, "scale") / scale * integers
    gaussian = stated_law(mechanism) is StatedLaw.GAUSSIAN
    beside = math.sqrt(0.5) if symmetric and gaussian and not unscaled else 1.0
    diagonal = mechanism.get("diagonal")
    if diagonal is None:
        return StatedGrid(rows, columns, step, beside, integers, deviation, None, None)
    gain, shared = stated_number(diagonal, "gain"), stated_number(diagonal, "shared")
    own = step * rows ** stated_number({"power": 2.0, **diagonal}, "power") / math.sqrt(gain)
    times = np.ones(rows.size)
    if lead:
        own[:lead] = step * rows[:lead] ** 2 / math.sqrt(stated_number({"first": 1.0, **diagonal}, "first"))
        times[:lead] = stated_number({"times": 0.0, **diagonal}, "times")
    return StatedGrid(rows, columns, step, math.sqrt(0.5), integers, deviation, own, (times, shared))


def _by_row(mechanism: Mapping[str, Any], rows: int) -> list[float]:
    """Sizes by row, which of a strategy are stated as each size and how often it follows itself."""
    if "strategy" not in mechanism:
        return sizes(mechanism, "row_spread", rows)
    runs = [(size, stated_count({"rows": count}, "rows")) for size, count in mechanism["row_spread"]]
    if sum(count for _, count in runs) != rows:
        raise ValueError("row_spread")
    return sizes({"row_spread": [size for size, count in runs for _ in range(count)]}, "row_spread", rows)


def read_factor(mechanism: Mapping[str, Any]) -> float:
    """Deviation of what is read of a night whose records are weighed by age, over that of its measurement.

    What is read is ``(measured - sum r_l read(a_l ago)) / v_0`` with the differences r of the weights, so that noise of
    k nights ago takes part with the coefficients of ``1 / r(x)``. One where nights share nothing.
    """
    series = mechanism.get("continual")
    if series is None:
        return 1.0
    weights = [stated_count({"weight": each}, "weight") for each in series["weights"]]
    night, inverse = stated_count(series, "night"), list[float]()
    if night > _MOST_NIGHTS:
        raise ValueError("night")
    ages = [0 if level == 0 else 2 ** (level - 1) for level in range(len(weights))]
    adds = [(age, after - before) for age, before, after in zip(ages[1:], weights, weights[1:], strict=False)]
    for k in range(night):
        convolution = sum(add * inverse[k - age] for age, add in adds if age <= k)
        inverse.append(((k == 0) - convolution) / weights[0])
    back = stated_count(series, WINDOW) if WINDOW in series else night
    if back < night:  # what the last nights brought is the difference of two nights
        inverse = [own - before for own, before in zip(inverse, [0.0] * back + inverse[: night - back], strict=True)]
    return math.sqrt(math.fsum(each * each for each in inverse))


def on_steps(values: Values, steps: tuple[Values, Values], allowed: Values | float = 0.0) -> bool:
    """Whether all values are whole numbers of either of their steps, as far as floats show it.

    Parameters
    ----------
    values, steps
        In the same unit.
    allowed
        Float error of the values beyond that of one operation, in their unit.
    """
    fits = np.zeros(values.shape, bool)
    # A step of so many integers that several of them are as near to its ideal size is known to that part alone.
    unsure = np.where(steps[1] - steps[0] > 4.0 * _NEAR * steps[0], 0.0, (steps[1] - steps[0]) / steps[0])
    for step in steps:
        multiples = values / step
        off = np.abs(multiples - np.rint(multiples)) - np.abs(allowed / step)
        fits |= (off <= np.abs(multiples) * (2.0**-49 + unsure) + 2.0**-40) | (np.abs(multiples) > _MOST_STEPS)
    return bool(np.all(fits))


def same(values: Any, *expected: Any) -> bool:
    """Whether all values are, up to rounding, those of one of the expected arrays."""
    numbers = np.asarray(values, np.float64)
    fits = np.zeros(numbers.shape, bool)
    for each in expected:
        reference = np.broadcast_to(np.asarray(each, np.float64), numbers.shape)
        fits |= np.abs(numbers - reference) <= _SAME * np.abs(reference)
    return bool(np.all(fits))

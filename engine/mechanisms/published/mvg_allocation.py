"""How a precision budget is shared between directions: by rule, by importance, or for the best power-to-noise ratio.

The ratio of Theorem 7 is ``prod (1 + signal variance_i * precision_i)``. The theorem's closed form gives negative
precisions, hence no covariance, when the budget is small; its maximiser is water-filling, ``(level - 1 / signal
variance_i)_+``. On a Frobenius ball the exact optimum is isotropic, so the theorem's programme makes sense for the
linear budget of a box, ``sum c_i^2 precision_i = mu^2``, where it is exact.

Signal variances and importances must be public or paid for. The paper takes them from the records, which is not
private; it also writes the optimum as ``Q' .. Q`` where ``Q .. Q'`` is meant, and a Kronecker product that in general
does not exist.

**Source**: MVG (CCS 2018), section 7 and Theorem 7 of the full version, and the allocations of its Experiment I.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Vector

_DOWN = 1.0 - 2.0**-47
"""Keeps what is spent, and the loss of the design rounded up, below the budget."""


@dataclass(frozen=True, eq=False)
class MaxPNR:
    """Precisions that are to maximise the power-to-noise ratio.

    Attributes
    ----------
    level
        The level from which ``cost_i / signal variance_i`` is subtracted; the paper's c.
    precisions
        Shape (m,); zero is a direction that is not released.
    valid
        Whether they are precisions at all: false where the published closed form leaves its range.
    """

    level: float
    precisions: Vector
    valid: bool


def uniform_allocation(directions: int) -> Vector:
    """Equal shares, shape (directions,)."""
    if directions < 1:
        raise CalibrationError(f"there are {directions} directions; an allocation needs at least one; count them")
    return np.full(directions, 1.0 / directions)


def binary_allocation(important: NDArray[np.bool_], share: float) -> Vector:
    """A share in equal parts to the important directions, the rest in equal parts to the others.

    Parameters
    ----------
    important
        Which directions are important, shape (m,); some and not all.
    share
        Tau as a fraction, in (0, 1); choosing it by looking at the records is a release of its own.

    Raises
    ------
    CalibrationError
        The share is not in (0, 1), or one of the two groups is empty.

    **Source**: MVG (CCS 2018), section 7 and Experiment I of the full version.
    """
    count = int(np.count_nonzero(important))
    if not 0.0 < share < 1.0 or not 0 < count < important.size:
        raise CalibrationError(
            f"share is {share} for {count} of {important.size} directions; it must lie between 0 and 1 and both groups "
            "need a direction; use uniform_allocation otherwise"
        )
    return np.where(important, share / count, (1.0 - share) / (important.size - count))


def exact_box_max_pnr(signal_variances: Vector, half_widths: Vector, squared_mu: float) -> MaxPNR:
    """Largest power-to-noise ratio under the exact budget of a box: ``(level / c_i^2 - 1 / signal variance_i)_+``.

    Parameters
    ----------
    signal_variances
        Public or paid-for signal variances along the directions, not negative, not all zero, shape (m,).
    half_widths
        Largest change c_i along each direction, positive, shape (m,).
    squared_mu
        Budget ``sum c_i^2 precision_i = mu^2``.

    Returns
    -------
    Precisions that spend at most the budget.

    Raises
    ------
    CalibrationError
        A parameter is out of range.

    **Source**: corrects MVG (CCS 2018), Theorem 7, by the exact condition of Balle and Wang, 2018.
    """
    budget = _budget(squared_mu)
    signal = _checked("signal variance", signal_variances, signal_variances.size)
    costs = _checked("bound", half_widths, signal.size, positive=True) ** 2
    floors = np.full(signal.shape, math.inf)
    np.divide(costs, signal, out=floors, where=signal > 0)
    lowest = float(np.min(floors))
    # Heights above the lowest floor, so that a large common part of the floors cannot swamp a small budget.
    heights = np.sort((floors - lowest)[np.isfinite(floors)])
    levels = (budget + np.cumsum(heights)) / np.arange(1, heights.size + 1)
    # The last direction whose floor lies below the level of all directions up to it; the first one always does.
    level = float(levels[np.flatnonzero(levels > heights)[-1]])
    spent = np.maximum(level - (floors - lowest), 0.0)
    # sum of what is spent <= budget keeps the promise, whatever the roundings above.
    precisions: Vector = spent * (min(1.0, budget / math.fsum(spent)) * _DOWN) / costs
    return MaxPNR(level + lowest, precisions, True)


def _checked(name: str, values: Vector, size: int, positive: bool = False) -> Vector:
    good = values.shape == (size,) and size > 0 and bool(np.all(np.isfinite(values)) and np.any(values > 0))
    if not good or np.any(values < 0) or (positive and np.any(values == 0)):
        raise CalibrationError(f"a {name} is negative, zero or not finite, or their number is wrong; correct them")
    return values


def _budget(budget: float) -> float:
    if not (math.isfinite(budget) and budget > 0):
        raise CalibrationError(f"the budget is {budget}; it must be finite and positive; calibrate it first")
    return budget

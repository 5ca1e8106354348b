"""A box within a ball, ``|d_i| <= c_i`` and ``|d|_2 <= C``: features clipped one by one and then together.

Gaussian noise with independent variances K_i on answers whose differences fill the set is as two unit Gaussians whose
means differ by ``mu = sup |K^-1/2 d|``. As ``sum d_i^2 / K_i`` is linear in the squares ``y_i = d_i^2``, the supremum
is a fractional knapsack: room C^2, items of size c_i^2, gain 1/K_i for each unit of size.

**Source**: Balle and Wang, 2018, Theorem 8, through the whitened answer; the supremum is derived here.
"""

from __future__ import annotations

import math

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Vector

_UP = 1.0 + 2.0**-46
"""Covers a few roundings of each term and NumPy's pairwise sum of up to 2**30 of them, with room to spare."""


def knapsack_loss(half_widths: Vector, radius: float, variances: Vector) -> float:
    """Largest ``|K^-1/2 d|`` over the set: the mu of independent noise, rounded up by less than 3e-14.

    Parameters
    ----------
    half_widths
        c, shape (n,), finite, not negative and not all zero.
    radius
        C, positive.
    variances
        K, shape (n,), positive; infinite where an entry is not released.

    Returns
    -------
    The loss; zero where nothing is released.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    _check(half_widths, radius)
    if variances.shape != half_widths.shape or not np.all(variances > 0):
        raise CalibrationError(
            f"{variances.size} variances are given for {half_widths.size} entries; each must be positive; "
            "use infinity for an entry that is not released"
        )
    least = float(np.min(variances[half_widths > 0]))
    if math.isinf(least):
        return 0.0
    gains = least / np.maximum(variances, least)  # entries of width zero do not matter
    sizes = np.minimum(half_widths / radius, 1.0) ** 2
    order = np.argsort(-gains, kind="stable")
    split = int(np.searchsorted(np.cumsum(sizes[order]), 1.0))
    price = float(gains[order[split]]) if split < order.size else 0.0
    # Weak duality: sum gain y <= price + sum (gain - price)+ size holds at any price >= 0, so that rounding in the
    # search for the split cannot make the bound too small.
    value = price + float(np.sum(np.maximum(gains - price, 0.0) * sizes))
    return math.sqrt(value) * radius / math.sqrt(least) * _UP


def water_level(half_widths: Vector, importance: Vector, radius: float) -> float:
    """Level t at which ``sum min(c_i, t sqrt(w_i))^2 = radius^2``; infinite where the box lies within the ball.

    Parameters
    ----------
    half_widths, importance
        c not negative and w positive, shape (n,).
    radius
        Positive.
    """
    c = np.minimum(half_widths / radius, 2.0)
    order = np.argsort(c / np.sqrt(importance))
    below = np.concatenate([[0.0], np.cumsum(c[order] ** 2)])
    above = np.concatenate([np.cumsum(importance[order][::-1])[::-1], [0.0]])
    if below[-1] <= 1.0:
        return math.inf
    # Between two break points the sum is below + t^2 above; the first interval that reaches one holds the level.
    reached = below[:-1] + (c[order] ** 2 / importance[order]) * above[:-1] >= 1.0
    first = int(np.argmax(reached)) if np.any(reached) else order.size - 1
    level = math.sqrt(max(1.0 - below[first], 0.0) / above[first])
    # Rounding may leave nothing for an interval that is just reached; the level is at least its lower end.
    least = float(c[order[first - 1]] / math.sqrt(importance[order[first - 1]])) if first else 0.0
    return radius * max(level, least)


def _check(half_widths: Vector, radius: float) -> None:
    if not np.all(np.isfinite(half_widths)) or np.any(half_widths < 0) or not np.any(half_widths > 0):
        raise CalibrationError(
            "bounds are finite numbers, not negative, not all zero, one for each entry; declare them"
        )
    if not (math.isfinite(radius) and radius > 0):
        raise CalibrationError(f"the radius is {radius}; it must be finite and positive; declare it")

"""Least independent Gaussian noise for answers that change within a box, or within a box and a ball.

Write K for the variances and mu for the largest ``|K^-1/2 d|`` over the changes d. For each set below the variances are
those of least ``sum w_i K_ii`` at a given mu, and no covariance has less.

=================== ==================================== ==============================================
set                 variances                            remark
=================== ==================================== ==============================================
box c               ``K_ii = c_i S / (mu^2 sqrt(w_i))``  ``S = sum c_j sqrt(w_j)``
box c, ball C       ``1 / max(sqrt(w_i) / c_i, 1 / t)``  ``sum min(c_i, t sqrt(w_i))^2 = C^2``, scaled
=================== ==================================== ==============================================

Sets that are given as finite lists of points are solved numerically with a certificate: :mod:`.duality`.

**Source**: Nikolov, Talwar and Zhang, 2016; Edmonds, Nikolov and Ullman, 2020; the box within a ball is derived here.
"""

from __future__ import annotations

import math

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.box_with_ball import knapsack_loss, water_level

_UP = 1.0 + 2.0**-44
"""Variances end this much on the private side; four times what :func:`.knapsack_loss` is rounded up."""


def box_variances(half_widths: Vector, importance: Vector, mu: float) -> Vector:
    """Variances of least weighted total for ``|d_i| <= c_i``; shape (n,).

    Parameters
    ----------
    half_widths
        Largest changes c, positive, shape (n,).
    importance
        Weights w, positive, shape (n,).
    mu
        Loss to spend, positive.

    Raises
    ------
    CalibrationError
        A parameter is not positive and finite.
    """
    c, w = _positive("half width", half_widths), _positive("importance", importance)
    root = np.sqrt(w)
    variances: Vector = c * (float(np.sum(c * root)) * _UP / _loss(mu) ** 2) / root
    return variances


def box_with_ball_variances(half_widths: Vector, radius: float, importance: Vector, mu: float) -> Vector:
    """Noise of least weighted total on a box within a ball, scaled to its exact loss; shape (n,).

    By duality the least total is ``(sum sqrt(w_i y_i))^2 / mu^2`` at the worst squares ``y <= c^2, sum y <= C^2``. That
    is concave in y, so ``y_i = min(c_i^2, w_i t^2)`` with a level t that fills the ball, and the precisions are
    proportional to ``sqrt(w_i / y_i) = max(sqrt(w_i) / c_i, 1 / t)``: noise does not follow the widest features, for
    which the ball is the tighter bound. No covariance, diagonal or not, has a smaller total: signs may be mixed, so
    that the dual's moment ``diag(y)`` is one of the set.
    """
    c, w = _positive("half width", half_widths), _positive("importance", importance)
    precisions = np.maximum(np.sqrt(w) / c, 1.0 / water_level(c, w, radius))
    loss = knapsack_loss(c, radius, 1.0 / precisions)
    variances: Vector = (loss / _loss(mu)) ** 2 * _UP / precisions
    return variances


def _positive(name: str, values: Vector) -> Vector:
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise CalibrationError(f"a {name} is not positive and finite; give one for each entry; declare bounds")
    return values


def _loss(mu: float) -> float:
    if not (math.isfinite(mu) and mu > 0):
        raise CalibrationError(f"mu is {mu}; it must be finite and positive; calibrate it from epsilon and delta")
    return mu

"""Closed forms of least Gaussian noise on sets that no release uses; independent numbers are compared with them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blockveil.engine.guarantees.guarantee import Neighbours


def box_loss(half_widths, variances):
    """Loss mu of independent noise on ``|d_i| <= c_i``."""
    return float(np.linalg.norm(half_widths / np.sqrt(variances)))


@dataclass(frozen=True)
class TwoVariances:
    """Noise on symmetric matrices: one variance along the identity, another on the traceless part."""

    trace: float
    traceless: float
    total: float
    isotropic_total: float


def ball_second_moment(features, radius, mu):
    """Noise of least total for ``sum x x'`` of rows in a ball under add-remove.

    ``x x'`` has squared part ``C^4 / m`` along the identity and ``C^4 (1 - 1/m)`` on the traceless part; Lagrange.
    """
    along, across = 1.0 / math.sqrt(features), math.sqrt(1.0 - 1.0 / features)
    traceless = features * (features + 1) / 2.0 - 1.0
    both = along + across * math.sqrt(traceless)
    unit = radius**4 / mu**2
    each = across / math.sqrt(traceless) * both * unit if traceless else 0.0
    return TwoVariances(along * both * unit, each, both**2 * unit, features * (features + 1) / 2.0 * unit)


def ellipsoid_second_moment_total(squared_axes, mu, neighbours):
    """Expected squared error of ``kappa E^1/2 G E^1/2 / mu`` for rows in an ellipsoid, and that of isotropic noise."""
    unit = (1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0) / mu**2
    shaped = (float(np.sum(squared_axes)) ** 2 + float(np.sum(squared_axes**2))) / 2.0
    m = squared_axes.size
    return shaped * unit, m * (m + 1) / 2.0 * float(np.max(squared_axes)) ** 2 * unit


def centred_covariance_sensitivity(rows, radius, divisor):
    """Largest Frobenius change of ``sum (x - mean)(x - mean)' / divisor`` under replace-one, records in a ball.

    With x and y relative to the mean m of the others it is ``(N-1)/N ((x-m)(x-m)' - (y-m)(y-m)')``, whose norm is
    largest, ``4 C^2 (N-1)/N``, when x and m are opposite ends of a diameter and y is m. Sharpens MVG, Experiment II.
    """
    return 4.0 * radius**2 * (rows - 1) / rows / divisor

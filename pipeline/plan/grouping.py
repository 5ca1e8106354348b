"""Several rows per unit: noise is calibrated for one row and charged for all rows that one unit may have.

Let a unit have at most k rows in the store, which its ingest makes true, and let neighbours differ by one unit present
or absent. Then there are stores ``D_0, ..., D_j``, j at most k, from one neighbour to the other, each one row less than
the one before and each a store that the release would accept. A mechanism whose loss between each two of them is
``(mu, epsilon)`` has the loss ``(k mu, k epsilon)`` between the ends:

* pure: ratios of probabilities multiply, at most ``e^epsilon`` each;
* Gaussian: a trade-off function above ``G_mu`` at each step is above ``G_(k mu)`` after k steps;
* an event of probability delta at step i is seen through the i steps before it, which the pure part may enlarge:
  ``sum over i < k of delta e^(i epsilon)``. Samplers' distances from their laws count at the two ends only, which is
  less; they are charged like such events.

So no mechanism needs to know of units. For sums the same follows from the triangle inequality: the sensitivity of k
rows is at most k times that of one.

**Source**: Dong, Roth and Su, 2022, Theorem 2.14 (groups of Gaussian losses); Dwork and Roth, 2014, Theorem 2.2 (pure);
Vadhan, 2017, Lemma 2.2 (approximate).
"""

from __future__ import annotations

import math

from blockveil.engine.guarantees.calibration import CannotCalibrate, gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.pipeline.config import PrivacySection

_ROUND_UP = 1.0 + 2.0**-50
_MARGIN = 1.0 - 1e-9
"""Pays for the roundings on the way to one row and back, and for samplers' distances."""


def guarantee_of_a_row(whole: ApproxDP, privacy: PrivacySection) -> ApproxDP:
    """Guarantee for one row that amounts to ``whole`` for all rows of a unit.

    The point of the Gaussian curve of ``mu / k`` at ``epsilon / k``: right for Gaussian losses at any of its points,
    and for pure ones at this.
    """
    rows = privacy.rows_per_unit or 1
    if rows == 1:
        return whole
    epsilon = whole.epsilon / rows * _MARGIN
    delta = gaussian_delta(gaussian_mu(whole.epsilon, whole.delta) / rows * _MARGIN, epsilon)
    return ApproxDP(epsilon, delta)


def charge_of_a_unit(row: Loss, whole: ApproxDP, privacy: PrivacySection) -> Loss:
    """Loss between data sets that differ by one unit, from that between stores that differ by one row.

    Raises
    ------
    CannotCalibrate
        It exceeds what is promised; a mechanism was calibrated to something else.
    """
    rows = privacy.rows_per_unit or 1
    if rows == 1:
        return row
    if row.failure:
        raise CannotCalibrate("steps over secret samples have a proven loss for one row a unit alone")
    enlarged = sum(math.exp(min(i * row.epsilon, 700.0)) for i in range(rows))
    distance = row.total_variation * enlarged * _ROUND_UP
    unit = Loss(rows * row.mu * _ROUND_UP, rows * row.epsilon * _ROUND_UP, min(distance, 1.0 - 2.0**-53))
    # The proof is of this inequality alone, whatever the mechanism made of the guarantee for one row.
    if unit.delta(whole.epsilon) > whole.delta:
        raise CannotCalibrate(
            f"the loss of {rows} rows exceeds the guarantee of one unit; lower privacy.rows_per_unit, or raise epsilon"
        )
    return unit

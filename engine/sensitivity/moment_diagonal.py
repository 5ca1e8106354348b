"""Sensitivity of second moments in a box where noise on the diagonal has a size of its own, exact.

Records v lie in ``[-1, 1]^d``, or in ``[0, 1]^d``. Gaussian noise on ``sum v v'`` has variance 1/2 in each entry off
the diagonal. On the diagonal each entry has variance ``1 / g`` by itself, and s further numbers of that variance are
added to each of its entries. So its covariance there is ``(I + s 11') / g``, whose inverse is ``g (I - s 11' / (1 + s
d))``. With ``k = g s / (1 + s d)``, a change D of the answer counts as

    N(D)^2 = sum over i != j of D_ij^2 + g sum D_ii^2 - k (sum D_ii)^2.

This is not negative, and the loss of noise that is c times as large is ``mu = sup N / c``, exactly.

**add-remove.** D = vv'. With ``u_i = v_i^2`` in [0, 1], U their sum and Q the sum of their squares, ``N^2 = U^2 - Q + g
Q - k U^2``. Its second derivative in one u_i is ``2 (g - k)``, and ``k < g / d <= g``: N^2 is convex in each u_i alone,
so that its maximum is at a corner, where each u_i is 0 or 1. With m of them at 1 it is

    m^2 - m + g m - k m^2,   a maximum over m = 0, ..., d.

A record with m features at an end and the others at the origin attains it.

**replace-one, in [-1, 1]^d, nothing shared.** D = yy' - zz'. Write ``y = p + q`` and ``z = p - q``, so that ``D_ij = 2
(p_i q_j + q_i p_j)``. All p and q may be taken as not negative, which only increases each D_ij^2 and keeps ``|p_i| +
|q_i| = max(|y_i|, |z_i|) <= 1``; then D_ij grows with each, so that ``p_i = (1 + s_i) / 2, q_i = (1 - s_i) / 2`` with
``s_i`` in [-1, 1]. That gives ``D_ij = 1 - s_i s_j``. With A the sum of all s_i, ``t_i = s_i^2`` and T their sum,

    N^2 = d^2 + f(t) - 2 A^2,   f(t) = T^2 + (g - 1) sum (1 - t_i)^2,

and f is convex, so that over a polytope its maximum is at a corner.

* *d even, g <= d + 1.* Over [0, 1]^d the corners with m ones have ``f = m^2 + (g - 1) (d - m)``, convex in m: at most
  ``max(d^2, (g - 1) d) = d^2``. So ``N^2 <= 2 d^2``, and two records with signs at all ends, half of which differ,
  attain it: ``t = 1, A = 0``.
* *d odd, d >= 3, g <= d + 1 - 2 / d.* Then ``N^2 <= 2 d^2 - 2``, which signs with ``abs(A) = 1`` attain. To show is
  ``f - 2 A^2 <= d^2 - 2``. Let ``e = sum (1 - |s_i|)``. As ``|s_i| >= t_i``, ``T <= d - e``.

  1. Corners with m <= d - 1 ones have ``f <= max((g - 1) d, (d - 1)^2 + g - 1)``. The first is at most ``d^2 - 2``. The
     second is at most ``(d - 1)^2 + d - 2 / d``, which is at most ``d^2 - 2`` where ``d >= 3 - 2 / d``.
  2. ``e >= 1``: t lies in the polytope of ``T <= d - 1``, whose corners are those of 1, so that ``f <= d^2 - 2``.
  3. ``e < 1``: no s_i is 0, and d of their signs, an odd number, sum to at least 1 in size, so that ``abs(A) >= 1 -
     e``. The polytope of ``T <= d - e`` has the corners of 1, and those of d - 1 ones and one ``1 - e``, with ``f = (d
     - e)^2 + (g - 1) e^2``. There ``f - 2 (1 - e)^2 = d^2 - 2 + e (4 - 2 d + (g - 2) e)``, and ``4 - 2 d + (g - 2) e <=
     3 - d <= 0``.

Replacing a record in [0, 1]^d is not covered: there are maxima that are no corners.

**On the grid.** Entries of the diagonal have one step. Two answers that are rounded to it differ by whole vectors:
r in the entries, of which r_D is the diagonal. Let M_1, ..., M_s be whole numbers and M their sum. Adding noise x to
the entries and y_1, ..., y_s to the diagonal is one function of (x, y) for both answers, in which the second has x
moved by r, less M on the diagonal, and y_j moved by M_j. So the two releases are no easier to distinguish than these
independent discrete Gaussian variables and their shifts, ``mu^2 <= (|r|^2 - |r_D|^2 + |r_D - M 1|^2 + sum M_j^2) / v``
for the v of :mod:`.discrete_gaussian`. The best real M_j are all ``sum r_D / (1 + s d)``, which gives N; whole ones are
within 1/2 of them, which adds at most ``s (1 + s d) / 4`` to the square, and its root to the length. In steps N is at
most the length of a vector, so that rounding two answers, by at most one step in each entry, adds at most that.

**Source**: derived here; that corners of a box of squares move together is used by Lebeda, 2024, for sums.
"""

from __future__ import annotations

from math import sqrt

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Diagonal

MOST_FEATURES = 256
"""Most features for which such noise is compared; with more, isotropic noise is within a hundredth of the least."""

_ROUND_UP = 1.0 + 1e-13
"""A maximum of a few products of small numbers, and its root, err by less."""


def most_gain(features: int) -> float:
    """Largest gain for which replacing a record is proven; a whole number, for two features or more."""
    return features + 1.0 if features % 2 == 0 else float(features)


def box_sensitivity(body: Body, features: int, neighbours: Neighbours, diagonal: Diagonal) -> Sensitivity:
    """Largest N over neighbours, for noise as the module has it; see there.

    Parameters
    ----------
    body
        A cube or a half cube.
    features
        Number d of features, at least 2.
    neighbours
        Neighbouring relation.
    diagonal
        Noise on the diagonal.

    Raises
    ------
    CannotCalibrate
        Nothing is proven for this case.
    """
    if body not in (Body.CUBE, Body.HALF_CUBE) or features < 2:
        raise CannotCalibrate("noise with a diagonal of its own is proven for two or more features in a box")
    if neighbours is Neighbours.ADD_REMOVE:
        value = sqrt(_of_corners(features, diagonal))
    elif body is Body.HALF_CUBE or diagonal.shared or diagonal.gain > most_gain(features):
        raise CannotCalibrate(
            "noise with this diagonal is not proven where a record is replaced; choose shaped-gaussian"
        )
    else:
        value = sqrt(2.0 * features**2 - 2.0 * (features % 2))
    return Sensitivity(value * _ROUND_UP, value)


def _of_corners(features: int, diagonal: Diagonal) -> float:
    """Largest square of added records, over the number m of features at their ends."""
    g, common = diagonal.gain, diagonal.gain * diagonal.shared / (1.0 + diagonal.shared * features)
    return max(m * m - m + g * m - common * m * m for m in range(features + 1))

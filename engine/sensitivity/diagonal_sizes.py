"""Sensitivity of second moments and covariances in a box of uneven bounds, with noise of its own on the diagonal.

Records v lie in ``[-1, 1]^d``, or in ``[0, 1]^d``; of a covariance a constant coordinate ``v_0 = 1`` is in front. Noise
off the diagonal has variance ``1 / (2 p_i p_j)``, that of the count ``1 / p_0^2``, all by itself. An entry of a
feature's own has variance ``1 / e_i^2`` by itself, and each of s further numbers of variance one adds ``1 / e_i`` times
itself to all of these. The covariance of these entries is ``E^-1 (I + s 11') E^-1``, E the diagonal matrix of e, and
its inverse is ``E (I - k 11') E`` with ``k = s / (1 + s d)``. A change D of the answer counts as

    N(D)^2 = sum over i != j of p_i p_j D_ij^2 + p_0^2 D_00^2 + sum e_i^2 D_ii^2 - k (sum e_i D_ii)^2,

and the loss is ``mu = sup N``, exactly. Put ``p_0 = 0`` where there is no constant.

*The count may take part.* Let it have variance ``1 / e_0^2`` by itself, and let each of the s numbers add ``t / e_0``
times itself to it, t whole. With w_0 = t and w_i = 1 the covariance of count and diagonal is ``E^-1 (I + s ww') E^-1``,
and with ``k = s / (1 + s (d + t^2))`` a change counts as

    N(D)^2 = sum over i != j of p_i p_j D_ij^2 + sum e_i^2 D_ii^2 - k (sum w_i e_i D_ii)^2, i from 0 on.

Put ``e_0 = p_0, t = 0`` where it does not. What p_0 is decides the noise of the sums alone then.

**add-remove.** D = vv'. With ``u_i = v_i^2`` in [0, 1] and ``u_0 = 1``

    N^2 = (p_0 + sum p_i u_i)^2 + sum (e_i^2 - p_i^2) u_i^2 + e_0^2 - p_0^2 - k (t e_0 + sum e_i u_i)^2.

Its second derivative in one u_i is ``2 e_i^2 (1 - k) > 0``: it is convex in each u_i alone, so that its maximum is at a
corner, where each u_i is 0 or 1. Features of one p are counted, not distinguished, and up to 2^14 cases are tried one
by one. Beyond that, at a corner with ``P = sum p_i u_i <= Q``, Q the sum of all p_i, ``(p_0 + P)^2 <= p_0^2 + P (2 p_0
+ Q)``, and ``-k y^2 <= k z^2 - 2 k z y`` for any z, so that

    N^2 <= e_0^2 + k z^2 - 2 k z t e_0 + sum over i of max(0, p_i (2 p_0 + Q - p_i) + e_i^2 - 2 k z e_i).

**replace-one, in [-1, 1]^d, nothing shared.** D = yy' - zz'. As in :mod:`.moment_diagonal`, ``D_ij = 1 - s_i s_j`` with
``s_i`` in [-1, 1] is as large as any, and ``s_0 = 1``. With ``t_i = s_i^2``, P the sum of all p_i, p_0 included, T that
of all ``p_i t_i`` and A that of all ``p_i s_i``,

    N^2 = P^2 - 2 A^2 + f(t),   f(t) = T^2 + (g - 1) sum p_i^2 (1 - t_i)^2   where e_i^2 = g p_i^2, g >= 1.

f is convex, so that it is largest where each t_i is 0 or 1. Let x be the sum of p_i over the features R with t_i = 0:
there ``f = (P - x)^2 + (g - 1) sum over R of p_i^2``. The last sum is at most q(x), the fractional knapsack that takes
the largest p_i first: piecewise linear. So f is at most a convex function on each of its pieces, and at most the
largest of it at their ends, where R are the features of the largest p_i. As ``abs(A) >= p_0 - (P - p_0)``,

    N^2 <= P^2 - 2 max(0, 2 p_0 - P)^2 + max over m of (P - x_m)^2 + (g - 1) q(x_m).

Up to the g that :func:`free_gain` gives, the last maximum is ``P^2``, at m = 0: a smaller diagonal costs nothing there.

**On the grid.** An entry has a step of its own. What is written of it in :mod:`.moment_diagonal` holds, with one thing
more: whole steps exceed their ideal sizes by some part of at most ``c``, not all by the same. In steps, the change r
of the diagonal becomes r', with ``r'_i`` between ``r_i / (1 + c)`` and ``r_i``. No entry off the diagonal grows, and
in the norm of ``I - k ww' <= I`` the diagonal's part grows by at most ``c |r|``, ``|r|^2 <= sum e_i^2``, with e_0
where the count takes part. Steps have at least :data:`LEAST_STEP` units where something is shared, which
:mod:`.additive` sees to. Of whole shifts M_1, ..., M_s of what is shared, M their sum, the count's step takes t M and
the others M: the square of the length, ``|r - M w|^2 + sum M_j^2``, is least at equal real M_j, where it is that of N,
and has a second derivative of ``2 (I + |w|^2 11')``, so that whole ones add at most ``s (1 + s (d + t^2)) / 4``.

**Source**: derived here, from :mod:`.moment_diagonal`; the fractional knapsack is that of Dantzig, 1957.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from blockveil.engine.records.geometry import Vector
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import LEAST_STEP

_ROUND_UP = 1.0 + 5e-13
"""Sums of a few hundred terms, and differences that are a tenth of their terms or more, err by less."""

_CASES = 2**14
_MULTIPLIERS = 65


@dataclass(frozen=True)
class JoinedCount:
    """How a count takes part in what a diagonal shares.

    Attributes
    ----------
    own
        e_0, positive.
    times
        t, whole.
    """

    own: float
    times: int


def added_sensitivity(
    sizes: Vector, own: Vector, shared: int, constant: float = 0.0, count: JoinedCount | None = None
) -> Sensitivity:
    """Largest N where a record is added or removed.

    Parameters
    ----------
    sizes
        p of each feature, positive, shape (d,).
    own
        e of each feature, at least p, shape (d,).
    shared
        Number s of what entries of the diagonal have in common.
    constant
        p_0, or 0 without a constant.
    count
        Part of the count in what is shared; None where it has isometric noise by itself.
    """
    square, attained = added_square(sizes, own, shared, constant, count=count)
    # Steps that are rounded up by different parts; see the module. Equal sizes have equal steps.
    uneven = shared > 0 and (count is not None or np.ptp(own) > 0.0)
    diagonal = float(np.sum(own**2)) + (0.0 if count is None else count.own**2)
    margin = sqrt(diagonal) / LEAST_STEP if uneven else 0.0
    return Sensitivity((sqrt(square) + margin) * _ROUND_UP, sqrt(attained))


def added_square(
    sizes: Vector,
    own: Vector,
    shared: int,
    constant: float = 0.0,
    cases: int = _CASES,
    count: JoinedCount | None = None,
) -> tuple[float, float]:
    """A bound of the largest ``N^2`` where a record is added, and one that is attained; parameters as above.

    ``cases`` corners at most are tried; beyond that the bound of the module is taken.
    """
    # Without a part in it, e_0 is p_0: nothing is added beside the square of p_0 + P.
    of_count, more = (0.0, 0.0) if count is None else (count.times * count.own, count.own**2 - constant**2)
    common = shared / (1.0 + shared * (sizes.size + (0 if count is None else count.times**2)))
    if (corners := _corners(sizes.tobytes(), own.tobytes(), cases)) is not None:
        p, squares, e = corners
        value = float(np.max((constant + p) ** 2 + squares - common * (of_count + e) ** 2)) + more
        return value, value
    total = float(np.sum(sizes))
    gains = sizes * (2.0 * constant + total - sizes) + own**2
    # Any multiplier proves a bound; the one of the far corner is exact where that is the furthest.
    z = (of_count + float(np.sum(own))) * np.linspace(0.0, 1.0, _MULTIPLIERS)[:, None]
    bounds = common * (z[:, 0] ** 2 - 2.0 * z[:, 0] * of_count)
    bounds += np.sum(np.maximum(gains - 2.0 * common * z * own, 0.0), axis=1)
    order = np.argsort(-sizes, kind="stable")
    p, e = np.cumsum(sizes[order]), np.cumsum(own[order])
    attained = (constant + p) ** 2 + np.cumsum(own[order] ** 2 - sizes[order] ** 2) - common * (of_count + e) ** 2
    return constant**2 + float(np.min(bounds)) + more, float(np.max(attained)) + more


@lru_cache(maxsize=4)
def _corners(sizes: bytes, own: bytes, cases: int) -> tuple[Vector, Vector, Vector] | None:
    """Sums of p, of e^2 - p^2 and of e over all corners that differ, at most ``cases``; None where there are more.

    A search asks for the same ones again with more that is shared.
    """
    pairs, counts = np.unique(np.stack([np.frombuffer(sizes), np.frombuffer(own)]), axis=1, return_counts=True)
    if float(np.prod(counts + 1.0)) > cases:
        return None
    p = squares = e = np.zeros(1)
    for size, diagonal, count in zip(*pairs, counts, strict=True):
        numbers = np.arange(count + 1.0)
        p = np.add.outer(p, numbers * size).ravel()
        squares = np.add.outer(squares, numbers * (diagonal**2 - size**2)).ravel()
        e = np.add.outer(e, numbers * diagonal).ravel()
    return p, squares, e


def replaced_bound(sizes: Vector, gain: float, constant: float = 0.0) -> float:
    """No record that is replaced moves the answer further, in N; nothing shared, ``e_i^2 = gain p_i^2``, gain >= 1.

    Parameters
    ----------
    sizes, constant
        As for :func:`added_sensitivity`.
    gain
        How many times less variance an entry of the diagonal has than isometric noise.
    """
    total = constant + float(np.sum(sizes))
    largest = np.sort(sizes)[::-1]
    x, squares = np.cumsum(largest), np.cumsum(largest**2)
    corner = max(total**2, float(np.max((total - x) ** 2 + (gain - 1.0) * squares)))
    against = max(0.0, 2.0 * constant - total)  # the constant's sign is fixed
    return sqrt(total**2 + corner - 2.0 * against**2) * _ROUND_UP


def free_gain(sizes: Vector, constant: float = 0.0) -> float:
    """Largest gain at which no record that is replaced is charged more than with isometric noise; see the module."""
    total = constant + float(np.sum(sizes))
    largest = np.sort(sizes)[::-1]
    x, squares = np.cumsum(largest), np.cumsum(largest**2)
    return 1.0 + float(np.min(x * (2.0 * total - x) / squares))

"""Sensitivities of common queries in Frobenius or Euclidean norm, beside those of :mod:`.second_moment`.

N is the number of rows. Under replace-one it is public. Under add-remove it is private, and a mean divides by it: then
``rows`` is a public lower bound of the *larger* of two neighbours, and the bound holds for all sizes from there on,
because every expression falls with N from 2 on.

**Source**: each derivation is in its function; they sharpen MVG (CCS 2018) Experiments II and III, and state what the
swarm and gradient settings of R1SMG and IMGM need.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body, Vector
from blockveil.engine.sensitivity.differences.bodies import (
    UP,
    BoxDifferences,
    HalfBox,
    checked_count,
    checked_positive,
    checked_widths,
    rounded_up,
)
from blockveil.engine.sensitivity.differences.composite import CrossPolytope
from blockveil.engine.sensitivity.second_moment import Sensitivity, second_moment_sensitivity


def histogram_sensitivity(bins: int, neighbours: Neighbours) -> Sensitivity:
    """Counts of records by bin: ``|e_i| = 1`` when one comes or goes, ``|e_i - e_j| = sqrt 2`` when one is replaced.

    With a single bin nothing changes under replace-one, and the sensitivity is 0.
    """
    return CrossPolytope(bins, neighbours).mu(np.ones(bins))


def clipped_sum_sensitivity(clip: float, neighbours: Neighbours) -> Sensitivity:
    """Sum of vectors with norm at most C, as clipped gradients: C, and under replace-one ``|g - h| <= 2 C``.

    Parameters
    ----------
    clip
        C, positive, in units of the vectors.
    neighbours
        Neighbouring relation.
    """
    checked_positive("clip", clip)
    return rounded_up(clip if neighbours is Neighbours.ADD_REMOVE else 2.0 * clip)


def clipped_mean_sensitivity(clip: float, lot_size: float, neighbours: Neighbours) -> Sensitivity:
    """Sum of clipped vectors over a *fixed* lot size L: C/L or 2C/L.

    L must not depend on which records were drawn: dividing by the actual size of a lot is a different query.
    """
    checked_positive("lot size", lot_size)
    return rounded_up(clipped_sum_sensitivity(clip, neighbours).attained / lot_size)


def identity_differences(lower: ArrayLike, upper: ArrayLike, neighbours: Neighbours) -> BoxDifferences:
    """Differences of a release of the records themselves, with public bounds by feature, in the record that changes.

    A replaced record moves by at most the width of each range. Under add-remove the record is present or its entries
    are zero, so it moves by the record itself; if no feature is negative, the set is one-sided.

    Parameters
    ----------
    lower, upper
        Bounds of each feature, shape (n,), ``lower <= upper``; enforced by clipping, not assumed.
    neighbours
        Neighbouring relation.
    """
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if low.ndim != 1 or low.shape != high.shape or not (np.all(np.isfinite([low, high])) and np.all(low <= high)):
        raise CalibrationError("bounds are two lists of finite numbers with lower <= upper; correct them")
    if neighbours is Neighbours.REPLACE_ONE:
        # The rounded difference may be too small by half a unit in its last place.
        return BoxDifferences(np.where(high > low, np.nextafter(high - low, np.inf), 0.0))
    largest = np.maximum(np.abs(low), np.abs(high))
    return HalfBox(largest) if np.all(low >= 0) else BoxDifferences(largest)


def identity_sensitivity(lower: ArrayLike, upper: ArrayLike, neighbours: Neighbours) -> Sensitivity:
    """``sqrt(sum w_i^2)`` for ranges of width w_i under replace-one; the largest norm of a record under add-remove."""
    return identity_differences(lower, upper, neighbours).mu(np.ones(np.size(lower)))


def second_moment_mean_sensitivity(body: Body, weights: Vector, rows: int, neighbours: Neighbours) -> Sensitivity:
    """``X'X / N`` for records ``y_i = sqrt(weight_i) v_i`` with coordinates v in a body; Frobenius norm.

    Let R be the sensitivity of ``X'X`` under replace-one. Under replace-one that of the mean is R / N. Under
    add-remove, with x the further record and ``A`` the mean of the other ``N - 1`` moments,

        (sum + xx') / N - sum / (N - 1) = (xx' - A) / N,

    and A is a mixture of moments yy', so the norm is at most R / N, reached when the others are all equal. So the mean
    costs R / N under *both* relations (``sqrt 2 C^2 / N`` in a ball), while the sum under add-remove costs only C^2.
    From one record to none, where the mean is taken as zero, the difference is xx' itself.

    Parameters
    ----------
    body, weights
        As in :func:`.second_moment.second_moment_sensitivity`.
    rows
        Public N; under add-remove a public lower bound of the size of the larger data set.
    neighbours
        Neighbouring relation.
    """
    checked_count("rows", rows)
    replaced = second_moment_sensitivity(body, weights, Neighbours.REPLACE_ONE)
    if neighbours is Neighbours.REPLACE_ONE or rows > 1:
        return _divided(replaced, rows)
    alone = second_moment_sensitivity(body, weights, Neighbours.ADD_REMOVE)
    return Sensitivity(max(alone.bound, replaced.bound / 2.0) * UP, max(alone.attained, replaced.attained / 2.0))


def centred_ball_covariance_sensitivity(
    radius: float, rows: int, neighbours: Neighbours, *, unbiased: bool
) -> Sensitivity:
    """``sum (x - mean)(x - mean)' / N`` for records in a ball of radius C: ``4 C^2 (N-1) / N^2`` under both relations.

    With m the mean of the other records and ``a = x - m, b = y - m``, the centred sum changes by
    ``(N-1)/N (aa' - bb')``. In m that is affine, so its norm is largest at ``|m| = C``; along a ray from m it is convex
    in ``|a|^2`` and in ``|b|^2``, so x and y are m itself or on the sphere; with chords ``2C cos s, 2C cos t`` at an
    angle ``s - t`` or ``s + t`` the square is at most ``16 C^4 (1 - cos^4) <= 16 C^4``. Reached with y = m = -x.

    Under add-remove the difference is ``(N-1)/N^2 aa' - T/N``, T the covariance of the others. Both are positive, so
    its square is at most ``((N-1)/N^2 |a|^2)^2 + (tr T / N)^2``; with ``r = |m|/C``: ``|a|^2 <= (1+r)^2 C^2``,
    ``tr T <= (1-r^2) C^2``, and ``(1+r)^2 + 2 (1-r^2) = 4 - (1-r)^2 <= 4``, which is enough as ``(N-1)/N >= 1/2``.

    Parameters
    ----------
    radius
        C, largest distance of a record from a public point.
    rows
        Public N; under add-remove a public lower bound of the size of the larger data set, at least 2.
    neighbours
        Neighbouring relation.
    unbiased
        Divide by N - 1 instead: ``4 C^2 / N``. Under add-remove this needs N >= 4, where ``(N-2)/N >= 1/2``.
    """
    checked_positive("radius", radius)
    return _centred(4.0 * radius**2, rows, neighbours, unbiased)


def centred_box_covariance_sensitivity(
    widths: ArrayLike, rows: int, neighbours: Neighbours, *, unbiased: bool
) -> Sensitivity:
    """``sum (x - mean)(x - mean)' / N`` for features in ranges of width w: ``sum w^2 (N-1) / N^2``, both relations.

    As in :func:`centred_ball_covariance_sensitivity` the norm is largest with m at a corner. Seen from there, up to
    signs, which no norm sees, a and b are in ``[0, w]``: then ``|aa' - bb'| <= sum w^2`` (half cube in
    :mod:`.second_moment`). Under add-remove each feature adds ``w^2 (1+r)^2/4`` and ``w^2 (1-r^2)/4`` to
    the two traces, and the same inequality holds. Parameters as there, with widths w, shape (d,), in raw units.
    """
    return _centred(float(np.sum(checked_widths(widths) ** 2)), rows, neighbours, unbiased)


@dataclass(frozen=True)
class PublishedAndTight:
    """A sensitivity as a paper states it, and the least one.

    Attributes
    ----------
    published
        Safe, not tight.
    tight
        Attained by some pair of neighbours.
    """

    published: float
    tight: Sensitivity


def movement_sensitivity(features: int, half_width: float, rows: int) -> PublishedAndTight:
    """``X'X / N`` with m features in [-c, c], replace-one, N public: ``2 m c^2 / N`` published, about 0.71 of it tight.

    The publication adds the norms of both records. The tight value is ``c^2 sqrt(2 m^2 - 2 [m odd]) / N``.

    **Source**: MVG (CCS 2018), Experiment II.
    """
    checked_positive("half width", half_width)
    tight = _cube_mean(features, half_width, rows)
    return PublishedAndTight(2.0 * features * half_width**2 / rows * UP, tight)


def swarm_sensitivity(features: int, rows: int) -> Sensitivity:
    """``X'X / N`` with m features in [-1, 1], replace-one, N public: ``sqrt(2 m^2 - 2 [m odd]) / N``.

    **Source**: R1SMG, the swarm behaviour experiment (2400 features of 24,016 rows), whose value is tight.
    """
    return _cube_mean(features, 1.0, rows)


def _cube_mean(features: int, half_width: float, rows: int) -> Sensitivity:
    checked_count("features", features)
    weights = np.full(features, half_width**2)
    return second_moment_mean_sensitivity(Body.CUBE, weights, rows, Neighbours.REPLACE_ONE)


def _centred(largest: float, rows: int, neighbours: Neighbours, unbiased: bool) -> Sensitivity:
    least = 1
    if unbiased:
        least = 2 if neighbours is Neighbours.REPLACE_ONE else 4
    if rows < least:
        raise CalibrationError(
            f"rows is {rows}; this query needs at least {least}; give a larger public number of rows"
        )
    # (N-1)/N^2 is 0 at one row and largest at two: under add-remove N may be anything from rows on.
    size = rows if neighbours is Neighbours.REPLACE_ONE else max(rows, 2)
    share = 1.0 / size if unbiased else (size - 1.0) / size / size
    return rounded_up(largest * share)


def _divided(found: Sensitivity, rows: int) -> Sensitivity:
    return Sensitivity(found.bound / rows * UP, found.attained / rows)

"""Gaussian sketches of private records (Johnson-Lindenstrauss): exact loss, and how much regularisation they need.

Released are k rows of ``G Y`` for records Y and a secret k x n Gaussian G: independent ``N(0, Y'Y)``. With ``w^2 I``
added to ``Y'Y`` (w extra rows on each axis; public) no direction is known too well. G must stay secret, and its entries
must be Gaussian: with a known or a structured G the output is a linear system about the records.

Exact loss under add-remove. Let ``S >= w^2 I`` be the covariance without a record y, ``|y| <= R``. After whitening by
S the two laws differ along one direction only, with variances 1 and ``1 + tau``, ``tau = y'S^-1 y <= R^2 / w^2``:
equality is attained. The sum of squares g along it is sufficient: chi-square with k degrees against ``1 + tau`` times
that. Likelihood ratios are monotone in g, so with distribution F and survival S

* one record more to one less: ``delta = sup_g S(g / (1 + tau)) - e^eps S(g)``;
* one record less to one more: ``delta = sup_g F(g) - e^eps F(g / (1 + tau))``.

Both grow with tau: adding the same independent noise to both laws lowers it. Replacing a record goes through the data
set without it, which costs at most ``delta_more(eps_1) + e^eps_1 delta_less(eps - eps_1)``.

The regularisation must be added. To check instead that the records' own least singular value exceeds w answers a
question about private data, and both neighbours would have to pass: removing a record may lower it.

The published relation lets a row, of any length, change by a vector of length 1. A row may then have leverage 1: with
such a row and a change orthogonal to it the covariances have relative eigenvalues l and 1/l, ``l + 1/l = 2 + 1/w^2``,
so the distance is of order 1/w and not 1/w^2. :func:`moved_row_delta` is the exact loss of that pair.

At ``(1, 1e-6)`` and k = 100, R = 1 (:func:`exact_floor` and the published ones):

============================================================== ======= ============================================
w                                                              value   verdict
============================================================== ======= ============================================
``16 sqrt(k ln(2/delta)) ln(16 k/delta) / eps``                12,916  valid; holds for that moved row; 2,000 times more
``sqrt(8 (sqrt(2 k ln(8/delta)) + 2 ln(8/delta)) / eps)``      26.6    valid for one record; 4.5 times more
exact, one record more or less                                 5.96    least that holds
============================================================== ======= ============================================

**Source**: Blocki, Blum, Datta and Sheffet, 2012, on covariance (first row); Sheffet, 2017 (second), both
as quoted elsewhere; Upadhyay, 2014, has the same condition on singular values for structured projections, which is not
enough: :func:`structured_block`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.records.geometry import Vector

_MARGIN = 1e-11
"""Relative error of an incomplete gamma function (measured: below 3e-12), with room; for each term of a difference."""

_MOST_DEGREES = 100_000
"""Degrees of chi-square up to which that error was measured; at a million it is 1e-8."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)


def delta_more(rows: int, ratio: float, epsilon: float) -> float:
    """Smallest delta of "one record more" against "one less", rounded up.

    Parameters
    ----------
    rows
        Number k of released rows.
    ratio
        tau, positive: ``R^2 / w^2`` in the worst case.
    epsilon
        Loss, not negative.
    """
    _check(rows, ratio, epsilon)
    # The likelihood ratio exceeds e^epsilon exactly above this point.
    at = 2.0 * (epsilon + 0.5 * rows * math.log1p(ratio)) * (1.0 + ratio) / ratio
    here = float(gammaincc(rows / 2.0, at / (1.0 + ratio) / 2.0))
    return _difference(here, float(gammaincc(rows / 2.0, at / 2.0)), epsilon)


def delta_less(rows: int, ratio: float, epsilon: float) -> float:
    """Smallest delta of "one record less" against "one more", rounded up; parameters as in :func:`delta_more`."""
    _check(rows, ratio, epsilon)
    largest = 0.5 * rows * math.log1p(ratio)
    # The loss is largest where nothing is seen along the record, and never exceeds this.
    if epsilon >= largest * (1.0 + 1e-12):
        return 0.0
    at = 2.0 * max(largest - epsilon, 0.0) * (1.0 + ratio) / ratio
    here = float(gammainc(rows / 2.0, at / 2.0))
    return _difference(here, float(gammainc(rows / 2.0, at / (1.0 + ratio) / 2.0)), epsilon)


def sketch_delta(rows: int, radius: float, floor: float, epsilon: float, neighbours: Neighbours) -> float:
    """Delta of a sketch at an epsilon: exact up to a rounding upwards for add-remove, a bound for replace-one.

    Parameters
    ----------
    rows
        Number k of released rows.
    radius
        R, largest length of a record.
    floor
        w: ``w^2 I`` is added to the second moment.
    epsilon
        Loss, not negative.
    neighbours
        Neighbouring relation.
    """
    if not (0.0 < radius < math.inf and 0.0 < floor < math.inf):
        raise CalibrationError(f"radius is {radius}, floor {floor}; both must be positive; clip records, then add w^2")
    ratio = (radius / floor) ** 2 * (1.0 + 1e-14)
    if neighbours is Neighbours.ADD_REMOVE:
        return max(delta_more(rows, ratio, epsilon), delta_less(rows, ratio, epsilon))
    best = 1.0
    for k in range(33):
        first = epsilon * k / 32.0
        # The rest of epsilon is rounded down; every split gives a valid bound.
        rest = delta_less(rows, ratio, (epsilon - first) * (1.0 - 2.0**-50))
        best = min(best, (delta_more(rows, ratio, first) + math.exp(min(first, 700.0)) * rest) * (1.0 + 1e-12))
    return best


def exact_floor(rows: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours) -> float:
    """Least w for a guarantee, rounded up; exact for add-remove.

    Parameters
    ----------
    rows, radius, neighbours
        As for :func:`sketch_delta`.
    guarantee
        The asked loss of the k rows together.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """

    def fits(floor: float) -> bool:
        return sketch_delta(rows, radius, floor, guarantee.epsilon, neighbours) <= guarantee.delta

    low, high = radius * 2.0**-30, radius
    while not fits(high):
        low, high = high, 2.0 * high
        if high > radius * 1e12:
            raise CalibrationError(f"delta is {guarantee.delta}; no floor was found for it; give a larger one")
    # Only a floor that fits becomes the upper end, which is returned; delta falls with the floor.
    while high - low > 1e-12 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high * (1.0 + 1e-12)


def blocki_floor(rows: int, guarantee: ApproxDP) -> float:
    """Published w for rows that move by at most 1: ``16 sqrt(k ln(2/delta)) ln(16 k/delta) / epsilon``; very loose.

    **Source**: Blocki, Blum, Datta and Sheffet, 2012.
    """
    logs = math.sqrt(rows * math.log(2.0 / guarantee.delta)) * math.log(16.0 * rows / guarantee.delta)
    return 16.0 * logs / guarantee.epsilon


def sheffet_floor(rows: int, radius: float, guarantee: ApproxDP) -> float:
    """Published ``w^2 = 8 R^2 (sqrt(2 k ln(8/delta)) + 2 ln(8/delta)) / epsilon``; valid for one record, loose.

    **Source**: Sheffet, 2017.
    """
    log = math.log(8.0 / guarantee.delta)
    return radius * math.sqrt(8.0 * (math.sqrt(2.0 * rows * log) + 2.0 * log) / guarantee.epsilon)


def moved_row_delta(rows: int, floor: float, epsilon: float) -> float:
    """Delta of the pair in which a row of leverage 1 moves by 1 orthogonally to itself.

    A lower bound of what the relation "any row moves by at most 1" costs.

    The loss is ``(g_1 (1/l - 1) + g_2 (l - 1)) / 2`` with independent chi-squares g; one is integrated in closed form,
    the other by Gauss-Legendre. The same in both directions. Absolute error about 1e-12.

    Parameters
    ----------
    rows, floor, epsilon
        k, w and the loss.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    _check(rows, floor, epsilon)
    step = 1.0 / floor
    excess = 0.5 * step**2 + step * math.sqrt(1.0 + 0.25 * step**2)  # l - 1
    half, factor = rows / 2.0, 1.0 + excess
    low, high = 2.0 * float(gammaincinv(half, 1e-17)), 2.0 * float(gammainccinv(half, 1e-17))
    # By the root r of g_1, whose density is smooth for one degree too.
    width = math.sqrt(high) - math.sqrt(low)
    r = 0.5 * width * (_NODES + 1.0) + math.sqrt(low)
    x = r**2
    weights = (
        0.5 * width * _WEIGHTS * np.exp((half - 0.5) * np.log(x / 2.0) - x / 2.0 - math.lgamma(half)) * math.sqrt(2.0)
    )
    # g_2 must exceed (2 eps + g_1 (1 - 1/l)) / (l - 1); on the other side g_1 is l x and g_2 a chi-square over l.
    here = np.sum(weights * gammaincc(half, (epsilon / excess + x / (2.0 * factor))))
    there = np.sum(weights * gammaincc(half, factor * (epsilon / excess + x / 2.0)))
    return float(max(0.0, here - math.exp(min(epsilon, 700.0)) * there))


def expected_squared_error(rows: int, floor: float, spectrum: Vector) -> float:
    """Expected squared Frobenius error of ``Z'Z / k - w^2 I`` as an estimate of ``Y'Y``.

    ``((tr S)^2 + tr S^2) / k`` with ``S = Y'Y + w^2 I``: it grows with the data, unlike that of additive noise.

    Parameters
    ----------
    rows, floor
        k and w.
    spectrum
        Eigenvalues of ``Y'Y`` (assumed), shape (d,).
    """
    values = spectrum + floor**2
    return float(np.sum(values) ** 2 + np.sum(values**2)) / rows


def structured_block(records: int, features: int, rows: int) -> int:
    """Rows of regularised records that one row of a structured projection is made of; below d nothing is private.

    Such a projection mixes n records and the d rows that regularise them by random signs, a Hadamard matrix (padded to
    a power of two) and a permutation, and makes each of the k released rows from a block of the mixed ones by Gaussian
    weights. Signs and permutations are finitely many. So a row lies in one of finitely many subspaces of the dimension
    of a block, which the records fix; each mixed row has a part of every record, so that as one record moves, the
    subspaces are others, almost surely. Where a block is smaller than d the laws of neighbours are then mutually
    singular: delta is 1 at any epsilon, whatever the least singular value.

    Parameters
    ----------
    records, features, rows
        n, d and k.

    **Source**: Upadhyay, 2014, the construction as quoted elsewhere.
    """
    padded = 1 << (records + features - 1).bit_length()
    return -(-padded // rows)


def _difference(here: float, there: float, epsilon: float) -> float:
    """``here - e^epsilon there``, rounded up."""
    other = math.exp(min(epsilon + math.log(there), 700.0)) if there > 0.0 else 0.0
    return min(1.0, max(0.0, here - other) + _MARGIN * (here + other))


def _check(rows: int, ratio: float, epsilon: float) -> None:
    if rows < 1:
        raise CalibrationError(f"rows is {rows}; at least one is released; give a positive count")
    if rows > _MOST_DEGREES:
        raise CalibrationError(f"rows is {rows}; deltas are accurate up to {_MOST_DEGREES}; release fewer rows")
    if not 0.0 < ratio < math.inf:
        raise CalibrationError(f"the ratio or floor is {ratio}; it must be positive and finite; state radius and floor")
    if not 0.0 <= epsilon < math.inf:
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative; give a loss of at least 0")

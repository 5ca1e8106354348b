"""Wishart noise on a second moment: the exact loss, and why the published pure guarantees are false.

Released is ``A + N`` with ``A = sum x x'``, ``|x| <= R`` and N Wishart of m degrees of freedom and scale ``c I``. Write
``nu = m - d + 1`` and ``kappa = R^2 / c``.

The pure claims (``m = d + 1``, so ``nu = 2``) compare densities ``exp(-tr(M - A) / 2c)`` of an output M under both data
sets, with ratio ``exp(+-kappa / 2)`` at most. They overlook where these densities live: the output exceeds the answer,
``M - A`` is positive definite. With one more record y the answer is ``A + yy'``, and ``M - A - yy'`` need not be: it is
not exactly when ``y'(M - A)^-1 y >= 1``. Outputs of that kind are possible on one data set and impossible on the other.

Exact loss. Given the rest of N, ``g = |y|^2 / (c y'N^-1 y)`` is chi-square with nu degrees, and the ratio of densities
depends on it alone: with the record present g is distributed as kappa plus such a variable. So the matrix mechanism is
as private as chi-square noise on a number that changes by kappa. Likelihood ratios are monotone in g, so that

* one record less to one more: ``delta = sup_g F(g) - e^eps F(g - kappa)``; with ``nu = 2`` it is ``1 - exp(-kappa /
  2)`` at *every* epsilon;
* one record more to one less: ``delta = sup_g S(g - kappa) - e^eps S(g)``; zero from ``eps = kappa / 2`` on,

F and S being distribution and survival functions. Both grow with kappa, hence with ``|y|``.

Replacing a record goes through the data set without it: ``delta_more(eps_1) + e^eps_1 delta_less(eps - eps_1)``. That
is a bound; for two orthogonal records of the same length and ``nu = 2`` a quadrature gives the mass that is possible
on one side only.

========================================================= ========================= =================================
claim                                                     true delta, any epsilon   verdict
========================================================= ========================= =================================
``m = d + 1, c = 3 / (2 n eps)`` on A / n: eps-private    ``1 - exp(-eps / 3)``     false; removing is eps/3-private
``m = d + 1, c = 1 / (2 n eps)`` on A / n: eps-private    ``1 - exp(-eps)``         false; removing is eps-private
``c = R^2, nu = 1 + 28 ln(4 / delta) / eps^2``            far below the claim       valid for one record more or less
========================================================= ========================= =================================

As nu grows at a given loss the noise tends to symmetric Gaussian noise of variance 1 on and 1/2 off the diagonal, from
above: a factor ``1 + (d - 1) / nu`` in variance. Its merit is a positive definite release, at the price of bias.

**Source**: Jiang, Xie and Zhang, 2016 (first row); Imtiaz and Sarwate, 2016 (second); Sheffet, 2019, additive Wishart
noise (third; constants as quoted elsewhere); Muirhead, 1982, Theorem 3.2.12 (law of ``1 / y'N^-1 y``). The second has
been retracted (Sarwate, 2017); the first rests on the same step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.integrate import dblquad
from scipy.special import gammainc, gammaincc

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP

_MARGIN = 1e-11
"""Relative error of an incomplete gamma function (measured: below 3e-12), with room; for each term of a difference."""

_MOST_DEGREES = 100_000
"""Degrees of chi-square up to which that error was measured; at a million it is 1e-8."""


@dataclass(frozen=True)
class WishartNoise:
    """Wishart noise on the sum of outer products.

    Attributes
    ----------
    dimension
        d.
    degrees
        m, at least ``d + 1``.
    scale
        c, in squared units of a record.
    radius
        R, largest length of a record.
    """

    dimension: int
    degrees: int
    scale: float
    radius: float

    def __post_init__(self) -> None:
        """Refuse noise for which nothing is proven here."""
        if self.degrees < self.dimension + 1 or self.dimension < 1:
            raise CalibrationError(
                f"degrees is {self.degrees}; it must exceed the dimension {self.dimension}; give more degrees"
            )
        if not (0.0 < self.scale < math.inf and 0.0 < self.radius < math.inf):
            raise CalibrationError("scale and radius must be positive and finite; clip records first, then state both")

    @property
    def excess(self) -> int:
        """``nu = m - d + 1``, at least 2."""
        return self.degrees - self.dimension + 1

    @property
    def shift(self) -> float:
        """``kappa = R^2 / c``."""
        return self.radius**2 / self.scale

    @property
    def mean(self) -> float:
        """Mean of a diagonal entry, ``m c``: public, to be subtracted where bias matters more than definiteness."""
        return self.degrees * self.scale

    @property
    def total_variance(self) -> float:
        """Expected squared Frobenius distance from the mean, ``m c^2 d (d + 1)``."""
        return self.degrees * self.scale**2 * self.dimension * (self.dimension + 1)

    def delta(self, epsilon: float, neighbours: Neighbours) -> float:
        """Delta at an epsilon: exact up to a rounding upwards for add-remove, a bound for replace-one."""
        if neighbours is Neighbours.ADD_REMOVE:
            return max(delta_less(self.excess, self.shift, epsilon), delta_more(self.excess, self.shift, epsilon))
        return _replaced(self.excess, self.shift, epsilon)


def delta_less(excess: int, shift: float, epsilon: float) -> float:
    """Smallest delta of "one record less" against "one more", rounded up: chi-square noise against itself shifted.

    Parameters
    ----------
    excess
        nu, at least 2.
    shift
        kappa, positive.
    epsilon
        Loss, not negative.
    """
    _check(excess, shift, epsilon)
    # The likelihood ratio exceeds e^epsilon exactly below this point; everything below kappa is impossible shifted.
    at = shift if excess == 2 else -shift / math.expm1(-(2.0 * epsilon + shift) / (excess - 2))
    here = float(gammainc(excess / 2.0, at / 2.0))
    there = float(gammainc(excess / 2.0, max(at - shift, 0.0) / 2.0)) if excess > 2 else 0.0
    return _difference(here, there, epsilon)


def delta_more(excess: int, shift: float, epsilon: float) -> float:
    """Smallest delta of "one record more" against "one less", rounded up; parameters as in :func:`delta_less`."""
    _check(excess, shift, epsilon)
    if shift <= 2.0 * epsilon:
        # No density ratio exceeds exp(kappa / 2).
        return 0.0
    at = shift if excess == 2 else -shift / math.expm1(-(shift - 2.0 * epsilon) / (excess - 2))
    here = float(gammaincc(excess / 2.0, (at - shift) / 2.0))
    return _difference(here, float(gammaincc(excess / 2.0, at / 2.0)), epsilon)


def calibrate_wishart(
    dimension: int, excess: int, radius: float, guarantee: ApproxDP, neighbours: Neighbours
) -> WishartNoise:
    """Least scale for given degrees of freedom and a guarantee; the released law is not pure.

    Parameters
    ----------
    dimension
        d.
    excess
        nu, at least 2; larger values need less noise, in the end ``1 + (d - 1) / nu`` times Gaussian variance.
    radius
        R.
    guarantee
        The asked loss.
    neighbours
        Neighbouring relation.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """

    def fits(shift: float) -> bool:
        return _noise(dimension, excess, radius, shift).delta(guarantee.epsilon, neighbours) <= guarantee.delta

    low, high = guarantee.delta * 2.0**-10, 1.0
    while not fits(low):
        low /= 2.0
        if low < 1e-200:
            raise CalibrationError(f"delta is {guarantee.delta}; no scale was found for it; give a larger one")
    while fits(high):
        low, high = high, 2.0 * high
    # Only a shift that fits becomes the lower end, which is returned; delta grows with the shift.
    for _ in range(200):
        middle = 0.5 * (low + high)
        if high - low <= 1e-12 * high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _noise(dimension, excess, radius, low * (1.0 - 1e-12))


def jiang_wishart(dimension: int, radius: float, epsilon: float) -> WishartNoise:
    """Noise published as epsilon-private, ``d + 1`` degrees at ``3 / (2 epsilon)``: not private as claimed.

    **Source**: Jiang, Xie and Zhang, 2016, in units of the sum.
    """
    PureDP(epsilon)
    return WishartNoise(dimension, dimension + 1, 1.5 * radius**2 / epsilon, radius)


def imtiaz_wishart(dimension: int, radius: float, epsilon: float) -> WishartNoise:
    """Noise published as epsilon-private, ``d + 1`` degrees at ``1 / (2 epsilon)``: not private as claimed.

    **Source**: Imtiaz and Sarwate, 2016, in units of the sum.
    """
    PureDP(epsilon)
    return WishartNoise(dimension, dimension + 1, 0.5 * radius**2 / epsilon, radius)


def sheffet_wishart(dimension: int, radius: float, guarantee: ApproxDP) -> WishartNoise:
    """Published additive Wishart noise: scale ``R^2`` and ``d + 28 ln(4 / delta) / epsilon^2`` degrees; valid, loose.

    **Source**: Sheffet, 2019, additive Wishart noise.
    """
    degrees = math.floor(dimension + 28.0 * math.log(4.0 / guarantee.delta) / guarantee.epsilon**2)
    return WishartNoise(dimension, degrees, radius**2, radius)


def impossible_after_removal(shift: float) -> float:
    """Probability of outputs that one more record makes impossible, two excess degrees: ``1 - exp(-kappa / 2)``."""
    return -math.expm1(-0.5 * shift)


def impossible_after_replacement(shift: float) -> float:
    """The same where a record is replaced by an orthogonal one of equal length: a lower bound of delta, any epsilon.

    In the plane of the two records the noise is Wishart of 3 degrees, factored as chi-square and normal variables.
    """

    def integrand(normal: float, root: float) -> float:
        missing = 0.5 * shift * max(0.0, 1.0 - normal**2 / (root**2 + shift))
        # Densities of |N(0,1)| and of the root of chi-square with 3 degrees.
        return -math.expm1(-missing) * (2.0 / math.pi) * root**2 * math.exp(-0.5 * (root**2 + normal**2))

    return float(dblquad(integrand, 0.0, 12.0, 0.0, lambda root: min(12.0, math.sqrt(root**2 + shift)))[0])


def _noise(dimension: int, excess: int, radius: float, shift: float) -> WishartNoise:
    return WishartNoise(dimension, dimension + excess - 1, radius**2 / shift, radius)


def _replaced(excess: int, shift: float, epsilon: float) -> float:
    """Least of the bounds through the data set without the record, over splits of epsilon; each one is valid."""
    best = 1.0
    for k in range(33):
        first = epsilon * k / 32.0
        through = delta_more(excess, shift, first)
        # The rest of epsilon is rounded down.
        rest = delta_less(excess, shift, (epsilon - first) * (1.0 - 2.0**-50))
        best = min(best, (through + math.exp(min(first, 700.0)) * rest) * (1.0 + 1e-12))
    return best


def _difference(here: float, there: float, epsilon: float) -> float:
    """``here - e^epsilon there``, rounded up."""
    other = math.exp(min(epsilon + math.log(there), 700.0)) if there > 0.0 else 0.0
    return min(1.0, max(0.0, here - other) + _MARGIN * (here + other))


def _check(excess: int, shift: float, epsilon: float) -> None:
    if excess < 2:
        raise CalibrationError(f"excess is {excess}; at least 2 is needed for a bounded density; give more degrees")
    if excess > _MOST_DEGREES:
        raise CalibrationError(f"excess is {excess}; deltas are accurate up to {_MOST_DEGREES}; use Gaussian noise")
    if not 0.0 < shift < math.inf:
        raise CalibrationError(f"the shift is {shift}; it must be positive and finite; state radius and scale")
    if not 0.0 <= epsilon < math.inf:
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative; give a loss of at least 0")

"""Unit vectors with density ``exp(c v'Av)``, drawn in whole numbers: a sampler whose distance from its law is proven.

A is a matrix of whole numbers, positive semi-definite, of dimension d from 2 to 256; c a positive fraction.

**Sampler.** Take s above all eigenvalues of ``c A``, ``P = s I - c A`` and any matrix L with ``L'PL`` near I. Propose
``y = L z`` for z standard normal; then ``v = y / |y|`` has density proportional to ``q^(-d/2)``, ``q = z'z / y'y``.
With ``w = v'Pv`` the target is ``exp(s - w)``, and ``|L'PL - I| <= e`` gives ``q <= w / (1 - e)``, so that

    c v'Av + d/2 ln q  <=  s - w + d/2 ln w - d/2 ln(1 - e)  <=  s - d/2 + d/2 ln(d/2) - d/2 ln(1 - e)  =:  T,

its value at ``w = d/2``. Accepting with probability ``exp(-g)``, ``g = T - c v'Av - d/2 ln q >= 0``, gives the law
whatever s and L are. ``tr P^-1 = 2`` makes acceptance likely, about ``1 / sqrt(d)``.

**What runs.** A is a matrix of whole numbers. s and L come from float arithmetic and are then taken for exact binary
fractions; ``|L'PL - I| <= e = 2^-10`` and ``1 <= |L|_F^2 <= 4`` are checked in whole numbers (Gershgorin). z is a
vector of exact discrete Gaussians of width ``S = 2^640``. y, ``y'Ay``, ``y'y`` and ``z'z`` are exact; g is found to
within 2^-149 by correctly rounded decimals; chances of ``exp(-g)`` are exact. The unit vector is rounded to steps of
2^-40, at random, in whole numbers.

**Distance from the law.** Let x be normal of variance ``S^2 - 100`` and z its random rounding by a discrete Gaussian of
variance 100: this is the law of z up to a factor ``1 +- 2^-2800`` an entry (:mod:`.discrete_gaussian`). Couple what
runs with the ideal sampler that uses x.

1. But for a probability below ``2 d exp(-2^26 / 200) < 2^-480000``, ``|z - x| <= 2^13 sqrt(d) <= 2^17``.
2. ``|x| >= 2^340`` but for a probability below ``(e 2^-600)^(d/2) <= 2^(-299 d)``, e = 2.718... here.
3. Then ``|z - x| / |x| <= 2^-323``. As ``P <= s <= 2^40`` and ``|L|_F <= 2``, the condition number of L is at most
   ``2 sqrt(s / (1 - e)) <= 2^22``, so v moves by at most ``2^-300``, ``c v'Av`` by at most ``2 s 2^-300 <= 2^-259`` and
   ``d/2 ln q`` by less. With the error of g itself, the chance of accepting differs by a factor within ``1 +- 2^-148``.
4. Both chances lie in [0, 1], so the laws of what is accepted differ by at most the sum of 3, ``2^-146``, and of 1 and
   2 over the chance of acceptance. That is at least ``exp(-129 d) / 40 >= 2^(-187 d - 6)``: with probability 1/40 at
   least ``|L z|^2`` is between 1/2 and 192 (Paley and Zygmund) and ``|z|^2`` between d / 128 and 64 d, where g is at
   most ``129 d``, since ``g <= d/2 (t (1 + e) - 1 - ln t - ln(1 - e))`` with ``t = 2 q / d``. So they add at most
   ``2^(-112 d + 8)``, below ``2^-200``.
5. Rounding at random, ``floor((v + u) 2^40)`` with u uniform in steps of 2^-256, differs only where the error of v, at
   most ``2^-250``, meets a border: at most ``2^-209`` an entry.

All of it is below 2^-100.

How many proposals are drawn depends on A and shows in time, as does all else that is computed.

**Source**: Kent, Ganeiban and Mardia, 2013 (envelope, here in another form); Canonne, Kamath and Steinke, 2020 (exact
discrete Gaussians); the bound of the distance is derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from blockveil.engine.noise.exact_matrix import Integers, identity, integer_parts, inverse_root
from blockveil.engine.noise.exact_random import KeyBits
from blockveil.engine.records.geometry import Matrix

STEP_BITS = 40
"""Entries of a drawn vector are whole numbers of 2**-40."""

TOTAL_VARIATION_PER_DRAW = 2.0**-100
"""Bound of the distance between a drawn vector and its law."""

MOST_FEATURES = 256
"""Largest d that the proof covers; exact arithmetic takes seconds there, and some tens of proposals are drawn."""

LARGEST_EXPONENT = 2.0**28
"""Largest c times the trace of A for which floats factor P well; the proof itself needs s below 2**40."""

_GAUSSIAN_BITS = 640
_FACTOR_BITS = 100
_VECTOR_BITS = 256
_EXPONENT_BITS = 150
_DIGITS = Context(prec=100)
_SLACK_BITS = 10


class CertificateError(ArithmeticError):
    """A float factorisation is not what the proof needs: the machine's arithmetic is not IEEE 754."""

    def __init__(self) -> None:
        super().__init__("a certificate of the sampler does not hold; the machine's rounding is not IEEE 754")


@dataclass(frozen=True, eq=False)
class Sampler:
    """The law ``exp(c v'Av)`` and an envelope of it.

    Attributes
    ----------
    moment, unit, concentration
        ``A = moment / unit`` and c.
    shift
        s, an exact binary fraction.
    factor
        L in units of 2**-100, shape (d, d).
    """

    moment: Integers
    unit: int
    concentration: Fraction
    shift: Fraction
    factor: Integers

    @classmethod
    def of(cls, moment: Integers, unit: int, concentration: Fraction) -> Sampler:
        """Sampler with a certified envelope; float arithmetic only decides how many proposals it takes.

        Raises
        ------
        CertificateError
            Floats could not factor the matrix; ``c tr A`` below :data:`LARGEST_EXPONENT` rules it out.
        """
        scaled = (moment * concentration.numerator) / (unit * concentration.denominator)
        shift, root = _shift(scaled.astype(np.float64))
        factor, exact = integer_parts(np.ldexp(root.T, _FACTOR_BITS)), Fraction(shift)
        # P = s I - c A in whole numbers, one being `whole`.
        whole = exact.denominator * concentration.denominator * unit
        diagonal = identity(moment.shape[0], exact.numerator * concentration.denominator * unit)
        p = diagonal - moment * (concentration.numerator * exact.denominator)
        certify(factor.T.dot(p).dot(factor), whole << (2 * _FACTOR_BITS), _SLACK_BITS)
        norm = int(np.sum(factor * factor))
        if not (1 << (2 * _FACTOR_BITS)) <= norm <= (4 << (2 * _FACTOR_BITS)) or not 0 < exact <= 2**40:
            raise CertificateError
        return cls(moment, unit, concentration, exact, factor)

    def draw(self, bits: KeyBits) -> Integers:
        """One vector, shape (d,), in steps of 2**-40, each entry rounded at random."""
        d, top = self.factor.shape[0], self.top()
        while True:
            normal = np.array([bits.discrete_gaussian(_GAUSSIAN_BITS) for _ in range(d)], dtype=object)
            vector = self.factor.dot(normal)
            # A vector of zeros, of probability below 2**-640, is not accepted.
            if np.any(vector != 0) and bits.exponential_trial(self.exponent(normal, vector, top), _EXPONENT_BITS):
                return _rounded(bits, vector)

    def top(self) -> Decimal:
        """``T = s - d/2 + d/2 ln(d/2) - d/2 ln(1 - e)``, to a hundred digits."""
        with localcontext(_DIGITS):
            half = Decimal(self.factor.shape[0]) / 2
            slack = 1 - Decimal(1) / Decimal(1 << _SLACK_BITS)
            shift = Decimal(self.shift.numerator) / Decimal(self.shift.denominator)
            return shift - half + half * half.ln() - half * slack.ln()

    def exponent(self, normal: Integers, vector: Integers, top: Decimal) -> int:
        """``g = T - c v'Av - d/2 ln q`` of a proposal ``y = L z``, rounded down to a multiple of 2**-150."""
        square = int(vector.dot(vector))
        c, form = self.concentration, int(vector.dot(self.moment.dot(vector)))
        with localcontext(_DIGITS):
            # Errors are below 2**40 * 10**-98 < 2**-280: division and logarithm are rounded correctly.
            captured = Decimal(c.numerator * form) / Decimal(c.denominator * self.unit * square)
            log_ratio = (Decimal(int(normal.dot(normal)) << (2 * _FACTOR_BITS)) / Decimal(square)).ln()
            g = (top - captured - log_ratio * normal.size / 2) * (1 << _EXPONENT_BITS)
            # The true g is not negative.
            return max(0, int(g.to_integral_value(rounding="ROUND_FLOOR")))


def certify(matrix: Integers, unit: int, bits: int) -> None:
    """Check that a matrix is within 2**-bits of one, ``unit``, in row sums, hence in eigenvalues (Gershgorin).

    Raises
    ------
    CertificateError
        It is not.
    """
    rows = np.sum(np.abs(matrix - identity(matrix.shape[0], unit)), axis=1)
    if int(np.max(rows)) << bits > unit:
        raise CertificateError


def _rounded(bits: KeyBits, vector: Integers) -> Integers:
    """Unit vector in steps of 2**-40: rounded down after adding a uniform part of a step to each entry."""
    length = math.isqrt(int(vector.dot(vector)))
    spare = _VECTOR_BITS - STEP_BITS
    parts = np.array([bits.bits(spare) for _ in range(vector.size)], dtype=object)
    steps: Integers = ((vector << _VECTOR_BITS) // length + parts) >> spare
    return steps


def _shift(scaled: Matrix) -> tuple[float, Matrix]:
    """The s with ``tr (s I - M)^-1 = 2`` to within 2**-6, and the root of the inverse there."""
    d = scaled.shape[0]
    diagonal = np.diagonal(scaled)
    # The largest eigenvalue is at least the largest diagonal entry and at most the trace; s exceeds it by 1/2 to d/2.
    low, high = float(np.max(diagonal)) + 0.25, math.fsum(diagonal) + d
    best = None
    while best is None or high - low > 2.0**-6:
        middle = 0.5 * (low + high) if best is not None else high
        root = inverse_root(middle * np.eye(d) - scaled)
        if root is not None and math.fsum((root**2).ravel()) <= 2.0:
            high, best = middle, root
        elif best is None:
            raise CertificateError
        else:
            low = middle
    return high, best

"""Size of the error that each mechanism's noise makes, and the composition rules with which it was compared.

The error of a release is ``L = |noise|^2``. For Gaussian noise with covariance eigenvalues v it has cumulants
``2^(k-1) (k-1)! sum v^k``, which gives every moment. The published study compares *raw* ratios
``E L^4 / (E L^2)^2`` and ``E L^3 / (E L^2)^(3/2)`` and reads large ones as stability. Larger ratios mean heavier, not
lighter, tails; what measures stability is the coefficient of variation, 1.41 for R1SMG against 0.016 for the
Gaussian with 7921 entries.

Nothing here is a guarantee of R1SMG, whose claim is false, nor of anything else; :func:`subsampled` and
:func:`strong_composition` are valid theorems, :func:`published_composition` is not one.

**Source**: R1SMG ("Less is more"), Theorems 4 and 7 to 9 and equation (16); MVG (CCS 2018); Dwork and Roth, 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtri

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.published.classic import classic_standard_deviation
from blockveil.engine.mechanisms.published.mvg_limits import harmonic_number, root_harmonic_number
from blockveil.engine.records.geometry import Vector

_UP = 1.0 + 2.0**-50


@dataclass(frozen=True)
class LossMoments:
    """Moments of the squared error of a release.

    Attributes
    ----------
    mean
        Expected squared error, in squared units of the answer.
    raw_kurtosis, raw_skewness
        ``E L^4 / (E L^2)^2`` and ``E L^3 / (E L^2)^(3/2)``, as in the R1SMG paper.
    central_kurtosis, central_skewness
        The usual ones, about the mean; 3 and 0 for a normal law.
    coefficient_of_variation
        Standard deviation over mean: how unstable the error is.
    """

    mean: float
    raw_kurtosis: float
    raw_skewness: float
    central_kurtosis: float
    central_skewness: float
    coefficient_of_variation: float


def gaussian_loss_moments(entries: int, standard_deviation: float) -> LossMoments:
    """Squared error of i.i.d. Gaussian noise, classic or analytic: the variance times chi-square of M entries.

    **Source**: R1SMG Theorems 8 and 9, which give ``(M+6)(M+4)/(M(M+2))`` and ``(M+4)/sqrt(M(M+2))``.
    """
    _count("entries", entries)
    _positive("standard deviation", standard_deviation)
    return _moments(standard_deviation**2, (float(entries),) * 4)


def kronecker_loss_moments(row_variances: Vector, column_variances: Vector) -> LossMoments:
    """Squared error of matrix Gaussian noise, from the eigenvalues of its row and its column covariance.

    Parameters
    ----------
    row_variances, column_variances
        Positive and finite, shapes (m,) and (n,).

    **Source**: R1SMG Theorem 8 (traces of powers of the Kronecker product).
    """
    largest = 1.0
    traces = [1.0, 1.0, 1.0, 1.0]
    for variances in (row_variances, column_variances):
        if variances.size == 0 or not np.all(np.isfinite(variances)) or np.any(variances <= 0):
            raise CalibrationError("a variance is not positive and finite; leave out what is not released; correct it")
        scale = float(np.max(variances))
        largest *= scale
        traces = [trace * math.fsum((variances / scale) ** k) for k, trace in enumerate(traces, start=1)]
    return _moments(largest, (traces[0], traces[1], traces[2], traces[3]))


def r1smg_loss_moments(squared_scale: float) -> LossMoments:
    """Squared error of R1SMG noise: its scale times chi-square of one degree, whatever the number of entries.

    Parameters
    ----------
    squared_scale
        The paper's eigenvalue of the random rank-one covariance.

    **Source**: R1SMG Theorems 7 to 9.
    """
    _positive("squared scale", squared_scale)
    return _moments(squared_scale, (1.0, 1.0, 1.0, 1.0))


def classic_constant(entries: int, epsilon: float, delta: float) -> float:
    """C_C: expected squared error of the classic Gaussian over squared sensitivity, ``2 ln(1.25/delta) M/epsilon^2``.

    **Source**: R1SMG Theorem 4; the mechanism itself needs epsilon < 1.
    """
    ApproxDP(epsilon, delta)
    return 2.0 * (math.log(1.25) - math.log(delta)) / epsilon**2 * _count("entries", entries)


def analytic_constant(entries: int, epsilon: float, delta: float) -> float:
    """Expected squared error of the analytic Gaussian over squared sensitivity: ``M / B^2``, exact.

    **Source**: Balle and Wang, 2018, Theorem 8.
    """
    return _count("entries", entries) / gaussian_mu(epsilon, delta) ** 2


def analytic_constant_upper_bound(entries: int, epsilon: float, delta: float) -> float:
    """C_A, ``(Phi^-1(delta)^2 + epsilon) M / epsilon^2``: an upper bound of :func:`analytic_constant`.

    Published as a lower bound, which is false: at epsilon 1 and delta 1e-5 it is 19.19 an entry against 13.92. With
    ``z = |Phi^-1(delta)|`` and ``s^2 = z^2 + epsilon`` it is the noise ``mu = epsilon / s``, for which ``mu/2 -
    epsilon/mu = -(epsilon + 2 z^2) / (2 s) <= -z``; so that noise is private, and more than needed.

    **Source**: R1SMG Theorem 4, direction corrected.
    """
    ApproxDP(epsilon, delta)
    return (float(ndtri(delta)) ** 2 + epsilon) / epsilon**2 * _count("entries", entries)


def mvg_constant_lower_bound(rank: int, entries: int, epsilon: float) -> float:
    """C_M, ``(5/4 H_r + 1/4 H_{r,1/2}) MN / (2 epsilon)``: a very loose lower bound for published MVG noise.

    **Source**: R1SMG Theorem 4.
    """
    _positive("epsilon", epsilon)
    harmonic = 1.25 * harmonic_number(_count("rank", rank)) + 0.25 * root_harmonic_number(rank)
    return harmonic / (2.0 * epsilon) * _count("entries", entries)


def r1smg_published_constant(entries: int, epsilon: float, delta: float) -> float:
    """C_R, ``2 / (epsilon psi)``: published squared scale of R1SMG over squared sensitivity. Not private.

    The claim that this noise is (epsilon, delta)-private is false; the number serves comparisons only.

    **Source**: R1SMG Theorems 5 and 7, as published.
    """
    ApproxDP(epsilon, delta)
    if entries < 3:
        raise CalibrationError(f"entries is {entries}; the published formula needs more than 2; use another mechanism")
    halves = float(gammaln((entries - 1) / 2.0) - gammaln(entries / 2.0))
    log_psi = 2.0 / (entries - 2) * (math.log(delta) + halves - 0.5 * math.log(math.pi))
    return 2.0 / epsilon * math.exp(-log_psi)


def classic_expected_loss(entries: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Expected squared error of the classic Gaussian, within its theorem: epsilon below 1."""
    return _count("entries", entries) * classic_standard_deviation(sensitivity, epsilon, delta) ** 2


def analytic_expected_loss(entries: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Expected squared error of the analytic Gaussian, and of the matrix Gaussian at its isotropic optimum."""
    _positive("sensitivity", sensitivity)
    return analytic_constant(entries, epsilon, delta) * sensitivity**2


def subsampled(loss: ApproxDP, rate: float) -> ApproxDP:
    """Loss of a step that sees a random part of the records: ``ln(1 + q (e^epsilon - 1)), q delta``; rounded up.

    Valid for Poisson sampling under add-remove and for samples of fixed size under replace-one.

    Parameters
    ----------
    loss
        Of the step on the records that it sees.
    rate
        Probability q of each record to be seen, in (0, 1].

    **Source**: Balle, Barthe and Gaboardi, 2018, Theorems 8 and 9. Neither ``q epsilon`` (R1SMG equation 16) nor
    a step at ``(epsilon / q, delta / q)`` for a total of epsilon (IMGM section 5) is valid.
    """
    if not 0.0 < rate <= 1.0:
        raise CalibrationError(f"the sampling rate is {rate}; it must lie in (0, 1]; give a probability")
    if loss.epsilon < 700.0:
        amplified = math.log1p(rate * math.expm1(loss.epsilon)) * _UP
    else:
        amplified = loss.epsilon + math.log(rate + (1.0 - rate) * math.exp(-loss.epsilon))
        amplified += (loss.epsilon - math.log(rate)) * 2.0**-50  # relative to what was subtracted from
    return ApproxDP(amplified, min(rate * loss.delta * _UP, loss.delta))


def strong_composition(step: ApproxDP, steps: float, slack: float) -> ApproxDP:
    """Loss of equal adaptive steps: ``sqrt(2 k ln(1/slack)) epsilon + k epsilon (e^epsilon - 1), k delta + slack``.

    Parameters
    ----------
    step
        Loss of one step, after amplification where records are sampled.
    steps
        Number k of steps, at least 1. A guarantee needs the actual, integer number; a fraction, such as epochs over a
        sampling rate, serves comparison with published figures.
    slack
        Additional delta, in (0, 1).

    Raises
    ------
    CalibrationError
        A parameter is out of range, or the result promises nothing.

    **Source**: Dwork, Rothblum and Vadhan, 2010, Theorem III.3 (Dwork and Roth, 2014, Theorem 3.20).
    """
    if not (math.isfinite(steps) and steps >= 1 and 0.0 < slack < 1.0):
        raise CalibrationError(f"steps is {steps}, slack {slack}; steps are at least 1, slack in (0, 1); correct them")
    return ApproxDP(_composed(step.epsilon, steps, slack) * _UP, (steps * step.delta + slack) * _UP)


def published_composition(step: ApproxDP, rate: float, epochs: float, slack: float) -> ApproxDP:
    """R1SMG equation (16) as printed: strong composition of ``epochs / rate`` steps at ``(q epsilon, q delta)``.

    Not valid, because ``q epsilon`` is below the tight amplification: barely so for small epsilon, but for a published
    16.98 the same theorem proves only 4963. Take :func:`subsampled` and :func:`strong_composition`.

    **Source**: R1SMG, equation (16).
    """
    return strong_composition(ApproxDP(rate * step.epsilon, rate * step.delta), epochs / rate, slack)


def published_step(total: ApproxDP, rate: float, epochs: float, slack: float) -> ApproxDP:
    """The step that R1SMG derives from a total by its equation (16), inverted; no statement about privacy.

    Raises
    ------
    CalibrationError
        The slack is not below the total delta, or the rate or the number of epochs is out of range.

    **Source**: R1SMG, equation (16) and the experiments with stochastic gradient descent.
    """
    if not (0.0 < rate <= 1.0 and 0.0 < slack < total.delta and math.isfinite(epochs) and epochs >= rate):
        raise CalibrationError(f"rate is {rate}, slack {slack}; rate lies in (0, 1], slack below delta; correct them")
    steps = epochs / rate
    low, high = 0.0, 1.0
    while _composed(high, steps, slack) < total.epsilon:
        low, high = high, 2.0 * high
    while high - low > 2.0**-51 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _composed(middle, steps, slack) < total.epsilon else (low, middle)
    return ApproxDP(low / rate, (total.delta - slack) / epochs)


def _composed(epsilon: float, steps: float, slack: float) -> float:
    growth = math.expm1(epsilon) if epsilon < 700.0 else math.inf
    return math.sqrt(-2.0 * steps * math.log(slack)) * epsilon + steps * epsilon * growth


def _moments(scale: float, traces: tuple[float, float, float, float]) -> LossMoments:
    """Moments of ``scale * sum v z^2`` from the sums of powers of v."""
    first, second, third, fourth = traces[0], 2.0 * traces[1], 8.0 * traces[2], 48.0 * traces[3]
    squares = second + first**2
    cubes = third + 3.0 * second * first + first**3
    fourths = fourth + 4.0 * third * first + 3.0 * second**2 + 6.0 * second * first**2 + first**4
    return LossMoments(
        mean=scale * first,
        raw_kurtosis=fourths / squares**2,
        raw_skewness=cubes / squares**1.5,
        central_kurtosis=3.0 + fourth / second**2,
        central_skewness=third / second**1.5,
        coefficient_of_variation=math.sqrt(second) / first,
    )


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")


def _count(name: str, value: int) -> int:
    if value < 1:
        raise CalibrationError(f"{name} is {value}; it must be at least 1; give the number")
    return value

"""Steps that see a random part of the records: what is published about their total loss, and what is proven.

:func:`subsampled` and :func:`strong_composition` are valid theorems; what :func:`published_step` inverts is not one.

**Source**: R1SMG ("Less is more"), equation (16); Dwork and Roth, 2014; Balle, Barthe and Gaboardi, 2018.
"""

from __future__ import annotations

import math

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP

_UP = 1.0 + 2.0**-50


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


def published_step(total: ApproxDP, rate: float, epochs: float, slack: float) -> ApproxDP:
    """The step that R1SMG derives from a total by its equation (16), inverted; no statement about privacy.

    The equation is strong composition of ``epochs / rate`` steps at ``(q epsilon, q delta)``. ``q epsilon`` is below
    the tight amplification: barely so for small epsilon, but for a published 16.98 the same theorem proves only 4963.

    Parameters
    ----------
    total
        Loss of the whole training, as claimed.
    rate
        Sampling rate q, in (0, 1].
    epochs
        Number of steps times the rate.
    slack
        Part of the delta that composition takes, in (0, delta).

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

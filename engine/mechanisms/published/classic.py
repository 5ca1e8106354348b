"""The classic Gaussian mechanism: valid below epsilon one, false from about eight, and never the least noise.

Standard deviation ``sqrt(2 ln(1.25/delta)) sensitivity / epsilon``. Its theorem is stated for ``0 < epsilon < 1``; at
epsilon 10 and delta 1e-5 the true delta is 2.27 times the claimed one, at epsilon 20 it is 153 times. The theorem
needs ``c^2 > 2 ln(1.25/delta)`` strictly, so the factor is rounded up, and what is returned has been checked against
the exact loss. The loss to charge is the exact one, which is smaller than the claim.

**Source**: Dwork and Roth, 2014, Theorem A.1; Balle and Wang, 2018, section 2 (why it fails); MVG (CCS 2018) and R1SMG
("Less is more", Theorem 1) use it as their baseline.
"""

from __future__ import annotations

import math

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP

_ROUND_UP = 1.0 + 2.0**-49
"""Covers the roundings of a logarithm, a root, a product and a quotient, and makes the theorem's inequality strict."""


def classic_standard_deviation(sensitivity: float, epsilon: float, delta: float) -> float:
    """Standard deviation of the classic Gaussian mechanism, rounded up by a few units in the last place.

    Parameters
    ----------
    sensitivity
        Largest L2 (Frobenius) distance of the answer between neighbours, positive.
    epsilon
        In (0, 1).
    delta
        In (0, 1).

    Returns
    -------
    Standard deviation of each entry, in the sensitivity's unit.

    Raises
    ------
    CalibrationError
        A parameter is out of range; the theorem does not hold from epsilon 1 on.

    **Source**: Dwork and Roth, 2014, Theorem A.1.
    """
    ApproxDP(epsilon, delta)
    if epsilon >= 1:
        raise CalibrationError(
            f"epsilon is {epsilon}; the classic Gaussian theorem needs epsilon < 1 and is false for large ones; "
            "use the analytic Gaussian mechanism"
        )
    deviation = _factor(delta) / epsilon * sensitivity
    mu = classic_loss(sensitivity, deviation).mu
    # The theorem says that this holds; checking the exact loss keeps the promise for the very numbers returned.
    if gaussian_log_delta(mu, epsilon) > math.log(delta):
        raise CalibrationError(f"delta is {delta}; the classic factor does not reach it; use the analytic Gaussian")
    return deviation


def classic_loss(sensitivity: float, standard_deviation: float) -> GaussianDP:
    """Exact loss of i.i.d. Gaussian noise, rounded up: this, not the claim, is what a ledger charges.

    Parameters
    ----------
    sensitivity
        Largest L2 distance of the answer between neighbours, positive.
    standard_deviation
        Of each entry, in the same unit, positive.

    Raises
    ------
    CalibrationError
        A parameter is not positive and finite.

    **Source**: Balle and Wang, 2018, Theorem 8.
    """
    for name, value in (("sensitivity", sensitivity), ("standard deviation", standard_deviation)):
        if not (math.isfinite(value) and value > 0):
            raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")
    return GaussianDP(sensitivity / standard_deviation * (1.0 + 2.0**-51))


def _factor(delta: float) -> float:
    """The classic factor c, rounded up."""
    # ln 1.25 - ln delta cannot overflow, as 1.25 / delta does for the least floats.
    return math.sqrt(2.0 * (math.log(1.25) - math.log(delta))) * _ROUND_UP

"""The matrix Gaussian mechanism (MGM), the variant of MVG from which IMGM was improved: isotropic noise, valid, loose.

Noise of standard deviation s on each of M entries has, for a difference D of neighbouring answers, the loss ``mu^2 / 2
+ mu g`` with ``mu = |D|_F / s`` and ``g = <N, D> / |D|_F`` for standard normal N. MGM bounds g by the norm of the whole
of N, as MVG does, but needs no bound of the answer itself:

    with probability 1 - delta: |N|_F^2 <= zeta^2 = M + 2 sqrt(M ln(1/delta)) + 2 ln(1/delta)   (Laurent and Massart)
    hence the loss is at most epsilon where mu^2 / 2 + mu zeta <= epsilon, that is mu <= sqrt(zeta^2 + 2 epsilon) - zeta

which proves (epsilon, delta). As g is one normal variable and not M of them, the noise is too large by a factor that
grows like sqrt(M). What is charged is the exact mu.

**Source**: Yang, Xiang, Yu, Wang, Guo, Li and Li, "Matrix Gaussian Mechanisms for Differentially-Private Learning",
2021, which R1SMG ("Less is more", section 7.1) compares itself with; the condition as public programs of that
comparison state it, proven above by Laurent and Massart, 2000, Lemma 1. IMGM replaces it by an exact one.
"""

from __future__ import annotations

import math

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.published.mvg_limits import Zeta, zeta

_DOWN = 1.0 - 2.0**-47
"""Covers the roundings of zeta, a root, a sum and a quotient."""


def mgm_mu(entries: int, epsilon: float, delta: float) -> float:
    """Largest mu that MGM's condition allows, rounded down: ``2 epsilon / (zeta + sqrt(zeta^2 + 2 epsilon))``.

    Parameters
    ----------
    entries
        M, number of entries of the answer, at least 1.
    epsilon, delta
        The claimed loss; epsilon positive, delta in (0, 1).

    Returns
    -------
    Sensitivity (L2) over the standard deviation of each entry's noise.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    ApproxDP(epsilon, delta)
    if entries < 1:
        raise CalibrationError(f"the answer has {entries} entries; it must have at least 1; correct its shape")
    norm = zeta(entries, delta, Zeta.SQUARE_ROOT)
    # sqrt(zeta^2 + 2 eps) - zeta cancels; this is the same as a quotient of positive terms.
    return 2.0 * epsilon / (norm + math.hypot(norm, math.sqrt(2.0 * epsilon))) * _DOWN

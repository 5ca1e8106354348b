"""What a release promises that takes a share of a guarantee: mu squared is divided before any of the releases starts.

Gaussian losses add up in mu squared, so releases with ``mu_i^2 = share_i B^2`` and shares of at most one in sum keep,
all together, the (epsilon, delta) whose analytic Gaussian has the mu B. Each states on its own the epsilon of its mu
at that delta. :mod:`.splitting` checks what such releases keep together.

**Source**: Balle and Wang, 2018, Theorem 8; Dong, Roth and Su, 2022 (composition).
"""

from __future__ import annotations

import math

from blockveil.engine.guarantees.calibration import CannotCalibrate, gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.pipeline.config import PrivacySection


def guarantee_of(privacy: PrivacySection) -> ApproxDP:
    """What a release promises on its own: all of epsilon, or what its share of mu squared leaves at the same delta.

    Raises
    ------
    CannotCalibrate
        The share is so small that delta alone would allow it.
    """
    whole = ApproxDP(privacy.epsilon, privacy.delta)
    return whole if privacy.share is None else shared(whole, privacy.share)


def shared(whole: ApproxDP, share: float) -> ApproxDP:
    """The guarantee of a share of mu squared, at the same delta.

    Raises
    ------
    CannotCalibrate
        The share is so small that delta alone would allow it.
    """
    # The margin keeps the roundings of both ways inside the share.
    mu = gaussian_mu(whole.epsilon, whole.delta) * math.sqrt(share) * (1.0 - 1e-9)
    epsilon = gaussian_epsilon(mu, whole.delta)
    if epsilon <= 0:
        raise CannotCalibrate(f"a share of {share:g} leaves less than delta {whole.delta:g}; give a larger one")
    return ApproxDP(epsilon, whole.delta)


def check_share(privacy: PrivacySection, loss: Loss) -> None:
    """Refuse a share of a loss that is not Gaussian: it does not add up in mu squared.

    Raises
    ------
    CannotCalibrate
        The release has a share and a pure loss.
    """
    if privacy.share is not None and loss.epsilon > 0:
        raise CannotCalibrate(
            "a share divides mu squared, which pure losses do not have; give the release its own epsilon"
        )

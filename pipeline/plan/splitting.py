"""One guarantee shared by several releases: each takes a share of mu squared, calibrated before any of them starts.

Gaussian losses add up in mu squared, so releases with ``mu_i^2 = share_i B^2`` and shares of at most one in sum keep,
all together, the (epsilon, delta) whose analytic Gaussian has the mu B. Each states on its own the epsilon of its mu
at that delta.

**Source**: Balle and Wang, 2018, Theorem 8; Dong, Roth and Su, 2022 (composition).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockveil.engine.guarantees.calibration import CannotCalibrate, gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.config import PrivacySection

if TYPE_CHECKING:
    from blockveil.pipeline.plan.planning import Plan


def guarantee_of(privacy: PrivacySection) -> ApproxDP:
    """What a release promises on its own: all of epsilon, or what its share of mu squared leaves at the same delta.

    Raises
    ------
    CannotCalibrate
        The share is so small that delta alone would allow it.
    """
    whole = ApproxDP(privacy.epsilon, privacy.delta)
    if privacy.share is None:
        return whole
    # The margin keeps the roundings of both ways inside the share.
    mu = gaussian_mu(whole.epsilon, whole.delta) * math.sqrt(privacy.share) * (1.0 - 1e-9)
    epsilon = gaussian_epsilon(mu, whole.delta)
    if epsilon <= 0:
        raise CannotCalibrate(f"a share of {privacy.share:g} leaves less than delta {whole.delta:g}; give a larger one")
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


@dataclass(frozen=True)
class Split:
    """Releases that share one guarantee.

    Attributes
    ----------
    plans
        The releases.
    shares
        Of mu squared.
    together
        Loss of all of them.
    """

    plans: tuple[Plan, ...]
    shares: tuple[float, ...]
    together: Ticks


def split(plans: Sequence[Plan]) -> Split:
    """Check that plans share one guarantee and stay within it together.

    Raises
    ------
    ConfigError
        They are not for the same budget, guarantee, relation and unit, a share is missing, or the shares exceed one.
    """
    if any(plan.series is not None for plan in plans):
        raise ConfigError(
            "A config has [continual]", "Nights that share a charge are not split", "Run it with `blockveil run`"
        )
    first = plans[0].config
    for plan in plans:
        same = plan.config.release.account == first.release.account and plan.config.privacy == first.privacy.model_copy(
            update={"share": plan.config.privacy.share}
        )
        if not same:
            raise ConfigError(
                f"'{plan.release_id}' and '{plans[0].release_id}' differ in budget, epsilon, delta, relation or unit",
                "Releases that share a guarantee state the same one, and differ in privacy.share",
                "Make [privacy] the same, but for share, and name one budget",
            )
    if len({plan.release_id for plan in plans}) < len(plans):
        raise ConfigError("Two configs have the same release name", "Each release is one", "Rename one of them")
    shares = tuple(plan.config.privacy.share or 1.0 for plan in plans)
    if math.fsum(shares) > 1.0 + 1e-12:
        raise ConfigError(
            f"The shares add up to {math.fsum(shares):g}",
            "Releases that share a guarantee take at most all of it",
            "Lower privacy.share of some of them",
        )
    together = sum((Ticks.of(plan.charge) for plan in plans), NOTHING)
    promised = ApproxDP(first.privacy.epsilon, first.privacy.delta)
    if together.delta(promised.epsilon) > promised.delta:  # the samplers distances add up too
        raise ConfigError("The releases exceed their guarantee", "Shares and samplers keep it", "Lower privacy.share")
    return Split(tuple(plans), shares, together)

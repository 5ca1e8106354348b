"""One guarantee shared by several releases: they state the same one, and their shares are at most all of it.

:mod:`.shares` has the arithmetic of a share, and its source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.plan.planning import Plan


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

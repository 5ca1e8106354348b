"""Composed epsilon of nights of releases: this ledger, dp-accounting, and naive addition.

Run ``python -m benchmarks.composition``. Every epsilon is at delta 1e-6.

* ledger: the least epsilon of a budget at that delta that holds the nights, whatever else is chosen on the way (a
  filter); Gaussian and pure releases are one charge a night, sampled ones one charge for the whole series;
* series: certified bound where kinds and parameters are fixed before the first night;
* dp-accounting: its PLD accountant at its standard settings, same assumption, without a bound on floating point;
* naive: every night's own epsilon at delta / nights, added up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import dp_accounting
from dp_accounting.pld import pld_privacy_accountant

from blockveil.engine.guarantees.calibration import gaussian_epsilon
from blockveil.engine.guarantees.domination import fixed_epsilon
from blockveil.engine.guarantees.events import Event, PoissonGaussian, Series, Step
from blockveil.engine.guarantees.guarantee import ApproxDP, GaussianDP, Loss, PureDP
from blockveil.pipeline.budget.filter import NOTHING, Accountant, Cap

DELTA = 1e-6
NIGHTS = (30, 365, 3650)
KINDS: dict[str, tuple[tuple[Event, int], ...]] = {
    "Gaussian, mu 0.05": ((GaussianDP(0.05), 1),),
    "pure, epsilon 0.02": ((PureDP(0.02), 1),),
    "Poisson sample of 1 %, noise 1": ((PoissonGaussian(0.01, 1.0), 1),),
    "one of each": ((GaussianDP(0.05), 1), (PureDP(0.02), 1), (PoissonGaussian(0.01, 1.0), 1)),
}


def series(kind: str, nights: int) -> Series:
    """Events of so many nights."""
    return tuple(Step(event, count * nights) for event, count in KINDS[kind])


def ledger(kind: str, nights: int) -> float:
    """Least epsilon of a budget that holds the nights, over its accountants; slack of a tenth of delta."""
    steps = series(kind, nights)

    def holds(epsilon: float, accountant: Accountant, reserve: bool) -> bool:
        pure = math.fsum(step.count * step.event.epsilon for step in steps if isinstance(step.event, PureDP))
        cap = Cap(epsilon, DELTA, min(pure, epsilon) if reserve else 0.0, 0.1, accountant)
        spent = NOTHING
        for step in steps:
            if isinstance(step.event, PureDP):
                # Night by night: what a reserve holds is booked as it is.
                spent = spent + cap.book(Loss(0.0, step.event.epsilon, 0.0), spent).times(step.count)
            else:
                spent = spent + cap.book((step,), spent)
        return cap.holds(spent)

    return min(
        _least(lambda epsilon, a=accountant, r=reserve: holds(epsilon, a, r))
        for accountant in Accountant
        for reserve in (True, False)
    )


def _least(holds: Callable[[float], bool]) -> float:
    low, high = 0.0, 26.0  # a cap counts with at most about 31 at this slack
    if not holds(high):
        return math.inf
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def peer(kind: str, nights: int) -> float:
    """Epsilon by the PLD accountant of dp-accounting."""
    accountant = pld_privacy_accountant.PLDAccountant()
    for event, count in KINDS[kind]:
        accountant.compose(_foreign(event), count * nights)
    return float(accountant.get_epsilon(DELTA))


def _foreign(event: Event) -> dp_accounting.DpEvent:
    match event:
        case GaussianDP(mu):
            return dp_accounting.GaussianDpEvent(1.0 / mu)
        case PureDP(epsilon):
            return dp_accounting.LaplaceDpEvent(1.0 / epsilon)
        case PoissonGaussian(probability, noise):
            return dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))
    raise ValueError(event)


def naive(kind: str, nights: int) -> float:
    """Every event's epsilon at an even share of delta, added up."""
    parts = sum(count for _, count in KINDS[kind]) * nights
    total = 0.0
    for event, count in KINDS[kind]:
        match event:
            case GaussianDP(mu):
                own = gaussian_epsilon(mu, DELTA / parts)
            case PureDP(epsilon) | ApproxDP(epsilon, _):
                own = epsilon
            case _:
                own = fixed_epsilon((Step(event),), DELTA / parts)
        total += own * count * nights
    return total


def table() -> list[tuple[str, int, float, float, float, float]]:
    """Rows (kind, nights, ledger, series, dp-accounting, naive)."""
    return [
        (
            kind,
            nights,
            ledger(kind, nights),
            fixed_epsilon(series(kind, nights), DELTA),
            peer(kind, nights),
            naive(kind, nights),
        )
        for kind in KINDS
        for nights in NIGHTS
    ]


def main() -> None:
    """Print the table."""
    print("| nights of | nights | ledger | series | dp-accounting | naive |")
    print("|---|---|---|---|---|---|")
    for kind, nights, *values in table():
        print(f"| {kind} | {nights:,} | " + " | ".join(f"{value:.4g}" for value in values) + " |")


if __name__ == "__main__":
    sys.exit(main())

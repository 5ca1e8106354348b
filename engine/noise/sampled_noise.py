"""Gaussian noise for steps that are each over a secret sample of the records, composed by privacy loss distributions.

Each step is dominated by a Poisson-sampled Gaussian of noise multiplier ``s = 1 / m``, where ``m = L2 / scale +
rounding`` is the loss of the step over all records (engine/answers/step_records.py has the proof). All steps together
are composed once, by :mod:`.domination`: a Gaussian loss and a probability of failure that lie above the whole series.
So the release is booked like any other Gaussian one, and its noise is the least of a fixed scale of multipliers, whose
steps are below 0.4 %, for which that Gaussian is within the guarantee.

**Source**: Zhu, Dong and Wang, 2022 (dominating pairs); Bu, Dong, Long and Su, 2020 (the limit that the search begins
at, which is no bound and is not used as one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy.special import ndtr

from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.domination import dominating
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.engine.noise.additive import ROUNDING_SHARE, design_of, usable_mu
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL
from blockveil.engine.noise.entry_noise import ROUND_UP
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Scaling, Spread

_MANTISSA = 256
"""Multipliers between a power of two and the next."""

_LEAST, _LARGEST = 0.25, 2.0**16

_TRIES = 12


@dataclass(frozen=True)
class Sampling:
    """Steps that each take a secret sample of the records.

    Attributes
    ----------
    probability
        Of a record to take part in a step, independently of all else.
    steps
        Number of steps.
    """

    probability: float
    steps: int


@dataclass(frozen=True)
class SampledNoise:
    """The noise of one step, and what all of them cost.

    Attributes
    ----------
    multiplier
        Standard deviation over the sensitivity to one record, of the step over all records.
    failure
        Probability of a loss without bound that is booked.
    """

    multiplier: float
    failure: float


def sampled_design(
    spread: Spread, one: Sensitivity, scaling: Scaling, guarantee: ApproxDP, sampling: Sampling
) -> NoiseDesign:
    """Gaussian noise of a given spread for all steps.

    Parameters
    ----------
    spread
        Relative size of the noise of all steps, one below the other.
    one
        L2 sensitivity of one step over all records, divided by its spread; the largest over steps.
    scaling
        Of the exact integers.
    guarantee
        The asked loss, of all steps together.
    sampling
        How steps take their records.

    Raises
    ------
    CannotCalibrate
        delta is too small for the samplers or for the accountant's arithmetic, or noise leaves the known range.
    """
    total_variation = spread.entries * GRID_TWO_LEVEL.total_variation_per_draw
    calibration = least_multiplier(sampling, guarantee, total_variation)
    largest = 1.0 / calibration.multiplier  # loss of one step over all records
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        # Neighbours' sums of one step round to grid points at most one step further apart in each of its entries.
        rounding = math.sqrt(spread.changing / sampling.steps) / grid.privacy_scale * ROUND_UP
        if rounding <= ROUNDING_SHARE * largest:
            break
    else:
        raise CannotCalibrate(f"no room beside rounding at {spread.changing} entries; train a smaller model")
    # bound / scale + rounding <= 1 / multiplier: what the accountant was asked about.
    scale = one.bound / (largest * (1.0 - 1e-15) - rounding) * ROUND_UP
    loss = Loss(_usable(guarantee, total_variation, calibration.failure), 0.0, total_variation, calibration.failure)
    return design_of(spread, scale, one, grid, scaling, loss)


@lru_cache(maxsize=64)
def least_multiplier(sampling: Sampling, guarantee: ApproxDP, total_variation: float) -> SampledNoise:
    """Least noise multiplier of the scale that keeps all steps within a guarantee, up to two steps of the scale.

    Parameters
    ----------
    sampling, guarantee
        As for :func:`sampled_design`.
    total_variation
        Distance of the samplers from their laws.

    Raises
    ------
    CannotCalibrate
        None is known.
    """
    place = _place(_first_guess(sampling, usable_mu(guarantee, total_variation)))
    for attempt in range(_TRIES):
        noise = _multiplier(place)
        try:
            above = dominating((Step(PoissonGaussian(sampling.probability, noise), sampling.steps),))
        except CalibrationError:
            place += _MANTISSA // 4
            continue
        failure = 2.0 ** math.ceil(math.log2(1.25 * above.failure + 1e-30))
        allowed = _usable(guarantee, total_variation, failure)
        # The series lies below a Gaussian of allowed mu and this failure, both of which are booked.
        if above.mu <= allowed and (attempt > 0 or above.mu >= allowed * (1.0 - 2e-3)):
            return SampledNoise(noise, failure)
        # The limit is off by nearly the same factor at the next multiplier.
        factor = above.mu / _limit(sampling, noise)
        place = max(_place(_first_guess(sampling, allowed / factor)), place + 1 if above.mu > allowed else 0)
    raise CannotCalibrate(
        f"no noise was found for {sampling.steps:,} steps of samples of {sampling.probability:g} at epsilon "
        f"{guarantee.epsilon:g}; ask for fewer steps or smaller samples"
    )


def _usable(guarantee: ApproxDP, total_variation: float, failure: float) -> float:
    """Largest Gaussian loss that leaves room for the samplers' distance and a failure."""
    # A failure of probability f beside an (eps, d) loss is an (eps, d + f) loss.
    if failure > guarantee.delta / 4.0:
        raise CannotCalibrate(
            f"delta {guarantee.delta:g} is below what the accountant of samples can tell; raise delta to "
            f"{4.0 * failure:.2g} or more"
        )
    return usable_mu(ApproxDP(guarantee.epsilon, (guarantee.delta - failure) * (1.0 - 1e-9)), total_variation)


def _multiplier(place: int) -> float:
    power, mantissa = divmod(place, _MANTISSA)
    return math.ldexp(_MANTISSA + mantissa, power - 8)


def _place(noise: float) -> int:
    """Place on the scale of the least multiplier that is not below one."""
    mantissa, power = math.frexp(noise)
    return math.ceil(mantissa * 2 * _MANTISSA) - _MANTISSA + (power - 1) * _MANTISSA


def _first_guess(sampling: Sampling, mu: float) -> float:
    """The noise multiplier at which the limit has a mu, within the range that is known."""
    low, high = _LEAST, _LARGEST
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _limit(sampling, middle) > mu else (low, middle)
    return high


def _limit(sampling: Sampling, noise: float) -> float:
    """Gaussian loss of many steps of small samples: ``q sqrt(2 T (e^(1/s^2) Phi(3/(2 s)) + 3 Phi(-1/(2 s)) - 2))``."""
    inverse = 1.0 / noise
    if inverse < 1e-4:  # e^x Phi(..) + 3 Phi(..) - 2 is x / 2 there, and cancels
        return sampling.probability * math.sqrt(sampling.steps) * inverse
    spread = math.exp(inverse * inverse) * float(ndtr(1.5 * inverse)) + 3.0 * float(ndtr(-0.5 * inverse)) - 2.0
    return sampling.probability * math.sqrt(2.0 * sampling.steps * spread)

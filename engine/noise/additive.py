"""Additive noise on exact integer answers: how any calibration becomes the discrete noise that is released.

A mechanism chooses a *spread* for each row and column of the answer; entry (i, j) gets noise of size
``scale * row_spread_i * column_spread_j``. In the answer divided by the spreads the noise has one size, so all of
privacy is one sensitivity: L2 for Gaussian noise, L1 for Laplace noise (:mod:`.problems`). In a
symmetric answer entry (j, i) repeats (i, j), and Gaussian noise off the diagonal is smaller by sqrt(2), which keeps the
Frobenius geometry and needs half the draws.

Releases are integers: ``round(answer / step) + discrete noise``, with an integer step for each entry. The proof:

1. The noise in an entry has the law of the grid, times the step; each step is at least its ideal value.
2. Rounding moves two neighbouring answers apart by at most one grid step in each entry that one record can change:
   ``sqrt(changing entries)`` steps in L2, ``changing entries`` steps in L1.
3. Discrete Gaussian noise of variance s^2 is as private as continuous noise of variance s^2 - 100; discrete Laplace
   noise of scale t costs ``distance / t`` exactly; samplers are within a proven total variation of both.
4. So the loss is ``mu = L2 / scale + sqrt(changing) / grid`` (Gaussian), or ``epsilon = L1 / scale + changing / t``
   (Laplace), and the samplers' total variation.
5. Where the diagonal of a symmetric answer has Gaussian noise of its own, L2 is that in the norm of the whole noise,
   which no rounding increases by more than its length; what entries share adds its own rounding
   (:mod:`.moment_diagonal`).

Noise of another law may have a pure loss in a norm of its own, where entries get their noise together.

**Source**: Balle and Wang, 2018 (analytic Gaussian); Dwork, McSherry, Nissim and Smith, 2006 (Laplace).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp, floor, inf, ldexp, log2, nextafter, sqrt

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.engine.noise.design import Law, NoiseDesign, add_noise
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace
from blockveil.engine.noise.entry_noise import ROUND_UP
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import LEAST_STEP, Scaling, Spread
from blockveil.engine.workloads.strategy import Strategy

__all__ = [
    "CannotCalibrate",
    "Law",
    "Measured",
    "NoiseDesign",
    "Scaling",
    "Spread",
    "add_noise",
    "gaussian_design",
    "integer_laplace_design",
    "laplace_design",
    "pure_design",
    "usable_epsilon",
    "usable_mu",
    "whole_shifts",
]

ROUNDING_SHARE = 1e-3
"""A finer grid is taken where rounding to a coarser one would cost more than this share of the budget."""

_LOSS_BITS = 50
"""Pure losses are whole numbers of 2**-50, which is what a ledger books: nothing is left to round up there."""

_STEP_BITS = 16
"""Steps of at least 2**16 units: rounding them up then adds less than a part in 65,000."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What gets Gaussian noise whose spread is known beforehand.

    Attributes
    ----------
    spread
        Relative size of the noise.
    sensitivity
        L2, of what is measured divided by the spreads.
    scaling
        Of the exact integers.
    strategy
        What is measured in place of a table's cells; None where the answer itself is.
    """

    spread: Spread
    sensitivity: Sensitivity
    scaling: Scaling
    strategy: Strategy | None = None

    def design(self, guarantee: ApproxDP) -> NoiseDesign:
        """Least noise for a guarantee; raises as :func:`gaussian_design`."""
        return replace(gaussian_design(self.spread, self.sensitivity, self.scaling, guarantee), strategy=self.strategy)


def gaussian_design(
    spread: Spread,
    sensitivity: Sensitivity,
    scaling: Scaling,
    guarantee: ApproxDP,
    deviation: float | None = None,
    times: int = 1,
    moved: float | None = None,
) -> NoiseDesign:
    """Gaussian noise of a given spread.

    Parameters
    ----------
    spread
        Relative size of the noise.
    sensitivity
        L2, of the answer divided by the spreads.
    scaling
        Of the exact integers.
    guarantee
        The asked loss: met exactly, or a limit where ``deviation`` is given.
    deviation
        Standard deviation where the spreads are one, from a published calibration; None for the least that suffices.
    times
        How many answers of this spread get such noise under the guarantee; the sensitivity is of all of them together.
    moved
        By how many grid steps rounding moves neighbours apart, in L2; None for one step in each entry that changes.

    Raises
    ------
    CannotCalibrate
        delta is too small for the sampler, noise leaves the exact range, or the published noise is too small.
    """
    _check_known(sensitivity)
    total_variation = times * spread.draws * GRID_TWO_LEVEL.total_variation_per_draw
    usable = usable_mu(guarantee, total_variation)
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        # Two neighbours' answers round to grid points at most one step further apart in each entry that changes.
        together = sqrt(times * spread.changing) if moved is None else moved
        rounding = (together + whole_shifts(spread)) / grid.privacy_scale * ROUND_UP
        if rounding <= ROUNDING_SHARE * usable:
            break
    else:
        raise CannotCalibrate(
            f"epsilon {guarantee.epsilon:g} leaves no room beside rounding at {spread.changing} entries; raise epsilon"
        )
    if deviation is None:
        scale, mu = sensitivity.bound / (usable - rounding) * ROUND_UP, usable
    else:
        scale, mu = deviation * ROUND_UP, (sensitivity.bound / deviation + rounding) * ROUND_UP
        if mu > usable:
            raise CannotCalibrate(
                f"the published noise has mu {mu:.6g}, more than the {usable:.6g} that epsilon {guarantee.epsilon:g} "
                f"and delta {guarantee.delta:g} allow; choose a mechanism that is proven at these parameters"
            )
    return design_of(spread, scale, sensitivity, grid, scaling, Loss(mu, 0.0, total_variation))


def whole_shifts(spread: Spread) -> float:
    """Cost, in grid steps, of hiding whole shifts by what a diagonal shares; see :mod:`.moment_diagonal`."""
    if spread.diagonal is None:
        return 0.0
    squares, s = spread.diagonal.squares(spread.rows.size), spread.diagonal.shared
    # The best real shifts are rounded by at most 1/2 each, in a form whose largest eigenvalue is 1 + s d; where the
    # count takes part, d is the sum of squares of how often entries do (diagonal_sizes.py).
    return sqrt(s * (1.0 + s * squares)) / 2.0


def laplace_design(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP, grid: Law
) -> NoiseDesign:
    """Laplace noise of a given spread, at all of epsilon but 1e-12; only the sampler's distance uses delta.

    Parameters
    ----------
    spread, scaling, guarantee
        As for :func:`gaussian_design`.
    sensitivity
        L1, of the distinct entries of the answer divided by the spreads.
    grid
        Law of the noise.

    Raises
    ------
    CannotCalibrate
        delta is too small for the sampler, rounding leaves no room, or noise leaves the exact range.
    """
    # Two neighbours' answers round to grid points at most one step further apart in each entry that changes.
    return pure_design(spread, sensitivity, scaling, guarantee, grid, spread.changing)


def pure_design(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP, grid: Law, steps: float
) -> NoiseDesign:
    """Noise of a pure loss ``sensitivity / scale + rounding``, at all of epsilon but 1e-12.

    Parameters
    ----------
    spread, scaling, guarantee
        As for :func:`gaussian_design`.
    sensitivity
        Of the answer divided by the spreads, in the norm of the law.
    grid
        Law of the noise.
    steps
        By how many grid steps rounding moves neighbours apart, in that norm.

    Raises
    ------
    CannotCalibrate
        As for :func:`laplace_design`.
    """
    _check_known(sensitivity)
    rounding = steps / grid.privacy_scale * ROUND_UP
    total_variation = spread.entries * grid.total_variation_per_draw
    usable_mu(guarantee, total_variation)
    usable = usable_epsilon(guarantee)
    if rounding > 0.5 * usable:
        raise CannotCalibrate(
            f"epsilon {guarantee.epsilon:g} leaves no room beside rounding at {spread.changing} entries; "
            "raise epsilon or choose Gaussian noise"
        )
    scale = sensitivity.bound / (usable * (1.0 - 1e-15) - rounding) * ROUND_UP
    return design_of(spread, scale, sensitivity, grid, scaling, Loss(0.0, usable, total_variation))


def integer_laplace_design(
    spread: Spread, sensitivity: Sensitivity, scaling: Scaling, guarantee: ApproxDP
) -> NoiseDesign:
    """Discrete Laplace noise in whole numbers, for answers that are counts: no grid, no rounding.

    Parameters
    ----------
    spread
        Even: every entry gets the same noise.
    sensitivity, scaling, guarantee
        As for :func:`laplace_design`; the L1 sensitivity is a whole number of units of one.

    Raises
    ------
    CannotCalibrate
        delta is too small for the sampler, or epsilon leaves the range of the sampler's rates.
    """
    _check_known(sensitivity)
    steps = round(sensitivity.attained)
    # Distances of whole answers are whole, so the bound's last digit, which covers rounding, may be dropped.
    try:
        law = DiscreteLaplace.at_most(Fraction(guarantee.epsilon) / steps)
        if _booked(law.rate * steps) > guarantee.epsilon:
            # Then rate * steps <= usable, a float and a whole number of units: rounding up to both stays within it.
            law = DiscreteLaplace.at_most(Fraction(usable_epsilon(guarantee)) / steps)
    except CalibrationError as error:
        raise CannotCalibrate(str(error)) from None
    total_variation = spread.entries * law.total_variation_per_draw
    usable_mu(guarantee, total_variation)
    loss = Loss(0.0, _booked(law.rate * steps), total_variation)
    return NoiseDesign(spread, float(1 / law.rate), sensitivity, law, scaling.unit, 0, loss, whole=True)


def _check_known(sensitivity: Sensitivity) -> None:
    if not 0.0 < sensitivity.bound < inf:
        raise CannotCalibrate(
            f"the sensitivity is {sensitivity.bound}; noise needs one that is known, positive and finite; "
            "declare bounds for every feature"
        )


def usable_epsilon(guarantee: ApproxDP) -> float:
    """Largest pure loss in whole units of a ledger that leaves room for the rounding of a sum of budgets.

    Raises
    ------
    CannotCalibrate
        Epsilon is below one unit.
    """
    # Below 8 a multiple of 2**-50 is a float; above, the floor of a float is one already.
    usable = ldexp(floor(ldexp(guarantee.epsilon * (1.0 - 1e-12), _LOSS_BITS)), -_LOSS_BITS)
    if usable <= 0.0:
        raise CannotCalibrate(f"epsilon {guarantee.epsilon:g} is below what a ledger can book; raise epsilon")
    return usable


def _booked(loss: Fraction) -> float:
    """The least float that is not below a pure loss rounded up to whole units of a ledger."""
    units = ceil(loss * 2**_LOSS_BITS)
    booked = ldexp(units, -_LOSS_BITS)
    # Beyond 8 not every whole number of units is a float.
    return nextafter(booked, inf) if Fraction(booked) < Fraction(units, 2**_LOSS_BITS) else booked


def usable_mu(guarantee: ApproxDP, total_variation: float) -> float:
    """Largest Gaussian loss that leaves room for the sampler's distance.

    Raises
    ------
    CannotCalibrate
        The distance uses up more than half of delta.
    """
    # A sampler within total variation t of an (eps, d)-DP law is (eps, d + (1 + e^eps) t)-DP.
    sampler = (1.0 + exp(min(guarantee.epsilon, 700.0))) * total_variation * (1.0 + 1e-9)
    if sampler > guarantee.delta / 2.0:
        raise CannotCalibrate(
            f"delta {guarantee.delta:g} at epsilon {guarantee.epsilon:g} is below the sampler's own distance; "
            "raise delta or lower epsilon"
        )
    # The margin lets a ledger that rounds every sum up still find the release within the guarantee itself.
    return gaussian_mu(guarantee.epsilon, (guarantee.delta - sampler) * (1.0 - 1e-9))


def design_of(
    spread: Spread, scale: float, sensitivity: Sensitivity, grid: Law, scaling: Scaling, loss: Loss
) -> NoiseDesign:
    """Noise of a given scale, with as fine a grid as the exact range has room for.

    Parameters
    ----------
    spread, sensitivity, scaling
        As for :func:`gaussian_design`.
    scale
        Of the noise where the spreads are one.
    grid
        Law of the discrete noise.
    loss
        What it costs.

    Raises
    ------
    CannotCalibrate
        The noise leaves the exact range.
    """
    step = scaling.unit * scale / grid.privacy_scale
    if step * spread.largest > 2.0**60:
        raise CannotCalibrate(
            "the noise would leave the exact integer range; raise epsilon, or declare bounds of more even width"
        )
    headroom = 62 - scaling.largest.bit_length()
    # Neither the shifted sums (2**62) nor the shifted steps (2**60) leave int64.
    headroom = min(headroom, 60 - max(0, ceil(log2(max(step * spread.largest, 1.0)))))
    ideal_shift = ceil(_STEP_BITS - log2(max(step * spread.least, 2.0**-200)))
    shift, diagonal = max(0, min(ideal_shift, headroom)), spread.diagonal
    # Entries share noise in proportion to their steps, which are whole: see diagonal_sizes.py, "On the grid".
    if diagonal is not None and diagonal.shared:
        own = diagonal.sizes(spread.rows)[0 if diagonal.times else diagonal.lead :]
        if np.ptp(own) > 0.0 and ldexp(step * float(np.min(own)), shift) < LEAST_STEP + 1.0:
            raise CannotCalibrate(
                "the exact range has no room for steps that are fine enough for what the diagonal shares; lower "
                "rows_at_most or quantisation_bits, or choose shaped-gaussian"
            )
    return NoiseDesign(spread, scale, sensitivity, grid, scaling.unit, shift, loss)

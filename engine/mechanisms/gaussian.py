"""Additive Gaussian noise for the second moment, isotropic or shaped, calibrated on the integers actually released.

Every variant is one act. Coordinates get *weights*; in ``y_i = sqrt(weight_i) v_i`` the answer ``sum y y'`` has a known
Frobenius sensitivity (:mod:`engine.sensitivity`) and receives isotropic symmetric noise: standard deviation s on the
diagonal and ``s / sqrt(2)`` off it, so that the Frobenius geometry is kept and half the draws suffice. Dividing by the
weights again is post-processing. The choice of weights is the whole difference between the mechanisms:

=========================== ============================== ==========================================================
mechanism                   weights                        what it minimises
=========================== ============================== ==========================================================
gaussian                    scale_i**2                     noise of the same size on each entry, in raw units
shaped, absolute-error      scale_i (box), one (ellipsoid) total noise variance in raw units
shaped, relative-error      one                            noise variance relative to each feature's own declared range
shaped, importance u_i      scale_i sqrt(u_i) (box)        variance weighted by u_i u_j in raw units
=========================== ============================== ==========================================================

Releases are integers: ``round(sum / step) + discrete noise``, with an integer step for each entry. The proof:

1. The noise in an entry has the law of :data:`engine.noise.Grid`, times the step; each step is at least its ideal
value.
2. Rounding moves two neighbouring answers apart by at most one grid step an entry, ``sqrt(entries)`` steps in L2.
3. Discrete noise of variance s^2 is as private as continuous noise of variance s^2 - 100, and the sampler is within
   ``TOTAL_VARIATION_PER_DRAW`` of it, an entry (:mod:`engine.noise`).
4. So the loss is that of ``mu = sensitivity / s + sqrt(entries) / grid`` plus ``(1 + e^eps)`` times the total
variation,
   and ``mu`` is chosen on the safe side of the analytic Gaussian (Balle and Wang, 2018).

**Source**: MVG (CCS 2018) Algorithm 2 with the exact budget in place of Theorem 3; IMGM Theorem 2 for the isotropic
case.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from engine.calibration import gaussian_mu
from engine.geometry import Body, Vector
from engine.guarantees import ApproxDP, Neighbours
from engine.noise import GRID_THREE_LEVEL, GRID_TWO_LEVEL, TOTAL_VARIATION_PER_DRAW, Grid
from engine.sensitivity import Sensitivity, second_moment_sensitivity

_ROUNDING_SHARE = 1e-3
"""Two cipher levels serve until rounding to their grid would cost more than this share of the budget."""


class CannotCalibrate(ValueError):
    """The asked guarantee cannot be met: the message names the value, the rule and the remedy."""


@dataclass(frozen=True, eq=False)
class NoiseDesign:
    """All numbers of the noise of one release.

    Attributes
    ----------
    weights
        Squared scale of each coordinate, shape (width,), the constant coordinate first where there is one.
    sensitivity
        Of the weighted answer, Frobenius norm.
    standard_deviation
        Of the weighted answer's diagonal noise; off the diagonal it is divided by sqrt(2).
    grid
        Law of the discrete noise.
    largest
        K, the integer that stands for coordinate one.
    mu
        Gaussian-DP parameter that is charged: sensitivity over standard deviation, and rounding.
    total_variation
        Distance of the sampler from the law, over all entries; charged beside mu.
    """

    weights: Vector
    sensitivity: Sensitivity
    standard_deviation: float
    grid: Grid
    largest: int
    mu: float
    total_variation: float

    @property
    def width(self) -> int:
        """Side of the released matrix."""
        return int(self.weights.size)

    def steps(self, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
        """Grid steps of a block, in units of the integer sum.

        Parameters
        ----------
        rows, columns
            Half-open ranges of the released matrix.

        Returns
        -------
        Shape (rows, columns), int64, at least one, symmetric over the whole matrix.
        """
        unit = self.largest * np.sqrt(self.standard_deviation / (self.grid.privacy_standard_deviation * self.weights))
        # Rounding up, after covering the float error of the products, only adds noise: each step >= its ideal value.
        ideal = np.multiply.outer(unit[slice(*rows)], unit[slice(*columns)]) * (1.0 + 1e-12)
        diagonal = np.arange(*rows)[:, None] == np.arange(*columns)[None, :]
        steps: NDArray[np.int64] = np.ceil(np.where(diagonal, ideal, ideal * sqrt(0.5))).astype(np.int64)
        return steps

    def entry_standard_deviation(self) -> NDArray[np.float64]:
        """Standard deviation of each entry of ``sum v v'`` in coordinates, shape (width, width)."""
        everything = (0, self.width)
        steps = self.steps(everything, everything).astype(np.float64)
        return steps * (self.grid.standard_deviation / self.largest**2)


def calibrate(
    body: Body, weights: Vector, constant_weight: float, guarantee: ApproxDP, neighbours: Neighbours, largest: int
) -> NoiseDesign:
    """Least noise of this shape for an (epsilon, delta).

    Parameters
    ----------
    body
        Set of admissible coordinates.
    weights
        Positive, shape (d,).
    constant_weight
        Weight of the constant coordinate; 0 where there is none.
    guarantee
        The asked loss.
    neighbours
        Neighbouring relation.
    largest
        K, the integer that stands for coordinate one.

    Raises
    ------
    CannotCalibrate
        delta is too small for the sampler's distance at this epsilon and size, or the noise leaves the exact range.
    """
    sensitivity = second_moment_sensitivity(body, weights, neighbours, constant_weight)
    widths = np.concatenate([[constant_weight], weights]) if constant_weight else weights
    entries = widths.size * (widths.size + 1) // 2
    total_variation = entries * TOTAL_VARIATION_PER_DRAW
    mu = _usable_mu(guarantee, total_variation)
    for grid in (GRID_TWO_LEVEL, GRID_THREE_LEVEL):
        # Two neighbours' answers round to grid points at most one step further apart in each independent entry.
        rounding = sqrt(entries) / grid.privacy_standard_deviation * (1.0 + 1e-12)
        if rounding <= _ROUNDING_SHARE * mu:
            break
    else:
        raise CannotCalibrate(
            f"epsilon {guarantee.epsilon:g} leaves no room beside rounding at {widths.size} features; raise epsilon"
        )
    deviation = sensitivity.bound / (mu - rounding) * (1.0 + 1e-12)
    design = NoiseDesign(widths, sensitivity, deviation, grid, largest, mu, total_variation)
    _check_range(design)
    return design


def _usable_mu(guarantee: ApproxDP, total_variation: float) -> float:
    # A sampler within total variation t of an (eps, d)-DP law is (eps, d + (1 + e^eps) t)-DP.
    sampler = (1.0 + exp(min(guarantee.epsilon, 700.0))) * total_variation * (1.0 + 1e-9)
    if sampler > guarantee.delta / 2.0:
        raise CannotCalibrate(
            f"delta {guarantee.delta:g} at epsilon {guarantee.epsilon:g} is below the sampler's own distance; "
            "raise delta or lower epsilon"
        )
    return gaussian_mu(guarantee.epsilon, (guarantee.delta - sampler) * (1.0 - 1e-15))


def _check_range(design: NoiseDesign) -> None:
    lightest = float(np.min(design.weights))
    largest_step = design.largest**2 * design.standard_deviation / (design.grid.privacy_standard_deviation * lightest)
    if largest_step > 2.0**60:
        raise CannotCalibrate(
            "the noise would leave the exact integer range; raise epsilon, or declare bounds of more even width"
        )


def add_noise(exact: NDArray[np.int64], steps: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round the exact sums to the grid and add discrete noise.

    Parameters
    ----------
    exact
        Integer sums, int64.
    steps
        Grid steps, same shape.
    noise
        Grid noise, same shape.

    Returns
    -------
    int64, same shape, in grid steps: times ``steps`` it estimates ``exact`` without bias beyond half a step.
    """
    # floor division and remainder are exact in int64; a remainder of at least half a step rounds up.
    quotient, remainder = np.divmod(exact, steps)
    return quotient + (remainder >= steps - remainder) + noise

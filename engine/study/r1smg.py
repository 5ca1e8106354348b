"""Rank-1 singular Gaussian noise (R1SMG) as published, for study only: it is NOT differentially private as claimed.

Noise is ``sqrt(sigma_star) z v``, z standard normal, v uniform on the unit sphere of the M entries of the answer.
Theorem 5 of the paper claims (epsilon, delta)-privacy for :func:`published`. It is false: equation (13) divides two
densities on two different random lines, which is no likelihood ratio, and treats as random an angle that the output
determines. :mod:`.r1smg_profile` has what really holds; at the paper's own settings the true
delta is 0.2 to 1 where 1e-7 is claimed.

The sampler agrees across chunks: a base field of Gaussian grid noise is addressed by position, its sum of squares is an
exact integer whatever the blocks, and every block is then scaled by the same number. The entries are discrete (two
million steps a standard deviation), so that the direction is uniform for study, not for a proof.

**Source**: Ji and Li, "Less is More", Definition 8, Theorem 5 and its equation (13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.engine.study.r1smg_integral import log_half_step

_RADIUS_STREAM = 1
_ROW_PIECE = 4096


@dataclass(frozen=True)
class PublishedR1smg:
    """The published calibration; its claim is false.

    Attributes
    ----------
    psi, theta
        As in the paper; theta in radians.
    variance
        ``sigma_star``, which is also the expected squared error of the whole answer.
    """

    psi: float
    theta: float
    variance: float


def published(entries: int, epsilon: float, delta: float, sensitivity: float) -> PublishedR1smg:
    """Noise of Theorem 5, which claims a privacy that it does not give.

    Parameters
    ----------
    entries
        M, number of entries of the answer, at least 3.
    epsilon, delta
        The claimed loss.
    sensitivity
        L2, positive.

    Raises
    ------
    CalibrationError
        A parameter is out of range.
    """
    ApproxDP(epsilon, delta)
    if entries < 3:
        raise CalibrationError(f"the answer has {entries} entries; the paper's formula needs at least 3")
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise CalibrationError(f"sensitivity is {sensitivity}; it must be finite and positive; declare bounds")
    # psi = (delta Gamma((M-1)/2) / (sqrt(pi) Gamma(M/2)))^(2/(M-2))
    log_ratio = -log_half_step((entries - 1) / 2.0) - 0.5 * math.log(math.pi)
    log_psi = 2.0 / (entries - 2) * (math.log(delta) + log_ratio)
    log_variance = math.log(2.0) + 2.0 * math.log(sensitivity) - math.log(epsilon) - log_psi
    if abs(log_variance) > 700.0:
        raise CalibrationError(f"sigma_star is e^{log_variance:.0f}, beyond the floats; give a larger delta")
    psi = math.exp(log_psi)
    variance = 2.0 * sensitivity**2 / (epsilon * psi) if psi > 1e-100 else math.exp(log_variance)
    # The arc sine of sqrt(1 - psi), accurate at both ends.
    return PublishedR1smg(psi, math.atan2(math.sqrt(-math.expm1(log_psi)), math.sqrt(psi)), variance)


def block_energy(key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int]) -> int:
    """First pass: sum of squares of a block of the base field, an exact integer; blocks add up.

    Parameters
    ----------
    key
        Key of the study.
    rows, columns
        Half-open ranges of the block.
    """
    total = 0
    for start in range(columns[0], columns[1], _ROW_PIECE):
        base = _base(key, rows, (start, min(start + _ROW_PIECE, columns[1])))
        # |base| <= 1088 * 30000 < 2**25 and a piece of a row has 2**12 entries: its sum stays below 2**62.
        total += sum(int(value) for value in np.einsum("ij,ij->i", base, base))
    return total


def radius(key: NoiseKey, variance: float) -> float:
    """Signed length of the noise, ``sqrt(variance) z``, from a stream of its own; not private.

    Parameters
    ----------
    key
        Key of the study.
    variance
        ``sigma_star``.
    """
    grid = GRID_THREE_LEVEL
    z = float(noise_block(key, (0, 1), (0, 1), grid=grid, symmetric=False, stream=_RADIUS_STREAM)[0, 0])
    return math.sqrt(variance) * (z / grid.standard_deviation)


def scale(key: NoiseKey, energy: int, variance: float) -> float:
    """What the base field is multiplied by: :func:`radius` over the norm of the base field; not private.

    Parameters
    ----------
    key, variance
        As in :func:`radius`.
    energy
        Sum of :func:`block_energy` over blocks that tile the whole answer.
    """
    if energy <= 0:
        raise CalibrationError(f"the energy is {energy}; it must be positive; add that of all blocks of the answer")
    return radius(key, variance) / math.sqrt(energy)


def noise(key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], factor: float) -> NDArray[np.float64]:
    """Second pass: a block of noise that is NOT private, the same bits in whatever blocks it is asked for.

    Parameters
    ----------
    key
        Key of the study.
    rows, columns
        Half-open ranges of the block.
    factor
        From :func:`scale`.

    Returns
    -------
    Shape (rows, columns), float64, in units of the answer.
    """
    return _base(key, rows, columns).astype(np.float64) * factor


def _base(key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.int64]:
    return noise_block(key, rows, columns, grid=GRID_TWO_LEVEL, symmetric=False)

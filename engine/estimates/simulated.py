"""What an error is after post-processing, and what it does to leading subspaces: by simulation on public numbers.

No closed form tells the error of a projection, for it depends on the truth. So the released matrix, put into its
admissible set, stands in for the truth: noise of the release's own law is added to it again, drawn by the release's own
sampler under a public key, and what comes out is compared with what went in. Everything here is computed from released
values, costs no privacy, and is an estimate: the stand-in has noise of its own, which makes its spectrum steeper than
the truth's.

What is proven beside it (Z is the noise, T the truth, in the metric of the projection):

* nearest positive semi-definite matrix: ``|P(T + Z) - T|_F <= |Z|_F``, as projections onto convex sets do not expand;
* shrunk eigenvalues S: ``|S - T|_F <= |S - P(T + Z)|_F + |Z|_F``, of which the first part is released;
* whole non-negative counts: at most twice the error of each cell, and at most half a count more than it;
* subspaces: ``|sin|_F <= 2 sqrt(k) |Z|_2 / gap`` with the gap of *either* matrix, so that of the released one will do.

**Source**: Efron and Tibshirani, 1993 (parametric bootstrap); Yu, Wang and Samworth, 2015, Theorem 2 (a variant of
Davis and Kahan, 1970), whose two matrices may change places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.engine.estimates.matrices import covariance_of, divisor_of
from blockveil.engine.estimates.shrunk_spectrum import (
    SpectrumNoise,
    noise_of_covariance,
    noise_of_moment,
    shrunk_spectra,
)
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Coordinates, Matrix, Vector
from blockveil.engine.records.product_threads import one_thread

_MOST_DRAWS, _LEAST_DRAWS = 200, 50
_ENTRIES = 1_000_000
"""Entries of all draws together, about a second of work; more than this in 50 draws is not simulated."""

LEADING = 5
"""Dimension up to which leading subspaces are compared."""

_PUBLIC_KEY = NoiseKey.derive(bytes(32), b"simulated errors, version 1")
"""Anyone may know this noise: it protects nothing."""


@dataclass(frozen=True)
class ErrorSize:
    """Size of an error over simulated releases.

    Attributes
    ----------
    entry
        Root of the mean squared error of an entry.
    largest
        Not exceeded by the largest error of any entry in 95 of 100 releases.
    frobenius, spectral
        Not exceeded by these norms of the error in 95 of 100 releases; the spectral one of symmetric matrices only.
    """

    entry: float
    largest: float
    frobenius: float
    spectral: float | None

    @classmethod
    def of(cls, errors: NDArray[np.float64], symmetric: bool) -> ErrorSize:
        """Sizes of errors, shape (draws, m, n)."""
        entry = math.sqrt(float(np.mean(errors**2)))
        largest = _often(np.max(np.abs(errors), axis=(1, 2)))
        frobenius = _often(np.sqrt(np.sum(errors**2, axis=(1, 2))))
        return cls(entry, largest, frobenius, _often(_spectral(errors)) if symmetric else None)


@dataclass(frozen=True)
class Simulated:
    """Errors of simulated releases, in raw units, before and after post-processing.

    Attributes
    ----------
    draws
        Number of simulated releases.
    noisy, after
        Sizes of the error.
    scaled_spectral
        Spectral norm of the noisy error where features are in units of their declared scale, in 95 of 100 releases.
    subspace
        Mean squared sine distance of the leading k directions in those units, for k = 1, 2, ...; empty for counts.
    """

    draws: int
    noisy: ErrorSize
    after: ErrorSize
    scaled_spectral: float
    subspace: tuple[float, ...]


def draws_of(entries: int) -> int:
    """Number of simulated releases of a given number of entries; 0 where they are too many."""
    draws = min(_MOST_DRAWS, _ENTRIES // entries)
    return draws if draws >= _LEAST_DRAWS else 0


def second_moment(
    stand_in: Matrix, design: NoiseDesign, coordinates: Coordinates, shrinks: bool = False
) -> Simulated | None:
    """Errors of a second moment without a constant coordinate.

    Parameters
    ----------
    stand_in
        Positive semi-definite second moment in coordinates, shape (d, d).
    design
        Noise of the release.
    coordinates
        Map back to raw units.
    shrinks
        As for :func:`.matrices.second_moment_psd`.
    """
    count = draws_of(stand_in.size)
    if not count:
        return None
    with one_thread("blas"):
        noisy = stand_in + _noise(design, count)
        return _compared(noisy, stand_in, coordinates, noise_of_moment(design) if shrinks else None)


def covariance(
    stand_in: Matrix, design: NoiseDesign, coordinates: Coordinates, public_count: int | None, shrinks: bool = False
) -> Simulated | None:
    """Errors of the covariance that follows from a second moment with a constant coordinate in front.

    Parameters
    ----------
    stand_in
        Positive semi-definite second moment in coordinates, shape (d + 1, d + 1).
    design, coordinates
        As for :func:`second_moment`.
    public_count, shrinks
        As for :func:`.matrices.covariance`.
    """
    count = draws_of(stand_in.size)
    if not count:
        return None
    deviation = float(design.standard_deviations((0, 1), (0, 1))[0, 0]) if public_count is None else 0.0
    with one_thread("blas"):
        truth = covariance_of(stand_in, public_count, deviation)
        moments = stand_in + _noise(design, count)
        noisy = covariance_of(moments, public_count, deviation)
        noises = [_noise_of(moment, design, public_count, deviation) for moment in moments] if shrinks else None
        return _compared(noisy, truth, coordinates, noises)


def _noise_of(moment: Matrix, design: NoiseDesign, public_count: int | None, deviation: float) -> SpectrumNoise:
    """What is known of the noise of the covariance that follows from an augmented second moment."""
    divisor = float(divisor_of(moment[0, 0] if public_count is None else float(public_count), deviation))
    return noise_of_covariance(design, moment[0, 1:] / divisor, divisor, deviation)


def counts(stand_in: Matrix, design: NoiseDesign) -> Simulated | None:
    """Errors of counts, before and after they are made whole and non-negative; the stand-in is both."""
    count = draws_of(stand_in.size)
    if not count:
        return None
    noise = _noise(design, count)
    after = np.rint(np.maximum(stand_in + noise, 0.0)) - stand_in
    return Simulated(count, ErrorSize.of(noise, False), ErrorSize.of(after, False), 0.0, ())


def davis_kahan(spectrum: Vector, spectral_norm: float, leading: int) -> float:
    """Bound of the squared sine distance of the leading k directions from the truth's; at most ``min(k, d - k)``.

    Parameters
    ----------
    spectrum
        Eigenvalues of the released matrix, in any order, shape (d,).
    spectral_norm
        Bound of the noise, in the same units.
    leading
        Dimension k, below d.
    """
    values = np.sort(spectrum)[::-1]
    gap = float(values[leading - 1] - values[leading])
    largest = float(min(leading, values.size - leading))
    return min(largest, leading * (2.0 * spectral_norm / gap) ** 2) if gap > 0 else largest


@lru_cache(maxsize=1)  # a release asks before it is paid for and again of what was released, by the same design
def _noise(design: NoiseDesign, count: int) -> NDArray[np.float64]:
    """Noise in coordinates of a given number of releases, shape (count, m, n); the same for each who asks."""
    m, n = design.shape
    draws = design.grid.draw(_PUBLIC_KEY, (0, count * m), (0, n), False).reshape(count, m, n)
    if design.spread.symmetric:
        draws = np.triu(draws) + np.swapaxes(np.triu(draws, 1), 1, 2)
    diagonal = design.spread.diagonal
    if diagonal is not None and diagonal.shared:
        below = (count * m, count * (m + diagonal.shared))  # rows that no entry had
        together = design.grid.draw(_PUBLIC_KEY, below, (0, 1), False).reshape(count, diagonal.shared)
        draws = draws + together.sum(axis=1)[:, None, None] * np.diag(diagonal.taken(m))
    noise: NDArray[np.float64] = draws * (design.steps((0, m), (0, n)) / design.shifted_unit)
    noise.flags.writeable = False
    return noise


def _compared(
    noisy: NDArray[np.float64],
    truth: Matrix,
    coordinates: Coordinates,
    noises: SpectrumNoise | list[SpectrumNoise] | None,
) -> Simulated:
    raw, scaled = coordinates.to_raw(), coordinates.to_scaled()
    values, vectors = np.linalg.eigh(noisy)
    spectrum = np.maximum(values, 0.0)
    if noises is not None:
        spectrum = shrunk_spectra(values, noises)
    positive = (vectors * spectrum[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    noise = _mapped(noisy - truth, scaled)
    return Simulated(
        draws=noisy.shape[0],
        noisy=ErrorSize.of(_mapped(noisy - truth, raw), True),
        after=ErrorSize.of(_mapped(positive - truth, raw), True),
        scaled_spectral=_often(_spectral(noise)),
        subspace=_lost(_mapped(noisy, scaled), _mapped(truth, scaled)),
    )


def _mapped(matrices: NDArray[np.float64], units: Vector | Matrix | None) -> NDArray[np.float64]:
    if units is None:
        return matrices
    return matrices * np.outer(units, units) if units.ndim == 1 else units @ matrices @ units.T


def _lost(noisy: NDArray[np.float64], truth: Matrix) -> tuple[float, ...]:
    """``k - |U'V|_F^2``, the mean over releases, for leading subspaces U of the truth and V of the noisy matrix."""
    most = min(LEADING, truth.shape[0] - 1)
    ours, theirs = np.linalg.eigh(truth)[1][:, ::-1], np.linalg.eigh(noisy)[1][:, :, ::-1]
    shared = (ours.T @ theirs) ** 2
    return tuple(max(0.0, k - float(np.mean(np.sum(shared[:, :k, :k], axis=(1, 2))))) for k in range(1, most + 1))


def _spectral(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.max(np.abs(np.linalg.eigvalsh(errors)), axis=1)
    return norms


def _often(values: NDArray[np.float64]) -> float:
    """The least value that at least 95 of 100 do not exceed."""
    return float(np.quantile(values, CONFIDENCE, method="higher"))

"""A positive semi-definite matrix from a noisy one: eigenvalues shrunk for the noise in them, at the released trace.

Cutting negative eigenvalues off leaves the positive ones of the noise: of d features about half, which add about
``4 s d^1.5 / (3 pi)`` to the trace, s being the noise's standard deviation off the diagonal. The noise of the trace
itself is of order ``s d^0.5``. So the trace is kept, and:

1. *Eigenvalues that stand out.* One eigenvalue of the truth that lies l above all others, ``l > s d^0.5``, is seen at
   ``v = l + s^2 d / l`` above them, along a direction whose squared cosine to its own is ``1 - s^2 d / l^2``. With
   least squared error this direction has l times that, ``(v^2 - 4 s^2 d)^0.5``. Where k stand out the noise has d - k
   directions more; k is the least number beyond which the next one is within the noise of the rest, at most ``2 s (d -
   k)^0.5`` above the mean of the rest.
2. *The rest* shares what is left of the trace. Its eigenvalues keep their distance from their mean in the share in
   which their variance exceeds that of noise, ``s^2 (d - k)``. Where one of them would be negative, the nearest of the
   same sum are taken of which none is; where nothing is left they are zero, and those that stand out keep what they
   have, which is known better than the trace.

A covariance ``V / n - m m'`` has noise along its mean m too, of the sums s and of the count n: a pair of eigenvalues of
about ``|m| |ds| / n`` that is none of the truth. What is within that pair does not stand out.

None of this is a bound. It is used where noise is as large for all features, and from ten features on: there the root
mean squared error was at most 1.03 times that of cutting over all spectra that were tried, and 0.1 to 0.9 times where
they fall off (``python -m benchmarks.positive``). With fewer features the trace is too noisy. The choice is made by the
plan, from the design alone.

**Source**: Benaych-Georges and Nadakuditi, 2011 (eigenvalues and directions); Gavish and Donoho, 2017 (weights); Dong,
Liang and Yi, 2022 (the trace under differential privacy); Ledoit and Wolf, 2004 (the rest); Duchi, Shalev-Shwartz,
Singer and Chandra, 2008 (eigenvalues of one sum).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockveil.engine.estimates.postprocessing import symmetrise
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.records.geometry import Matrix, Vector

FEWEST = 10
"""Features from which on the trace is known well enough."""

_EVEN = 1.01
"""Largest ratio of the noise of two features that is taken for the same."""


def suits(design: NoiseDesign, lead: int) -> bool:
    """Whether the noise of a symmetric answer is such that its eigenvalues are better shrunk than cut at zero.

    Parameters
    ----------
    design
        Noise of the release.
    lead
        Number of constant coordinates, which are not features.
    """
    sizes = design.spread.rows[lead:]
    return sizes.size >= FEWEST and float(np.max(sizes)) <= _EVEN * float(np.min(sizes))


@dataclass(frozen=True)
class SpectrumNoise:
    """How far noise moves eigenvalues of a symmetric matrix.

    Attributes
    ----------
    beside
        Standard deviation s of the noise of an entry off the diagonal.
    along
        Size of the largest eigenvalue of noise that lies along one direction; 0 where there is none.
    """

    beside: float
    along: float = 0.0

    def edge(self, directions: Vector) -> Vector:
        """Largest eigenvalue of noise in a given number of directions, the shape of the numbers."""
        free = self.beside * math.sqrt(float(np.max(directions)))
        radius: Vector = 2.0 * self.beside * np.sqrt(directions)
        # One eigenvalue of a matrix is seen further out by the other noise, see the module; below that it is not seen.
        return np.maximum(radius, self.along + free**2 / self.along) if self.along > free else radius


def noise_of_moment(design: NoiseDesign) -> SpectrumNoise:
    """Noise of a second moment without constant coordinate, in coordinates."""
    return SpectrumNoise(_deviation(design, 0, 1))


def noise_of_covariance(design: NoiseDesign, centre: Vector, divisor: float, count_deviation: float) -> SpectrumNoise:
    """Noise of a covariance, in coordinates.

    Parameters
    ----------
    design
        Noise of the augmented second moment.
    centre
        Released mean about the origin, in coordinates, shape (d,).
    divisor
        What the second moment is divided by.
    count_deviation
        Standard deviation of the count; 0 where it is public.
    """
    sums = _deviation(design, 0, 1) / divisor
    length = math.sqrt(max(float(centre @ centre) - centre.size * sums**2, 0.0))
    # Along the mean -(ds m' + m ds') + m m' dn, over n: eigenvalues of a 2 x 2 matrix with a on its diagonal, and b.
    a, b = length**2 * count_deviation / divisor + 2.0 * length * sums, length * sums * math.sqrt(centre.size)
    return SpectrumNoise(_deviation(design, 1, 2) / divisor, (a + math.hypot(a, 2.0 * b)) / 2.0)


def shrunk(matrix: Matrix, noise: SpectrumNoise) -> Matrix:
    """Positive semi-definite matrix from a noisy one; see the module.

    Parameters
    ----------
    matrix
        Shape (d, d), finite; its symmetric part is used.
    noise
        What is known of the noise in it.

    Returns
    -------
    Exactly symmetric, shape (d, d).
    """
    values, vectors = np.linalg.eigh(symmetrise(matrix))
    return symmetrise((vectors * shrunk_spectrum(values, noise)) @ vectors.T)


def shrunk_spectrum(values: Vector, noise: SpectrumNoise) -> Vector:
    """What becomes of eigenvalues.

    Parameters
    ----------
    values
        Of a noisy symmetric matrix, ascending, shape (d,).
    noise
        As for :func:`shrunk`.

    Returns
    -------
    By the order of ``values``, none negative, of the same sum unless those that stand out have more; shape (d,).
    """
    spectrum: Vector = shrunk_spectra(values[None], noise)[0]
    return spectrum


def shrunk_spectra(values: Matrix, noise: SpectrumNoise | Sequence[SpectrumNoise]) -> Matrix:
    """What becomes of the eigenvalues of several matrices, shape (matrices, d), with noise of one size or each its own.

    Each row is what :func:`shrunk_spectrum` makes of it.
    """
    spectra, counts = values[:, ::-1].copy(), np.arange(values.shape[1], 0.0, -1.0)
    noises = [noise] if isinstance(noise, SpectrumNoise) else noise
    edges = np.stack([each.edge(counts) for each in noises])
    squares = np.broadcast_to([[each.beside**2] for each in noises], (values.shape[0], 1))
    # Mean of all from each eigenvalue on; a truth without negative eigenvalues has no negative one.
    means = np.maximum(np.cumsum(values, axis=1)[:, ::-1] / counts, 0.0)
    # The last one is its own mean, so that some eigenvalue is within.
    outside = np.argmax(spectra <= means + edges, axis=1)
    sums = np.sum(values, axis=1)
    for number in np.unique(outside):
        alike = np.nonzero(outside == number)[0]
        some, mean = spectra[alike], means[alike, number, None]
        above, bulk = some[:, :number] - mean, some[:, number:]
        variance, spread = squares[alike] * bulk.shape[1], np.var(bulk, axis=1, keepdims=True)
        some[:, :number] = mean + np.sqrt(np.maximum(above**2 - 4.0 * variance, 0.0))
        of_noise = np.divide(variance, spread, out=np.ones_like(spread), where=spread > 0.0)
        share = np.maximum(0.0, 1.0 - of_noise)
        total = (sums[alike] - np.sum(some[:, :number], axis=1))[:, None]
        target = total / bulk.shape[1] + share * (bulk - np.mean(bulk, axis=1, keepdims=True))
        some[:, number:] = _of_one_sum(target, total)
        spectra[alike] = some
    return spectra[:, ::-1]


def _deviation(design: NoiseDesign, row: int, column: int) -> float:
    return float(design.standard_deviations((row, row + 1), (column, column + 1))[0, 0])


def _of_one_sum(values: Matrix, total: Matrix) -> Matrix:
    """The nearest vectors to those that descend, of a sum and without negative entries; zero where the sum is none."""
    lowered = (np.cumsum(values, axis=1) - total) / np.arange(1.0, values.shape[1] + 1.0)
    last = values.shape[1] - 1 - np.argmax((values > lowered)[:, ::-1], axis=1)
    level = np.take_along_axis(lowered, last[:, None], axis=1)
    return np.where(total > 0.0, np.maximum(values - level, 0.0), 0.0)

"""How wrong a release may be: the error of additive noise before any data is read, in raw units.

Write D for the spread of the noise times the raw units (by row and by column, or ``A diag(spread)`` where coordinates
are mixed), and s for its standard deviation where the spread is one. Noise is ``s D1 G D2`` with independent unit
entries, or ``s D S D`` for symmetric answers with S of variance 1 on and 1/2 off the diagonal.

* Entries are independent, so all k of them stay within ``z`` of their own standard deviations with probability 0.95
  for the quantile z at ``(1 + 0.95^(1/k)) / 2``: exact. Where entries of the diagonal share Gaussian noise, the
  probability is at least that (Sidak, 1967).
* Spectral norm. Rectangular: ``E |D1 G D2| <= |D1| |D2|_F + |D1|_F |D2|`` (Chevet). Symmetric: with ``u = D v``, the
  process ``u'Su`` has squared increments ``|u|^4 + |w|^4 - 2 (u.w)^2``, at most those of ``sqrt(2) |u| g'u``, whence
  ``E lambda_max <= sqrt(2) |D| |D|_F`` (Sudakov and Fernique). Both exceed their mean by t with probability at most
  ``exp(-t^2 / 2 s^2)``, s the largest standard deviation of ``v'Zw`` (Gaussian concentration).
* Laplace noise is Gaussian noise times the root of an independent exponential variable; the largest of k of these is
  below ``ln(k / p)`` but for a probability p, and given them the Gaussian bounds hold.
* Where entries get their noise together they are dependent: all of them are within the union bound of :mod:`.bands`,
  and its norms within Markov's of the Frobenius norm.

**Source**: Boucheron, Lugosi and Massart, 2013, Theorems 5.6 and 13.3; Chevet, 1978.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import CONFIDENCE, GaussianNoise, LaplaceSums
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.sensitivity.spread import Spread


@dataclass(frozen=True)
class ErrorReport:
    """Error of a whole release.

    Attributes
    ----------
    total_variance
        Expected squared Frobenius error, raw units squared.
    band
        All entries stay within this many of their own standard deviations with probability 0.95.
    spectral
        Bound of the spectral norm of the noise that holds with probability 0.95, raw units.
    frobenius
        The same of the Frobenius norm. It also bounds the distance, in the same units, between the truth and any
        projection of the release onto a convex set that holds the truth.
    """

    total_variance: float
    band: float
    spectral: float
    frobenius: float


def error_report(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> ErrorReport:
    """Error of the released matrix ``left Z right'``.

    Parameters
    ----------
    design
        Noise Z in coordinates.
    left, right
        Raw units of a coordinate: diagonal, shape (m,) and (n,), or full maps; equal where the answer is symmetric.
    """
    total = total_variance(design, left, right)
    frobenius = _frobenius_bound(design, left, right, total)
    # No spectral norm exceeds the Frobenius norm, which is the lower bound of the two for small matrices.
    spectral = min(spectral_bound(design, left, right), frobenius)
    return ErrorReport(total, band(design), spectral, frobenius)


@dataclass(frozen=True)
class _Side:
    """What is needed of P = D'D for a map D."""

    trace: float
    norm: float
    squares: float
    diagonal_squares: float

    @classmethod
    def of(cls, spread: Vector, units: Vector | Matrix) -> _Side:
        if units.ndim == 1:
            values = (spread * units) ** 2
            squares = float(np.sum(values**2))
            return cls(float(np.sum(values)), float(np.max(values)), squares, squares)
        scaled = units * spread
        product = scaled.T @ scaled
        diagonal = np.diagonal(product)
        return cls(
            float(np.sum(diagonal)),
            float(np.linalg.norm(product, 2)),
            float(np.sum(product**2)),
            float(np.sum(diagonal**2)),
        )


def _sides(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> tuple[_Side, _Side]:
    rows = _Side.of(design.spread.rows, left)
    return rows, rows if design.spread.symmetric else _Side.of(design.spread.columns, right)


def total_variance(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> float:
    """Expected squared Frobenius norm of ``left Z right'``."""
    unit = unit_deviation(design) ** 2
    rows, columns = _sides(design, left, right)
    if not design.spread.symmetric:
        return unit * rows.trace * columns.trace
    if design.isometric:
        return unit * (rows.trace**2 + rows.squares) / 2.0
    if design.spread.diagonal is not None and not design.spread.diagonal.even:
        return unit * _with_sizes(design.spread, rows, left)
    if design.spread.diagonal is not None:
        gain, shared = design.spread.diagonal.gain, design.spread.diagonal.shared
        # Isometric noise, less on the diagonal, and one number times the matrix D D' in common: |D D'|_F^2 = |D'D|_F^2.
        own = (rows.trace**2 + rows.squares) / 2.0 - (1.0 - 1.0 / gain) * rows.diagonal_squares
        return unit * (own + shared / gain * rows.squares)
    # Full-size noise off the diagonal.
    return unit * (rows.trace**2 + rows.squares - rows.diagonal_squares)


def _with_sizes(spread: Spread, rows: _Side, units: Vector | Matrix) -> float:
    """Expected squared norm where entries of the diagonal have sizes of their own, at a unit deviation of one."""
    assert spread.diagonal is not None  # noqa: S101 - for the type checker; the caller has looked
    sizes = spread.diagonal.sizes(spread.rows)
    # |A diag(x) A'|_F^2 = x' M x for the squared entries M of A'A.
    squared = np.diag(units**4) if units.ndim == 1 else (units.T @ units) ** 2
    together = spread.diagonal.taken(sizes.size) * sizes
    own = float(np.diagonal(squared) @ sizes**2) + spread.diagonal.shared * float(together @ squared @ together)
    return (rows.trace**2 + rows.squares) / 2.0 - rows.diagonal_squares + own


def unit_deviation(design: NoiseDesign) -> float:
    """Standard deviation where the spread is one; includes, as a bound, that steps are rounded up."""
    if design.whole:
        return design.grid.standard_deviation / design.shifted_unit
    least_step = design.shifted_unit * design.scale * design.spread.least / design.grid.privacy_scale
    rounding = 1.0 + 1.0 / max(least_step * math.sqrt(0.5), 1.0)
    return design.scale * (design.grid.standard_deviation / design.grid.privacy_scale) * rounding


def band(design: NoiseDesign) -> float:
    """Standard deviations that hold all distinct entries at once with probability 0.95."""
    if design.gaussian:
        return GaussianNoise().band(design.spread.entries)
    if design.joint:
        return LaplaceSums().band(design.spread.entries)
    outside = -math.expm1(math.log(CONFIDENCE) / design.spread.entries)
    # P(|x| > b y) = e^-y for scale b, and the standard deviation is sqrt(2) b.
    return -math.log(outside) / math.sqrt(2.0)


def expected_spectral_norm(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> float:
    """Bound of the mean spectral norm of Gaussian noise of these standard deviations, raw units."""
    rows, columns = _sides(design, left, right)
    if design.spread.symmetric and design.gaussian:
        # Unscaled noise with more on the diagonal, which only adds to the mean norm, is isometric noise times sqrt(2).
        unscaled = math.sqrt(2.0) if design.spread.unscaled else 1.0
        # Less noise on the diagonal only takes from the mean norm (Jensen); what it shares is at most |y| |D D'|.
        together = rows.norm * math.sqrt(2.0 / math.pi) * _of_shared(design)
        return unit_deviation(design) * (unscaled * math.sqrt(2.0 * rows.norm * rows.trace) + together)
    mean = math.sqrt(rows.norm * columns.trace) + math.sqrt(rows.trace * columns.norm)
    # Symmetric noise of full size off the diagonal is at most twice the symmetric part of independent entries.
    return unit_deviation(design) * mean * (2.0 if design.spread.symmetric else 1.0)


def spectral_bound(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> float:
    """Spectral norm of the noise that is not exceeded with probability 0.95, raw units."""
    if design.joint:
        return math.inf  # the Frobenius norm's bound is what is known
    mean, widest = expected_spectral_norm(design, left, right), _widest(design, left, right)
    outside = 1.0 - CONFIDENCE
    if design.gaussian:
        # Two tails where the matrix is symmetric: its largest and its least eigenvalue.
        return mean + widest * math.sqrt(2.0 * math.log(2.0 / outside))
    largest = math.log(2.0 * design.spread.entries / outside)
    factor = 2.0 if design.spread.symmetric else 1.0
    return math.sqrt(largest) * (mean + factor * widest * math.sqrt(2.0 * math.log(4.0 / outside)))


def subspace_error(deviation: NDArray[np.float64], spectrum: Vector, leading: int) -> float:
    """Expected squared sine distance between true and released leading subspace, first order in the noise.

    Parameters
    ----------
    deviation
        Standard deviation of each entry of the noise in the matrix's eigenvectors, shape (d, d).
    spectrum
        Eigenvalues (assumed or released), shape (d,).
    leading
        Dimension k of the subspace.

    Returns
    -------
    ``sum_{i <= k < j} deviation_ij^2 / (lambda_i - lambda_j)^2``, at most k: the Frobenius norm of the sines, squared.

    **Source**: first-order perturbation theory; Davis and Kahan, 1970, bounds the same quantity.
    """
    return subspace_error_by_rows(lambda row: np.asarray(deviation[row]), spectrum, leading)


def subspace_error_by_rows(deviations_of: Callable[[int], Vector], spectrum: Vector, leading: int) -> float:
    """:func:`subspace_error` from the k rows of the deviations that it needs, one at a time; never a d x d matrix."""
    order = np.argsort(spectrum)[::-1]
    rest, error = order[leading:], 0.0
    for row in order[:leading]:
        gaps, noise = spectrum[row] - spectrum[rest], deviations_of(int(row))[rest]
        with np.errstate(divide="ignore"):
            terms = np.where(gaps > 0, noise**2 / gaps**2, np.inf)
        error += float(np.sum(np.minimum(terms, 1.0)))
    return min(error, float(min(leading, rest.size)))


def _frobenius_bound(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix, total: float) -> float:
    outside = 1.0 - CONFIDENCE
    if design.gaussian:
        # The mean norm is at most the root of the mean square; the norm is Lipschitz in the unit Gaussians.
        return math.sqrt(total) + _widest(design, left, right) * math.sqrt(2.0 * math.log(1.0 / outside))
    return math.sqrt(total / outside)  # Markov's inequality


def _widest(design: NoiseDesign, left: Vector | Matrix, right: Vector | Matrix) -> float:
    """Largest factor by which the map from unit noise to the release stretches: ``s |D1| |D2|``."""
    rows, columns = _sides(design, left, right)
    # Off the diagonal an entry counts twice, which isometric noise makes up for: var v'Zv = 2 |u|^4 - sum u_i^4.
    twice = math.sqrt(2.0) if design.spread.unscaled else 1.0
    if design.spread.diagonal is not None:
        # At least the largest eigenvalue of the covariance: 1 off the diagonal, and (1 + s d) / g along it.
        diagonal, size = design.spread.diagonal, design.spread.rows.size
        gain = min(diagonal.gain, diagonal.first) if diagonal.times else diagonal.gain
        entries = diagonal.squares(size) if diagonal.times else size
        twice = math.sqrt(max(1.0, (1.0 + diagonal.shared * entries) / gain))
    return unit_deviation(design) * twice * math.sqrt(rows.norm * columns.norm)


def _of_shared(design: NoiseDesign) -> float:
    """Largest standard deviation of what the diagonal shares, where that of isometric noise is one; 0 without any."""
    diagonal = design.spread.diagonal
    if diagonal is None:
        return 0.0
    return math.sqrt(diagonal.shared * max(1.0 / diagonal.gain, diagonal.times**2 / diagonal.first))

"""Expected error of positive semi-definite versions, simulated before any record is read: ``minimise = "psd"``.

A second moment or covariance is published as it is, and as a positive semi-definite matrix that is made of it. The
noise of least total variance need not leave the best of these. Where features have noise of different sizes,
eigenvalues are cut at zero, and where noise hides most of the answer, that leaves far more of the noise than shrinking
does (:mod:`.shrunk_spectrum`). So that whoever reads the version can have the noise that suits it, its error is
simulated with one stream of public random numbers for all mechanisms:

* as many records as ``rows_at_most`` allows, whose mean square is a tenth of the largest that the shape allows;
* correlations whose eigenvalues fall off like 1/i and like 1/i^2, in directions of no meaning.

No record is read: what is chosen depends on the config alone. The noise of the count and of the sums of a covariance is
left out, which is of second order where means are near the origin. The result is rounded to three digits, so that
machines whose linear algebra rounds otherwise find the same but for rare cases.

**Source**: derived here; the versions are those of :mod:`.matrices`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.shrunk_spectrum import SpectrumNoise, shrunk, suits
from blockveil.engine.mechanisms.abilities import MomentProblem, constants, positive_version
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.records.geometry import Body, Matrix, Vector
from blockveil.engine.sensitivity.problems import Problem

MOST_FEATURES = 256
"""Most features for which versions are simulated."""

_MEAN_SQUARE, _POWERS = 0.1, (1.0, 2.0)


def positive_error(problem: Problem, units: Vector, design: NoiseDesign) -> float:
    """Expected squared error of all entries of the positive semi-definite version, simulated; to three digits.

    Parameters
    ----------
    problem
        A second moment, with or without constant coordinate.
    units
        Raw units by row, shape (m,).
    design
        Its noise.

    Raises
    ------
    NotApplicable
        No such version is published, or there are more than :data:`MOST_FEATURES` features.
    """
    if not positive_version(problem) or design.strategy is not None:
        raise NotApplicable("only covariances and second moments have a positive semi-definite version")
    lead = constants(problem)[0]
    d = problem.shape[0] - lead
    if not 2 <= d <= MOST_FEATURES:
        raise NotApplicable(f"positive semi-definite versions are simulated for 2 to {MOST_FEATURES} features")
    weights = np.outer(units[lead:], units[lead:])
    deviations = design.standard_deviations((lead, lead + d), (lead, lead + d))
    shrinks, noise = suits(design, lead), SpectrumNoise(float(deviations[0, 1]))
    rng, errors = np.random.default_rng(1), []
    for truth in _truths(problem, d):
        for _ in range(int(np.clip(400 // d, 2, 60))):
            noisy = truth + _drawn(design, deviations, rng)
            version = shrunk(noisy, noise) if shrinks else nearest_psd(noisy)[0]
            errors.append(float(np.sum(((version - truth) * weights) ** 2)))
    return float(f"{np.mean(errors):.3g}")


def _truths(problem: MomentProblem, d: int) -> Iterator[Matrix]:
    """Public second moments in coordinates."""
    largest = 1.0 if problem.body in (Body.CUBE, Body.HALF_CUBE) else 1.0 / d
    axes = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
    for power in _POWERS:
        falling = (axes * np.arange(1.0, d + 1.0) ** -power) @ axes.T
        deviations = np.sqrt(np.diagonal(falling))
        yield _MEAN_SQUARE * largest * problem.rows_at_most * falling / np.outer(deviations, deviations)


def _drawn(design: NoiseDesign, deviations: Matrix, rng: np.random.Generator) -> Matrix:
    """Symmetric noise of these deviations, by NumPy; Laplace noise is taken for Gaussian."""
    upper = np.triu(rng.standard_normal(deviations.shape))
    common, noise, diagonal = rng.standard_normal(), upper + np.triu(upper, 1).T, design.spread.diagonal
    if diagonal is not None and diagonal.shared:
        # Each entry of the diagonal has one part by itself, and so many in common with all others.
        own = np.diagonal(noise) + common * diagonal.shared**0.5
        np.fill_diagonal(noise, own / (1.0 + diagonal.shared) ** 0.5)
    sample: Matrix = noise * deviations
    return sample

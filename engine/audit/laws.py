"""Laws of noise under audit: independent entries, the noise that is released, and rank-one noise.

Simulated continuous noise is rounded to a public grid after it is added. Without that, the last bits of a float sum
tell the answers apart, a leak of its own that would hide what is audited:
:func:`.mutants.unrounded`.

**Source**: Ji and Li, "Less is More", Definition 8, for rank-one noise; Mironov, 2012, for the last bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import Additive
from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta
from blockveil.engine.noise.additive import Law
from blockveil.engine.noise.discrete_gaussian import TILE, Grid, NoiseKey
from blockveil.engine.study.r1smg_profile import true_delta

_FINE = 2.0**-10
"""Steps of outputs that are no whole numbers, in steps of the grid of a release."""


def gaussian(difference: ArrayLike, standard_deviations: ArrayLike, claim: Claim) -> Additive:
    """Gaussian noise of any diagonal covariance.

    Parameters
    ----------
    difference
        Difference of the neighbours' answers, shape (M,).
    standard_deviations
        Of the noise in each entry, shape (M,), positive.
    claim
        What is promised.
    """
    d, deviations = _same_length(difference, standard_deviations, "standard deviation")
    mu = float(np.linalg.norm(d / deviations))
    return Additive(
        name=f"Gaussian noise, mu {mu:.6g}",
        claim=claim,
        answers=(d, np.zeros_like(d)),
        noise=lambda trials, rng: rng.standard_normal((trials, d.size)) * deviations,
        grid=_grid(d, deviations),
        log_density=lambda noise: -0.5 * np.sum((noise / deviations) ** 2, axis=1),
        profile=lambda epsilon: gaussian_delta(mu, epsilon),
        scaled=lambda factor: gaussian(d, deviations * factor, claim),
    )


def laplace(difference: ArrayLike, scales: ArrayLike, claim: Claim) -> Additive:
    """Laplace noise; the profile is known where one entry changes.

    Parameters
    ----------
    difference
        Difference of the neighbours' answers, shape (M,).
    scales
        Scale b of each entry, shape (M,), positive.
    claim
        What is promised.
    """
    d, b = _same_length(difference, scales, "scale")
    loss = float(np.sum(np.abs(d) / b))
    return Additive(
        name=f"Laplace noise, largest loss {loss:.6g}",
        claim=claim,
        answers=(d, np.zeros_like(d)),
        noise=lambda trials, rng: rng.laplace(size=(trials, d.size)) * b,
        grid=_grid(d, b),
        log_density=lambda noise: -np.sum(np.abs(noise) / b, axis=1),
        # One entry changes: the loss is at least epsilon where the noise exceeds (difference - b epsilon) / 2.
        profile=(lambda epsilon: max(0.0, -math.expm1((epsilon - loss) / 2.0))) if np.count_nonzero(d) == 1 else None,
        scaled=lambda factor: laplace(d, b * factor, claim),
    )


def discrete_laplace(difference: Sequence[int], scale: float, claim: Claim) -> Additive:
    """Noise on the integers with ``P(k) ~ exp(-|k| / scale)``; the profile is known where one entry changes.

    Parameters
    ----------
    difference
        Integers, shape (M,).
    scale
        Of every entry, positive.
    claim
        What is promised.
    """
    d, _ = _same_length(difference, np.full(len(difference), scale), "scale")
    success = -math.expm1(-1.0 / scale)

    def noise(trials: int, rng: Generator) -> Array:
        pair = rng.geometric(success, size=(2, trials, d.size))
        return np.asarray(pair[0] - pair[1], dtype=np.float64)

    return Additive(
        name=f"discrete Laplace noise, largest loss {float(np.sum(np.abs(d))) / scale:.6g}",
        claim=claim,
        answers=(d, np.zeros_like(d)),
        noise=noise,
        grid=0.0,
        log_density=lambda noise: -np.sum(np.abs(noise), axis=1) / scale,
        profile=_discrete_laplace_profile(int(np.sum(np.abs(d))), scale) if np.count_nonzero(d) == 1 else None,
        scaled=lambda factor: discrete_laplace(difference, scale * factor, claim),
    )


def _discrete_laplace_profile(distance: int, scale: float) -> Callable[[float], float]:
    ratio = math.exp(-1.0 / scale)

    def profile(epsilon: float) -> float:
        # Outputs k <= 0 favour the neighbour; k >= distance have the largest loss, and probability 1 / (1 + ratio).
        inner = np.arange(1, distance)
        loss = (2.0 * inner - distance) / scale
        mass = (1.0 - ratio) / (1.0 + ratio) * np.exp((inner - distance) / scale)
        gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
        return float(np.sum(mass * gain)) - math.expm1(min(epsilon - distance / scale, 0.0)) / (1.0 + ratio)

    return profile


def grid_noise(law: Law, difference: ArrayLike, claim: Claim) -> Additive:
    """The discrete noise that is released, from its secure sampler; many entries of one key are as many outputs.

    Parameters
    ----------
    law
        Law of the noise.
    difference
        Difference of the neighbours' answers in grid steps, shape (M,), M below 128.
    claim
        What is promised.
    """
    d = np.asarray(difference, dtype=np.float64)
    width = TILE // d.size * d.size

    def noise(trials: int, rng: Generator) -> Array:
        rows = -(-trials * d.size // width)
        steps = law.draw(NoiseKey(rng.bytes(32)), (0, rows), (0, width), False)
        return steps.reshape(-1, d.size)[:trials].astype(np.float64)

    scale = law.privacy_scale
    # The law of the Gaussian grid is a discrete Gaussian to within 2^-90, which no audit can see.
    power = 2 if isinstance(law, Grid) else 1
    return Additive(
        name=f"released noise, {law.label}",
        claim=claim,
        answers=(d, np.zeros_like(d)),
        noise=noise,
        grid=0.0,
        log_density=lambda noise: -np.sum(np.abs(noise / scale) ** power, axis=1) / power,
        # Whole numbers whatever the factor: others would tell the answers apart by their fractions.
        scaled=lambda factor: integer_noise(law, (d, np.zeros_like(d)), claim, factor),
    )


def integer_noise(law: Law, answers: tuple[Array, Array], claim: Claim, factor: float) -> Additive:
    """Noise of a released law, larger by a factor and rounded to integers, from a fast source of random numbers.

    Parameters
    ----------
    law
        Law of the noise.
    answers, claim
        See :class:`.subjects.Subject`. Where noise that entries share was taken out of them they are no whole numbers,
        and neither is the noise then: fractions would tell answers apart that those of a release do not.
    factor
        What the noise is multiplied by before it is whole.
    """
    gaussian = isinstance(law, Grid)
    size = law.standard_deviation * factor
    whole = all(np.array_equal(answer, np.rint(answer)) for answer in answers)

    def integers(trials: int, rng: Generator) -> Array:
        shape = trials, answers[0].size
        if gaussian:
            return np.rint(rng.standard_normal(shape) * size)
        pair = rng.geometric(-math.expm1(-1.0 / (law.privacy_scale * factor)), size=(2, *shape))
        return np.asarray(pair[0] - pair[1], dtype=np.float64)

    def noise(trials: int, rng: Generator) -> Array:
        steps = integers(trials, rng)
        return steps if whole else np.asarray(steps + rng.uniform(-0.5, 0.5, steps.shape))

    scale, power = (size, 2) if gaussian else (law.privacy_scale * factor, 1)
    return Additive(
        name=f"released noise, {law.label}, times {factor:g}",
        claim=claim,
        answers=answers,
        noise=noise,
        grid=0.0 if whole else _FINE,
        log_density=lambda noise: -np.sum(np.abs(noise / scale) ** power, axis=1) / power,
        scaled=lambda further: integer_noise(law, answers, claim, factor * further),
    )


def rank_one(entries: int, variance: float, sensitivity: float, claim: Claim) -> Additive:
    """Rank-one singular noise ``sqrt(variance) z v``, v uniform on the sphere, in coordinates that lose nothing.

    The law is spherically symmetric, so that an output tells the neighbours apart only through its component along
    their difference and the norm of the rest: outputs have these two columns, whatever the number of entries.

    Parameters
    ----------
    entries
        M, number of entries of the answer, at least 2.
    variance
        ``sigma_star``.
    sensitivity
        Distance of the neighbours' answers.
    claim
        What is promised; Theorem 5 of the paper promises what does not hold.

    **Source**: Ji and Li, "Less is More", Definition 8; density ``~ r^(1 - M) exp(-r^2 / 2 sigma_star)``.
    """
    deviation = math.sqrt(variance)

    def noise(trials: int, rng: Generator) -> Array:
        along = rng.standard_normal(trials)
        across = np.sqrt(rng.chisquare(entries - 1, trials))
        factor = deviation * np.abs(rng.standard_normal(trials)) / np.hypot(along, across)
        return np.column_stack([factor * along, factor * across])

    def log_density(noise: Array) -> Array:
        square = np.sum(noise**2, axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(-0.5 * (entries - 1) * np.log(square) - square / (2.0 * variance), dtype=np.float64)

    return Additive(
        name=f"rank-one noise, {entries} entries, sigma_star {variance:.6g}",
        claim=claim,
        answers=(np.array([sensitivity, 0.0]), np.zeros(2)),
        noise=noise,
        grid=_grid(np.array([sensitivity]), np.array([deviation])),
        log_density=log_density,
        profile=lambda epsilon: true_delta(entries, deviation / sensitivity, epsilon),
    )


def _grid(difference: Array, sizes: Array) -> float:
    """A power of two about a millionth of the smallest size; floats of the sum are at least a thousand times finer."""
    smallest = min(float(np.min(np.abs(difference[difference != 0]))), float(np.min(sizes)))
    fine, coarse = math.floor(math.log2(smallest)) - 20, math.floor(math.log2(float(np.max(sizes)))) - 40
    return 2.0 ** max(fine, coarse)


def _same_length(difference: ArrayLike, sizes: ArrayLike, what: str) -> tuple[Array, Array]:
    d = np.atleast_1d(np.asarray(difference, dtype=np.float64))
    s = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
    if d.shape != s.shape or d.ndim != 1 or not np.any(d) or not np.all(np.isfinite(d)):
        raise CalibrationError(
            f"the difference has shape {d.shape}; give a finite vector, not zero, and one {what} each"
        )
    if not (np.all(np.isfinite(s)) and np.all(s > 0)):
        raise CalibrationError(f"a {what} is not positive and finite; noise of that size hides nothing; correct it")
    return d, s

"""The moments of a release with the law of their noise, as far as the release itself states it, and correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import Array, NoisyMoments
from blockveil.engine.estimates.shortening import TakenByShortening
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.report.matrix import Shown
from blockveil.pipeline.report.noise_apart import less

MOST_FEATURES = 1000
"""Errors of derived statistics take a few numbers for each pair of pairs of features."""


def moments_of(release: Shown, what: str) -> NoisyMoments:
    """Second moment of a release, about its origin, with the variance of each entry's noise.

    Parameters
    ----------
    release
        A covariance, a second moment, or principal directions that follow from one.
    what
        What it is for, for messages.

    Raises
    ------
    ConfigError
        The release holds no second moment, or does not state how the noise of its entries is related.
    """
    arrays, attributes = release.arrays, release.attributes
    if "second_moment" not in arrays or "second_moment_standard_deviation" not in arrays:
        raise ConfigError(
            f"This release of {str(attributes.get('matrix'))[:40]} holds no second moment",
            f"{what} needs a covariance or second moment, not so large that it was published in blocks",
            "Open such a release; of a larger one, Release.eigenpairs gives the leading directions",
        )
    size = int(arrays["second_moment"].shape[0])
    if size > MOST_FEATURES:
        raise ConfigError(
            f"This release has {size:,} features",
            f"{what} is computed for {MOST_FEATURES:,} at most",
            "Release fewer; Release.eigenpairs gives the leading directions of any number",
        )
    if mixed(attributes):
        raise ConfigError(
            "The noise of this release is related between features by a matrix that the release does not hold",
            f"{what} comes with errors that account for the noise, which need it",
            "Release with a box, a ball or an ellipsoid by its axes and without directions; or use Release.array",
        )
    matrix, deviation = (
        np.asarray(arrays[name][...], np.float64) for name in ("second_moment", "second_moment_standard_deviation")
    )
    origin = np.asarray(attributes.get("origin", np.zeros(size)), np.float64)
    if "count" not in arrays or "mean" not in arrays:
        moments = _about_the_origin(matrix, deviation, origin, _shared(attributes))
    else:
        of_mean = np.asarray(arrays["mean_standard_deviation"][...], np.float64)
        shortened = "clipped_variance" in arrays
        moments = (
            _beside(release, matrix, deviation, origin)
            if shortened
            else _with_constant(release, matrix, deviation, of_mean, origin)
        )
    digest = str(attributes.get("output_digest", ""))
    # What is simulated for a release is the same wherever it is done, and another night has other draws.
    return replace(moments, seed=int(digest, 16)) if digest else moments


def correlation_of(release: Shown) -> Estimate | None:
    """Correlation of each pair of features of a covariance, shape (d, d), with its standard error.

    None where :func:`moments_of` refuses it, as of a release in blocks, or where there is no mean.
    """
    try:
        moments = moments_of(release, "A correlation")
    except ConfigError:
        return None
    return correlations.correlation(moments) if moments.constant else None


def taken_by_shortening(release: Shown) -> TakenByShortening:
    """Errors that shortening adds to a covariance in a learned ellipsoid; raises KeyError where there is none."""
    mean, covariance, variances = (
        np.asarray(release.arrays[name][...], np.float64) for name in ("mean", "covariance", "clipped_variance")
    )
    learned, origin = release.attributes["learned"], np.asarray(release.attributes["origin"], np.float64)
    share = float(learned["clipped_share"]) + float(learned["clipped_share_standard_deviation"])
    return TakenByShortening.of(variances, share, covariance, mean - origin)


def _beside(release: Shown, matrix: Array, deviation: Array, origin: Array) -> NoisyMoments:
    """With noise apart from what shortening records to a learned ellipsoid is expected to take."""
    of_mean, variances = (
        np.asarray(release.arrays[name][...], np.float64) for name in ("mean_standard_deviation", "clipped_variance")
    )
    shortening, divisor = taken_by_shortening(release), _divisor(release)
    deviation, of_mean = less(deviation, shortening.second_moments * divisor), less(of_mean, shortening.means)
    moments = _with_constant(release, matrix, deviation, of_mean, origin)
    beside = np.zeros(moments.variance.shape)
    beside[0, 1:] = beside[1:, 0] = shortening.means * divisor
    beside[1:, 1:] = shortening.second_moments * divisor
    covariance = np.asarray(release.arrays["covariance"][...], np.float64)
    shares = variances / np.maximum(np.diagonal(covariance), variances)
    return replace(moments, variance=moments.variance + beside**2, noise=moments.variance, shortened=shares)


def mixed(attributes: dict[str, Any]) -> bool:
    """Whether a full matrix or directions mix the coordinates that got independent noise."""
    geometry = attributes.get("query", {}).get("geometry", {})
    whole = geometry.get("kind") == "ellipsoid" and geometry.get("shape") != "diagonal"
    mechanism = attributes.get("mechanism", {})
    return whole or "map" in mechanism or isinstance(mechanism.get("directions"), str)


def _shared(attributes: Mapping[str, Any]) -> int:
    """How many numbers, each with the noise of one entry, all entries of the diagonal have in common."""
    return int(attributes.get("mechanism", {}).get("diagonal", {}).get("shared", 0))


def _about_the_origin(matrix: Array, deviation: Array, origin: Array, shared: int) -> NoisyMoments:
    """Without a constant coordinate."""
    if not shared:
        return NoisyMoments(matrix, deviation**2, False, origin)
    variance, diagonal = deviation**2, np.diagonal(deviation)
    np.fill_diagonal(variance, diagonal**2 / (1.0 + shared))
    return NoisyMoments(matrix, variance, False, origin, diagonal * math.sqrt(shared / (1.0 + shared)))


def _divisor(release: Shown) -> float:
    """What sums were divided by: see engine/estimates/matrices.py."""
    return max(*(float(release.arrays[name][...]) for name in ("count", "count_standard_deviation")), 1.0)


def _with_constant(release: Shown, matrix: Array, deviation: Array, of_mean: Array, origin: Array) -> NoisyMoments:
    """The constant coordinate in front: count and sums, from which the release made its ratios; sums share nothing."""
    noise, mean = (np.asarray(release.arrays[name][...], np.float64) for name in ("count_standard_deviation", "mean"))
    divisor, shared = _divisor(release), _shared(release.attributes)
    shift = mean - origin
    sums = np.maximum((of_mean * divisor) ** 2 - (shift * float(noise)) ** 2, 0.0)
    whole, variance = (np.zeros((mean.size + 1, mean.size + 1)) for _ in range(2))
    whole[0, 0], variance[0, 0] = divisor, float(noise) ** 2
    whole[0, 1:] = whole[1:, 0] = shift * divisor
    variance[0, 1:] = variance[1:, 0] = sums
    features = _about_the_origin(matrix, deviation, origin, shared)
    whole[1:, 1:], variance[1:, 1:] = matrix, features.variance
    common = None if features.common is None else np.concatenate([[0.0], features.common])
    times = int(release.attributes.get("mechanism", {}).get("diagonal", {}).get("times", 0))
    if common is not None and times:
        parts = shared * times**2
        variance[0, 0], common[0] = variance[0, 0] / (1.0 + parts), float(noise) * math.sqrt(parts / (1.0 + parts))
    return NoisyMoments(whole, variance, True, origin, common)

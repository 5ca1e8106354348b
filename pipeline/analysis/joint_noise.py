"""Features of a release by name, and how far an interval of its noise reaches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from blockveil.engine.estimates.noisy_moments import Array, cross_products
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.nearest import among
from blockveil.pipeline.report.alone import laplace_rate
from blockveil.pipeline.report.matrix import Shown

Names = str | Sequence[str]
"""Features by name, or one alone."""


def positions(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Positions of features by name; ConfigError where one is unknown or named twice, or none is named."""
    if not isinstance(wanted, str) and not len(wanted):
        raise ConfigError("No feature is named", "At least one is needed", f"Choose {among('', names)}")
    if isinstance(wanted, str) or not all(isinstance(name, str) for name in wanted):
        raise ConfigError("features is not a list of names", "Features are given by name", f"Choose {among('', names)}")
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise ConfigError(
            f'"{unknown[0][:60]}" is not a feature of this release',
            "Features are given by name",
            f"Choose {among(unknown[0], names)}",
        )
    if len(set(wanted)) < len(wanted):
        raise ConfigError("A feature is named twice", "Each counts once", "Name it once")
    return [names.index(name) for name in wanted]


def listed(names: Sequence[str], wanted: Names) -> tuple[str, ...]:
    """Features that somebody named, or one alone; raises as :func:`positions` does."""
    features = (wanted,) if isinstance(wanted, str) or not isinstance(wanted, Iterable) else tuple(wanted)
    positions(names, features)
    return features


def quantile(release: Shown, confidence: float) -> float:
    """Standard errors that an interval reaches to each side.

    For Gaussian noise the normal one; for Laplace noise and sums of it the larger of the normal and the Laplace one.

    Raises ConfigError where the confidence does not lie between 0 and 1.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0.0 < confidence < 1.0:
        raise ConfigError(
            "confidence is not a probability", "It is the share of releases whose interval holds the truth", "Give 0.95"
        )
    normal = float(ndtri(0.5 + confidence / 2.0))
    if laplace_rate(dict(release.attributes.get("mechanism", {}))) is None:
        return normal
    # P(|x| > t) = exp(-sqrt(2) t) for a Laplace variable of variance one.
    return max(normal, -math.log1p(-confidence) / math.sqrt(2.0))


def p_values(release: Shown, scores: Array) -> Array:
    """Chance that noise and sample alone take numbers as many standard errors from zero, to either side.

    Of the normal law, and where noise is Laplace's or a sum of it the larger of that and Laplace's.
    """
    chances: Array = 2.0 * ndtr(-np.abs(scores))
    if laplace_rate(dict(release.attributes.get("mechanism", {}))) is not None:
        chances = np.maximum(chances, np.exp(-math.sqrt(2.0) * np.abs(scores)))
    return chances


POPULATION, RECORDS = "population", "records"


def check_of(of: str) -> None:
    """Refuse what an interval cannot be of, with a ConfigError."""
    if of not in (RECORDS, POPULATION):
        raise ConfigError(
            f"An interval is not of {str(of)[:60]!r}",
            "It is of the records of the release, or of the population that they are a sample of",
            f'Choose "{RECORDS}" or "{POPULATION}"',
        )


def means(stack: Array) -> Array:
    """Means from second moments with a constant, shape (..., d + 1, d + 1) to (..., d)."""
    ratios: Array = stack[:, 0, 1:] / stack[:, :1, 0]
    return ratios


def covariances(stack: Array) -> Array:
    """Covariances from second moments with a constant, shape (..., d + 1, d + 1) to (..., d, d)."""
    ratios: Array = cross_products(stack, True) / stack[:, :1, :1]
    return ratios

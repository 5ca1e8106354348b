"""Whether every number that a release would publish stays far inside float64, told from its plan alone.

Variances of products multiply four bounds, and squared errors add up as many of them as there are entries. Where bounds
are huge, tiny or far apart, such a product leaves float64 although each bound alone does not, and a release that was
paid for could never be written.
"""

from __future__ import annotations

import math

import numpy as np

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.plan.describing import Described
from blockveil.pipeline.questions import Answer

_LARGEST, _SMALLEST = 1e30, 1e-30
"""Bounds in size, and the least distance of two. The fourth power of their ratio is below 1e240."""

_LARGEST_ERROR = 1e200
"""Of a squared error: room for what simulations and reports add up of it; its inverse is the least."""


def require_finite(config: ReleaseConfig, answer: Answer, described: Described) -> None:
    """Refuse a plan whose release could state a number beyond float64.

    Parameters
    ----------
    config
        Names the bounds.
    answer
        What is asked, with its design.
    described
        The plan written down.

    Raises
    ------
    ConfigError
        A bound is too large or too close to its neighbour, or noise or error leave float64; the message names bounds.
    """
    bounds = _bounds(config)
    for name, lower, upper in bounds:
        largest = max(abs(lower), abs(upper))
        if largest > _LARGEST or upper - lower < _SMALLEST:
            raise ConfigError(
                f'The bounds of "{name}" reach from {lower:g} to {upper:g}',
                f"Bounds are at most {_LARGEST:g} in size and at least {_SMALLEST:g} apart, so that no number of the "
                "release leaves float64",
                "Give bounds that records can reach, or another unit",
            )
    try:
        with np.errstate(all="ignore"):
            report = answer.error()
            canonical_json(described.public)  # refuses what is not finite
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        sizes: tuple[float, ...] = (math.inf,)
    else:
        sizes = () if report is None else (report.total_variance, report.band, report.spectral, report.frobenius)
    # Written so that NaN is refused, too.
    if not all(1.0 / _LARGEST_ERROR < size < _LARGEST_ERROR for size in sizes):
        ends = sorted({abs(end) for _, *span in bounds for end in span if end})
        beside = f" with bounds of {ends[0]:.3g} to {ends[-1]:.3g} in size" if ends else ""
        raise ConfigError(
            f"The noise of this release leaves float64{beside}",
            "Every number of a release is known to be writable before it is paid for",
            "Give bounds that records can reach, in units that make them neither huge nor tiny; or raise epsilon",
        )


def _bounds(config: ReleaseConfig) -> list[tuple[str, float, float]]:
    """Name and interval of each feature that has one; shapes come in the order of the columns."""
    spans = [span for shape in config.query.geometries.values() for span in shape.spans()]
    named = zip(config.query.columns, spans, strict=False)  # a column to predict has no shape
    return [(name, lower, upper) for name, (lower, upper) in named if math.isfinite(upper - lower)]

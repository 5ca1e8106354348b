"""Whether every number that a release would publish stays far inside float64, told from its plan alone.

Bounds are 1e-30 to 1e30 in size, and variances of products multiply four of them; squared errors add up as many as
there are entries. A release whose numbers left float64 could be paid for and never written.
"""

from __future__ import annotations

import math

import numpy as np

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.plan.describing import Described
from blockveil.pipeline.questions import Answer

_LARGEST_ERROR = 1e200
"""Of a squared error: room for what simulations and reports add up of it; its inverse is the least."""


def require_finite(config: ReleaseConfig, answer: Answer, described: Described | None = None) -> None:
    """Refuse a plan whose release could state a number beyond float64.

    Parameters
    ----------
    config
        Names the bounds.
    answer
        What is asked, with its design.
    described
        The plan written down; None where it was looked at already.

    Raises
    ------
    ConfigError
        Noise or error leave float64; the message names bounds.
    """
    bounds = [span for shape in config.query.geometries.values() for span in shape.spans()]
    try:
        with np.errstate(all="ignore"):
            report = answer.error()
            canonical_json({} if described is None else described.public)  # refuses what is not finite
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        sizes: tuple[float, ...] = (math.inf,)
    else:
        sizes = () if report is None else (report.total_variance, report.band, report.spectral, report.frobenius)
    # Written so that NaN is refused, too.
    if not all(1.0 / _LARGEST_ERROR < size < _LARGEST_ERROR for size in sizes):
        ends = sorted({abs(end) for span in bounds for end in span if end and math.isfinite(end)})
        beside = f" with bounds of {ends[0]:.3g} to {ends[-1]:.3g} in size" if ends else ""
        raise ConfigError(
            f"The noise of this release leaves float64{beside}",
            "Every number of a release is known to be writable before it is paid for",
            "Give bounds that records can reach, in units that make them neither huge nor tiny; or raise epsilon",
        )

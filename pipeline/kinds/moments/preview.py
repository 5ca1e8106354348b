"""What is shown of a preview."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.pipeline.accuracy.preview import Preview, Table, matrix_of
from blockveil.pipeline.questions.arrays import ReleaseArrays


def _what(plan: Any) -> str:
    return "correlation" if plan.answer.matrix == "covariance" else "correlation about the origin"


def _correlation(plan: Any, arrays: ReleaseArrays) -> Table:
    """Entries over the roots of both diagonal ones; not a number where one of these is not positive."""
    matrix = matrix_of(plan, arrays)
    own = np.diagonal(matrix)
    with np.errstate(invalid="ignore"):
        size = np.sqrt(np.where(own > 0.0, own, np.nan))
    return np.asarray(matrix / np.outer(size, size))


PREVIEW = Preview(adds_up_noise=True, what=_what, shown=_correlation)

"""What is shown of a preview."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.accuracy.preview import Preview, Table, truth_of
from blockveil.pipeline.kinds.counts.question import CellsQuestion
from blockveil.pipeline.questions.arrays import ReleaseArrays

MOST_CELLS = 2**18


def _too_large(question: CellsQuestion) -> str:
    cells = math.prod(question.query.grid)
    return "" if cells <= MOST_CELLS else f"There is no preview of a grid of {cells:,} cells."


def _shown(plan: Any, arrays: ReleaseArrays) -> Table:
    return np.asarray(arrays[plan.answer.matrix][0], dtype=np.float64).reshape(plan.answer.shape)


def _truth(plan: Any, exact: NDArray[np.int64], rows: int) -> ReleaseArrays:
    """Of buckets, the counts of their cells."""
    return truth_of(plan, exact, rows) or {"counts": (exact.astype(np.float64), ())}


PREVIEW = Preview(_too_large, shown=_shown, truth=_truth)

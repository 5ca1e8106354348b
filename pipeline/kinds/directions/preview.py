"""What is shown of a preview."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.directions import positive
from blockveil.pipeline.accuracy.preview import Preview, truth_of
from blockveil.pipeline.kinds.directions.question import DrawnDirections
from blockveil.pipeline.questions.arrays import ReleaseArrays


def _truth(plan: Any, exact: NDArray[np.int64], rows: int) -> ReleaseArrays:
    """Of directions that are drawn alone, those of the exact matrix."""
    if not isinstance(plan.answer, DrawnDirections):
        return truth_of(plan, exact, rows)
    vectors = np.linalg.eigh(exact.astype(np.float64))[1][:, ::-1]
    return {"directions": (positive(vectors[:, : plan.answer.design.count]), ())}


PREVIEW = Preview(truth=_truth)

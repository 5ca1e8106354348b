"""What is shown of a preview."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockveil.pipeline.accuracy.preview import Preview, Table
from blockveil.pipeline.questions.arrays import ReleaseArrays


def _what(plan: Any) -> str:
    del plan
    return "mean from the origin, in half widths"


def _half_widths(plan: Any, arrays: ReleaseArrays) -> Table:
    """Means, which have a unit each, as shares of the width of their bounds; one row."""
    box = plan.question.coordinates
    return np.asarray((np.asarray(arrays["mean"][0]) - box.origin) / box.scale)[None]


PREVIEW = Preview(adds_up_noise=True, what=_what, shown=_half_widths)

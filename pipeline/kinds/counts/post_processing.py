"""Error of counts after they are made whole numbers: bounds, and simulation on released values alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blockveil.engine.estimates import simulated as simulated_errors
from blockveil.pipeline.kinds.counts.question import BucketsAnswer, CellsAnswer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases.post_processing_error import simulated_facts, three_digits, values_of

WHOLE = "nearest whole number that is not negative"


def post_processing(answer: CellsAnswer | BucketsAnswer, arrays: ReleaseArrays) -> dict[str, Any]:
    """Nothing of buckets, or where a strategy was measured."""
    if isinstance(answer, BucketsAnswer) or answer.design.strategy is not None:
        return {}
    design, noise = answer.design, answer.error().frobenius
    rounding = 0.5 * math.sqrt(design.shape[0] * design.shape[1])
    facts: dict[str, Any] = {
        "post_processing": WHOLE,
        "post_processed": "counts_integer",
        # Each cell is off by at most twice its noise, and by at most half a count more than it.
        "post_processed_frobenius_norm_bound": three_digits(min(2.0 * noise, noise + rounding), up=True),
    }
    if "counts_integer" not in arrays:  # too large to be held whole
        return facts
    simulated = simulated_errors.counts(
        values_of(arrays, "counts_integer").astype(np.float64).reshape(design.shape), design
    )
    return facts if simulated is None else {**facts, "simulated": simulated_facts(simulated)}


POST_PROCESSING = post_processing

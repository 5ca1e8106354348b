"""What a kind of query says of the preview of its releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays

Table = NDArray[np.float64]


def _not_too_large(question: Any) -> str:
    del question
    return ""


def truth_of(plan: Plan, exact: NDArray[np.int64], rows: int) -> ReleaseArrays:
    """The arrays of a release of the same records without noise, as far as they are known."""
    noise = plan.design.additive
    return {} if noise is None else plan.answer.arrays(noise.rounded(exact), rows)


def matrix_of(plan: Plan, arrays: ReleaseArrays) -> Table:
    """The released matrix, two axes."""
    values = np.asarray(arrays[plan.answer.matrix][0], dtype=np.float64)
    return values if values.ndim == 2 else values.reshape(1, -1)


def _name(plan: Plan) -> str:
    return plan.answer.matrix.replace("_", " ")


class Preview(NamedTuple):
    """The part ``preview`` of a kind.

    Attributes
    ----------
    too_large
        Of a question, why there is no preview of it, in words; empty where there is.
    by_record
        Whether each record has a number of its own in the answer, so that few are simulated.
    adds_up_noise
        Whether numbers have the noise of several, so that their law is nearly Gaussian.
    what
        What is shown, in words.
    shown
        What is shown of the arrays of a release, two axes.
    truth
        Arrays of a release without noise, from exact integers and the number of records.
    """

    too_large: Callable[[Any], str] = _not_too_large
    by_record: bool = False
    adds_up_noise: bool = False
    what: Callable[[Plan], str] = _name
    shown: Callable[[Any, ReleaseArrays], Table] = matrix_of
    truth: Callable[[Any, NDArray[np.int64], int], ReleaseArrays] = truth_of


USUAL = Preview()
"""What holds for a kind that says nothing."""

"""What the rounding of records adds to the error of a release, beside its noise. Reads no data."""

from __future__ import annotations

import numpy as np

from engine import gram
from engine.geometry import Body
from engine.mechanisms.additive import NoiseDesign
from engine.problems import OuterProducts, SecondMoment
from engine.rounding import rounding_of_sums
from pipeline.planning import Plan

_WORTH_KNOWING = 0.1
"""Share of the noise's standard deviation."""


def rounding_sentence(plan: Plan) -> str | None:
    """Largest error by rounding of a sum over records in a box, for a person; None where it is not worth knowing."""
    problem, design = plan.question.problem, plan.design
    if not isinstance(problem, SecondMoment | OuterProducts) or not isinstance(design, NoiseDesign):
        return None
    bodies = (problem.body,) if isinstance(problem, SecondMoment) else (problem.left, problem.right)
    if any(body not in (Body.CUBE, Body.HALF_CUBE) for body in bodies):
        return None
    lead = int(isinstance(problem, SecondMoment) and problem.augmented)
    noise = design.extremes(lead).entry_standard_deviation()
    of_product, of_value = rounding_of_sums(problem.rows_at_most, problem.largest)
    share = of_product / float(np.min(noise[lead:, lead:]))
    off = f"an entry is off by at most {share:.2g} of the standard deviation of its noise"
    if lead:
        of_sum = of_value / float(np.min(noise[0, 1:]))
        share, off = max(share, of_sum), f"{off}, a sum behind a mean by at most {of_sum:.2g} of its own"
    single = gram.arithmetic(problem.largest).single
    if share < _WORTH_KNOWING and not single:
        return None
    return f"to {problem.largest.bit_length() + 1} bits: {off}{'; sums in single precision' if single else ''}"

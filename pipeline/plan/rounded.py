"""What the rounding of records adds to the error of a release, beside its noise, and how few bits are enough.

Reads no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from blockveil.engine.answers import gram
from blockveil.engine.records import dither
from blockveil.engine.records.geometry import Body
from blockveil.engine.records.rounding import rounding_of_sums
from blockveil.engine.sensitivity.problems import OuterProducts, SecondMoment, Totals
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.config.query_sections import MomentSection, Query
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.moment import MomentAnswer
from blockveil.pipeline.questions.outer import OuterAnswer
from blockveil.pipeline.questions.totals import TotalsAnswer

FEW_BITS = 8

_WORTH_KNOWING = 0.1
"""Share of the noise's standard deviation."""

_NEGLIGIBLE = 0.05
"""Share of the noise's standard deviation; as errors that vary add up by their squares, it adds 0.0013 of the error."""

_WIDE = 256
"""Features from which on products take most of the time."""


@dataclass(frozen=True)
class _Share:
    """Error by rounding over the standard deviation of the noise: its bias, and what varies."""

    bias: float
    varies: float = 0.0

    @property
    def together(self) -> float:
        return self.bias + self.varies

    def words(self, noise: str) -> str:
        around = f", give or take {self.varies:.2g}" if self.varies else ""
        return f"by at most {self.bias:.2g} of {noise}{around}"


def rounding_sentence(answer: Answer) -> str | None:
    """Largest error by rounding of a sum over records in a box, for a person; None where it is not worth knowing."""
    shares, problem = _shares(answer), answer.question.problem
    if shares is None or not isinstance(problem, SecondMoment | OuterProducts | Totals):
        return None
    largest = problem.largest
    if isinstance(problem, Totals):
        return _of_totals(shares[0], largest)
    single = gram.arithmetic(largest).single
    if max(share.together for share in shares) < _WORTH_KNOWING and not single:
        return None
    entry, *sums = shares
    off = f"an entry is off {entry.words('the standard deviation of its noise')}"
    off += "".join(f", a sum behind a mean {share.words('its own')}" for share in sums)
    places = ", at places that differ between records" if _dithered(answer) else ""
    return f"to {largest.bit_length() + 1} bits{places}: {off}"


def _of_totals(share: _Share, largest: int) -> str | None:
    if share.together < _WORTH_KNOWING:
        return None
    text = f"a total about the origin is off {share.words('the standard deviation of its noise')}"
    return f"to {largest.bit_length() + 1} bits: {text}, where all records are rounded the same way"


def by_bits(loaded: LoadedConfig) -> Iterator[LoadedConfig]:
    """Yield the config with as few bits as make its sums faster, where it leaves its bits open; then as it is."""
    query = loaded.config.query
    if _left_open(loaded, query):
        few = query.model_copy(update={"quantisation_bits": FEW_BITS})
        yield replace(loaded, config=loaded.config.model_copy(update={"query": few}))
    yield loaded


def _left_open(loaded: LoadedConfig, query: Query) -> bool:
    """Whether the bits are not declared, and few of them would make the sums faster."""
    if not isinstance(query, MomentSection) or query.quantisation_bits is not None or len(query.columns) < _WIDE:
        return False
    box = isinstance(query.geometry, BoxGeometry) and query.geometry.norm_at_most is None
    return box and getattr(loaded.config.mechanism, "directions", None) is None


def negligible(answer: Answer) -> bool:
    """Whether rounding, at places that differ between records, is far below the noise; False where it is not known."""
    shares = _shares(answer)
    return shares is not None and _dithered(answer) and max(share.together for share in shares) <= _NEGLIGIBLE


def _dithered(answer: Answer) -> bool:
    return isinstance(answer, MomentAnswer) and answer.question.query.quantiser.dither is not None


def _shares(answer: Answer) -> list[_Share] | None:
    """Shares of an entry, and of a sum behind a mean where there is one."""
    if isinstance(answer, TotalsAnswer):
        return _shares_of_totals(answer)
    if not isinstance(answer, MomentAnswer | OuterAnswer):
        return None
    problem = answer.question.problem
    bodies = (problem.body,) if isinstance(problem, SecondMoment) else (problem.left, problem.right)
    if any(body not in (Body.CUBE, Body.HALF_CUBE) for body in bodies):
        return None
    lead = int(isinstance(problem, SecondMoment) and problem.augmented)
    noise = answer.design.extremes(lead).entry_standard_deviation()
    least = [float(np.min(noise[lead:, lead:]))] + ([float(np.min(noise[0, 1:]))] if lead else [])
    if _dithered(answer):
        sizes = dither.rounding_of_sums(problem.rows_at_most, problem.largest)
        return [_Share(mean / of, deviation / of) for (mean, deviation), of in zip(sizes, least, strict=False)]
    furthest = rounding_of_sums(problem.rows_at_most, problem.largest)
    return [_Share(error / of) for error, of in zip(furthest, least, strict=False)]


def _shares_of_totals(answer: TotalsAnswer) -> list[_Share] | None:
    """Shares of the sum with the least noise; the count is not rounded."""
    problem = answer.question.problem
    if problem.body not in (Body.CUBE, Body.HALF_CUBE):
        return None
    noise = answer.design.entry_standard_deviation()[0, int(problem.counted) :]
    return [_Share(rounding_of_sums(problem.rows_at_most, problem.largest)[1] / float(np.min(noise)))]

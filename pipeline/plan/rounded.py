"""What the rounding of records adds to the error of a release, beside its noise, and how many bits are enough.

Reads no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.rounding_error import RoundingError
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.records.rounding import FINE_BITS
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.questions import Answer
from blockveil.pipeline.questions.rounded_sides import RoundedSums
from blockveil.pipeline.sections.geometry_section import Geometry
from blockveil.pipeline.sections.query_sections import USUAL_BITS, USUALLY_ALIKE, Asked, OneShapeSection, most_bits

FEW_BITS = 8

_WORTH_KNOWING = 0.1
"""Share of the noise's standard deviation."""

_NEGLIGIBLE = 0.1
"""Share of the noise's standard deviation; as errors that vary add up by their squares, it adds 0.005 of the error."""

_SMALL = 0.2
"""The same, from which on more bits are taken: it adds a fiftieth of the error, and coverage of 95 % becomes 95.5 %."""

_WIDE = 256
"""Features from which on products take most of the time."""


@dataclass(frozen=True)
class Shares:
    """Error by rounding over the standard deviation of the noise, of the entry where that is largest.

    Attributes
    ----------
    entry
        Of a sum of products, or of a total.
    mean
        Of a sum behind a mean; None where there is none.
    """

    entry: float
    mean: float | None

    @property
    def largest(self) -> float:
        """The larger of both."""
        return max(self.entry, self.mean or 0.0)

    def sentence(self, entry: str) -> str:
        """In words."""
        beside = "" if self.mean is None else f" and {self.mean:.2g} of that of a sum behind a mean"
        return f"{self.entry:.2g} of the standard deviation of the noise of {entry}{beside}"


@dataclass(frozen=True)
class Rounded:
    """What is known of the rounding of an answer.

    Attributes
    ----------
    bits
        Of a quantised value.
    by_content
        Root mean square, where no content occurs more than ``alike`` times; None where records are rounded to nearest.
    worst
        Largest error, which all records attain together where they are alike.
    alike
        How often one content occurs at most, as declared.
    value
        Largest error of one value in units of coordinate one.
    chosen
        Whether the config declares that.
    entry
        What an entry of the answer is called.
    apart
        Whether records have two factors, each of which is rounded at places by its own content.
    """

    bits: int
    by_content: Shares | None
    worst: Shares
    alike: int
    value: float
    chosen: bool
    entry: str
    apart: bool = False

    @property
    def usual(self) -> str | None:
        """What rounding adds under the assumption that errors are stated under; None where it is not worth knowing."""
        if self.by_content is None or self.by_content.largest < _WORTH_KNOWING:
            return None
        return (
            f"to {self.bits} bits, at places that differ between contents: if no more than {self.alike:,} records are "
            f"alike{' in a factor' * self.apart}, {self.by_content.sentence(self.entry)} at most; "
            "standard errors and intervals include it"
        )

    @property
    def unusual(self) -> str | None:
        """What it adds in the worst case; None where that is below the noise."""
        if self.worst.largest < (_WORTH_KNOWING if self.by_content is None else 1.0):
            return None
        included = "which no standard error includes" if self.by_content is None else "beyond standard errors"
        widen = f"by {self.value:.2g} half widths to either side"
        if self.entry != "a total":
            widen += f", of second moments and covariances by {self._products:.2g} products of two half widths"
        return f"if all records are alike, up to {self.worst.sentence(self.entry)}, {included}: widen means {widen}"

    @property
    def _products(self) -> float:
        return 2.0 * self.value + self.value**2

    @property
    def warning(self) -> str | None:
        """Both, where one of them is worth a warning; with what would end it."""
        matters = self.worst.largest >= 1.0 and not self.chosen
        sentences = [line for line in (self.usual, self.unusual if matters else None) if line is not None]
        if not sentences:
            return None
        remedy = "lower rows_at_most, or declare a box without norm_at_most"
        if self.by_content is not None:
            remedy = "declare the step of columns of codes and integers, more quantisation_bits, or duplicates_at_most"
        return f"Records are rounded {'; '.join(sentences)}. To end this, {remedy}"


def rounded(answer: Answer) -> Rounded | None:
    """What is known of the rounding of an answer of sums; None of another."""
    sums, design = _sums(answer), answer.design.additive
    if sums is None or design is None:
        return None
    noise = design.entry_standard_deviation()
    error, lead = sums.error, sums.lead
    rows, largest = sums.records, float(sums.largest)
    value = _largest_error(sums.clip) / largest
    everywhere = np.ones(noise.shape[1] - lead, np.bool_) if error is None else error.columns[lead:] > 0.0
    worst = _worst(noise, lead, everywhere, value, rows, products=sums.products)
    by_content = None if error is None else _by_content(noise, lead, error)
    alike, entry = sums.alike, "an entry" if sums.products else "a total"
    bits, apart = int(largest).bit_length() + 1, len(sums.sides) > 1
    return Rounded(bits, by_content, worst, alike or USUALLY_ALIKE, value, alike is not None, entry, apart)


def _sums(answer: Answer) -> RoundedSums | None:
    """What an answer sums; None of an answer that is no sum, or has no noise that is added."""
    sums: RoundedSums | None = getattr(answer.question, "sums", None)
    return None if answer.design.additive is None else sums


def _worst(noise: Any, lead: int, rounded_at: Any, value: float, rows: int, *, products: bool) -> Shares:
    if not rounded_at.any():
        return Shares(0.0, None)
    columns = np.flatnonzero(rounded_at) + lead
    if not products:
        return Shares(rows * value / float(np.min(noise[:, columns])), None)
    inner = noise[:, columns] if not lead else noise[lead:, columns]
    of_mean = rows * value / float(np.min(noise[0, columns])) if lead else None
    return Shares(rows * (2.0 * value + value**2) / float(np.min(inner)), of_mean)


def _by_content(noise: Any, lead: int, error: RoundingError) -> Shares:
    deviations = error.deviations()
    down = lead if deviations.shape[0] > 1 else 0
    entry = float(np.max(deviations[down:, lead:] / noise[down:, lead:]))
    return Shares(entry, float(np.max(deviations[0, lead:] / noise[0, lead:])) if down else None)


def _largest_error(clip: Quantiser) -> float:
    """Largest error of one value, in steps: less than one at places of its own, and half of one to nearest.

    In a ball, beside a norm and along directions a record is rounded to 2**-20 first and moved inwards by the rounding
    of all its features; see :mod:`.rounding`.
    """
    if clip.dither is not None:
        return 1.0
    root = sqrt(clip.coordinates.dimension)
    return 0.5 + root / 2.0 + clip.largest * (root / 2.0 + 1.0) * 2.0**-FINE_BITS


def facts(answer: Answer) -> dict[str, Any]:
    """What a release states of its rounding: sentences, and the numbers from which errors follow.

    ``records``, ``duplicates_at_most`` are n, m of :mod:`.rounding_error`, ``tilt`` is t and ``by_coordinate`` its
    r, of outer products ``by_row`` and ``by_column``, a number where all of them are the same; K is ``largest_integer``
    of the mechanism.
    """
    rounding, sums = rounded(answer), _sums(answer)
    if rounding is None or sums is None:
        return {}
    sentences = {"rounding": rounding.usual, "rounding_of_equal_records": rounding.unusual}
    statements = {name: line for name, line in sentences.items() if line is not None}
    error, side = sums.error, sums.sides[0]
    if error is None or side is None:
        return statements
    common = {
        "records": sums.records,
        "duplicates_at_most": rounding.alike,
        "tilt": side.tilt,
        "second_order": error.second_order,
    }
    if rounding.apart:
        own = {"by_row": _short(error.rows), "by_column": _short(error.columns)}
    else:
        own = {"by_coordinate": _short(error.columns[sums.lead :])}
    return statements | {"rounding_error": common | own}


def _short(values: NDArray[np.float64]) -> float | list[float]:
    """A number where all are the same."""
    return float(values[0]) if float(np.ptp(values)) == 0.0 else values.tolist()


def lines(answer: Answer) -> list[tuple[str, str]]:
    """Lines of a plan, for a person."""
    rounding = rounded(answer)
    if rounding is None:
        return []
    pairs = (("Rounding", rounding.usual), ("Rounding of equal records", rounding.unusual))
    return [(name, line) for name, line in pairs if line is not None]


def by_bits(loaded: LoadedConfig) -> Iterator[tuple[LoadedConfig, bool]]:
    """Yield the config with more and more bits, where it leaves them open, and whether these are settled."""
    query = loaded.config.query
    if not isinstance(query, Asked) or not query.chooses_bits or not _left_open(loaded, query):
        yield loaded, True
        return
    # Sums of nights that share a charge are weighted, and need room for it.
    most = most_bits(query) if loaded.config.continual is None else min(USUAL_BITS, most_bits(query))
    if len(query.columns) >= _WIDE and isinstance(query, OneShapeSection) and _is_plain_box(query.geometry):
        yield _with_bits(loaded, FEW_BITS), False
    if most > USUAL_BITS:
        yield _with_bits(loaded, USUAL_BITS), False
    yield _with_bits(loaded, most), True


def _with_bits(loaded: LoadedConfig, bits: int) -> LoadedConfig:
    query = loaded.config.query.model_copy(update={"quantisation_bits": bits})
    return replace(loaded, config=loaded.config.model_copy(update={"query": query}))


def _left_open(loaded: LoadedConfig, query: Asked) -> bool:
    """Whether the bits are not declared, of products whose rounding is known."""
    return query.quantisation_bits is None and getattr(loaded.config.mechanism, "directions", None) is None


def _is_plain_box(shape: Geometry) -> bool:
    return isinstance(shape, BoxGeometry) and shape.norm_at_most is None


def enough(answer: Answer) -> bool:
    """Whether rounding is far enough below the noise for as many bits as an answer has; False where it is not known.

    To nearest, where no standard error tells of it, its largest error must be. Eight bits are taken for their speed
    alone, where nobody would notice; and never where declared whole numbers, which more bits hold, would be rounded.
    """
    rounding = rounded(answer)
    if rounding is None:
        return False
    if rounding.by_content is None:
        return rounding.worst.largest <= _NEGLIGIBLE
    if rounding.bits > FEW_BITS:
        return rounding.by_content.largest <= _SMALL
    sums = _sums(answer)
    return rounding.by_content.largest <= _NEGLIGIBLE and not (sums is not None and sums.spoilt)

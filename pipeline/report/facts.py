"""Numbers of a release that every form of its report shows. All from published values; nothing here is private."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.ledger.guessing import Together
from blockveil.pipeline.plan.mechanisms_compared import compared_text
from blockveil.pipeline.report import after, learned_shape
from blockveil.pipeline.report.matrix import ReleasedMatrix, Shown
from blockveil.pipeline.report.presenter import Presenter
from blockveil.pipeline.report.scan import BeyondNoise, ReleasedEntry, Scan, scan
from blockveil.pipeline.report.spectrum import Spectrum, spectrum

Rows = Sequence[tuple[str, str]]

Made = TypeVar("Made")

FEWEST_DIRECTIONS = 20
"""Rows or columns from which on a test of the whole matrix may find more than tests of its entries.

The bound of the noise of fewer of them is loose, so that single numbers and directions are known which it denies.
"""

LONGEST_TABLE = 200
"""Rows of the table of estimates; the release holds the others."""


class Facts:
    """A release prepared for showing; each number is computed when first asked for, in bounded memory.

    Raises StoreError where it names no matrix, or not the noise of it.
    """

    def __init__(self, release: Shown, together: Together | None = None) -> None:
        self.release, self.together = release, together
        self.attributes: dict[str, Any] = release.attributes
        self.matrix = ReleasedMatrix(release)
        self._made: dict[str, Any] = {}

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What is made of it when it is first asked for by a name, such as a picture that several pages show."""
        if name not in self._made:
            self._made[name] = make()
        product: Made = self._made[name]
        return product

    @property
    def kind(self) -> str:
        """Name of the matrix."""
        return self.matrix.kind

    @property
    def presenter(self) -> Presenter:
        """What its kind says of it."""
        return self.matrix.presenter

    @property
    def label(self) -> str:
        """Name of the matrix in words."""
        return self.kind.replace("_", " ")

    @property
    def entries(self) -> str:
        """What its entries are called."""
        one = self.presenter.entry
        return f"{one}s" if one else f"{self.label.removesuffix('s')} entries"

    @property
    def title(self) -> str:
        """What the release is, and its night."""
        return f"{self.attributes['title']}, {self.attributes['logical_date']}"

    @property
    def reliable(self) -> bool:
        """Whether ratios of released numbers mean anything."""
        return bool(self.attributes.get("reliable", True))

    @property
    def in_clear(self) -> bool:
        """Whether the parts of the cluster that computed it talked to each other without encryption."""
        return bool(self.attributes.get("computed_in_clear", False))

    @property
    def drift(self) -> str | None:
        """Warning that its learned shape shortened more records than declared; None where there is nothing to say."""
        return learned_shape.drift(self.attributes)

    @cached_property
    def correlation(self) -> Estimate | None:
        """Correlations of a covariance as :attr:`.Release.correlation` has them; None where it has none."""
        return self.presenter.correlation(self.release)

    @cached_property
    def scan(self) -> Scan:
        """What one pass over the matrix finds."""
        return scan(self.matrix, None if self.correlation is None else self.correlation.value)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Its spectrum in units of the noise."""
        return spectrum(self.matrix, self.scan.row_units, self.scan.column_units, self.scan.noise_level)

    @property
    def nothing(self) -> bool:
        """Whether nothing that is asked for stands out: no entry, of a symmetric matrix no pair."""
        if self.presenter.finds_more(self):
            return False
        return self.scan.others.outside == 0 and (self.scan.others.entries > 0 or self.scan.diagonal.outside == 0)

    @property
    def has_spectrum(self) -> bool:
        """Whether the spectrum says more than the entries do: they are many, and of a kind that has one."""
        return self.presenter.has_spectrum and min(self.matrix.shape) >= FEWEST_DIRECTIONS

    @property
    def above_noise(self) -> int:
        """Values of the spectrum that noise alone does not reach."""
        return int((self.spectrum.values > self.scan.noise_level).sum())

    def where(self, entry: ReleasedEntry) -> str:
        """Row and column of an entry by name."""
        row, column = self.matrix.name(0, entry.row), self.matrix.name(1, entry.column)
        return row if self.matrix.shape[1] == 1 else f"{row} and {column}"


UNRELIABLE = "The noisy count is close to zero. Ratios to it, such as means, are meaningless in this release."

IN_CLEAR = (
    "The cluster that computed this release was not encrypted: whoever reached a part of it could read un-noised sums "
    "and the key of the noise, and run code on it."
)


def error_lines(facts: Facts) -> list[tuple[str, str]]:
    """Noise against signal in a few lines, what stands out first."""
    lines = [("Findings", finding(facts)), ("Standing out", band_rule(facts))]
    vectors = facts.matrix.vectors()
    lines += facts.presenter.lines(facts)
    if "count" in vectors:
        count, deviation = (float(part) for part in vectors["count"])
        noise = f" with noise of standard deviation {number(deviation)}" if deviation else ", public by the relation"
        lines.append(("Records", f"{number(count)}{noise}"))
    lines += [("Beyond two deviations", beyond_two(facts))]
    lines += _whole(facts.attributes.get("error"))
    lines += learned_shape.lines(facts.attributes)
    if "not_in_standard_deviations" in facts.attributes["mechanism"]:
        lines.append(("Beyond the noise", facts.attributes["mechanism"]["not_in_standard_deviations"]))
    lines += [*directions_line(facts), *after.sentence(facts.attributes.get("error") or {})]
    if not facts.reliable:
        lines.append(("Warning", "the noisy count is close to zero: ratios to it, such as means, are meaningless here"))
    lines += [("Warning", text) for text in (IN_CLEAR if facts.in_clear else None, facts.drift) if text is not None]
    return lines


def finding(facts: Facts) -> str:
    """Whether anything stands out from the noise, in one sentence."""
    scan = facts.scan
    if not scan.alone.estimable:
        return "Nothing can be found: the noisy count is so close to zero that no entry has a known error."
    pairs, own = _searched(facts)
    if not facts.nothing:
        counts = [f"{tally.outside:,} of the {what}" for tally, what in (pairs, own) if tally.entries]
        return f"{' and '.join(counts)} stand out from the noise."
    none = " and ".join(f"none of the {what}" for tally, what in (pairs, own) if tally.entries and not tally.outside)
    if own[0].outside:
        return f"No pair of features stands out from the noise: {none}. Of the {own[1]}, {own[0].outside:,} do."
    return f"Nothing stands out from the noise: {none}. What is shown may be noise alone."


def _searched(facts: Facts) -> tuple[tuple[BeyondNoise, str], tuple[BeyondNoise, str]]:
    """Entries off and on the diagonal, and what they are called; without symmetry all are off it."""
    scan, tallies = facts.scan, facts.presenter.searched(facts)
    if tallies is not None:
        return tallies
    if not facts.matrix.symmetric:
        return (scan.others, f"{scan.others.entries:,} {facts.entries}"), (scan.diagonal, "")
    off, on = (f"{part.entries:,} entries" for part in (scan.others, scan.diagonal))
    return (scan.others, f"{off} off the diagonal"), (scan.diagonal, f"{on} on the diagonal")


def band_rule(facts: Facts) -> str:
    """What it takes to stand out."""
    alone = facts.scan.alone
    if not alone.estimable:
        return "nothing can: a ratio to a count that may be zero has no known error"
    origin = "zero" if facts.matrix.centre is None else "its origin"
    more = ", further where count and means are uncertain" if alone.ratio is not None else ""
    return (
        f"an entry further from {origin} than {alone.band:.3g} standard deviations of its noise{more}; in 95 of 100 "
        f"releases noise alone goes as far nowhere among the {alone.held:,} numbers tested"
    )


def beyond_two(facts: Facts) -> str:
    """Share of entries beyond two standard deviations, which means nothing but beside what noise alone gives."""
    scan = facts.scan
    low, high = (f"{100.0 * share:.3g}" for share in scan.alone.tails.beyond(2.0))
    expected = low if low == high else f"{low} to {high}"
    share = 100.0 * scan.beyond_two / scan.entries
    return f"{share:.3g} % of the {scan.entries:,} {facts.entries}; {scan.alone.tails.words} alone: {expected} %"


_ONE_TEST = (
    "this tests the whole matrix at once, in units of its noise, in which the widest columns decide; tests of single "
    "numbers, and of directions in units of standard deviations, may find more"
)
"""Why fewer values may be found here than elsewhere in a report, in a plan or by an analysis."""


def spectrum_lines(facts: Facts) -> list[tuple[str, str]]:
    """How many values of the spectrum stand out from the noise; nothing of a matrix that is too small to tell."""
    return [("Spectrum", _above_noise(facts))] if facts.has_spectrum else []


def _above_noise(facts: Facts) -> str:
    spectrum, what = facts.spectrum, "eigenvalues" if facts.matrix.symmetric else "singular values"
    if not facts.scan.alone.estimable:
        return f"what noise alone reaches is not known, so that no {what} can stand out"
    of = (
        f"{spectrum.values.size:,}"
        if spectrum.complete
        else f"the {spectrum.values.size} largest (of {min(facts.matrix.shape):,})"
    )
    errors = spectrum.errors[spectrum.values > facts.scan.noise_level]
    error = "" if spectrum.complete or not errors.size else f"; those are known within {number(float(errors.max()))}"
    above = "none" if facts.above_noise == 0 else f"{facts.above_noise:,}"
    reach = f"what noise alone reaches in 95 of 100 releases ({number(facts.scan.noise_level)} units of noise)"
    less = "" if facts.above_noise >= spectrum.values.size else f"; {_ONE_TEST}"
    return f"{above} of {of} {what} {'is' if facts.above_noise < 2 else 'are'} above {reach}{error}{less}"


def directions_line(facts: Facts) -> list[tuple[str, str]]:
    """How many of the directions from a noisy matrix belong to more than noise; nothing where nobody can tell."""
    eigenvalues, error = facts.matrix.array("eigenvalues"), facts.attributes.get("error") or {}
    directions = facts.matrix.array("directions")
    if eigenvalues is None or directions is None or "spectral_norm_bound" not in error:
        return []
    if eigenvalues.shape[0] < FEWEST_DIRECTIONS:
        return []
    count = int(directions.shape[1])
    above = int(np.count_nonzero(eigenvalues[:count] > error["spectral_norm_bound"]))
    return [
        (
            "Directions",
            f"{above} of {count} belong to eigenvalues above {number(error['spectral_norm_bound'])}, which noise alone "
            "does not exceed in 95 of 100 releases; the others may be directions of noise",
        )
    ]


_OF_ROUNDING = (("Rounding", "rounding"), ("Rounding of equal records", "rounding_of_equal_records"))


def _whole(error: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Error of the whole matrix, which was known before any data was read."""
    if not error:
        return []
    of, confidence = str(error["array"]).replace("_", " "), 100 * error["confidence"]
    return [
        (
            f"Noise of the whole {of}, in {confidence:.0f} of 100 releases",
            f"all entries within {error['band_in_standard_deviations']:.3g} of their standard deviations; "
            f"spectral norm at most {number(error['spectral_norm_bound'])}; "
            f"Frobenius norm at most {number(error['frobenius_norm_bound'])}",
        ),
        *((label, error[key]) for label, key in _OF_ROUNDING if key in error),
    ]


def estimates(facts: Facts) -> list[dict[str, str | float]]:
    """Estimates and their noise, at most :data:`LONGEST_TABLE` rows: one a feature, or one a column of the matrix."""
    rows = facts.presenter.estimates(facts, LONGEST_TABLE)
    if rows is not None:
        return rows
    return _by_feature(facts) if facts.matrix.symmetric else _by_column(facts)


def left_out(facts: Facts) -> str:
    """Says how many rows a table of estimates lacks; empty where none."""
    total = facts.matrix.shape[0 if facts.presenter.by_row else 1]
    return "" if total <= LONGEST_TABLE else f"The first {LONGEST_TABLE:,} of {total:,}; the release holds all of them."


def _by_feature(facts: Facts) -> list[dict[str, str | float]]:
    matrix, vectors, rows = facts.matrix, facts.matrix.vectors(), []
    value, deviation = matrix.diagonal("kind"), matrix.diagonal("deviation")
    label = facts.presenter.diagonal or f"{facts.label} (diagonal)"
    along = {name: pair for name, pair in vectors.items() if pair[0].shape == (matrix.shape[0],)}
    for i, name in enumerate(matrix.names(0, LONGEST_TABLE)):
        row: dict[str, str | float] = {"feature": name}
        for what, (numbers, noise) in {**along, label: (value, deviation)}.items():
            row[what.replace("_", " ")] = float(numbers[i])
            row[f"noise of the {what.replace('_', ' ')}"] = float(noise[i])
        rows.append(row)
    return rows


def _by_column(facts: Facts) -> list[dict[str, str | float]]:
    scan = facts.scan
    return [
        {
            "column": name,
            "mean entry": float(scan.column_means[j]),
            "noise of an entry": float(scan.column_deviations[j]),
            "noise of the mean entry": float(scan.column_deviations[j]) / facts.matrix.shape[0] ** 0.5,
        }
        for j, name in enumerate(facts.matrix.names(1, LONGEST_TABLE))
    ]


def not_estimable(facts: Facts) -> str:
    """Says how many entries stand out and have no ratio; empty where none."""
    count = facts.scan.not_estimable
    if count == 0:
        return ""
    ratio = facts.presenter.ratio or "ratio to the diagonal"
    return (
        f"{count:,} more {'stands' if count == 1 else 'stand'} out, but no {ratio} can be estimated: a variance is not "
        "clearly above its noise, or the ratio is beyond 1. None is listed."
    )


def nothing_learnt(facts: Facts) -> str:
    """Says of how many correlations the release tells nothing; empty where there are none or they are not known."""
    correlation = facts.correlation
    if correlation is None:
        return ""
    pairs = len(correlation.value) * (len(correlation.value) - 1) // 2
    few = int(np.count_nonzero(np.triu(correlations.nothing_learnt(correlation), 1)))
    if not few:
        return ""
    return f"Of {few:,} of the {pairs:,} correlations nothing was learnt: zero would be as good an estimate."


def comparison_rows(facts: Facts) -> list[dict[str, str]]:
    """Expected error of each mechanism, with that over a bound if it is stated, where one was chosen automatically."""
    mechanism = facts.attributes["mechanism"]
    return compared_text(mechanism.get("compared", []), mechanism.get("least_error"))

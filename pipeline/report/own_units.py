"""Estimates for a reader: in the unit in which a feature's range was declared, each with its noise after the sign ±.

An entry of a symmetric matrix is shown as its ratio to the diagonal. Where its kind knows no more of it, the noise of
``r = c / (s t)`` with diagonal entries ``v = s^2`` and ``w = t^2`` is at most
``noise(c) / (s t) + |r| / 2 (noise(v) / v + noise(w) / w)``, whatever noise these share, because the standard deviation
of a sum never exceeds the sum of standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report import learned_shape
from blockveil.pipeline.report.facts import Facts, error_lines, estimates
from blockveil.pipeline.report.matrix import Array
from blockveil.pipeline.report.scan import ReleasedEntry

_SAID = 5
"""Correlations that a run says."""

PLAIN = 12
"""Digits before the point up to which a measured number is written out."""


def measured(value: float, noise: float) -> str:
    """A number and the standard deviation of its noise, both to the second digit of the noise.

    >>> measured(167484.32, 843.0), measured(0.98765, 0.0123)
    ('167,480 ± 840', '0.988 ± 0.012')
    """
    if not (math.isfinite(value) and math.isfinite(noise)) or noise <= 0:
        return number(value) if noise == 0 else f"{number(value)} ± {number(noise)}"
    places = 1 - math.floor(math.log10(noise))
    if places > PLAIN or max(abs(value), noise) >= 10.0**PLAIN:
        return f"{number(value)} ± {number(noise)}"
    return f"{_rounded(value, places)} ± {_rounded(noise, places)}"


def _rounded(value: float, places: int) -> str:
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"


def ranges(facts: Facts) -> list[tuple[float, float]] | None:
    """Declared range of each row that is a feature; None where no box was declared."""
    geometry = learned_shape.asked(facts.attributes).get("geometry", {})
    by_row = facts.matrix.symmetric or facts.presenter.by_row
    if not by_row or not isinstance(geometry, dict):
        return None
    ranges: list[tuple[float, float]] = []
    for each in geometry.get("features") or ():
        if not isinstance(each, dict) or not {"lower", "upper"} <= each.keys():
            return None
        ranges += [(float(each["lower"]), float(each["upper"]))] * int(each.get("count") or 1)
    return ranges if len(ranges) == facts.matrix.shape[0] else None


def by_feature(facts: Facts) -> list[dict[str, str]]:
    """What the release says of each feature, at most :data:`.facts.LONGEST_TABLE` of them, as text."""
    rows = estimates(facts)
    own = facts.presenter.in_own_units(facts, rows)
    return [with_noise(row) for row in rows] if own is None else own


def with_noise(row: dict[str, str | float]) -> dict[str, str]:
    """An estimate and its noise in one cell."""
    cells = {name: value for name, value in row.items() if isinstance(value, str)}
    for name, value in row.items():
        noise = row.get(f"noise of the {name}")
        if isinstance(value, float) and isinstance(noise, float):
            cells[name] = measured(value, noise)
    return cells


def strongest(facts: Facts) -> list[dict[str, str]]:
    """The strongest of the entries that stand out, as correlations where they are covariances."""
    entries = facts.scan.strongest
    if not facts.matrix.symmetric:
        return [{"entry": facts.where(entry), "released": measured(entry.value, entry.deviation)} for entry in entries]
    what = facts.presenter.ratio or "as a share of the two diagonal entries"
    noise = _ratio_errors(facts, entries)
    return [
        {"pair": facts.where(entry), what: measured(entry.relative, error)}
        for entry, error in zip(entries, noise, strict=True)
    ]


def lines(facts: Facts) -> list[tuple[str, str]]:
    """What a run says of its release: what stands out first, then the strongest correlations of a covariance."""
    first, *others = error_lines(facts)
    ratio = facts.presenter.ratio
    entries = strongest(facts)[:_SAID] if ratio else []
    if not entries:
        return [first, *others]
    title = "the strongest of those that stand out, each ± its standard error"
    rows = [(f"  {row['pair']}", row[ratio]) for row in entries]
    return [first, (f"{ratio.capitalize()}s", title), *rows, *others]


def _ratio_errors(facts: Facts, entries: Sequence[ReleasedEntry]) -> list[float]:
    """Standard deviation of the noise of ratios to the diagonal: as the Python call states it, else at most."""
    errors = facts.presenter.ratio_errors(facts)
    if errors is None:
        variance, deviation = facts.matrix.diagonal("kind"), facts.matrix.diagonal("deviation")
        return [ratio_noise(entry, variance, deviation) for entry in entries]
    return [float(errors[entry.row, entry.column]) for entry in entries]


def ratio_noise(entry: ReleasedEntry, variance: Array, deviation: Array) -> float:
    """Standard deviation of the noise of a ratio to the diagonal, at most and to first order.

    Parameters
    ----------
    entry
        One whose diagonal entries are clearly positive.
    variance, deviation
        The diagonal, and the standard deviation of its noise, shape (d,).
    """
    v, w = float(variance[entry.row]), float(variance[entry.column])
    share = float(deviation[entry.row]) / v + float(deviation[entry.column]) / w
    # Standard deviation of a sum <= sum of standard deviations: this holds whatever noise the three numbers share.
    return entry.deviation / math.sqrt(v * w) + 0.5 * abs(entry.relative) * share

"""Estimates for a reader: in the unit in which a feature's range was declared, each with its noise after the sign ±.

A variance has the square of that unit, and a covariance the product of two. So a reader is shown standard deviations
and correlations. Their noise is of first order in that of the released numbers: of a standard deviation s with variance
v it is ``noise(v) / (2 s)``. Correlations and their noise are those of :func:`.correlations.correlation`. Where these
cannot be had, as of a matrix in blocks, a ratio is shown: the noise of ``r = c / (s t)`` with variances v and w is at
most ``noise(c) / (s t) + |r| / 2 (noise(v) / v + noise(w) / w)``, whatever noise these share, because the standard
deviation of a sum never exceeds the sum of standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report import learned_shape
from blockveil.pipeline.report.facts import LONGEST_TABLE, Facts, error_lines, estimates
from blockveil.pipeline.report.matrix import Array
from blockveil.pipeline.report.released_moments import moments_of
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
    declared = learned_shape.asked(facts.attributes).get("geometry", {})
    by_row = facts.matrix.symmetric or facts.presenter.by_row
    if not by_row or not isinstance(declared, dict):
        return None
    found: list[tuple[float, float]] = []
    for each in declared.get("features") or ():
        if not isinstance(each, dict) or not {"lower", "upper"} <= each.keys():
            return None
        found += [(float(each["lower"]), float(each["upper"]))] * int(each.get("count") or 1)
    return found if len(found) == facts.matrix.shape[0] else None


def by_feature(facts: Facts) -> list[dict[str, str]]:
    """What the release says of each feature, at most :data:`.facts.LONGEST_TABLE` of them, as text."""
    if facts.kind == "covariance" and facts.matrix.symmetric and "mean" in facts.matrix.vectors():
        return _moments(facts)
    rows = estimates(facts)
    own = facts.presenter.in_own_units(facts, rows)
    return [with_noise(row) for row in rows] if own is None else own


def with_noise(row: dict[str, str | float]) -> dict[str, str]:
    """An estimate and its noise in one cell."""
    found = {name: value for name, value in row.items() if isinstance(value, str)}
    for name, value in row.items():
        noise = row.get(f"noise of the {name}")
        if isinstance(value, float) and isinstance(noise, float):
            found[name] = measured(value, noise)
    return found


def _moments(facts: Facts) -> list[dict[str, str]]:
    """Mean and standard deviation of each feature of a covariance."""
    matrix, declared = facts.matrix, ranges(facts)
    mean, noise = matrix.vectors()["mean"]
    variance, deviation = matrix.diagonal("kind"), matrix.diagonal("deviation")
    reach = _reach(facts, variance, deviation)
    rows = []
    for i, name in enumerate(matrix.names(0, LONGEST_TABLE)):
        row = {"feature": name}
        if declared is not None:
            low, high = declared[i]
            row["declared range"] = f"{number(low)} to {number(high)}"
        row["mean"] = measured(float(mean[i]), float(noise[i]))
        row["standard deviation"] = spread(float(variance[i]), float(deviation[i]), float(reach[i]))
        if declared is not None:
            row["noise of the mean, share of the range"] = f"{100.0 * float(noise[i]) / (high - low):.2g} %"
        rows.append(row)
    return rows


def spread(variance: float, deviation: float, reach: float) -> str:
    """Standard deviation of a feature with its noise, or the most that it can be where noise hides it.

    Parameters
    ----------
    variance, deviation
        Released, and standard deviation of its noise.
    reach
        How far noise alone may take it, all numbers at once.
    """
    if not math.isfinite(reach):
        return "not known"
    if variance > reach:
        return measured(math.sqrt(variance), deviation / (2.0 * math.sqrt(variance)))
    return f"hidden, at most {number(math.sqrt(max(variance, 0.0) + reach))}"


def _reach(facts: Facts, variance: Array, deviation: Array) -> Array:
    if not facts.scan.alone.estimable:
        return np.full(variance.shape, np.inf)
    along = np.arange(variance.size)
    return facts.scan.alone.reach(along, along, variance, deviation)


def strongest(facts: Facts) -> list[dict[str, str]]:
    """The strongest of the entries that stand out, as correlations where they are covariances."""
    found = facts.scan.strongest
    if not facts.matrix.symmetric:
        return [{"entry": facts.where(entry), "released": measured(entry.value, entry.deviation)} for entry in found]
    what = "correlation" if facts.kind == "covariance" else "as a share of the two diagonal entries"
    noise = _ratio_errors(facts, found)
    return [
        {"pair": facts.where(entry), what: measured(entry.relative, error)}
        for entry, error in zip(found, noise, strict=True)
    ]


def lines(facts: Facts) -> list[tuple[str, str]]:
    """What a run says of its release: what stands out first, then the strongest correlations of a covariance."""
    first, *others = error_lines(facts)
    found = strongest(facts)[:_SAID] if facts.kind == "covariance" and facts.matrix.symmetric else []
    if not found:
        return [first, *others]
    title = "the strongest of those that stand out, each ± its standard error"
    return [first, ("Correlations", title), *((f"  {row['pair']}", row["correlation"]) for row in found), *others]


def _ratio_errors(facts: Facts, entries: Sequence[ReleasedEntry]) -> list[float]:
    """Standard deviation of the noise of ratios to the diagonal: as the Python call states it, else at most."""
    found = facts.correlation
    if found is None and facts.kind != "covariance":
        found = _about_the_origin(facts)
    if found is None:
        variance, deviation = facts.matrix.diagonal("kind"), facts.matrix.diagonal("deviation")
        return [ratio_noise(entry, variance, deviation) for entry in entries]
    return [float(found.standard_deviation[entry.row, entry.column]) for entry in entries]


def _about_the_origin(facts: Facts) -> Estimate | None:
    """Ratios of a second moment to its diagonal, with their errors; None where the release does not tell these."""
    try:
        moments = moments_of(facts.release, "An error")
    except ConfigError:
        return None
    return None if moments.constant else correlations.raw_correlation(moments)


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


def plain_estimates(facts: Facts) -> dict[str, Any]:
    """The tables of a reader, for programs."""
    return {"by_feature": by_feature(facts), "strongest": strongest(facts)}

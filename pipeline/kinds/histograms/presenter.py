"""What a report says of histograms of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.kinds.histograms.released_bounds import bounds_of
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.own_units import measured
from blockveil.pipeline.report.presenter import Presenter, Row

_NAMES = ("bin_lower", "bin_upper", "feature", "histograms", "histograms_standard_deviation")


class HistogramsPresenter(Presenter):
    """Histograms of columns: what they say of each column's bounds."""

    matrix = "histograms"
    by_row = True

    def estimates(self, facts: Facts, most: int) -> list[Row]:
        """Bounds beyond which nothing stands out, and the share of a column's values outside; NaN where unknown."""
        rows: list[Row] = []
        few = {name: whole[: 2 * most] for name in _NAMES if (whole := facts.matrix.array(name)) is not None}
        for name, bounds in bounds_of(few, facts.attributes)[:most]:
            unknown = float("nan")
            rows.append(
                {
                    "feature": name,
                    "lower bound": unknown if bounds is None else bounds.lower,
                    "upper bound": unknown if bounds is None else bounds.upper,
                    "share outside": unknown if bounds is None else bounds.outside.share,
                    "share outside, least": unknown if bounds is None else bounds.outside.least_share,
                    "share outside, most": unknown if bounds is None else bounds.outside.most_share,
                }
            )
        return rows

    def in_own_units(self, facts: Facts, rows: Sequence[Row]) -> list[dict[str, str]]:
        """Bounds of each column, and the share of its values beyond; its number of values where that is released."""
        counts, shown_rows = facts.matrix.vectors().get("values"), []
        for i, row in enumerate(rows):
            low, high = (float(row[f"{end} bound"]) for end in ("lower", "upper"))
            shares = [float(row[f"share outside, {end}"]) for end in ("least", "most")]
            line = {"column": str(row["feature"])}
            if counts is not None:
                line["values"] = measured(*(float(part[i]) for part in counts))
            is_bounded = math.isfinite(low) or math.isfinite(high)
            line["bins stand out"] = f"between {number(low)} and {number(high)}" if is_bounded else "none"
            beyond = " to ".join(f"{100.0 * share:.2g}" for share in shares)
            line["values beyond, in 95 of 100 releases"] = f"{beyond} %" if is_bounded else ""
            shown_rows.append(line)
        return shown_rows


PRESENTER = (HistogramsPresenter(),)

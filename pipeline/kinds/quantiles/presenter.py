"""What a report says of quantiles of columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.presenter import Presenter, Row

_PARTS = {"quantile": "", "quantile_lower": ", at least", "quantile_upper": ", at most"}
"""Arrays of a quantile and its interval, and what they are called behind its probability."""


class QuantilesPresenter(Presenter):
    """Quantiles of columns with their intervals; of the matrix itself, counts up to each cell."""

    matrix = "cumulative"
    by_row = True
    has_spectrum = False
    about_origin = False
    ranked_by_value = True

    def estimates(self, facts: Facts, most: int) -> list[Row]:
        """Quantiles of each column and their intervals, as released."""
        shares = facts.matrix.array("probability")
        arrays = {name: facts.matrix.array(name) for name in _PARTS}
        rows: list[Row] = []
        for place, name in enumerate(facts.matrix.names(0, most)):
            row: Row = {"column": name}
            for part, values in arrays.items():
                if values is None or shares is None:
                    continue
                row |= {f"{_title(p)}{_PARTS[part]}": float(values[place, k]) for k, p in enumerate(shares)}
            rows.append(row)
        return rows

    def in_own_units(self, facts: Facts, rows: Sequence[Row]) -> list[dict[str, str]]:
        """The same for a reader: days as dates."""
        axes, lines = facts.attributes["query"]["axes"], []
        shares = facts.matrix.array("probability")
        for axis, row in zip(axes, rows, strict=False):
            line = {"column": str(row["column"])}
            for p in () if shares is None else shares:
                value, low, high = (_written(float(row[_title(p) + end]), axis.get("since")) for end in _PARTS.values())
                line[_title(p)] = f"{value} ({low} to {high})"
            lines.append(line)
        return lines


def _title(probability: float) -> str:
    return f"quantile at {probability:g}"


def _written(value: float, since: str | None) -> str:
    """A value of a column; of days since a date, the date on which they end."""
    if since is None:
        return number(value)
    return (date.fromisoformat(since) + timedelta(days=round(value))).isoformat()


PRESENTER = (QuantilesPresenter(),)

"""What a report says of totals and means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockveil.pipeline.base.drawing import drawn_by
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.kinds.totals import totals_table
from blockveil.pipeline.report import own_units
from blockveil.pipeline.report.facts import Facts, finding
from blockveil.pipeline.report.matrix import Array, ReleasedMatrix
from blockveil.pipeline.report.papers import STYLE, Picture, Theme, blank_figure, pictured, plain_axes
from blockveil.pipeline.report.pictures import MOST_LABELS, finding_in_short, short_name, write_over
from blockveil.pipeline.report.presenter import Presenter, Row
from blockveil.pipeline.report.scan import BeyondNoise

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TotalsPresenter(Presenter):
    """Totals and means of columns: what stands out are means, and intervals of them are drawn."""

    matrix = "totals"
    entry = "total"
    by_row = True
    has_spectrum = False
    about_origin = False
    has_means = True

    def shares_noise(self, attributes: Mapping[str, Any]) -> bool:
        """Totals have the noise of the count in them, unless their origin is zero."""
        return bool(np.any(attributes.get("origin", ())))

    def centre(self, matrix: ReleasedMatrix) -> Array | None:
        """Where the count is public, totals of as many records at the origin."""
        origin = np.asarray(matrix.attributes.get("origin", []), np.float64)
        if origin.shape != matrix.shape[:1]:
            return None
        count, noise = matrix.vectors()["count"]
        return None if float(noise) else float(count) * origin[:, None]

    def searched(self, facts: Facts) -> tuple[tuple[BeyondNoise, str], tuple[BeyondNoise, str]]:
        """Totals, and means."""
        others = facts.scan.others
        means = BeyondNoise(others.entries, totals_table.far_means(facts.scan.alone))
        return (others, f"{others.entries:,} totals"), (means, f"{others.entries:,} means")

    def finds_more(self, facts: Facts) -> bool:
        """Whether a mean does."""
        return bool(totals_table.far_means(facts.scan.alone))

    def lines(self, facts: Facts) -> list[tuple[str, str]]:
        """How many means stand out."""
        return [("Means", totals_table.means_sentence(facts.scan.alone))]

    def estimates(self, facts: Facts, most: int) -> list[Row]:
        """Total and mean of each column."""
        return totals_table.by_column(facts.matrix, facts.scan.alone, most)

    def in_own_units(self, facts: Facts, rows: Sequence[Row]) -> list[dict[str, str]]:
        """Total and mean of each column."""
        declared, lines = own_units.ranges(facts), []
        for i, row in enumerate(rows):
            values = own_units.with_noise(row)
            low, high = (number(float(row[f"mean {end}"])) for end in ("at least", "at most"))
            values["mean in 95 of 100 releases"] = f"{low} to {high}"
            between = {} if declared is None else {"declared range": " to ".join(map(number, declared[i]))}
            lines.append({"column": values.pop("column"), **between, **values})
        return lines

    def picture(self, facts: Facts) -> tuple[Picture, str]:
        """Intervals of the means."""
        return _intervals(facts), "A bar holds the mean of its column in 95 of 100 releases."


def _intervals(facts: Facts) -> Picture:
    """Means of the first columns and what holds them in 95 of 100 releases, between the declared ends."""
    few = min(MOST_LABELS, facts.matrix.shape[0])
    mean, low, high = (part[:few] for part in totals_table.placed_means(facts.matrix, facts.scan.alone))
    means = totals_table.means_sentence(facts.scan.alone)
    text = (
        f"{finding(facts)} Shown are {few:,} means with their intervals, between the declared ends of columns: {means}."
    )

    def draw(theme: Theme) -> Figure:
        with drawn_by(STYLE):
            figure = blank_figure(6.6, 1.2 + 0.22 * few)
            axes, along = figure.add_subplot(), np.arange(few)
            axes.hlines(along, 0.0, 1.0, color=theme.hidden, lw=0.6)
            axes.hlines(along, low, high, color=theme.noise, lw=5.0)
            axes.scatter(mean, along, s=18, color=theme.signal, zorder=3)
            axes.set_yticks(along, [short_name(name) for name in facts.matrix.names(0, few)])
            axes.set_xticks([0.0, 0.5, 1.0], ["lower end", "middle", "upper end"])
            axes.set_xlim(-0.02, 1.02)
            axes.invert_yaxis()
            title = "Released means between the declared ends of their columns"
            axes.set_title(f"{title}\nbar: holds the mean in 95 of 100 releases", color=theme.ink, fontsize=9.5)
            write_over(axes, finding_in_short(facts), theme)
            plain_axes(axes, theme)
            return figure

    return pictured(draw, text)


PRESENTER = (TotalsPresenter(),)

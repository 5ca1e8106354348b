"""What a report says of counts in cells."""

from __future__ import annotations

from blockveil.pipeline.report.presenter import Presenter


class CountsPresenter(Presenter):
    """Counts: all in one unit, of which those along one axis are shown as one row."""

    matrix = "counts"
    in_a_line = True
    about_origin = False
    ranked_by_value = True


PRESENTER = (CountsPresenter(),)

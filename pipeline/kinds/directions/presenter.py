"""What a report says of principal directions."""

from __future__ import annotations

from blockveil.pipeline.report.presenter import Presenter


class DirectionsPresenter(Presenter):
    """Directions: entries of unit vectors, whose singular values say nothing."""

    matrix = "directions"
    has_spectrum = False
    ranked_by_value = True


PRESENTER = (DirectionsPresenter(),)

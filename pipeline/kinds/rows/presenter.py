"""What a report says of records with noise."""

from __future__ import annotations

import numpy as np

from blockveil.pipeline.report.matrix import Array, ReleasedMatrix
from blockveil.pipeline.report.presenter import Presenter


class RowsPresenter(Presenter):
    """Records: one that says nothing lies at the origin."""

    matrix = "rows"

    def centre(self, matrix: ReleasedMatrix) -> Array | None:
        """The origin by column."""
        origin = np.asarray(matrix.attributes.get("origin", []), np.float64)
        return origin[None, :] if origin.shape == matrix.shape[1:] else None


PRESENTER = (RowsPresenter(),)

"""The exact integers of quantiles: histograms of the columns, of which balances are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.column_bins import HistogramQuery, column_histograms
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.layout import Tile
from blockveil.engine.kinds.quantiles.problem import Quantiles


@dataclass(frozen=True, eq=False)
class QuantilesQuery:
    """Measured balances of public cells, by ranges of rows; see :class:`.graph.Query`.

    Attributes
    ----------
    histograms
        Cells of each column, and what is done with missing values: to refuse or to drop them.
    problem
        What is measured of their counts.
    """

    histograms: HistogramQuery
    problem: Quantiles

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the answer; NotFiniteError where values are missing and refused."""
        # Balances are linear in the counts, so that those of parts add up.
        answers = self.problem.answers(column_histograms(source, start, stop, self.histograms, chunk_rows))
        return [answers[slice(*tile.rows), slice(*tile.columns)] for tile in tiles]

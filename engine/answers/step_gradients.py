"""The sum of gradients of one step of training, as a part of an answer that has those of all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.step_records import StepRecords


@dataclass(frozen=True, eq=False)
class GradientsAtStep:
    """The sum of one step, as a part of an answer that has those of all steps one below the other.

    Attributes
    ----------
    query
        The sum at the weights of this step.
    first_row
        Row of the whole answer that the step's first row is.
    batch
        The records that it is over; None for all.
    holding
        Where integers of records stay for the next step; None where they do not.
    """

    query: GradientsQuery
    first_row: int
    batch: StepRecords | None = None
    holding: Holding | None = None

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the whole answer, all of them within this step."""
        whole = self.total(source, start, stop, chunk_rows)
        own = [(tile.rows[0] - self.first_row, tile.rows[1] - self.first_row) for tile in tiles]
        return [whole[slice(*rows), slice(*tile.columns)].copy() for rows, tile in zip(own, tiles, strict=True)]

    def total(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Sum of the step over a range of rows, exact; as :meth:`GradientsQuery.total`."""
        return self.query.total(source, start, stop, chunk_rows, self.batch, self.holding)

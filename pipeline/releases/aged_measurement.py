"""The measurement of a night of a series that weighs records by age: read with results of earlier nights, and kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from blockveil.engine.answers.graph import assembled
from blockveil.engine.noise.design import Released
from blockveil.engine.noise.level_strategy import of_change
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.question import additive
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.growing import ARRAY, ByAge, known_result
from blockveil.pipeline.releases.measurement import PlainMeasurement
from blockveil.pipeline.releases.publishing import Draft


class AgedMeasurement(PlainMeasurement):
    """Turns measured tiles of a night into what is read of it, and keeps that for later nights: a row for each tile.

    Parameters
    ----------
    ages
        The night.
    plan, dataset, handle, compute, tell
        As of :class:`.PlainMeasurement`.

    Raises
    ------
    StoreError
        A result that it is read with is missing, or is not the one that the ledger knows.
    """

    def __init__(self, ages: ByAge, plan: Plan, dataset: Dataset, handle: str, compute: Compute, tell: Tell) -> None:
        super().__init__(plan, dataset, handle, compute, tell)
        self._ages, self._query, self._narrow = ages, ages.query(plan), False
        # Each is checked before anything is drawn.
        self._earlier = {number: known_result(*result) for number, result in ages.results.items()}
        self._width = max(tile.entries for tile in self._layout.tiles)
        self._kept: zarr.Array[Any] | None = None

    def close(self, draft: Draft) -> ReleaseArrays:
        """Write what is read of the night beside the other arrays; as :meth:`.PlainMeasurement.close`."""
        shape = (len(self._layout.tiles), self._width)
        self._kept = draft.create(ARRAY, shape, ("tile", "entry"), chunks=(1, self._width))
        return super().close(draft)

    def _read(self, position: int, measured: NDArray[Any]) -> Released:
        tile, kept = self._layout.tiles[position], self._kept
        if kept is None:
            raise RuntimeError("a release is begun before tiles of it are read")
        released = self._ages.levels.estimate(measured, self._ages.number, lambda number: self._of(number, position))
        row = np.zeros((1, self._width))
        row[0, : tile.entries] = released.ravel()
        kept[position : position + 1] = row
        return released

    def _of(self, number: int, position: int) -> NDArray[np.float64]:
        """A tile of what was read of an earlier night."""
        tile = self._layout.tiles[position]
        entries: NDArray[np.float64] = np.asarray(self._earlier[number][position, : tile.entries])
        return entries.reshape(tile.shape)

    def _arrays(self, released: Released) -> ReleaseArrays:
        """Those of the whole, and the same of each window, of the records of its nights alone; post-processing."""
        plan, ages, arrays = self.plan, self._ages, dict[str, Any](super()._arrays(released))
        for nights, before in ages.windows.items():
            within, design = released, additive(plan.design)
            if nights < ages.number:
                tiles = [self._of(ages.number - nights, position) for position in range(len(self._layout.tiles))]
                within = released - assembled(tiles, self._layout, plan.design.by_tile and plan.design.symmetric)
                design = of_change(additive(plan.design), ages.levels, ages.number, nights)
            answer = plan.question.answer(design)
            for name, (values, axes) in answer.arrays(within, self._rows - before).items():
                if np.asarray(values).dtype.kind == "f" and not name.endswith("_edges"):
                    arrays[f"last_{nights}_{name}"] = values, axes
        return arrays

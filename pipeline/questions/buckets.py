"""Counts of cells by way of buckets of cells that are chosen privately."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.cost import Work
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.mechanisms.counts.buckets import Buckets, BucketsDesign
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.cells import MOST_ANSWERS, CellsQuestion, answer_arrays

SPREADING = "how much the cells of one bucket differ is not in the standard deviations"

_BYTES_A_CELL = 11 * 9 * 8
"""Eleven candidates for each cell, each some nine numbers of memory while the least partition is found."""

_SECONDS_A_CELL = 4e-5
"""Costs and least partition; an estimate, not a measurement."""


class BucketCells(CellsQuestion):
    """Counts in the cells of a grid, from buckets; their error is known as far as it is noise."""

    def check(self, design: BucketsDesign) -> None:  # type: ignore[override]
        """Nothing to refuse."""

    def facts(self, design: BucketsDesign) -> dict[str, Any]:  # type: ignore[override]
        """Cells of the grid; no error is known beforehand."""
        return {"cells": list(self.query.grid), "not_in_standard_deviations": SPREADING}

    def work(self, rows: int) -> Work:
        """Of counting, and of the costs of all candidates."""
        cells = self.problem.cells[0] * self.problem.cells[1]
        last_bytes, last_seconds = _BYTES_A_CELL * cells, _SECONDS_A_CELL * cells
        return replace(super().work(rows), grid=(), last_bytes=last_bytes, last_seconds=last_seconds)

    def error(self, design: BucketsDesign) -> None:  # type: ignore[override]
        """Not known: it depends on the records."""

    def error_sentence(self, design: BucketsDesign) -> str:  # type: ignore[override]
        """Noise of a bucket."""
        noise = design.bucket_law.standard_deviation
        return f"a bucket's noise has standard deviation {noise:.3g} records, shared by its cells; {SPREADING}"

    def noise_over_largest(self, design: BucketsDesign) -> tuple[float, float]:  # type: ignore[override]
        """A bucket's count is at most the number of records."""
        share = design.bucket_law.standard_deviation / self.problem.rows_at_most
        return share, share

    def arrays(self, released: NDArray[np.int64], design: BucketsDesign, rows: int) -> ReleaseArrays:  # type: ignore[override]
        """Counts of cells with the standard deviation of their noise, and the buckets themselves."""
        buckets = Buckets.of(released, design)
        found = Estimate(buckets.cells(), buckets.cell_deviations())
        arrays: ReleaseArrays = {
            **self.grid_arrays(found),
            "bucket": self.folded(buckets.numbers),
            "bucket_counts": (buckets.counts, ("bucket_number",)),
            "bucket_standard_deviation": (np.full(buckets.counts.size, buckets.deviation), ("bucket_number",)),
        }
        for number, part in enumerate(self.problem.workload, start=1):
            deviation = buckets.answer_deviations(part) if part.shape[0] * part.shape[1] <= MOST_ANSWERS else None
            if deviation is not None:
                answers = Estimate(part.apply(found.value), deviation)
                arrays = {**arrays, **answer_arrays(f"workload_{number}", part, answers)}
        return arrays

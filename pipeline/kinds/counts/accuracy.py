"""How exactly counts of cells and their total will be known, in records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.value_cells import Codes, Edges
from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.workload import Kronecker, Total
from blockveil.pipeline.accuracy.expected import Accuracy
from blockveil.pipeline.accuracy.number_error import INTERVAL, ExpectedError, interval_of_an_entry, share_of
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.kinds.counts.question import SPREADING, BucketsAnswer, CellsAnswer, CellsQuestion


def errors(answer: CellsAnswer | BucketsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a cell's count, or of a bucket's where the release chooses buckets."""
    if isinstance(answer, BucketsAnswer):
        return _errors_of_buckets(answer, population)
    return _errors_of_cells(answer, population)


def _errors_of_cells(answer: CellsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a cell's count, least and largest where cells differ, of the total, and of a workload's answers."""
    cells = answer.shape[0] * answer.shape[1]
    mean = population.rows / cells
    deviations = _cell_deviations(answer)
    least, most = (interval_of_an_entry(answer.design) * float(end(deviations)) for end in (np.min, np.max))
    note = f"{share_of(most, mean)} of the {mean:,.4g} records that {cells:,} cells hold on average"
    errors = [ExpectedError("cell", most, of=mean, note=note)]
    if least < 0.99 * most:
        errors.insert(0, ExpectedError("cell of the least noise", least, of=mean))
    total = (Kronecker(Total(answer.shape[0]), Total(answer.shape[1])),)
    # A total adds up the noise of all cells, so that its law is nearly Gaussian, unless a strategy measured it itself.
    size = INTERVAL * math.sqrt(cell_estimates.workload_error(total, answer.design))
    errors.append(ExpectedError("total", size, note=f"{share_of(size, population.rows)} of all records"))
    return errors + _of_a_workload(answer)


def _of_a_workload(answer: CellsAnswer) -> list[ExpectedError]:
    workload = answer.question.problem.workload
    if not workload:
        return []
    weight = sum(part.weight**2 * part.shape[0] * part.shape[1] for part in workload)
    error = math.sqrt(cell_estimates.workload_error(workload, answer.design) / weight)
    return [ExpectedError("answer", INTERVAL * error, note="root mean square over the answers of the workload")]


def _errors_of_buckets(answer: BucketsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a bucket's count; that of its cells depends on the records."""
    size = INTERVAL * answer.design.bucket_law.standard_deviation
    share = f"{share_of(size, population.rows)} of all records"
    return [ExpectedError("bucket", size, note=f"{share}, shared by its cells; {SPREADING}")]


def typical(answer: CellsAnswer | BucketsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Noise of a cell's or bucket's count, or of a workload's answer where there is one, over the records' number."""
    del names
    if isinstance(answer, BucketsAnswer):
        return float(answer.design.bucket_law.standard_deviation) / population.rows
    answer_errors = _of_a_workload(answer)
    size = answer_errors[0].size if answer_errors else float(np.sqrt(np.mean(_cell_deviations(answer) ** 2)))
    return size / population.rows


def _cell_deviations(answer: CellsAnswer) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Standard deviations of counts; of independent cells the least and the largest, which are among a few."""
    few = answer.design.extremes() if answer.design.strategy is None else answer.design
    return cell_estimates.cell_deviations(few)


def _features(question: CellsQuestion) -> list[tuple[Vector, Vector]]:
    ends = [_ends(axis) for axis in question.query.axes]
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    return [(low, high)]


def _ends(axis: Any) -> tuple[float, float]:
    """First and last value of an axis of a grid."""
    return (float(axis.edges[0]), float(axis.edges[-1])) if isinstance(axis, Edges) else (0.0, axis.cells - 1.0)


def _coded(plan: Any, records: NDArray[np.float64], standard: NDArray[np.float64]) -> NDArray[np.float64]:
    """With whole numbers in columns of codes."""
    del standard
    for column, axis in enumerate(plan.question.query.axes):
        if isinstance(axis, Codes):
            records[:, column] = np.clip(np.rint(records[:, column]), 0, axis.cells - 1)
    return records


ACCURACY = Accuracy(errors, typical, features=_features, completed=_coded)

"""How exactly counts of cells and their total will be known, in records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.workloads.workload import Kronecker, Total
from blockveil.pipeline.accuracy.number_error import INTERVAL, ExpectedError, interval_of_an_entry
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.questions.cells import SPREADING, BucketsAnswer, CellsAnswer
from blockveil.pipeline.questions.column_histograms import HistogramsAnswer
from blockveil.pipeline.questions.marginals import MarginalsAnswer


def errors_of_cells(answer: CellsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a cell's count, least and largest where cells differ, of the total, and of a workload's answers."""
    cells = answer.shape[0] * answer.shape[1]
    mean = population.rows / cells
    deviations = _cell_deviations(answer)
    least, most = (interval_of_an_entry(answer.design) * float(end(deviations)) for end in (np.min, np.max))
    note = f"{_share(most, mean)} of the {mean:,.4g} records that {cells:,} cells hold on average"
    errors = [ExpectedError("cell", most, of=mean, note=note)]
    if least < 0.99 * most:
        errors.insert(0, ExpectedError("cell of the least noise", least, of=mean))
    total = (Kronecker(Total(answer.shape[0]), Total(answer.shape[1])),)
    # A total adds up the noise of all cells, so that its law is nearly Gaussian, unless a strategy measured it itself.
    size = INTERVAL * math.sqrt(cell_estimates.workload_error(total, answer.design))
    errors.append(ExpectedError("total", size, note=f"{_share(size, population.rows)} of all records"))
    return errors + _of_a_workload(answer)


def _of_a_workload(answer: CellsAnswer) -> list[ExpectedError]:
    workload = answer.question.problem.workload
    if not workload:
        return []
    weight = sum(part.weight**2 * part.shape[0] * part.shape[1] for part in workload)
    error = math.sqrt(cell_estimates.workload_error(workload, answer.design) / weight)
    return [ExpectedError("answer", INTERVAL * error, note="root mean square over the answers of the workload")]


def errors_of_buckets(answer: BucketsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a bucket's count; that of its cells depends on the records."""
    size = INTERVAL * answer.design.bucket_law.standard_deviation
    share = f"{_share(size, population.rows)} of all records"
    return [ExpectedError("bucket", size, note=f"{share}, shared by its cells; {SPREADING}")]


def errors_of_tables(answer: MarginalsAnswer, population: Population) -> list[ExpectedError]:
    """Error of a cell's count in each table."""
    tables, deviations = answer.question.problem.tables, answer.deviations()
    factor, errors = interval_of_an_entry(answer.design), []
    for table, place in zip(tables.tables, tables.places, strict=True):
        size, mean = factor * float(np.max(deviations[place])), population.rows / tables.size(table)
        note = f"{_share(size, mean)} of the {mean:,.4g} records that its {tables.size(table):,} cells hold on average"
        errors.append(ExpectedError(f"cell by {answer.question.title(table)}", size, of=mean, note=note))
    return errors + _of_ranges(answer)


def _of_ranges(answer: MarginalsAnswer) -> list[ExpectedError]:
    if not answer.question.problem.tables.ordered:
        return []
    # A range adds up many entries, so that its law is nearly Gaussian, and is Gaussian where a strategy was measured.
    size = INTERVAL * answer.range_deviation()
    return [ExpectedError("range", size, note="root mean square over all ranges of cells along ordered axes")]


def errors_of_histograms(answer: HistogramsAnswer, population: Population) -> list[ExpectedError]:
    """Error of the count of a bin, the largest of all columns."""
    deviation = float(np.max(answer.deviations()))
    size = interval_of_an_entry(answer.design) * deviation
    return [ExpectedError("bin of a column", size, note=f"{_share(size, population.rows)} of all records")]


def typical_cell(answer: CellsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Noise of a cell's count, or of a workload's answer where there is one, over the number of records."""
    del names
    asked = _of_a_workload(answer)
    size = asked[0].size if asked else float(np.sqrt(np.mean(_cell_deviations(answer) ** 2)))
    return size / population.rows


def typical_bucket(answer: BucketsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Noise of a bucket's count over the number of records."""
    del names
    return float(answer.design.bucket_law.standard_deviation) / population.rows


def typical_cell_of_tables(answer: MarginalsAnswer, population: Population, names: Sequence[str] = ()) -> float:
    """Noise of a cell's count over the number of records, root mean square over the cells of all tables."""
    del names
    return float(np.sqrt(np.mean(answer.deviations() ** 2))) / population.rows


def _cell_deviations(answer: CellsAnswer) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Standard deviations of counts; of independent cells the least and the largest, which are among a few."""
    few = answer.design.extremes() if answer.design.strategy is None else answer.design
    return cell_estimates.cell_deviations(few)


def _share(size: float, of: float) -> str:
    return f"{100.0 * size / of:.2g} %" if size < of else "more than all"

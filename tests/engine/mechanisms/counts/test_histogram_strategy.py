"""Histograms by what their bins and totals differ in: exact answers, sensitivities and errors, and the least noise."""

from itertools import product

import numpy as np
import pytest

from blockveil.engine.estimates.cells import cell_error
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.counts.histogram_noise import HistogramResiduals
from blockveil.engine.mechanisms.counts.histogram_sizes import least_noise
from blockveil.engine.mechanisms.counts.histogram_strategy import HistogramStrategy

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEE = ApproxDP(0.9, 1e-6)
SMALL = ((3, 4, 2), (2, 2), (1, 3, 2), (5, 2, 2, 2), (1, 1))


def places(strategy, last):
    """Where each bin is, column by column, by the layout of the query and not by the strategy's own mask."""
    width = strategy.cells[1]
    return [[*range(n - last), *[width - 1] * last] for n in strategy.sizes]


def measured(strategy, last=False):
    """Dense matrix from the entries of the histograms to all answers."""
    (columns, width), shape = strategy.cells, strategy.shape
    found = np.zeros((*shape, columns, width))
    for column, there in enumerate(places(strategy, last)):
        for place in there:
            found[column, there, column, place] = -1.0
            found[column, place, column, place] += len(there)
            for other in range(columns):
                row, along = divmod(other, width)
                found[columns + row, along, column, place] = columns * (other == column) - 1.0
            found[-1, 0, column, place] = 1.0
    return found.reshape(shape[0] * shape[1], -1)


def records(strategy):
    """Histograms of every record that there may be, one without any value among them, flattened."""
    columns, width = strategy.cells
    found = []
    for chosen in product(*(range(n + 1) for n in strategy.sizes)):
        counts = np.zeros((columns, width))
        for column, place in enumerate(chosen):
            counts[column, place - 1] = place > 0
        found.append(counts.ravel())
    return np.array(found)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sizes", [*SMALL, (4, 7, 3, 2, 2, 2, 5, 2, 2)])
def test_answers_are_the_whole_numbers_of_an_explicit_matrix_and_counts_follow_from_them(sizes, last):
    strategy, rng = HistogramStrategy(sizes, 1000, last), np.random.default_rng(3)
    counts = np.zeros(strategy.cells, dtype=np.int64)
    for column, there in enumerate(places(strategy, last)):
        counts[column, there] = rng.integers(0, 50, len(there))
    found = strategy.answers(counts)
    assert found.dtype == np.int64
    assert np.array_equal(found.ravel(), measured(strategy, last) @ counts.ravel())
    assert np.max(np.abs(found)) <= strategy.largest
    deviations = np.ones(strategy.shape[0])
    assert strategy.estimate(found.astype(float), deviations) == pytest.approx(counts)
    values, (of_each, axes) = counts.sum(axis=1), strategy.arrays(found.astype(float), deviations)["values"]
    assert of_each == pytest.approx(values)
    assert axes == ("feature",)
    # What is in no bin is read by no answer.
    spoilt = np.where(strategy.cell_deviations(deviations) > 0.0, counts, 7)
    assert np.array_equal(strategy.answers(spoilt), found)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("sizes", SMALL)
def test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records(sizes, relation):
    """By brute force over all records, of which some have no value in some columns; for the least sizes and others."""
    strategy, rng = HistogramStrategy(sizes, 1000), np.random.default_rng(5)
    answers = records(strategy) @ measured(strategy).T
    every = [strategy.least_sizes(relation), *rng.uniform(0.2, 9.0, (4, len(sizes) + 2))]
    for parts in every:
        apart = answers / np.repeat(strategy.by_row(parts), strategy.shape[1])
        farthest = np.max(np.linalg.norm(apart, axis=1))
        if relation is REPLACE:
            farthest = max(farthest, *(np.max(np.linalg.norm(apart - one, axis=1)) for one in apart))
        found = strategy.l2(parts, relation)
        assert found.bound >= farthest
        assert found.bound == pytest.approx(farthest, rel=1e-9)
        assert found.exact


def law(strategy, deviations):
    """Covariance of the estimated counts, flattened, from the estimate of one answer at a time."""
    rows, width = strategy.shape
    units = np.eye(rows * width).reshape(-1, rows, width)
    maps = np.array([strategy.estimate(unit, deviations).ravel() for unit in units])
    return maps.T @ (np.repeat(deviations, width)[:, None] ** 2 * maps)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("sizes", [*SMALL, (3, 5, 10, 20, 40), (3,) * 6 + (9,) * 2])
def test_errors_are_those_of_its_noise_and_no_sum_of_bins_is_noisier_than_of_independent_ones(sizes, relation):
    strategy = HistogramStrategy(sizes, 1000)
    deviations = strategy.by_row(strategy.least_sizes(relation))
    covariance, stated = law(strategy, deviations), strategy.cell_deviations(deviations)
    assert np.sqrt(np.diagonal(covariance)) == pytest.approx(stated.ravel())
    assert np.linalg.eigvalsh(covariance)[-1] <= strategy.widest(deviations) ** 2 * (1 + 1e-9)
    width, total = strategy.cells[1], strategy.arrays(np.zeros(strategy.shape), deviations)["values_standard_deviation"]
    for column, n in enumerate(sizes):
        own = slice(column * width, column * width + n)
        sums = np.cumsum(np.cumsum(covariance[own, own], axis=0), axis=1)
        of_first = np.diagonal(sums)
        assert of_first[-1] == pytest.approx(total[0][column] ** 2)
        # Bins of a column are alike, so that the first m stand for any m: what bounds of columns rely on.
        assert np.all(of_first <= np.arange(1, n + 1) * stated[column, 0] ** 2 * (1 + 1e-9))


CASES = ((2, 2), (8,) * 3, (8,) * 10, (20,) * 10, (5,) * 30, (8,) * 200)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("sizes", "near"),
    [*((each, 1.0015) for each in CASES), ((3, 5, 10, 20, 40), 1.02), ((7,) * 23 + (105,) * 5, 1.002)],
)
def test_no_gaussian_noise_has_much_less_error(sizes, near, relation):
    problem = Histograms(sizes, relation, 1000)
    design = HistogramResiduals().design(problem, GUARANTEE)
    error = cell_error(problem.cells, design) * design.mu**2
    assert least_noise(sizes, relation).bound <= error <= near * least_noise(sizes, relation).bound


@pytest.mark.parametrize(("columns", "bins", "less"), [(10, 8, 1.178), (10, 20, 1.069), (30, 5, 1.36)])
def test_auto_takes_it_where_columns_are_many_and_the_error_of_independent_noise_is_larger(columns, bins, less):
    found = compare(Histograms((bins,) * columns, ADD, 1000), GUARANTEE, Metric("total"))
    errors = {row.mechanism: row.error for row in found.table}
    assert found.mechanism.name == "histogram-residuals"
    assert errors["gaussian"] / errors["histogram-residuals"] == pytest.approx(less, rel=0.002)


def test_places_without_a_bin_are_no_error():
    problem = Histograms((3, 9), ADD, 1000)
    design = compare(problem, GUARANTEE, Metric("total")).design
    variance = design.entry_standard_deviation()[0, 0] ** 2
    assert Metric("total").value(design, problem) == pytest.approx(12 * variance)


def test_other_queries_one_column_and_too_many_are_refused_in_words():
    for problem in (Counts((2, 3), ADD, 10), Histograms((3,), ADD, 10), Histograms((3,) * 1025, ADD, 10)):
        with pytest.raises(NotApplicable, match=";"):
            HistogramResiduals().design(problem, GUARANTEE)
    with pytest.raises(NotApplicable, match="rows_at_most"):
        HistogramResiduals().design(Histograms((3, 3), ADD, 2**60), GUARANTEE)
    strategy = HistogramStrategy((3, 3), 10)
    for counts in (np.zeros((3, 2), dtype=np.int64), np.zeros((2, 3))):
        with pytest.raises(ValueError, match="build the strategy"):
            strategy.answers(counts)

"""Residuals along ordered axes: exact answers, sensitivities and errors of ranges, against explicit matrices."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from blockveil.engine.estimates.cells import row_deviations
from blockveil.engine.estimates.consistent_tables import deviation
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.counts import range_residuals
from blockveil.engine.mechanisms.counts.range_errors import errors_without_order, range_errors, ranges_of
from blockveil.engine.mechanisms.counts.range_residuals import OrderedAgreements, RangeResiduals
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.workloads.marginal_tables import MarginalTables
from blockveil.engine.workloads.ordered_axes import OrderedAxis
from tests.oracles.dense_tables import multiplied, range_bound, range_matrix, require_law, table_matrix

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEE = ApproxDP(1.0, 1e-6)
SMALL = (
    MarginalTables((7,), ((0,),), (0,)),
    MarginalTables((5, 2, 3), ((0, 1), (1, 2), (0, 2)), (0,)),
    MarginalTables((4, 3), ((0, 1),), (0, 1)),
    MarginalTables((2, 6, 3), ((0, 1, 2), (1,)), (1, 2)),
    MarginalTables((3, 2, 5), ((0,), (1, 2)), (2,)),
)


def measured(tables):
    """Dense whole numbers from the cells of the grid to all entries that are measured, and the set of each entry."""
    blocks = []
    for axes in tables.sets:
        matrix = np.ones((1, 1))
        for axis, n in enumerate(tables.sizes):
            own = np.ones((1, n))
            if axis in axes:
                own = OrderedAxis.of(n).integers if axis in tables.ordered else n * np.eye(n) - 1.0
            matrix = np.kron(matrix, own)
        blocks.append(matrix)
    blocks = multiplied(blocks)
    return np.vstack(blocks), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])


@pytest.mark.parametrize("tables", SMALL)
def test_answers_are_the_whole_numbers_of_explicit_matrices(tables):
    grid = np.random.default_rng(3).integers(0, 50, np.prod(tables.sizes))
    counts = (table_matrix(tables.sizes, tables.tables) @ grid).astype(np.int64)[None, :]
    strategy, (matrix, of_set) = RangeResiduals(tables, 50 * grid.size), measured(tables)
    found = strategy.answers(counts)
    assert found.dtype == np.int64
    assert np.max(np.abs(found)) <= strategy.largest
    for number, (axes, block) in enumerate(zip(tables.sets, strategy.blocks, strict=True)):
        flat, size = found[block].ravel(), tables.size(axes)
        assert np.array_equal(flat[:size], matrix[of_set == number] @ grid)
        assert not flat[size:].any()


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("tables", SMALL)
def test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records(tables, relation):
    """By brute force over all cells of the grid, for the sizes of least error and for others."""
    strategy, (matrix, of_set) = RangeResiduals(tables, 1000), measured(tables)
    rng = np.random.default_rng(5)
    for sizes in (strategy.least_sizes(relation), *(strategy.factors * rng.uniform(0.1, 9, (3, len(tables.sets))))):
        columns = (matrix / sizes[of_set][:, None]).T
        distances = [np.linalg.norm(column) for column in columns]
        if relation is REPLACE:
            distances += [np.linalg.norm(a - b) for a, b in itertools.combinations(columns, 2)]
        found = strategy.l2(sizes, relation)
        assert found.bound >= max(distances)
        assert found.bound == pytest.approx(max(distances), rel=1e-9)
        assert found.exact


@pytest.mark.parametrize("tables", SMALL)
def test_kinds_of_records_that_are_left_out_are_bounded(tables, monkeypatch):
    strategy = RangeResiduals(tables, 1000)
    sizes = strategy.factors * np.linspace(1.0, 5.0, len(tables.sets))
    exact = strategy.l2(sizes, REPLACE)
    monkeypatch.setattr(range_residuals, "MOST_PATTERNS", 0)
    bound = strategy.l2(sizes, REPLACE)
    assert bound.attained <= exact.attained * (1 + 1e-12) <= bound.bound * (1 + 1e-12)
    assert bound.bound <= 1.01 * exact.bound


def test_pairs_of_records_that_are_kept_are_as_far_apart_as_any():
    """Along one axis, for all weights of norms and of products of either sign: against all pairs of records."""
    rng = np.random.default_rng(4)
    for cells in (2, 3, 9, 24):
        axis = OrderedAxis.of(cells)
        norms = np.diagonal(axis.gram)
        assert len(axis.pairs) < cells**2
        for _ in range(50):
            alpha, beta = rng.uniform(0.0, 1.0, 2)
            gamma = rng.uniform(-1.0, 1.0)
            every = alpha * norms[:, None] + beta * norms - 2.0 * gamma * axis.gram
            kept = axis.pairs @ [alpha, beta, -2.0 * gamma]
            assert np.max(kept) == pytest.approx(np.max(every), rel=1e-12)
            assert np.max(every) <= np.max(axis.beyond @ [alpha, beta, -2.0 * gamma]) * (1 + 1e-12)


@pytest.mark.parametrize("cells", [2, 3, 10, 33])
def test_what_is_measured_along_an_axis_is_whole_and_knows_nothing_of_the_total(cells):
    axis = OrderedAxis.of(cells)
    assert np.array_equal(axis.integers, axis.integers.T)
    assert not np.any(axis.integers @ np.ones(cells, dtype=np.int64))
    assert axis.inverse @ axis.real == pytest.approx(np.eye(cells) - 1.0 / cells, abs=1e-9)
    assert axis.norm == np.max([int(column @ column) for column in axis.integers.T]) / axis.unit**2


@pytest.mark.parametrize("tables", SMALL)
def test_estimates_and_their_errors_are_those_of_least_squares(tables):
    """Against dense generalised least squares from all measured entries, for noise of different sizes by set."""
    strategy, (matrix, of_set) = RangeResiduals(tables, 1000), measured(tables)
    by_set = strategy.factors * np.random.default_rng(7).uniform(0.5, 4.0, len(tables.sets))
    weighted = matrix / by_set[of_set][:, None]
    to_tables = table_matrix(tables.sizes, tables.tables)
    inverse = np.linalg.pinv(weighted.T @ weighted, rcond=1e-10)
    covariance = to_tables @ inverse @ to_tables.T
    rows = strategy.by_row(by_set)
    assert strategy.cell_deviations(rows)[0] == pytest.approx(np.sqrt(np.diagonal(covariance)))
    assert strategy.widest(rows) == pytest.approx(np.sqrt(np.linalg.eigvalsh(covariance)[-1]))
    ranges = range_matrix(tables.sizes, tables.tables, tables.ordered)
    total = np.einsum("ij,jk,ik->", ranges, inverse, ranges)
    assert strategy.range_errors(rows) @ tables.cells_of_each == pytest.approx(total)
    assert strategy.error_weights() @ (by_set / strategy.factors) ** 2 == pytest.approx(total)

    noisy = strategy.factors[of_set] * np.random.default_rng(8).normal(0.0, 30.0, matrix.shape[0])
    answers = np.zeros(strategy.shape)
    for number, block in enumerate(strategy.blocks):
        part = noisy[of_set == number]
        answers[block].reshape(-1)[: part.size] = part
    expected = to_tables @ inverse @ weighted.T @ (noisy / by_set[of_set])
    assert strategy.estimate(answers, rows)[0] == pytest.approx(expected)

    coefficients = np.random.default_rng(9).normal(size=tables.cells)
    by_table = dict(zip(tables.tables, tables.apart(coefficients), strict=True))
    noise = dict(zip(tables.sets, strategy.residual_deviations(rows), strict=True))
    inverses = {axis: own.inverse for axis, own in strategy.ordered.items()}
    found = deviation(by_table, tables, noise, inverses)
    assert found == pytest.approx(np.sqrt(coefficients @ covariance @ coefficients))


@pytest.mark.parametrize("tables", SMALL)
def test_ranges_have_hardly_more_error_than_any_gaussian_noise_and_less_than_without_the_order(tables):
    """The singular value bound of a dense matrix of all ranges, under add-remove."""
    strategy = RangeResiduals(tables, 1000)
    total = strategy.error_weights() @ (strategy.least_sizes(ADD) / strategy.factors) ** 2
    bound = range_bound(tables.sizes, tables.tables, tables.ordered)
    assert bound * (1 - 1e-9) <= total <= 1.12 * bound
    assert total == pytest.approx(strategy.least_noise(ADD).bound)
    plain = errors_without_order(tables, ADD, 1000, 1.0) @ tables.cells_of_each
    assert total <= 1.001 * plain


def test_a_hundred_ages_by_five_and_two_cells_have_a_third_of_the_squared_error():
    tables = MarginalTables((100, 5, 2), ((0, 1), (0, 2), (1, 2)), (0,))
    design = ResidualNoise().design(Marginals(tables, ADD, 10**6), GUARANTEE)
    with_order = ranges_of(tables, range_errors(tables, design))
    without = ranges_of(tables, errors_without_order(tables, ADD, 10**6, design.mu))
    assert without / with_order == pytest.approx(3.27, abs=0.05)
    assert design.loss.delta(GUARANTEE.epsilon) <= GUARANTEE.delta


def test_the_error_of_ranges_from_noise_on_tables_is_that_of_sums_of_cells():
    for tables in SMALL:
        design = Gaussian().design(Marginals(tables, ADD, 1000), GUARANTEE)
        # In the order of the grid no cell of a table is another's: noise is independent.
        noise = design.entry_standard_deviation()[0, 0] ** 2
        ranges = [range_matrix(tables.sizes, (table,), tables.ordered) for table in tables.tables]
        dense = [np.linalg.pinv(table_matrix(tables.sizes, (table,))) for table in tables.tables]
        expected = [noise * np.sum((r @ t) ** 2) for r, t in zip(ranges, dense, strict=True)]
        assert range_errors(tables, design) * tables.cells_of_each == pytest.approx(expected)


def test_auto_compares_the_errors_of_ranges_where_axes_are_ordered():
    tables = MarginalTables((100, 5, 2), ((0, 1), (0, 2), (1, 2)), (0,))
    found = compare(Marginals(tables, ADD, 1000), GUARANTEE, Metric("total"))
    assert found.mechanism.name == "residuals"
    assert found.table[0].error == pytest.approx(range_errors(tables, found.design) @ tables.cells_of_each)
    assert Metric("total").least(Marginals(tables, ADD, 1000), GUARANTEE) is None


def test_means_over_agreements_are_the_transpose_of_products():
    cells = (2, 3, 4)
    sets = tuple(axes for k in range(4) for axes in itertools.combinations(range(3), k))
    agreements, rng = OrderedAgreements(cells, sets, ((-0.5, 0.5), (-0.2, 0.9), (-0.4, 1.1))), np.random.default_rng(12)
    weights, shares = rng.normal(size=len(sets)), rng.random(8)
    assert shares @ agreements.products(weights) == pytest.approx(weights @ agreements.means(shares))


def test_released_tables_have_the_stated_law_and_a_scale_wrong_by_5_percent_is_rejected():
    """Alpha 1e-9, 70 fixed keys: what was measured, from released tables, over its stated variance."""
    tables = MarginalTables((24, 5, 4), ((0, 1), (0, 2), (1, 2)), (0,))
    design = ResidualNoise().design(Marginals(tables, ADD, 1000), GUARANTEE)
    strategy, steps = design.strategy, design.steps((0, design.shape[0]), (0, design.shape[1]))
    rows, query = row_deviations(design), OrderedAxis.of(24).real
    zero = np.zeros(strategy.cells, dtype=np.int64)
    total, dimensions = 0.0, 0
    for number in range(70):
        answers = design.release(NoiseKey.derive(bytes(32), number.to_bytes(4)), zero) * steps / design.shifted_unit
        found = tables.projected(tables.apart(strategy.estimate(answers, rows)[0]))
        for axes, size in zip(tables.sets, strategy.residual_deviations(rows), strict=True):
            values = np.tensordot(query, found[axes], axes=(1, 0)) if 0 in axes else found[axes]
            total += float(np.sum(values**2)) / size**2
            dimensions += int(np.prod([tables.sizes[axis] - 1 for axis in axes]))
    assert dimensions == 70 * 204
    require_law(total, dimensions)


def test_what_does_not_fit_is_refused():
    tables = SMALL[1]
    with pytest.raises(ValueError, match="rows_at_most"):
        RangeResiduals(tables, 2**59)
    with pytest.raises(NotApplicable, match="rows_at_most"):
        ResidualNoise().design(Marginals(tables, ADD, 2**59), GUARANTEE)
    with pytest.raises(ValueError, match="at most 20"):
        RangeResiduals(MarginalTables((3,) * 21, ((0, 20),), (0,)), 10)
    with pytest.raises(ValueError, match="more than 512 cells"):
        MarginalTables((513, 2), ((0, 1),), (0,))
    with pytest.raises(ValueError, match="in no table"):
        replace(tables, ordered=(3,))
    for wrong in (np.eye(3), np.array([[1, -1], [-1, 2]]), np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]])):
        with pytest.raises(ValueError, match="build it anew"):
            OrderedAxis(wrong.astype(np.int64))
    with pytest.raises(ValueError, match="2 to 512"):
        OrderedAxis.of(1)

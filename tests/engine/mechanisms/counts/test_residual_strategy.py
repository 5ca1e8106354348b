"""Residuals of tables: exact answers, sensitivities and errors, and no more noise than the closed form."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from blockveil.engine.estimates.cells import cell_deviations, row_deviations
from blockveil.engine.estimates.consistent_tables import deviation
from blockveil.engine.guarantees.calibration import gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.marginals.problem import Marginals
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.counts import residual_sizes, residual_strategy
from blockveil.engine.mechanisms.counts.residual_sizes import Agreements
from blockveil.engine.mechanisms.counts.residual_strategy import ResidualStrategy
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.shapes.duality import least_covariance
from blockveil.engine.workloads.marginal_tables import MarginalTables
from tests.oracles.dense_tables import (
    multiplied,
    require_law,
    residual_matrix,
    singular_value_bound,
    table_matrix,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEE = ApproxDP(1.0, 1e-6)
SMALL = (
    MarginalTables((3, 2, 4), ((0, 1), (1, 2), (0, 2))),
    MarginalTables((2, 2, 2), ((0, 1, 2),)),
    MarginalTables((5, 3, 2), ((0,), (1, 2))),
    MarginalTables((2, 4, 2, 3), ((0, 1, 3), (2,), (1, 2))),
    MarginalTables((2,), ((0,),)),
)
ADULT = (9, 16, 7, 15, 6, 5, 2, 42)
"""Cells along eight columns of Adult: work class, education, marital status, occupation, and so on."""


def ways(sizes, count):
    return MarginalTables(sizes, tuple(itertools.combinations(range(len(sizes)), count)))


def measured(tables):
    """Dense matrix from the cells of the grid to all entries of all measured residuals, and the set of each entry."""
    blocks = multiplied([residual_matrix(tables.sizes, axes) for axes in tables.sets])
    return np.vstack(blocks), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])


@pytest.mark.parametrize("tables", SMALL)
def test_answers_are_the_whole_numbers_of_explicit_matrices(tables):
    grid = np.random.default_rng(3).integers(0, 50, np.prod(tables.sizes))
    counts = (table_matrix(tables.sizes, tables.tables) @ grid).astype(np.int64)[None, :]
    strategy, (matrix, of_set) = ResidualStrategy(tables, 50 * grid.size), measured(tables)
    found = strategy.answers(counts)
    assert found.dtype == np.int64
    assert np.max(np.abs(found)) <= strategy.largest
    for number, (axes, block) in enumerate(zip(tables.sets, strategy.blocks, strict=True)):
        flat, size = found[block].ravel(), tables.size(axes)
        assert np.array_equal(flat[:size], matrix[of_set == number] @ grid)
        assert not flat[size:].any()


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("tables", "rows"),
    [
        *((MarginalTables((9, 7, 5), ((0, 1, 2),), (0, 1, 2)), rows) for rows in (10**4, 10**6, 10**7)),
        *((MarginalTables((16, 10), ((0, 1),), (0, 1)), rows) for rows in (10**6, 10**9, 10**10)),
        *((MarginalTables((16, 10, 8), ((0, 1, 2),), (0, 1)), rows) for rows in (10**6, 10**9)),
        *((MarginalTables((100, 100, 100), ((0, 1, 2),)), rows) for rows in (10**6, 10**8)),
        (MarginalTables((2, 500, 3), ((0, 1), (2,)), (1,)), 10**9),
        (ways((4,) * 9, 3), 10**11),
    ],
)
def test_every_set_of_axes_has_the_noise_that_was_planned_whatever_the_bound_of_records(tables, rows, relation):
    """Whole steps of any set are within 2 % of ideal ones: integers of small sets are not far below those of large."""
    design = ResidualNoise().design(Marginals(tables, relation, rows), GUARANTEE)
    starts = [block.start for block in design.strategy.blocks]
    real = design.strategy.residual_deviations(design.standard_deviations((0, design.shape[0]), (0, 1))[:, 0])
    ideal = design.scale * design.spread.rows[starts] / design.strategy.factors
    excess = real / ideal * design.grid.privacy_scale / design.grid.standard_deviation
    assert np.all(excess >= 1.0)
    assert np.max(excess) <= 1.02


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("tables", SMALL)
def test_the_sensitivity_is_the_largest_distance_of_all_pairs_of_records(tables, relation):
    """By brute force over all cells of the grid, for the sizes of least error and for others."""
    strategy, (matrix, of_set) = ResidualStrategy(tables, 1000), measured(tables)
    rng = np.random.default_rng(5)
    for sizes in (strategy.least_sizes(relation), rng.uniform(0.2, 9.0, len(tables.sets))):
        columns = (matrix / sizes[of_set][:, None]).T
        distances = [np.linalg.norm(column) for column in columns]
        if relation is REPLACE:
            distances += [np.linalg.norm(a - b) for a, b in itertools.combinations(columns, 2)]
        found = strategy.l2(sizes, relation)
        assert found.bound >= max(distances)
        assert found.bound == pytest.approx(max(distances), rel=1e-9)
        assert found.exact


@pytest.mark.parametrize("tables", SMALL)
def test_more_axes_than_are_gone_through_have_a_bound_that_holds(tables, monkeypatch):
    strategy = ResidualStrategy(tables, 1000)
    for sizes in (strategy.least_sizes(REPLACE), np.linspace(1.0, 5.0, len(tables.sets))):
        exact = strategy.l2(sizes, REPLACE)
        with monkeypatch.context() as patched:
            patched.setattr(residual_strategy, "MOST_PATTERNS", 0)
            patched.setattr(ResidualStrategy, "symmetric", None)
            bound = strategy.l2(sizes, REPLACE)
        assert bound.attained <= exact.attained * (1 + 1e-12) <= bound.bound * (1 + 1e-12)


@pytest.mark.parametrize("tables", SMALL)
def test_no_gaussian_noise_has_less_total_variance_under_add_remove(tables):
    """The singular value bound of dense matrices is attained, and the closed form is it."""
    strategy = ResidualStrategy(tables, 1000)
    bound = singular_value_bound(tables.sizes, tables.tables)
    assert strategy.least_noise(ADD).bound == pytest.approx(bound, rel=1e-9)
    variances = (strategy.least_sizes(ADD) / strategy.factors) ** 2
    assert strategy.error_weights() @ variances == pytest.approx(bound, rel=1e-9)
    assert strategy.l2(strategy.least_sizes(ADD), ADD).attained == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("tables", SMALL)
def test_no_gaussian_noise_has_much_less_total_variance_under_replace_one(tables):
    """A search among all Gaussian noise, over all changes that there are, finds the same least and the same bound."""
    to_tables = table_matrix(tables.sizes, tables.tables)
    changes = np.array([*to_tables.T, *(a - b for a, b in itertools.combinations(to_tables.T, 2))])
    distinct = np.unique(np.round(changes, 6), axis=0)
    found = least_covariance(distinct, np.ones(tables.cells), 1.0, tolerance=1e-3)
    strategy = ResidualStrategy(tables, 1000)
    least = strategy.least_noise(REPLACE)
    error = np.sum(strategy.error_weights() / least.precisions)
    assert strategy.l2(strategy.least_sizes(REPLACE), REPLACE).attained == pytest.approx(1.0, rel=1e-9)
    assert least.bound <= found.total * (1 + 1e-9)
    assert error <= 1.0011 * least.bound
    assert found.lower_bound <= error * (1 + 1e-9)


@pytest.mark.parametrize("cells", [(2, 3, 4), (5,), (2, 2, 2, 2)])
def test_means_over_agreements_are_the_transpose_of_products(cells):
    sets = tuple(axes for k in range(len(cells) + 1) for axes in itertools.combinations(range(len(cells)), k))
    agreements, rng = Agreements(cells, sets), np.random.default_rng(12)
    weights, shares = rng.normal(size=len(sets)), rng.random(2 ** len(cells))
    assert shares @ agreements.products(weights) == pytest.approx(weights @ agreements.means(shares))
    norms = np.array([np.prod([1 - 1 / cells[axis] for axis in axes]) for axes in sets])
    shares /= shares.sum()
    assert shares @ agreements.costs(weights, norms) == pytest.approx(weights @ agreements.coefficients(shares, norms))


ALIKE = (ways((2,) * 5, 2), ways((3, 2, 3, 2, 3), 2), MarginalTables((2, 2, 2, 2), ((0, 1), (2,), (3,))))


@pytest.mark.parametrize("tables", ALIKE)
def test_classes_of_symmetric_axes_have_the_distances_of_all_sets_of_axes(tables):
    """Every set of axes along which records agree, one after the other, against its class."""
    strategy, rng = ResidualStrategy(tables, 1000), np.random.default_rng(6)
    few = strategy.symmetric
    weights = few.by_set(rng.uniform(0.5, 2.0, len(few.members)))
    every, classes = strategy.agreements.products(weights), few.products(weights)
    assert len(classes) < len(every)
    assert np.unique(np.round(every, 9)) == pytest.approx(np.unique(np.round(classes, 9)))
    assert classes[-1] == pytest.approx(every[-1])
    assert few.products(np.arange(1.0, len(weights) + 1.0)) is None


@pytest.mark.parametrize("tables", ALIKE)
def test_the_least_noise_of_symmetric_axes_is_that_of_all_sets_of_axes(tables, monkeypatch):
    strategy = ResidualStrategy(tables, 1000)
    exact = strategy.least_noise(REPLACE)
    monkeypatch.setattr(residual_sizes, "MOST_SEARCHED", 0)
    monkeypatch.setattr(residual_strategy, "MOST_SEARCHED", 0)
    monkeypatch.setattr(residual_strategy, "MOST_PATTERNS", 0)
    found = ResidualStrategy(tables, 1000)
    least, sizes = found.least_noise(REPLACE), found.least_sizes(REPLACE)
    # Each error is at most a thousandth above its own bound, and both bounds are below both errors.
    assert np.sum(found.error_weights() / least.precisions) <= 1.0011 * least.bound
    assert exact.bound <= np.sum(found.error_weights() / least.precisions) * (1 + 1e-9)
    assert least.bound <= np.sum(found.error_weights() / exact.precisions) * (1 + 1e-9)
    assert found.l2(sizes, REPLACE).exact
    monkeypatch.undo()
    assert found.l2(sizes, REPLACE).bound == pytest.approx(strategy.l2(sizes, REPLACE).bound, rel=1e-9)


def test_axes_that_tables_tell_apart_are_not_symmetric():
    """Exchanging the first axis of two cells with the last would ask for another table."""
    few = ResidualStrategy(MarginalTables((2, 2, 2), ((0, 1), (2,))), 1000).symmetric
    assert few.sums.shape == (6, 4)


@pytest.mark.parametrize(
    ("tables", "records"), [(ways(ADULT, 2), 48_842), (ways((10,) * 20, 2), 10**6), (ways((2,) * 20, 2), 10**6)]
)
def test_all_two_way_tables_of_adult_and_of_twenty_columns_are_within_2_percent_of_the_closed_form(tables, records):
    problem = Marginals(tables, ADD, records)
    design = ResidualNoise().design(problem, GUARANTEE)
    roots = []
    for axes in tables.sets:  # ResidualPlanner's closed form, written out again
        p = np.prod([(tables.sizes[i] - 1) / tables.sizes[i] for i in axes])
        v = sum(
            np.prod([tables.sizes[i] - 1 for i in axes]) / np.prod([tables.sizes[j] for j in table if j not in axes])
            for table in tables.tables
            if set(axes) <= set(table)
        )
        roots.append(np.sqrt(p * v))
    closed = sum(roots) ** 2 / gaussian_mu(GUARANTEE.epsilon, GUARANTEE.delta) ** 2
    assert np.sum(cell_deviations(design) ** 2) <= 1.02 * closed
    assert design.loss.delta(GUARANTEE.epsilon) <= GUARANTEE.delta


def test_separate_tables_of_adult_cost_nearly_twice_as_much_and_auto_chooses_residuals():
    problem = Marginals(ways(ADULT, 2), ADD, 48_842)
    found = compare(problem, GUARANTEE, Metric("total"))
    assert found.mechanism.name == "residuals"
    errors = {row.mechanism: row.error for row in found.table if row.error is not None}
    assert errors["gaussian"] / errors["residuals"] == pytest.approx(1.78, abs=0.02)


@pytest.mark.parametrize("tables", SMALL)
def test_estimates_and_their_errors_are_those_of_least_squares(tables):
    """Against dense generalised least squares from all measured entries, for noise of different sizes by set."""
    strategy, (matrix, of_set) = ResidualStrategy(tables, 1000), measured(tables)
    by_set = np.random.default_rng(7).uniform(0.5, 4.0, len(tables.sets))
    weighted = matrix / by_set[of_set][:, None]
    to_tables = table_matrix(tables.sizes, tables.tables)
    inverse = np.linalg.pinv(weighted.T @ weighted, rcond=1e-10)
    covariance = to_tables @ inverse @ to_tables.T
    rows = strategy.by_row(by_set)
    assert strategy.cell_deviations(rows)[0] == pytest.approx(np.sqrt(np.diagonal(covariance)))
    assert strategy.widest(rows) == pytest.approx(np.sqrt(np.linalg.eigvalsh(covariance)[-1]))

    noisy = np.random.default_rng(8).normal(0.0, 30.0, matrix.shape[0])
    answers = np.zeros(strategy.shape)
    for number, block in enumerate(strategy.blocks):
        part = noisy[of_set == number]
        answers[block].reshape(-1)[: part.size] = part
    expected = to_tables @ inverse @ weighted.T @ (noisy / by_set[of_set])
    assert strategy.estimate(answers, rows)[0] == pytest.approx(expected)

    coefficients = np.random.default_rng(9).normal(size=tables.cells)
    by_table = dict(zip(tables.tables, tables.apart(coefficients), strict=True))
    noise = dict(zip(tables.sets, strategy.residual_deviations(rows), strict=True))
    assert deviation(by_table, tables, noise) == pytest.approx(np.sqrt(coefficients @ covariance @ coefficients))


def test_released_tables_have_the_stated_law_and_a_scale_wrong_by_5_percent_is_rejected():
    """Alpha 1e-9, 1,500 fixed keys: squares of the residuals of released tables over their stated variances."""
    tables = SMALL[0]
    design = ResidualNoise().design(Marginals(tables, ADD, 1000), GUARANTEE)
    strategy, steps = design.strategy, design.steps((0, design.shape[0]), (0, design.shape[1]))
    rows = row_deviations(design)
    zero = np.zeros(strategy.cells, dtype=np.int64)
    total, dimensions = 0.0, 0
    for number in range(1500):
        answers = design.release(NoiseKey.derive(bytes(32), number.to_bytes(4)), zero) * steps / design.shifted_unit
        found = tables.projected(tables.apart(strategy.estimate(answers, rows)[0]))
        for axes, size in zip(tables.sets, strategy.residual_deviations(rows), strict=True):
            total += float(np.sum(found[axes] ** 2)) / size**2
            dimensions += int(np.prod([tables.sizes[axis] - 1 for axis in axes]))
    assert dimensions == 1500 * 18
    require_law(total, dimensions)


def test_tables_that_do_not_fit_are_refused():
    tables = SMALL[0]
    with pytest.raises(ValueError, match="rows_at_most"):
        ResidualStrategy(tables, 2**59)
    with pytest.raises(NotApplicable, match="rows_at_most"):
        ResidualNoise().design(Marginals(tables, ADD, 2**59), GUARANTEE)
    with pytest.raises(NotApplicable, match="marginals"):
        ResidualNoise().design(Counts((3, 3), ADD, 10), GUARANTEE)
    with pytest.raises(ValueError, match="build the strategy for these tables"):
        ResidualStrategy(tables, 10).answers(np.zeros((1, 3), dtype=np.int64))


def test_the_noise_is_for_all_tables_together():
    """Under replace-one more, and never less than the distance of the worst records."""
    for relation in (ADD, REPLACE):
        problem = Marginals(SMALL[0], relation, 1000)
        design = ResidualNoise().design(problem, GUARANTEE)
        sizes = design.spread.rows[[block.start for block in design.strategy.blocks]]
        assert design.sensitivity.bound == design.strategy.l2(sizes, relation).bound
        twice = Gaussian().design(replace(problem, tables=MarginalTables((3, 2, 4), ((0, 1),))), GUARANTEE)
        assert twice.loss.mu == pytest.approx(design.loss.mu, rel=1e-6)

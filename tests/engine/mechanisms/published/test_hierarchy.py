"""Two passes over a tree equal dense least squares, its errors equal dense algebra, and its loss a search."""

import itertools

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.published.hierarchy import Tree
from blockveil.engine.mechanisms.published.tree_search import best_tree, branchings, level_traces
from blockveil.engine.noise.discrete_gaussian import TILE
from blockveil.engine.workloads.kronecker import rows_of
from blockveil.engine.workloads.workload import AllRange, Explicit, Identity, Kronecker, Prefix, Total, marginals

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
TREES = [
    Tree((1, 8), 2),
    Tree((7, 1), 3),
    Tree((5, 1), 8),
    Tree((4, 4), 2),
    Tree((5, 7), 2),
    Tree((2, 11), 3),
]


def named(value):
    return f"{value.cells} by {value.branching}" if isinstance(value, Tree) else None


def dense(tree):
    """Strategy matrix over the cells and the level of each block, from the definition of a block."""
    cells = list(itertools.product(*(range(size) for size in tree.cells)))
    rows, level_of = [], []
    for level in range(tree.levels):
        side = tree.branching**level
        for block in itertools.product(*(range(size) for size in tree.blocks(level))):
            rows.append([float(tuple(c // side for c in cell) == block) for cell in cells])
            level_of.append(level)
    return np.array(rows), np.array(level_of)


def laid_out(tree, values):
    """A list of numbers by block, level by level, in the layout of the answers."""
    found, start = np.zeros(tree.shape, dtype=values.dtype), 0
    for level, rows in enumerate(tree.level_rows):
        size = tree.blocks(level)[0] * tree.blocks(level)[1]
        found[rows].reshape(-1)[:size] = values[start : start + size]
        start += size
    return found


def by_row(tree, by_level):
    return np.concatenate([np.full(r.stop - r.start, v) for r, v in zip(tree.level_rows, by_level, strict=True)])


def noisy(tree, seed=1):
    deviations = np.random.default_rng(seed).uniform(0.5, 5.0, tree.levels)
    strategy, level_of = dense(tree)
    covariance = np.linalg.inv(strategy.T @ (strategy / deviations[level_of][:, None] ** 2))
    return strategy, level_of, deviations, covariance


@pytest.mark.parametrize("tree", TREES, ids=named)
def test_the_answers_are_the_sums_of_the_definition(tree):
    counts = np.random.default_rng(1).integers(0, 2**50, tree.cells)
    expected = [sum(int(x) for x in counts.ravel()[row > 0]) for row in dense(tree)[0]]
    found = tree.answers(counts)
    assert found.dtype == np.int64
    assert np.array_equal(found, laid_out(tree, np.array(expected)))


@pytest.mark.parametrize("tree", TREES, ids=named)
def test_two_passes_equal_dense_weighted_least_squares(tree):
    strategy, level_of, deviations, _ = noisy(tree)
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 50, tree.cells)
    flat = strategy @ counts.ravel() + rng.normal(0, 5, level_of.size)
    root = 1.0 / deviations[level_of]
    expected = np.linalg.lstsq(strategy * root[:, None], flat * root, rcond=None)[0]
    rows = by_row(tree, deviations)
    assert np.allclose(tree.estimate(laid_out(tree, flat), rows).ravel(), expected, atol=1e-9)
    assert np.allclose(tree.estimate(tree.answers(counts).astype(float), rows), counts, atol=1e-9)


@pytest.mark.parametrize("tree", TREES, ids=named)
def test_standard_deviations_are_the_diagonal_of_the_dense_covariance(tree):
    _, _, deviations, covariance = noisy(tree)
    rows = by_row(tree, deviations)
    found = tree.cell_deviations(rows)
    assert found.shape == tree.cells
    assert np.allclose(found.ravel() ** 2, np.diagonal(covariance), rtol=1e-10)
    assert np.linalg.eigvalsh(covariance)[-1] <= tree.widest(rows) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("tree", TREES, ids=named)
@pytest.mark.parametrize("kind", [Identity, Prefix, AllRange, Total])
def test_errors_of_workloads_and_of_single_answers_equal_dense_algebra(tree, kind):
    _, _, deviations, covariance = noisy(tree)
    rows = by_row(tree, deviations)
    part = Kronecker(kind(tree.cells[0]), AllRange(tree.cells[1]), 1.5)
    other = Kronecker(Explicit([[1, 0, 2, -1, 3, 1, 1, 5][: tree.cells[0]]]), Identity(tree.cells[1]))
    matrix = np.kron(rows_of(part.rows), rows_of(part.columns))
    second = np.kron(rows_of(other.rows), rows_of(other.columns))
    variance = np.diagonal(matrix @ covariance @ matrix.T)
    assert np.allclose(tree.answer_deviations(part, rows).ravel() ** 2, variance, rtol=1e-9)
    expected = 1.5**2 * variance.sum() + np.trace(second @ covariance @ second.T)
    assert tree.workload_error((part, other), rows) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("tree", TREES, ids=named)
def test_one_record_changes_one_or_two_answers_a_level_and_some_records_do(tree):
    columns = [
        tree.answers((np.arange(n) == i).astype(np.int64).reshape(tree.cells))
        for n in [tree.cells[0] * tree.cells[1]]
        for i in range(n)
    ]
    none = np.zeros_like(columns[0])
    pairs = {ADD: [(c, none) for c in columns], REPLACE: [*itertools.combinations(columns, 2), (columns[0], none)]}
    for neighbours, every in pairs.items():
        worst = [max(int(np.abs(a - b)[rows].sum()) for a, b in every) for rows in tree.level_rows]
        assert worst == [tree.changing(neighbours)] * tree.levels
        # One pair attains it in all levels at once, so that the loss is exact.
        assert max(int(np.abs(a - b).sum()) for a, b in every) == tree.changing(neighbours) * tree.levels


def test_the_stated_errors_are_those_of_a_simulation():
    tree, rng, trials = Tree((4, 6), 2), np.random.default_rng(3), 4000
    deviations = np.array([2.0, 3.0, 5.0])
    rows = by_row(tree, deviations)
    errors = np.array([tree.estimate(rng.normal(size=tree.shape) * rows[:, None], rows) for _ in range(trials)])
    ratio = np.mean(errors**2, axis=0) / tree.cell_deviations(rows) ** 2
    bound = stats.norm.isf(1e-9 / 48) * np.sqrt(2 / trials)
    assert np.max(np.abs(ratio - 1)) < bound
    part = Kronecker(Prefix(4), Prefix(6))
    squares = np.array([np.sum(part.apply(error) ** 2) for error in errors])
    stated, spread = tree.workload_error((part,), rows), np.std(squares) / np.sqrt(trials)
    assert abs(np.mean(squares) - stated) < 6.2 * spread
    assert abs(np.mean(squares) - 1.1025 * stated) > 6.2 * spread


def test_the_traces_of_equal_blocks_are_the_traces_of_means():
    tree, workload = Tree((4, 8), 2), (Kronecker(Prefix(4), AllRange(8)), *marginals((4, 8)))
    gram = sum(np.kron(p.rows.gram(), p.columns.gram()) for p in workload)
    for level, found in enumerate(level_traces(tree, workload)):
        side = 2**level
        means = [np.kron(np.eye(-(-n // side)), np.ones((min(side, n),) * 2) / min(side, n)) for n in (4, 8)]
        assert found == pytest.approx(float(np.trace(gram @ np.kron(*means))), rel=1e-12)


def exact_error(tree, spreads, workload, gaussian):
    scale = np.sqrt(np.sum(spreads**-2.0)) if gaussian else np.sqrt(2.0) * np.sum(1.0 / spreads)
    return tree.workload_error(workload, by_row(tree, scale * spreads))


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("cells", [(1, 64), (9, 20)])
def test_the_chosen_tree_is_within_a_few_percent_of_the_best_of_all_branchings(cells, gaussian):
    workload = (Kronecker(AllRange(cells[0]), AllRange(cells[1])),)
    tree, spreads = best_tree(cells, workload, gaussian=gaussian)
    assert spreads.min() == 1.0
    found = exact_error(tree, spreads, workload, gaussian)
    every = [best_tree(cells, workload, gaussian=gaussian, branching=b) for b in range(2, max(cells) + 1)]
    assert found <= 1.05 * min(exact_error(*pair, workload, gaussian) for pair in every)
    even = np.ones(tree.levels)
    assert found <= exact_error(tree, even, workload, gaussian) * (1 + 1e-9)


def test_a_flat_tree_is_the_identity_and_every_height_has_its_least_branching():
    workload = (Kronecker(Total(1), Identity(9)),)
    tree, _ = best_tree((1, 9), workload, gaussian=True)
    assert (tree.levels, tree.branching) == (1, 9)
    assert tree.workload_error(workload, np.ones(1)) == pytest.approx(9.0)
    assert branchings(2**16)[:3] == [2, 3, 4]
    assert branchings(2**16)[-2:] == [2**8, 2**16]


@pytest.mark.parametrize("cells", [(1, 2**16), (300, 500), (1, 2), (2, 2**14)])
def test_large_and_uneven_tables_are_planned_answered_and_estimated(cells):
    workload = (Kronecker(AllRange(cells[0]), AllRange(cells[1])),)
    tree, spreads = best_tree(cells, workload, gaussian=False)
    assert tree.shape[1] <= TILE
    rows = by_row(tree, spreads)
    counts = np.random.default_rng(5).integers(0, 9, cells)
    assert np.allclose(tree.estimate(tree.answers(counts).astype(float), rows), counts, atol=1e-6)
    assert np.all(tree.cell_deviations(rows) <= rows[0] * (1 + 1e-12))
    assert tree.workload_error(workload, rows) > 0
    arrays = tree.arrays(tree.answers(counts).astype(float), rows)
    assert arrays["strategy_blocks"][0].shape == (arrays["strategy_answers"][0].size, 4)
    a, b, c, d = arrays["strategy_blocks"][0][-1]
    assert arrays["strategy_answers"][0][-1] == counts[a:b, c:d].sum()


def test_deviations_of_single_answers_are_left_out_where_they_take_too_long():
    tree = Tree((1, 2**16), 16)
    rows = by_row(tree, np.ones(tree.levels))
    assert tree.answer_deviations(Kronecker(Total(1), Prefix(2**16)), rows) is None
    assert tree.answer_deviations(Kronecker(Total(1), Total(2**16)), rows).shape == (1, 1)


def test_unusable_trees_are_refused():
    for call, message in (
        (lambda: Tree((1, 1), 2), "two cells"),
        (lambda: Tree((1, 9), 1), "at least 2 parts"),
        (lambda: TREES[0].answers(np.zeros((1, 9), dtype=np.int64)), "build the tree"),
        (lambda: TREES[0].answers(np.zeros((1, 8))), "int64"),
    ):
        with pytest.raises(CalibrationError, match=message):
            call()

"""Two passes over a tree equal dense least squares, the closed form equals dense algebra, and the loss is exact."""

import itertools
from math import sqrt

import mpmath
import numpy as np
import pytest

from engine.calibration import CalibrationError
from engine.guarantees import Neighbours
from engine.mechanisms.hierarchy import Hierarchy, best_plan, plan_error, published_branching
from engine.workloads import AllRange, Identity, Prefix

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
TREES = [
    Hierarchy((8,), 2, False, ADD),
    Hierarchy((7,), 3, True, ADD),
    Hierarchy((5,), 8, False, ADD),
    Hierarchy((4, 4), 2, True, ADD),
    Hierarchy((3, 5), 3, False, ADD),
]


def dense(tree):
    """Strategy matrix over padded cells, level by level, from the definition of a block."""
    cells = list(itertools.product(*(range(size) for size in tree.shape(0))))
    rows, level_of = [], []
    for level in range(tree.levels):
        side = tree.branching**level
        for block in itertools.product(*(range(size) for size in tree.shape(level))):
            rows.append([float(tuple(c // side for c in cell) == block) for cell in cells])
            level_of.append(level)
    inside = [i for i, cell in enumerate(cells) if all(c < size for c, size in zip(cell, tree.axes, strict=True))]
    return np.array(rows), np.array(level_of), inside


@pytest.mark.parametrize("tree", TREES)
def test_two_passes_equal_dense_weighted_least_squares(tree):
    rng = np.random.default_rng(1)
    strategy, level_of, inside = dense(tree)
    counts = rng.integers(0, 50, tree.axes)
    exact = tree.answers(counts)
    padded = np.zeros(strategy.shape[1])
    padded[inside] = counts.ravel()
    assert np.array_equal(np.concatenate([a.ravel() for a in exact]), (strategy @ padded).astype(np.int64))
    variances = rng.uniform(0.5, 20.0, tree.levels)
    released = [a + rng.integers(-9, 10, a.shape) for a in exact]
    root = variances[level_of] ** -0.5
    flat = np.concatenate([a.ravel() for a in released])
    expected = np.linalg.lstsq(strategy * root[:, None], flat * root, rcond=None)[0][inside]
    assert np.allclose(tree.estimate(released, variances).ravel(), expected, atol=1e-9)
    assert np.allclose(tree.estimate(exact, variances), counts, atol=1e-9)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("factor", [Identity, Prefix, AllRange])
def test_the_closed_form_error_equals_dense_algebra(tree, factor):
    strategy, level_of, inside = dense(tree)
    variances = np.random.default_rng(2).uniform(0.5, 20.0, tree.levels)
    covariance = np.linalg.inv(strategy.T @ (strategy / variances[level_of][:, None]))[np.ix_(inside, inside)]
    grams = [factor(size).gram() for size in tree.axes]
    whole = grams[0] if len(grams) == 1 else np.kron(*grams)
    assert tree.total_squared_error(grams, variances) == pytest.approx(float(np.trace(whole @ covariance)), rel=1e-10)


def test_the_error_is_that_of_a_simulation():
    tree, rng = Hierarchy((4, 4), 2, False, ADD), np.random.default_rng(3)
    counts, scales = rng.integers(0, 50, (4, 4)), tree.gaussian_scales(0.05, (0.3, 0.7))
    grams, errors = [Prefix(4).gram()] * 2, []

    def source(scale):
        return lambda rows, columns: np.rint(rng.normal(0, scale, (rows[1], columns[1]))).astype(np.int64)

    for _ in range(6000):
        found = tree.estimate(tree.release(counts, [source(s) for s in scales]), [s * s for s in scales])
        errors.append(float(np.sum(Prefix(4).apply(Prefix(4).apply(found - counts).T) ** 2)))
    stated, spread = tree.total_squared_error(grams, [s * s for s in scales]), np.std(errors) / sqrt(6000)
    assert abs(np.mean(errors) - stated) < 6.2 * spread
    assert abs(np.mean(errors) - 1.1025 * stated) > 6.2 * spread


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("whole", [False, True])
def test_the_loss_equals_a_search_over_all_records(neighbours, whole):
    tree = Hierarchy((3, 4), 2, whole, neighbours)
    scales = [3.0, 5.0, 11.0][: tree.levels]
    places = [np.eye(12, dtype=np.int64)[i].reshape(3, 4) for i in range(12)]
    grids = [tree.answers(place) for place in places]
    changes = [list(a) for a in grids]
    if neighbours is REPLACE:
        changes = [[p - q for p, q in zip(a, b, strict=True)] for a, b in itertools.combinations(grids, 2)]
    with mpmath.workdps(30):
        pure = max(sum(int(np.abs(c).sum()) / mpmath.mpf(s) for c, s in zip(a, scales, strict=True)) for a in changes)
        gauss = max(
            mpmath.sqrt(sum(int((c**2).sum()) / mpmath.mpf(s) ** 2 for c, s in zip(a, scales, strict=True)))
            for a in changes
        )
        assert pure <= tree.laplace_loss(scales).epsilon <= pure * (1 + mpmath.mpf(1e-11))
        assert gauss <= tree.gaussian_loss(scales).mu <= gauss * (1 + mpmath.mpf(1e-11))


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_shares_never_cost_more_than_asked(neighbours):
    rng = np.random.default_rng(4)
    for branching, whole in itertools.product((2, 3, 9), (False, True)):
        tree = Hierarchy((50,), branching, whole, neighbours)
        shares = rng.uniform(0.1, 1.0, tree.levels)
        for wished in (1e-3, 0.3, 7.0):
            assert tree.laplace_loss(tree.laplace_scales(wished, shares)).epsilon <= wished
            assert tree.gaussian_loss(tree.gaussian_scales(wished, shares)).mu <= wished
    even = Hierarchy((64,), 4, False, neighbours)
    factor = 1 if neighbours is ADD else 2
    assert even.laplace_scales(0.5, [1, 1, 1]) == pytest.approx([3 * factor / 0.5] * 3, rel=1e-11)


def test_the_plan_is_the_best_of_all_branchings():
    for gaussian in (False, True):
        grams = [AllRange(64).gram()]
        every = [
            plan_error(t, grams, [1 / t.levels] * t.levels, gaussian=gaussian)
            for t in (Hierarchy((64,), b, False, ADD) for b in range(2, 65))
        ]
        found = best_plan((64,), grams, ADD, gaussian=gaussian, even_shares=True)
        assert found.error == pytest.approx(min(every), rel=1e-12)
        better = best_plan((64,), grams, ADD, gaussian=gaussian, even_shares=False)
        assert better.error < found.error
        assert sum(better.shares) == pytest.approx(1.0)


def test_a_flat_tree_is_the_identity():
    grams = [AllRange(9).gram(), Prefix(9).gram()]
    flat = Hierarchy((9, 9), 9, False, ADD)
    assert plan_error(flat, grams, [1.0], gaussian=True) == pytest.approx(
        float(np.trace(grams[0]) * np.trace(grams[1])), rel=1e-10
    )


def test_the_published_branching_is_close_to_the_best():
    assert published_branching(16) == 16
    for n in (256, 1024):
        grams = [AllRange(n).gram()]
        tree = Hierarchy((n,), published_branching(n), False, ADD)
        published = plan_error(tree, grams, [1 / tree.levels] * tree.levels, gaussian=False)
        best = best_plan((n,), grams, ADD, gaussian=False, even_shares=True)
        assert best.error <= published <= 1.2 * best.error


def test_a_table_of_89_by_89_is_planned_and_answered():
    grams = [AllRange(89).gram()] * 2
    plan = best_plan((89, 89), grams, ADD, gaussian=True, even_shares=False)
    assert plan.error < float(np.trace(grams[0])) ** 2
    counts = np.random.default_rng(5).integers(0, 9, (89, 89))
    assert np.allclose(plan.tree.estimate(plan.tree.answers(counts), [1.0] * plan.tree.levels), counts, atol=1e-9)


def test_unusable_trees_and_noise_are_refused():
    tree = TREES[0]
    counts = np.zeros(8, dtype=np.int64)
    for call, message in (
        (lambda: Hierarchy((1,), 2, False, ADD), "two cells"),
        (lambda: Hierarchy((9,), 1, False, ADD), "at least 2 parts"),
        (lambda: tree.answers(np.zeros(9, dtype=np.int64)), "build the tree"),
        (lambda: tree.release(counts, []), "one a level"),
        (lambda: tree.release(counts, [lambda rows, columns: np.zeros((1, 1))] * 3), "int64"),
        (lambda: tree.laplace_loss([1.0, 0.0, 1.0]), "positive"),
        (lambda: tree.total_squared_error([np.eye(9)], [1.0] * 3), "does not fit"),
        (lambda: published_branching(1), "at least two"),
    ):
        with pytest.raises(CalibrationError, match=message):
            call()

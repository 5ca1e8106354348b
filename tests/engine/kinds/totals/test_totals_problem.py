"""No two neighbours' sums of records are further apart than is said, and some are as far where that is exact."""

from itertools import product

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.engine.records.geometry import Ball, Body, Box, Ellipsoid
from blockveil.engine.records.quantiser import Quantiser

ADD, REPLACE = Neighbours
K = 2**19 - 1
ASKED = ApproxDP(1.0, 1e-6)

SHAPES = {
    "even": Box([-1.0, -3.0], [1.0, 3.0], [0.0, 0.0]),
    "midpoint": Box([0.1, -7.0], [1.3, 2.0], [(0.1 + 1.3) / 2, -2.5]),
    "positive": Box([0.0, 0.0], [1.0, 3.0], [0.0, 0.0]),
    "at one end": Box([100.0, 2.0], [110.0, 3.0], [100.0, 3.0]),
    "nearly positive": Box([0.0, -0.001], [1.0, 1.0], [0.0, 0.0]),
    "uneven": Box([-0.2, -3.0], [1.0, 1.0], [0.0, 0.0]),
    "uneven in a ball": Box([-0.2, -3.0], [1.0, 1.0], [0.0, 0.0], 1.1),
    "even in a ball": Box([-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], 1.2),
    "positive in a ball": Box([0.0, 0.0], [1.0, 1.0], [0.0, 0.0], 1.2),
    "ball": Ball([0.0, 1.0], 2.0),
    "ellipsoid": Ellipsoid([0.0, 1.0], [2.0, 0.5]),
    "turned ellipsoid": Ellipsoid([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]),
    "one feature": Box([-1.0], [2.0], [0.0]),
}
SPREADS = {"equal": [1.0, 1.0], "uneven": [1.0, 0.6], "very uneven": [1.0, 0.2]}


def quantiser(shape, relation):
    return Quantiser(shape.coordinates(), K, relation is ADD, None)


def asked(shape, relation, rows=10):
    clip = quantiser(shape, relation)
    ends = clip.ends
    widths = None if ends is None else (ends[1] - ends[0]) / K
    c = clip.coordinates
    return Totals(c.body, c.scale, relation, K, rows, widths=widths)


def worst_records(shape):
    """Raw records beyond every corner and axis, in many directions, and on the edge of a box within a ball."""
    d = shape.origin.size
    far = np.array(list(product((-1.0, 0.0, 1.0), repeat=d)))
    angles = np.linspace(0.0, 2.0 * np.pi, 1441)
    around = np.column_stack([np.cos(angles), np.sin(angles)]) if d == 2 else far
    edge = getattr(shape, "norm_at_most", None)
    if edge is not None:
        ends = np.where(around > 0, shape.upper - shape.origin, shape.lower - shape.origin)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.nanmin(np.where(around == 0, np.inf, ends / around), axis=1, initial=edge)
        edge_points = around * reach[:, None]
        far = np.vstack([far * 0.0, edge_points / 200.0])
    return shape.origin + 200.0 * np.vstack([far, around])


def largest_changes(shape, relation, sizes):
    """Largest L2 and L1 distance of the exact answers of all neighbours in one record, in units of K times sizes."""
    scaled = np.unique(quantiser(shape, relation).quantise(worst_records(shape)), axis=0) / K / sizes
    if relation is REPLACE:
        first, second = np.triu_indices(len(scaled), 1)
        scaled = scaled[first] - scaled[second]
    return np.max(np.linalg.norm(scaled, axis=1)), np.max(np.sum(np.abs(scaled), axis=1))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("size", SPREADS.values(), ids=SPREADS.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_no_neighbours_are_further_apart_and_some_are_as_far_where_it_is_exact(shape, size, relation):
    problem = asked(shape, relation)
    sizes = np.array([0.8] * problem.counted + size[: shape.origin.size])
    spread = problem.spread(np.ones(1), sizes)
    for found, said in zip(
        largest_changes(shape, relation, sizes), (problem.l2(spread), problem.l1(spread)), strict=True
    ):
        assert found <= said.bound  # of the very integers, rounding included
        assert said.attained <= said.bound
        if said.exact:
            assert found >= said.bound * (1.0 - 3e-3)  # the directions tried are a quarter of a degree apart


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_a_row_of_noise_sizes_counts_like_a_larger_spread(relation):
    problem = asked(SHAPES["even"], relation)
    columns = np.linspace(1.0, 2.0, problem.shape[1])
    one, twice = (problem.spread(np.full(1, row), columns) for row in (1.0, 2.0))
    assert problem.l2(twice).bound == pytest.approx(problem.l2(one).bound / 2.0)
    assert problem.l1(twice).bound == pytest.approx(problem.l1(one).bound / 2.0)
    with pytest.raises(ValueError, match="one row"):
        problem.spread(np.ones(2), columns)


@pytest.mark.parametrize(
    "mechanism", [Gaussian(), ShapedGaussian(Importance("absolute-error")), Laplace(Importance("absolute-error"))]
)
def test_where_a_record_is_replaced_the_noise_of_a_box_is_the_same_about_every_origin(mechanism):
    lower, upper = np.array([100.0, 0.0, -3.0]), np.array([110.0, 4.0, 1.0])
    found = []
    for origin in ((lower + upper) / 2.0, np.zeros(3).clip(lower, upper), lower):
        problem = asked(Box(lower, upper, origin), REPLACE)
        design = mechanism.design(problem, ASKED)
        found.append(design.entry_standard_deviation()[0] * problem.scale)
    assert np.allclose(found[1], found[0], rtol=1e-4)
    assert np.allclose(found[2], found[0], rtol=1e-4)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("name", ["even", "midpoint", "ball", "ellipsoid", "even in a ball"])
@pytest.mark.parametrize("aim", ["relative-error", "absolute-error"])
def test_no_other_share_of_the_count_has_a_smaller_worst_error_of_the_means(name, norm, aim):
    problem = asked(SHAPES[name], ADD)
    importance, columns = Importance(aim).weights(problem)[1], np.array([1.0, 0.7])

    def error(sizes):
        """Of sums about the worst mean in the shape, at the least noise for a loss of one."""
        spread = problem.spread(np.ones(1), sizes)
        scale = (problem.l2(spread) if norm == 2 else problem.l1(spread)).bound
        sums = np.sum(importance * (problem.scale * sizes[1:]) ** 2)
        return scale**2 * (sums + problem.count_weight(importance) * sizes[0] ** 2)

    best = problem.with_count(columns, importance, norm)
    tried = [np.concatenate([[best[0] * factor], best[1:]]) for factor in np.geomspace(0.2, 5.0, 101)]
    assert error(best) <= min(map(error, tried)) * (1.0 + 1e-9)


@pytest.mark.parametrize("features", [1, 4, 23])
@pytest.mark.parametrize("body", [Body.CUBE, Body.BALL])
def test_the_share_for_equal_features_is_that_of_a_covariance(features, body):
    problem = Totals(body, np.ones(features), ADD, K, 10)
    share = problem.with_count(np.ones(features), np.ones(features), 2)[0] ** -2.0
    assert share == pytest.approx(1.0 / (1.0 + np.sqrt(features)))


def test_the_count_is_one_column_in_front_where_it_is_private():
    assert asked(SHAPES["even"], ADD).shape == (1, 3)
    assert asked(SHAPES["even"], REPLACE).shape == (1, 2)
    assert asked(SHAPES["even"], ADD).constants == (0, 1)
    assert asked(SHAPES["even"], REPLACE).constants == (0, 0)
    assert asked(SHAPES["even"], ADD).largest_norm() == pytest.approx(10 * np.sqrt(3.0))


def test_sums_that_could_leave_int64_are_refused():
    with pytest.raises(OverflowError, match="lower rows_at_most"):
        ShapedGaussian(Importance("relative-error")).design(asked(SHAPES["even"], ADD, 10**14), ASKED)


def test_noise_follows_the_widths_of_a_box():
    problem = asked(Box([0.0, 0.0], [1.0, 100.0], [0.5, 50.0]), ADD)
    relative = ShapedGaussian(Importance("relative-error")).design(problem, ASKED).entry_standard_deviation()[0]
    assert relative[1] == pytest.approx(relative[2], rel=1e-4)  # in half widths
    even = Gaussian().design(problem, ASKED).entry_standard_deviation()[0] * problem.units[1]
    assert even[1] == pytest.approx(even[2], rel=1e-4)  # in raw units

"""Sets of differences: the loss is attained, and no difference of the set exceeds it; sensitivities by search."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity import differences as sets
from blockveil.engine.sensitivity import second_moment

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
C = np.array([1.0, 0.8, 0.5, 0.3])
K = np.array([0.3, 0.5, 0.4, 0.9])
ROOT = np.array([[1.0, 0.2, 0.0, 0.1], [0.0, 0.7, 0.3, 0.0], [0.1, 0.0, 0.5, 0.2], [0.0, 0.0, 0.0, 0.2]])


def vectors(name):
    return [vector for vector in VECTORS if vector["name"] == name]


def sphere(rng, count, n):
    drawn = rng.standard_normal((count, n))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None]


def box(rng, count, c, low=-1.0):
    """Points of a box, mostly at corners."""
    inside, corner = rng.uniform(low, 1.0, (count, c.size)), rng.choice([low, 1.0], (count, c.size))
    return c * np.where(rng.random((count, 1)) < 0.5, corner, np.where(rng.random(inside.shape) < 0.5, corner, inside))


def box_with_ball(rng, count):
    """Points on the border: random magnitudes, each cut to the box, raised to fill the ball one entry at a time."""
    points = np.zeros((count, 4))
    for row in points:
        left = 1.1**2
        for i in rng.permutation(4):
            square = min(left, C[i] ** 2) * (1.0 if rng.random() < 0.8 else rng.random())
            row[i], left = math.sqrt(square), left - square
    return points


def sparse(rng, count):
    points = box(rng, count, C)
    for row in points:
        row[rng.permutation(4)[2:]] = 0.0
    return points


def products(left, right):
    return np.einsum("ni,nj->nij", left, right).reshape(left.shape[0], -1)


def basis_pairs(n):
    unit = np.eye(n)
    return np.array([unit[i] - unit[j] for i, j in itertools.permutations(range(n), 2)])


def replaced_half_boxes(rng, count):
    a, b, x, y = (box(rng, count, c, 0.0) for c in (C[:2], C[2:], C[:2], C[2:]))
    return products(a, b) - products(x, y) * rng.integers(0, 2, (count, 1))


def kinds():
    """Name, set, and points of the set; the points reach the supremum to ``reached``."""
    rng = np.random.default_rng(3)
    n = 4000
    ball = sphere(rng, 20 * n, 4)
    axes = np.concatenate([ball, np.eye(4)])
    pair = np.concatenate([sphere(rng, n, 2), np.eye(2)[rng.integers(0, 2, 4 * n)]])
    other = np.concatenate([sphere(rng, n, 2), np.eye(2)[rng.integers(0, 2, 4 * n)]])
    two, twins = np.array([0.5, 2.0]), np.array([1.5, 0.1])
    corner = np.broadcast_to(C[:2], (5 * n, 2)) * rng.choice([-1.0, 1.0], (5 * n, 2))
    listed = rng.standard_normal((7, 4))
    yield "ball", sets.FrobeniusBall(4, 0.7), 0.7 * axes
    yield "box", sets.BoxDifferences(C), box(rng, n, C)
    yield "half box", sets.HalfBox(C), box(rng, n, C, 0.0)
    yield "axes", sets.EllipsoidDifferences(C), axes * np.sqrt(C)
    yield "ellipsoid", sets.EllipsoidDifferences(ROOT @ ROOT.T), ball @ ROOT.T
    yield "box and ball", sets.BoxWithBall(C, 1.1), box_with_ball(rng, n)
    yield "sparse box", sets.SparseBox(C, 2), sparse(rng, n)
    balls = sets.OuterProductDifferences(sets.FrobeniusBall(2, 0.5), sets.FrobeniusBall(2, 2.0), REPLACE)
    yield "products of balls", balls, 2.0 * products(0.5 * pair, 2.0 * other)
    shapes = sets.OuterProductDifferences(sets.EllipsoidDifferences(two), sets.EllipsoidDifferences(twins), ADD)
    yield "products of ellipsoids", shapes, products(np.sqrt(two) * pair, np.sqrt(twins) * other)
    mixed = sets.OuterProductDifferences(sets.BoxDifferences(C[:2]), sets.EllipsoidDifferences(twins), REPLACE)
    yield "products of a box and an ellipsoid", mixed, 2.0 * products(corner, np.sqrt(twins) * other)
    turned = sets.OuterProductDifferences(sets.EllipsoidDifferences(twins), sets.BoxDifferences(C[:2]), ADD)
    yield "products of an ellipsoid and a box", turned, products(np.sqrt(twins) * other, corner)
    boxes = sets.OuterProductDifferences(sets.BoxDifferences(C[:2]), sets.BoxDifferences(C[2:]), ADD)
    yield "products of boxes", boxes, products(box(rng, n, C[:2]), box(rng, n, C[2:]))
    halves = sets.OuterProductDifferences(sets.HalfBox(C[:2]), sets.HalfBox(C[2:]), REPLACE)
    yield "products of half boxes", halves, replaced_half_boxes(rng, n)
    yield "histogram", sets.CrossPolytope(4, ADD), np.eye(4)
    yield "histogram, replaced", sets.CrossPolytope(4, REPLACE), basis_pairs(4)
    yield "list", sets.FiniteSet(listed), listed
    yield (
        "union",
        sets.Union((sets.BoxDifferences(C), sets.FrobeniusBall(4, 1.3))),
        np.concatenate([1.3 * axes, box(rng, n, C)]),
    )


KINDS = list(kinds())


@pytest.mark.parametrize(("_", "differences", "points"), KINDS, ids=[name for name, _, _ in KINDS])
def test_the_loss_is_attained_and_never_exceeded(_, differences, points):
    rng = np.random.default_rng(5)
    assert differences.dimension == points.shape[1] == 4
    for variances in (np.ones(4), K, np.exp(rng.normal(0, 2, 4)), np.array([math.inf, 0.5, math.inf, 0.2])):
        found = differences.mu(variances)
        best = math.sqrt(np.max(np.sum(points**2 / variances, axis=1)))
        assert found.exact
        assert best <= found.bound
        assert best >= 0.98 * found.bound
        assert differences.mu(variances.reshape(2, 2)).bound == found.bound
    assert differences.mu(np.full(4, math.inf)).bound == 0.0


@pytest.mark.parametrize(("name", "differences", "points"), KINDS, ids=[name for name, _, _ in KINDS])
def test_norms_are_the_largest_of_the_set(name, differences, points):
    assert differences.l2 == pytest.approx(np.max(np.linalg.norm(points, axis=1)), rel=0.02)
    assert np.max(np.linalg.norm(points, axis=1)) <= differences.l2 * (1 + 1e-15)
    largest = np.max(np.sum(np.abs(points), axis=1))
    assert largest <= differences.l1 <= largest * (1.25 if name == "ellipsoid" else 1.1)


@pytest.mark.parametrize(("_", "differences", "__"), KINDS, ids=[name for name, _, _ in KINDS])
def test_variances_that_are_not_positive_are_refused(_, differences, __):
    for bad in (np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, -1.0, 1.0, 1.0]), np.array([1.0, math.nan, 1.0, 1.0])):
        with pytest.raises(CalibrationError, match="must be positive"):
            differences.mu(bad)
    with pytest.raises(CalibrationError, match="variances for"):
        differences.mu(np.ones(3))


@pytest.mark.parametrize("vector", vectors("box_and_ball_exact_mu"))
def test_the_knapsack_meets_the_independent_number(vector):
    given = vector["inputs"]
    differences = sets.BoxWithBall(np.array(given["c"], dtype=float), float(given["C"]))
    found = differences.mu(np.array(given["K_diag"], dtype=float))
    expected = float(vector["expected"]["mu_squared"])
    assert found.bound**2 == pytest.approx(expected, rel=float(vector["tolerance"]))
    assert found.bound**2 >= expected


def test_the_knapsack_is_the_linear_programme():
    rng = np.random.default_rng(7)
    for _ in range(30):
        n = int(rng.integers(1, 9))
        c, variances, radius = rng.exponential(1, n) + 1e-3, rng.exponential(1, n) + 1e-3, rng.exponential(1) + 0.1
        bounds = [(0, width**2) for width in c]
        solved = linprog(-1 / variances, A_ub=np.ones((1, n)), b_ub=[radius**2], bounds=bounds)
        assert sets.BoxWithBall(c, radius).mu(variances).bound ** 2 == pytest.approx(-solved.fun, rel=1e-9)
        level = sets.water_level(c, variances, radius)
        if math.isfinite(level):
            filled = np.sum(np.minimum(c, level * np.sqrt(variances)) ** 2)
            assert filled == pytest.approx(radius**2, rel=1e-12)
        else:
            assert np.sum(c**2) <= radius**2 * (1 + 1e-12)


def test_the_knapsack_is_safe_where_features_tie_or_bounds_are_extreme():
    even = sets.BoxWithBall(np.full(100_000, 0.1), 1.0)
    assert even.mu(np.ones(100_000)).bound >= 1.0
    assert even.l1 == pytest.approx(math.sqrt(100_000), rel=1e-9)
    assert sets.BoxWithBall(np.array([1e200, 1e200]), 1.0).mu(np.ones(2)).bound == pytest.approx(1.0)
    assert sets.BoxWithBall(np.array([0.0, 1.0]), 1.0).mu(np.array([1e-300, 1e300])).bound == pytest.approx(1e-150)
    assert sets.BoxDifferences(np.array([1e-200, 1e-200])).mu(np.ones(2)).bound == pytest.approx(math.sqrt(2) * 1e-200)


def test_one_bin_does_not_change_when_a_record_is_replaced():
    assert sets.CrossPolytope(1, REPLACE).mu(np.ones(1)).bound == 0.0
    assert sets.CrossPolytope(1, ADD).l2 == pytest.approx(1.0)


def test_a_set_keeps_a_copy_that_nobody_can_change():
    widths = np.array([1.0, 2.0])
    kept = sets.BoxDifferences(widths)
    widths[:] = 0.0
    assert kept.l1 == pytest.approx(3.0)
    with pytest.raises(ValueError, match="read-only"):
        kept.half_widths[0] = 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: sets.BoxDifferences(np.zeros(3)),
        lambda: sets.BoxDifferences(np.array([1.0, -1.0])),
        lambda: sets.BoxDifferences(np.array([1.0, math.inf])),
        lambda: sets.FrobeniusBall(0, 1.0),
        lambda: sets.FrobeniusBall(3, 0.0),
        lambda: sets.EllipsoidDifferences(np.array([1.0, 0.0])),
        lambda: sets.EllipsoidDifferences(np.array([[1.0, 0.5], [0.4, 1.0]])),
        lambda: sets.EllipsoidDifferences(np.array([[1.0, 2.0], [2.0, 1.0]])),
        lambda: sets.EllipsoidDifferences(np.ones((2, 3))),
        lambda: sets.BoxWithBall(C, -1.0),
        lambda: sets.SparseBox(C, 0),
        lambda: sets.FiniteSet(np.zeros((2, 2))),
        lambda: sets.FiniteSet(np.array([[math.nan, 1.0]])),
        lambda: sets.Union(()),
        lambda: sets.Union((sets.BoxDifferences(C), sets.FrobeniusBall(3, 1.0))),
        lambda: sets.OuterProductDifferences(sets.EllipsoidDifferences(np.eye(2)), sets.BoxDifferences(C), ADD),
        lambda: sets.CrossPolytope(0, ADD),
        lambda: sets.identity_differences([1.0], [0.0], ADD),
        lambda: sets.clipped_sum_sensitivity(-1.0, ADD),
        lambda: sets.clipped_mean_sensitivity(1.0, 0.0, ADD),
        lambda: sets.second_moment_mean_sensitivity(Body.BALL, np.ones(2), 0, ADD),
        lambda: sets.centred_ball_covariance_sensitivity(1.0, 3, ADD, unbiased=True),
        lambda: sets.movement_sensitivity(0, 1.0, 3),
    ],
)
def test_what_bounds_nothing_is_refused(make):
    with pytest.raises(CalibrationError):
        make()


@pytest.mark.parametrize("relation", Neighbours)
def test_histograms_and_clipped_sums_meet_brute_force(relation):
    for bins in (1, 2, 5):
        unit = np.eye(bins)
        pairs = [b if relation is ADD else a - b for a in unit for b in unit]
        brute = max(np.linalg.norm(pair) for pair in pairs)
        assert sets.histogram_sensitivity(bins, relation).bound == pytest.approx(brute, rel=1e-12)
    factor = 1.0 if relation is ADD else 2.0
    assert sets.clipped_sum_sensitivity(0.3, relation).bound == pytest.approx(0.3 * factor, rel=1e-12)
    assert sets.clipped_mean_sensitivity(0.3, 64, relation).bound == pytest.approx(0.3 * factor / 64, rel=1e-12)
    assert sets.clipped_mean_sensitivity(0.3, 64, relation).bound > 0.3 * factor / 64


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("lower", [[-1.0, 0.2, -3.0], [0.0, 0.2, 1.0]])
def test_an_identity_query_moves_by_no_more_than_its_set(relation, lower):
    rng = np.random.default_rng(9)
    low, high = np.array(lower), np.array([0.5, 1.0, 2.0])
    x, y = (np.where(rng.random((4000, 3)) < 0.5, low, high) for _ in range(2))
    moved = x - y if relation is REPLACE else x
    found = sets.identity_differences(low, high, relation)
    assert np.all(np.max(np.abs(moved), axis=0) <= found.half_widths)
    best = np.max(np.linalg.norm(moved, axis=1))
    assert best <= sets.identity_sensitivity(low, high, relation).bound <= best * (1 + 1e-12)
    assert isinstance(found, sets.HalfBox) == (relation is ADD and min(lower) >= 0)
    assert sets.identity_sensitivity([-1.0] * 6, [1.0] * 6, REPLACE).bound == pytest.approx(2 * math.sqrt(6))


def ball_records(rng, rows, _):
    return sphere(rng, rows, 2) * rng.choice([1.0, 1.0, rng.random()], (rows, 1))


def box_records(rng, rows, widths):
    return np.where(rng.random((rows, 2)) < 0.8, rng.integers(0, 2, (rows, 2)), rng.random((rows, 2))) * widths


def covariance(records, unbiased):
    if len(records) <= 1:
        return np.zeros((2, 2))
    centred = records - records.mean(axis=0)
    return centred.T @ centred / (len(records) - unbiased)


def neighbour(records, relation, rng, draw):
    changed = records.copy()
    changed[0] = draw(rng, 1)[0]
    return changed if relation is REPLACE else records[1:]


def climb(distance, relation, rows, draw, rng, rounds=600):
    """Largest distance of neighbours found by redrawing records, keeping what does not get worse."""
    best = 0.0
    for start in range(4):
        records = draw(rng, rows)
        if start % 2 and rows > 1:
            records[1:] = records[1]  # extremes have all other records equal
        other = neighbour(records, relation, rng, draw)
        value = distance(records, other)
        for _ in range(rounds):
            tried = records.copy()
            if rng.random() < 0.5:
                tried[1:] = draw(rng, 1)
            else:
                tried[rng.integers(rows)] = draw(rng, 1)[0]
            first = neighbour(tried, relation, rng, draw)
            if distance(tried, first) >= value:
                records, value = tried, distance(tried, first)
        best = max(best, value)
    return best


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("rows", [2, 3, 4, 7])
def test_centred_covariances_of_neighbours_are_no_further_apart(rows, relation, unbiased):
    if unbiased and relation is ADD and rows < 4:
        rows = 5
    rng = np.random.default_rng(rows)

    def distance(x, y):
        return np.linalg.norm(covariance(x, unbiased) - covariance(y, unbiased))

    widths = np.array([1.0, 0.5])
    for found, draw in (
        (
            sets.centred_ball_covariance_sensitivity(1.0, rows, relation, unbiased=unbiased),
            lambda r, count: ball_records(r, count, None),
        ),
        (
            sets.centred_box_covariance_sensitivity(widths, rows, relation, unbiased=unbiased),
            lambda r, count: box_records(r, count, widths),
        ),
    ):
        best = climb(distance, relation, rows, draw, rng, 300)
        assert best <= found.bound
        assert best >= 0.9 * found.bound


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_mean_second_moments_of_neighbours_are_no_further_apart(rows, relation):
    rng = np.random.default_rng(rows)

    def moment(records):
        return records.T @ records / max(len(records), 1)

    found = sets.second_moment_mean_sensitivity(Body.BALL, np.ones(2), rows, relation)
    best = climb(
        lambda x, y: np.linalg.norm(moment(x) - moment(y)), relation, rows, lambda r, c: ball_records(r, c, None), rng
    )
    assert best <= found.bound
    assert best >= 0.9 * found.bound


def test_a_mean_costs_more_than_its_sum_under_add_remove():
    mean = sets.second_moment_mean_sensitivity(Body.BALL, np.ones(3), 1000, ADD).bound
    total = second_moment.second_moment_sensitivity(Body.BALL, np.ones(3), ADD).bound
    assert mean == pytest.approx(math.sqrt(2) * total / 1000, rel=1e-12)


@pytest.mark.parametrize("vector", vectors("centred_cov_sensitivity"))
def test_centred_covariance_meets_the_independent_number(vector):
    rows, radius = int(vector["inputs"]["N"]), float(vector["inputs"]["C"])
    tolerance = max(float(vector["tolerance"]), 2e-14)
    for unbiased, key in ((False, "replace_one_1_over_N"), (True, "replace_one_1_over_Nminus1")):
        found = sets.centred_ball_covariance_sensitivity(radius, rows, REPLACE, unbiased=unbiased)
        assert found.attained == pytest.approx(float(vector["expected"][key]), rel=float(vector["tolerance"]))
        assert found.bound == pytest.approx(float(vector["expected"][key]), rel=tolerance)
        divisor = rows - 1 if unbiased else rows
        known = second_moment.centred_covariance_sensitivity(rows, radius, divisor).bound
        assert found.bound == pytest.approx(known, rel=1e-12)


@pytest.mark.parametrize("vector", vectors("swarm_sensitivity") + vectors("movement_sensitivity"))
def test_published_settings_meet_the_independent_numbers(vector):
    given, expected = vector["inputs"], {key: float(value) for key, value in vector["expected"].items()}
    m, rows, tolerance = int(given["m"]), int(given["N"]), float(vector["tolerance"])
    if vector["name"] == "swarm_sensitivity":
        found = sets.swarm_sensitivity(m, rows)
        assert found.attained == pytest.approx(expected["s2"], rel=tolerance)
    else:
        both = sets.movement_sensitivity(m, float(given["c"]), rows)
        found = both.tight
        assert both.published == pytest.approx(expected["published"], rel=1e-12)
        assert found.attained == pytest.approx(expected["tight"], rel=tolerance)
        assert both.published > found.bound
    assert found.exact


@pytest.mark.parametrize("vector", vectors("gram_sensitivity_box") + vectors("gram_sensitivity_ball"))
def test_second_moments_agree_with_the_other_module(vector):
    given, expected = vector["inputs"], vector["expected"]
    cube = vector["name"] == "gram_sensitivity_box"
    weights = np.full(int(given.get("m", 3)), float(given.get("c", given.get("C"))) ** 2)
    body = Body.CUBE if cube else Body.BALL
    for relation, key in ((ADD, "add_remove"), (REPLACE, "replace_one")):
        found = second_moment.second_moment_sensitivity(body, weights, relation)
        assert found.attained == pytest.approx(float(expected[key]), rel=float(vector["tolerance"]))
    # A mean over N = 10 under either relation has a tenth of the replace-one sensitivity.
    for relation in Neighbours:
        mean = sets.second_moment_mean_sensitivity(body, weights, 10, relation)
        assert mean.bound == pytest.approx(float(expected["replace_one"]) / 10, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_long_searches_do_not_exceed_centred_covariances(seed):
    rng = np.random.default_rng(seed)
    found = sets.centred_ball_covariance_sensitivity(1.0, 3, ADD, unbiased=False)

    def distance(x, y):
        return np.linalg.norm(covariance(x, False) - covariance(y, False))

    assert climb(distance, ADD, 3, lambda r, count: ball_records(r, count, None), rng, 5000) <= found.bound

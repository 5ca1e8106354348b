"""Closed forms for structured changes: each is private at its mu, by search over the set, and none is beaten."""

import itertools
import math

import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity import differences as sets
from blockveil.engine.sensitivity.problems import SecondMoment
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity
from blockveil.engine.shapes import closed_forms as designs
from blockveil.engine.shapes import optimal
from blockveil.engine.shapes.duality import least_covariance, least_noise

RNG = np.random.default_rng(8)
MU = 0.7
K = 2**15 - 1


def length(covariance, changes):
    """Largest ``|K^-1/2 d|``."""
    return math.sqrt(np.max(np.einsum("ij,ij->i", np.linalg.solve(covariance, changes.T).T, changes)))


def corners(half_widths, low=-1.0):
    return np.array(list(itertools.product([low, 1.0], repeat=len(half_widths)))) * half_widths


def test_box_noise_is_private_and_least():
    c, w = np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 3.0])
    variances = optimal.box_variances(c, w, MU)
    assert length(np.diag(variances), corners(c)) == pytest.approx(MU, rel=1e-9)
    assert optimal.box_loss(c, variances).mu == pytest.approx(MU, rel=1e-9)
    dual = least_covariance(corners(c), w, MU)
    assert dual.lower_bound <= np.sum(w * variances) * (1 + 1e-9)
    assert np.sum(w * variances) <= dual.total * (1 + 1e-6)


def test_an_ellipsoids_noise_is_least_for_any_importance():
    root = RNG.standard_normal((3, 3))
    shape = root @ root.T + 0.1 * np.eye(3)
    sphere = RNG.standard_normal((4000, 3))
    changes = (sphere / np.linalg.norm(sphere, axis=1)[:, None]) @ np.linalg.cholesky(shape).T
    covariance = optimal.ellipsoid_covariance(shape, MU)
    assert length(covariance, changes) <= MU
    for w in (np.ones(3), np.array([1.0, 5.0, 0.2])):
        # The sampled set is a little smaller than the ellipsoid.
        assert np.sum(w * np.diagonal(covariance)) == pytest.approx(least_covariance(changes, w, MU).total, rel=0.02)


@pytest.mark.parametrize(("features", "optimum"), [(4, 9.0), (6, 17.766)])
def test_correlated_noise_on_a_one_sided_box(features, optimum):
    covariance = optimal.one_sided_box_covariance(features, 1.0)
    vertices = corners(np.ones(features), low=0.0)[1:]
    assert length(covariance, vertices) <= 1.0
    assert np.trace(covariance) == pytest.approx(features * (math.sqrt(features) + 1) ** 2 / 4)
    assert least_covariance(vertices, np.ones(features), 1.0).lower_bound == pytest.approx(optimum, rel=1e-3)
    assert np.trace(covariance) <= optimum * 1.006


def test_a_ball_in_a_box_is_a_knapsack():
    c, variances = np.array([1.0, 0.8, 0.5, 0.3]), np.array([0.3, 0.5, 0.4, 0.9])
    found = optimal.box_with_ball_loss(c, 1.1, variances).mu
    drawn = RNG.uniform(-1, 1, (200_000, 4)) * c
    drawn *= np.minimum(1.0, 1.1 / np.linalg.norm(drawn, axis=1))[:, None]
    best = np.sqrt(np.max(np.sum(drawn**2 / variances, axis=1)))
    assert 0.95 * found <= best <= found
    assert optimal.sparse_box_loss(c, 1, variances).mu == pytest.approx(math.sqrt(1.0 / 0.3))
    assert optimal.sparse_box_loss(c, 4, variances).mu == pytest.approx(optimal.box_loss(c, variances).mu)


def test_noise_for_a_ball_in_a_box_is_private_and_beats_both_alone():
    c, w = np.array([1.0, 1.0, 1.0, 0.2]), np.ones(4)
    variances = optimal.box_with_ball_variances(c, 1.2, w, MU)
    assert optimal.box_with_ball_loss(c, 1.2, variances).mu <= MU
    assert np.sum(variances) <= np.sum(optimal.box_variances(c, w, MU)) * (1 + 1e-9)
    assert np.sum(variances) <= 4 * (1.2 / MU) ** 2


def test_outer_products_meet_their_dual_bound():
    left, right = np.array([1.0, 0.25]), np.array([2.0, 0.6])
    rows, columns = optimal.outer_product_variances(left, right, 1.0)
    angles = np.linspace(0, np.pi, 60, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    changes = np.einsum("ai,bj->abij", circle * np.sqrt(left), circle * np.sqrt(right)).reshape(-1, 4)
    covariance = np.diag(np.outer(rows, columns).ravel())
    assert length(covariance, changes) <= 1.0
    assert least_covariance(changes, np.ones(4), 1.0).lower_bound == pytest.approx(left.sum() * right.sum(), rel=5e-3)
    assert np.trace(covariance) == pytest.approx(3.25, rel=1e-9)


@pytest.mark.parametrize("features", [1, 2, 3, 10])
def test_two_variances_for_rows_in_a_ball(features):
    found = optimal.ball_second_moment(features, 1.0, MU)
    x = RNG.standard_normal((500, features))
    x /= np.linalg.norm(x, axis=1)[:, None]
    moments = np.einsum("ni,nj->nij", x, x)
    along = np.trace(moments, axis1=1, axis2=2) / math.sqrt(features)
    rest = np.sum(moments**2, axis=(1, 2)) - along**2
    loss = along**2 / found.trace + (rest / found.traceless if features > 1 else 0.0)
    assert np.max(loss) == pytest.approx(MU**2, rel=1e-9)
    assert found.total <= found.isotropic_total * (1 + 1e-12)
    assert found.total == pytest.approx(found.trace + (features * (features + 1) / 2 - 1) * found.traceless)


@pytest.mark.parametrize("relation", Neighbours)
def test_noise_for_rows_in_an_ellipsoid_is_private(relation):
    axes = np.array([1.0, 0.5, 0.25])
    total, isotropic = optimal.ellipsoid_second_moment_total(axes, MU, relation)
    kappa = 1.0 if relation is Neighbours.ADD_REMOVE else math.sqrt(2)
    x = RNG.standard_normal((2000, 3))
    x = x / np.linalg.norm(x, axis=1)[:, None] * np.sqrt(axes)
    white = np.einsum("ni,nj->nij", x / np.sqrt(axes), x / np.sqrt(axes))
    change = white[:1000] - (white[1000:] if relation is Neighbours.REPLACE_ONE else 0.0)
    assert np.max(np.linalg.norm(change, axis=(1, 2))) * MU / kappa <= MU * (1 + 1e-9)
    assert total < isotropic
    box = optimal.box_ellipsoid(np.array([1.0, 0.5]))
    assert np.max(np.sum(corners(np.array([1.0, 0.5])) ** 2 / box, axis=1)) <= 1.0


def test_an_adapted_shape_is_the_root_of_the_covariance_and_survives_noise():
    spectrum = np.arange(1, 31.0) ** -2
    shape = optimal.adapted_shape(np.diag(spectrum), np.ones(30))
    ratio = np.diagonal(shape) / np.sqrt(np.maximum(spectrum, 1e-3))
    assert np.ptp(ratio) / ratio[0] < 1e-9
    assert np.trace(np.linalg.solve(shape, np.diag(np.maximum(spectrum, 1e-3)))) == pytest.approx(1.0)
    for floor in (1.0, 1e-2, 1e-12):
        exact = np.diagonal(optimal.adapted_shape(np.diag(spectrum), np.ones(30), floor))
        assert np.allclose(exact / exact[0], np.sqrt(np.maximum(spectrum, floor)), rtol=1e-9)
    for floor in (0.0, 1.1, np.nan, 1e-13):
        with pytest.raises(CalibrationError, match="floor"):
            optimal.adapted_shape(np.diag(spectrum), np.ones(30), floor)
    noisy = np.diag(spectrum) + 0.05 * (lambda z: z + z.T)(RNG.standard_normal((30, 30)))
    assert np.linalg.eigvalsh(optimal.adapted_shape(noisy, np.arange(1, 31.0)))[0] > 0
    with pytest.raises(CalibrationError, match="no positive eigenvalue"):
        optimal.adapted_shape(-np.eye(2), np.ones(2))


def test_noise_for_the_union_of_two_ellipsoids_covers_both():
    first, second = np.diag([1.0, 0.1]), np.array([[0.3, 0.2], [0.2, 0.5]])
    covariance = optimal.union_covariance(first, second, np.array([1.0, 2.0]), MU)
    for shape in (first, second):
        assert np.linalg.eigvalsh(covariance * MU**2 - shape)[0] >= -1e-12
    both = optimal.ellipsoid_covariance(first, MU) + optimal.ellipsoid_covariance(second, MU)
    assert np.trace(covariance) < np.trace(both)


ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
C, W = np.array([1.0, 0.8, 0.5, 0.3]), np.array([1.0, 2.0, 0.5, 3.0])
E = np.array([1.0, 0.25])


def independent_designs():
    """Name, set, design, and the least weighted total at mu = MU, from a formula."""
    box = sets.BoxDifferences(C)
    yield "box", box, designs.box_design(box, W, MU), np.sum(C * np.sqrt(W)) ** 2
    axes = sets.EllipsoidDifferences(C)
    yield "axes", axes, designs.ellipsoid_design(axes, W, MU), np.sum(W * C)
    cut = sets.BoxWithBall(C, 1.1)
    level = sets.water_level(C, W, 1.1)
    yield (
        "cut",
        cut,
        designs.box_with_ball_design(cut, W, MU),
        np.sum(np.sqrt(W) * np.minimum(C, level * np.sqrt(W))) ** 2,
    )
    ball = sets.FrobeniusBall(4, 0.6)
    yield "ball", ball, designs.isotropic_design(ball, W, MU), np.sum(W) * 0.36
    weights = W.reshape(2, 2)
    for relation, factor in ((ADD, 1.0), (REPLACE, 4.0)):
        round_ = sets.OuterProductDifferences(sets.EllipsoidDifferences(E), sets.FrobeniusBall(2, 2.0), relation)
        least = factor * np.sum(weights * np.outer(E, [4.0, 4.0]))
        yield f"round products {relation}", round_, designs.outer_product_design(round_, weights, MU), least
        square = sets.OuterProductDifferences(sets.BoxDifferences(C[:2]), sets.BoxDifferences(C[2:]), relation)
        least = factor * np.sum(np.outer(C[:2], C[2:]) * np.sqrt(weights)) ** 2
        yield f"square products {relation}", square, designs.outer_product_design(square, weights, MU), least
        mixed = sets.OuterProductDifferences(sets.BoxDifferences(C[:2]), sets.EllipsoidDifferences(E), relation)
        least = factor * np.sum(np.sum(C[:2, None] * np.sqrt(E * weights), axis=0) ** 2)
        yield f"mixed products {relation}", mixed, designs.outer_product_design(mixed, weights, MU), least


DESIGNS = list(independent_designs())


@pytest.mark.parametrize(("_", "differences", "design", "least"), DESIGNS, ids=[name for name, *_ in DESIGNS])
def test_an_independent_design_spends_its_loss_and_has_the_least_error(_, differences, design, least):
    variances = design.covariance
    assert differences.mu(variances).bound == design.mu <= MU
    assert design.mu >= MU * (1 - 1e-12)
    assert design.total == pytest.approx(np.sum(variances))
    assert design.weighted_total == pytest.approx(np.sum(W * variances))
    assert design.weighted_total == pytest.approx(least / MU**2, rel=1e-9)
    assert design.saving <= 1 + 1e-12
    assert differences.mu(np.full(4, design.isotropic_variance)).bound <= MU
    assert design.isotropic_total == pytest.approx(4 * design.isotropic_variance)
    assert design.isotropic_weighted_total == pytest.approx(np.sum(W) * design.isotropic_variance)
    # Noise that is 5 % smaller in variance is not private at this loss.
    assert differences.mu(variances * 0.95).attained > MU


def test_no_other_independent_noise_beats_a_design():
    rng = np.random.default_rng(4)
    for _, differences, design, _ in DESIGNS:
        for _ in range(300):
            tried = design.covariance * np.exp(rng.normal(0, 0.3, 4))
            total = np.sum(W * tried) * (differences.mu(tried).attained / MU) ** 2
            assert total >= design.weighted_total * (1 - 1e-12)


def test_no_covariance_at_all_beats_the_design_of_a_box_with_a_ball():
    cut = sets.BoxWithBall(C, 1.1)
    design = designs.box_with_ball_design(cut, W, 1.0)
    # Corners of the set: full entries, one that fills the rest, in every order and with every sign.
    points = []
    for order in itertools.permutations(range(4)):
        left, point = 1.1**2, np.zeros(4)
        for i in order:
            point[i] = math.sqrt(min(left, C[i] ** 2))
            left = max(left - point[i] ** 2, 0.0)
        points += [point * signs for signs in itertools.product((-1, 1), repeat=4)]
    dual = least_covariance(np.unique(np.array(points), axis=0), W, 1.0, 1e-4)
    assert dual.lower_bound <= design.weighted_total <= dual.total * (1 + 1e-9)


def test_a_ball_with_a_box_ends_at_the_box_and_at_the_ball():
    wide, narrow = (designs.box_with_ball_design(sets.BoxWithBall(C, r), W, MU) for r in (100.0, 0.1))
    assert wide.covariance == pytest.approx(optimal.box_variances(C, W, MU), rel=1e-12)
    assert narrow.covariance == pytest.approx(np.full(4, (0.1 / MU) ** 2), rel=1e-12)


def test_mixed_products_meet_the_dual():
    mixed = sets.OuterProductDifferences(sets.BoxDifferences(C[:2]), sets.EllipsoidDifferences(E), ADD)
    weights = np.array([1.0, 3.0, 0.5, 1.0])
    design = designs.outer_product_design(mixed, weights.reshape(2, 2), 1.0)
    angles = np.linspace(0, np.pi, 24, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(E)
    changes = np.einsum("ai,bj->abij", corners(C[:2]), circle).reshape(-1, 4)
    dual = least_covariance(changes, weights, 1.0, 1e-5)
    assert dual.lower_bound <= design.weighted_total <= dual.total * (1 + 1e-9)


@pytest.mark.parametrize("features", [1, 2, 3, 4, 5, 6, 9, 12])
def test_a_one_sided_design_is_private_at_every_vertex(features):
    c = np.linspace(1.0, 0.6, features)
    design = designs.one_sided_box_design(sets.HalfBox(c), np.ones(features), MU)
    vertices = np.array(list(itertools.product([0.0, 1.0], repeat=features)))[1:] * c
    covariance = design.covariance if design.covariance.ndim == 2 else np.diag(design.covariance)
    found = length(covariance, vertices)
    assert found <= design.mu <= MU
    assert found >= MU * (1 - 1e-9)
    assert design.weighted_total <= np.sum(optimal.box_variances(c, np.ones(features), MU)) * (1 + 1e-12)
    unit = optimal.one_sided_box_covariance(features, MU)
    assert length(unit, vertices / c) <= optimal.one_sided_box_loss(features, MU).mu <= MU
    assert length(unit, vertices / c) >= optimal.one_sided_box_loss(features, MU).mu * (1 - 1e-9)


def test_a_one_sided_design_is_nearly_least_and_never_worse_than_independent_noise():
    even = designs.one_sided_box_design(sets.HalfBox(np.ones(6)), np.ones(6), 1.0)
    assert even.total <= least_noise(sets.HalfBox(np.ones(6)), np.ones(6), 1.0).lower_bound * 1.003
    assert even.saving < 0.5
    steep = np.array([1.0, 1e-3, 1e-3])
    uneven = designs.one_sided_box_design(sets.HalfBox(steep), np.ones(3), 1.0)
    assert uneven.covariance.ndim == 1
    assert uneven.total == pytest.approx(np.sum(steep) ** 2)


def test_matrix_ellipsoids_and_unions_are_private_and_least():
    root = np.array([[1.0, 0.0, 0.0], [0.9, 0.2, 0.0], [0.0, 0.1, 1e-3]])
    first, second = sets.EllipsoidDifferences(root @ root.T), sets.EllipsoidDifferences(np.array([0.3, 0.5, 0.1]))
    weights = np.array([1.0, 2.0, 0.5])
    alone, both = designs.ellipsoid_design(first, weights, MU), designs.union_design(first, second, weights, MU)
    for design, members in ((alone, [first.shape]), (both, [first.shape, np.diag(second.shape)])):
        losses = [math.sqrt(np.max(np.linalg.eigvals(np.linalg.solve(design.covariance, e)).real)) for e in members]
        assert max(losses) <= MU
        assert max(losses) >= MU * (1 - 1e-6)
    assert alone.weighted_total == pytest.approx(np.sum(weights * np.diagonal(first.shape)) / MU**2, rel=1e-6)
    directions = RNG.standard_normal((1500, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    changes = np.concatenate([directions @ root.T, directions * np.sqrt(second.shape)])
    dual = least_covariance(changes, weights, MU, 1e-3)
    assert dual.lower_bound <= both.weighted_total <= dual.total * 1.05
    # S9 uses W: another importance gives other noise.
    other = designs.union_design(first, second, weights[::-1].copy(), MU)
    assert not np.allclose(other.covariance, both.covariance, rtol=1e-3)


def test_an_ellipsoid_too_flat_to_check_is_refused():
    angle = np.array([[math.cos(1), math.sin(1)], [-math.sin(1), math.cos(1)]])
    flat = angle @ np.diag([1.0, 1e-12]) @ angle.T
    with pytest.raises(CalibrationError, match="condition"):
        optimal.ellipsoid_covariance(flat, MU)
    # Flat along the axes is no difficulty.
    assert designs.ellipsoid_design(sets.EllipsoidDifferences(np.diag([1.0, 1e-12])), np.ones(2), MU).mu <= MU


def symmetric_length(changes, variances):
    """Largest whitened norm under mirrored noise: entries (i, j) and (j, i) carry the same draw."""
    m = variances.shape[0]
    upper = np.triu_indices(m)
    return math.sqrt(np.max(np.sum(changes[:, upper[0], upper[1]] ** 2 / variances[upper], axis=1)))


def moments(records):
    return np.einsum("ni,nj->nij", records, records)


@pytest.mark.parametrize("relation", Neighbours)
def test_second_moments_of_an_ellipsoid_are_private_and_spend_the_loss(relation):
    axes = np.array([1.0, 0.5, 0.25])
    design = designs.ellipsoid_second_moment_design(axes, np.ones(3), MU, relation)
    x, y = (RNG.standard_normal((4000, 3)) for _ in range(2))
    y -= np.sum(x * y, axis=1)[:, None] / np.sum(x * x, axis=1)[:, None] * x  # the extreme has whitened rows orthogonal
    x, y = (z / np.linalg.norm(z, axis=1)[:, None] * np.sqrt(axes) for z in (x, y))
    found = symmetric_length(moments(x) - (moments(y) if relation is REPLACE else 0.0), design.covariance)
    assert found <= design.mu <= MU
    assert found >= MU * (1 - 1e-9)
    total, isotropic = optimal.ellipsoid_second_moment_total(axes, MU, relation)
    assert design.total == pytest.approx(total, rel=1e-9)
    assert design.isotropic_total <= isotropic * (1 + 1e-9)
    assert design.total < design.isotropic_total
    weighted = designs.ellipsoid_second_moment_design(axes, np.array([1.0, 2.0, 3.0]), MU, relation)
    assert np.array_equal(weighted.covariance, design.covariance)
    assert weighted.weighted_total > design.weighted_total


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(("body", "low"), [(Body.CUBE, -1.0), (Body.HALF_CUBE, 0.0)])
def test_second_moments_of_a_box_are_private_and_spend_the_loss(relation, body, low):
    c, importance = np.array([1.0, 0.8, 0.5, 0.3]), np.array([1.0, 1.0, 2.0, 4.0])
    design = designs.box_second_moment_design(c, importance, MU, relation, body)
    # Differences are convex in each record's squares at fixed signs of products, so corners are the ones to try first.
    x = corners(c, low)
    pairs = moments(x)[:, None] - (moments(x)[None, :] if relation is REPLACE else 0.0)
    inside = np.random.default_rng(1).uniform(low, 1, (2, 3000, 4)) * c
    more = moments(inside[0]) - (moments(inside[1]) if relation is REPLACE else 0.0)
    found = symmetric_length(np.concatenate([pairs.reshape(-1, 4, 4), more]), design.covariance)
    assert found <= design.mu <= MU
    assert found >= 0.9 * MU
    assert design.saving < 1
    even = second_moment_sensitivity(body, c**2, relation).bound
    assert design.isotropic_variance == pytest.approx((even / MU) ** 2, rel=1e-9)
    assert design.isotropic_total == pytest.approx(10 * design.isotropic_variance)


def test_feature_boxes_save_what_the_table_of_the_ellipsoid_says():
    for power, ratio in ((0.25, 0.860), (0.5, 0.446), (1.0, 0.0284)):
        c = np.arange(1, 101.0) ** -power
        design = designs.box_second_moment_design(c, np.ones(100), 1.0, ADD, Body.CUBE)
        assert design.saving == pytest.approx(ratio, rel=2e-2)


def test_an_adapted_shape_saves_what_its_ratio_says():
    spectrum = np.arange(1, 31.0) ** -2
    for importance in (np.ones(30), np.arange(1, 31.0)):
        shape = optimal.adapted_shape(np.diag(spectrum), importance)
        design = designs.ellipsoid_design(sets.EllipsoidDifferences(shape), importance, MU)
        ball = np.sum(spectrum) * np.sum(importance) / MU**2
        ratio = optimal.adapted_ratio(np.diag(spectrum), importance)
        assert ratio <= 1
        if np.all(importance == 1):  # nothing was raised
            assert design.weighted_total / ball == pytest.approx(ratio, rel=1e-9)
            assert ratio == pytest.approx(np.sum(np.sqrt(spectrum)) ** 2 / (30 * np.sum(spectrum)), rel=1e-9)


def test_an_adapted_shape_is_the_best_of_its_typical_length():
    rng = np.random.default_rng(12)
    root = rng.standard_normal((4, 4))
    covariance, importance = root @ root.T + np.eye(4), np.array([1.0, 2.0, 0.5, 3.0])
    shape = optimal.adapted_shape(covariance, importance)
    least = np.sum(importance * np.diagonal(shape))
    for _ in range(200):
        turn = np.eye(4) + 0.2 * rng.standard_normal((4, 4))
        tried = turn @ shape @ turn.T
        tried *= np.trace(np.linalg.solve(tried, covariance))
        assert np.sum(importance * np.diagonal(tried)) >= least * (1 - 1e-9)


def test_two_variances_state_their_exact_loss():
    for features in (1, 2, 3, 10, 2400):
        found = optimal.ball_second_moment(features, 1.3, MU)
        rest = (1 - 1 / features) / found.traceless if features > 1 else 0.0
        assert 1.3**2 * math.sqrt(1 / features / found.trace + rest) <= found.mu <= MU


@pytest.mark.parametrize(
    "make",
    [
        lambda: designs.box_design(sets.BoxDifferences(C), W, 0.0),
        lambda: designs.box_design(sets.BoxDifferences(C), W[:3], MU),
        lambda: designs.box_design(sets.BoxDifferences(np.array([1.0, 0.0])), np.ones(2), MU),
        lambda: designs.isotropic_design(sets.BoxDifferences(C), np.array([1.0, 1.0, 0.0, 1.0]), MU),
        lambda: designs.isotropic_design(sets.BoxDifferences(C), W, math.nan),
        lambda: designs.box_second_moment_design(C, W, MU, ADD, Body.BALL),
        lambda: designs.ellipsoid_second_moment_design(-C, W, MU, ADD),
    ],
)
def test_a_design_refuses_what_it_cannot_promise(make):
    with pytest.raises((CalibrationError, ValueError)):
        make()


@pytest.mark.parametrize(("features", "gain"), [(2, 1.78), (10, 5.09), (100, 10.8)])
def test_features_of_one_sign_cost_less_by_a_count_and_sums_about_the_midpoint(features, gain):
    asked, target = ShapedGaussian(Importance("absolute-error")), ApproxDP(0.9, 1e-6)
    zero = SecondMoment(Body.HALF_CUBE, np.ones(features), Neighbours.ADD_REMOVE, K, 50_000, False)
    middle = SecondMoment(Body.CUBE, np.full(features, 0.5), Neighbours.ADD_REMOVE, K, 50_000, True)
    alone, variance = (asked.design(problem, target).entry_standard_deviation() ** 2 for problem in (zero, middle))
    # x = (1 + v) / 2, so that sum x x' = (sum v v' + sum v 1' + sum 1 v' + count) / 4, each with its own noise.
    found = variance[1:, 1:] + variance[0, 1:] + variance[0, 1:, None] + variance[0, 0]
    found += np.diag(2.0 * variance[0, 1:])  # twice the same number on the diagonal
    assert np.sum(alone) / np.sum(found / 16.0) == pytest.approx(gain, rel=0.01)

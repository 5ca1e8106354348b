"""Closed forms for structured changes: each is private at its mu, by search over the set, and none is beaten."""

import itertools
import math

import numpy as np
import pytest

from engine.calibration import CalibrationError
from engine.guarantees import Neighbours
from engine.mechanisms import shapes
from engine.mechanisms.duality import least_covariance

RNG = np.random.default_rng(8)
MU = 0.7


def length(covariance, changes):
    """Largest ``|K^-1/2 d|``."""
    return math.sqrt(np.max(np.einsum("ij,ij->i", np.linalg.solve(covariance, changes.T).T, changes)))


def corners(half_widths, low=-1.0):
    return np.array(list(itertools.product([low, 1.0], repeat=len(half_widths)))) * half_widths


def test_box_noise_is_private_and_least():
    c, w = np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 3.0])
    variances = shapes.box_variances(c, w, MU)
    assert length(np.diag(variances), corners(c)) == pytest.approx(MU, rel=1e-9)
    assert shapes.box_loss(c, variances).mu == pytest.approx(MU, rel=1e-9)
    dual = least_covariance(corners(c), w, MU)
    assert dual.lower_bound <= np.sum(w * variances) * (1 + 1e-9)
    assert np.sum(w * variances) <= dual.total * (1 + 1e-6)


def test_an_ellipsoids_noise_is_least_for_any_importance():
    root = RNG.standard_normal((3, 3))
    shape = root @ root.T + 0.1 * np.eye(3)
    sphere = RNG.standard_normal((4000, 3))
    changes = (sphere / np.linalg.norm(sphere, axis=1)[:, None]) @ np.linalg.cholesky(shape).T
    covariance = shapes.ellipsoid_covariance(shape, MU)
    assert length(covariance, changes) <= MU
    for w in (np.ones(3), np.array([1.0, 5.0, 0.2])):
        # The sampled set is a little smaller than the ellipsoid.
        assert np.sum(w * np.diagonal(covariance)) == pytest.approx(least_covariance(changes, w, MU).total, rel=0.02)


@pytest.mark.parametrize(("features", "optimum"), [(4, 9.0), (6, 17.766)])
def test_correlated_noise_on_a_one_sided_box(features, optimum):
    covariance = shapes.one_sided_box_covariance(features, 1.0)
    vertices = corners(np.ones(features), low=0.0)[1:]
    assert length(covariance, vertices) <= 1.0
    assert np.trace(covariance) == pytest.approx(features * (math.sqrt(features) + 1) ** 2 / 4)
    assert least_covariance(vertices, np.ones(features), 1.0).lower_bound == pytest.approx(optimum, rel=1e-3)
    assert np.trace(covariance) <= optimum * 1.006


def test_a_ball_in_a_box_is_a_knapsack():
    c, variances = np.array([1.0, 0.8, 0.5, 0.3]), np.array([0.3, 0.5, 0.4, 0.9])
    found = shapes.box_with_ball_loss(c, 1.1, variances).mu
    drawn = RNG.uniform(-1, 1, (200_000, 4)) * c
    drawn *= np.minimum(1.0, 1.1 / np.linalg.norm(drawn, axis=1))[:, None]
    best = np.sqrt(np.max(np.sum(drawn**2 / variances, axis=1)))
    assert 0.95 * found <= best <= found
    assert shapes.sparse_box_loss(c, 1, variances).mu == pytest.approx(math.sqrt(1.0 / 0.3))
    assert shapes.sparse_box_loss(c, 4, variances).mu == pytest.approx(shapes.box_loss(c, variances).mu)


def test_noise_for_a_ball_in_a_box_is_private_and_beats_both_alone():
    c, w = np.array([1.0, 1.0, 1.0, 0.2]), np.ones(4)
    variances = shapes.box_with_ball_variances(c, 1.2, w, MU)
    assert shapes.box_with_ball_loss(c, 1.2, variances).mu <= MU
    assert np.sum(variances) <= np.sum(shapes.box_variances(c, w, MU)) * (1 + 1e-9)
    assert np.sum(variances) <= 4 * (1.2 / MU) ** 2


def test_outer_products_meet_their_dual_bound():
    left, right = np.array([1.0, 0.25]), np.array([2.0, 0.6])
    rows, columns = shapes.outer_product_variances(left, right, 1.0)
    angles = np.linspace(0, np.pi, 60, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    changes = np.einsum("ai,bj->abij", circle * np.sqrt(left), circle * np.sqrt(right)).reshape(-1, 4)
    covariance = np.diag(np.outer(rows, columns).ravel())
    assert length(covariance, changes) <= 1.0
    assert least_covariance(changes, np.ones(4), 1.0).lower_bound == pytest.approx(left.sum() * right.sum(), rel=5e-3)
    assert np.trace(covariance) == pytest.approx(3.25, rel=1e-9)


@pytest.mark.parametrize("features", [1, 2, 3, 10])
def test_two_variances_for_rows_in_a_ball(features):
    found = shapes.ball_second_moment(features, 1.0, MU)
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
    total, isotropic = shapes.ellipsoid_second_moment_total(axes, MU, relation)
    kappa = 1.0 if relation is Neighbours.ADD_REMOVE else math.sqrt(2)
    x = RNG.standard_normal((2000, 3))
    x = x / np.linalg.norm(x, axis=1)[:, None] * np.sqrt(axes)
    white = np.einsum("ni,nj->nij", x / np.sqrt(axes), x / np.sqrt(axes))
    change = white[:1000] - (white[1000:] if relation is Neighbours.REPLACE_ONE else 0.0)
    assert np.max(np.linalg.norm(change, axis=(1, 2))) * MU / kappa <= MU * (1 + 1e-9)
    assert total < isotropic
    box = shapes.box_ellipsoid(np.array([1.0, 0.5]))
    assert np.max(np.sum(corners(np.array([1.0, 0.5])) ** 2 / box, axis=1)) <= 1.0


def test_an_adapted_shape_is_the_root_of_the_covariance_and_survives_noise():
    spectrum = np.arange(1, 31.0) ** -2
    shape = shapes.adapted_shape(np.diag(spectrum), np.ones(30))
    ratio = np.diagonal(shape) / np.sqrt(np.maximum(spectrum, 1e-3))
    assert np.ptp(ratio) / ratio[0] < 1e-9
    assert np.trace(np.linalg.solve(shape, np.diag(np.maximum(spectrum, 1e-3)))) == pytest.approx(1.0)
    noisy = np.diag(spectrum) + 0.05 * (lambda z: z + z.T)(RNG.standard_normal((30, 30)))
    assert np.linalg.eigvalsh(shapes.adapted_shape(noisy, np.arange(1, 31.0)))[0] > 0
    with pytest.raises(CalibrationError, match="no positive eigenvalue"):
        shapes.adapted_shape(-np.eye(2), np.ones(2))


def test_noise_for_the_union_of_two_ellipsoids_covers_both():
    first, second = np.diag([1.0, 0.1]), np.array([[0.3, 0.2], [0.2, 0.5]])
    covariance = shapes.union_covariance(first, second, np.array([1.0, 2.0]), MU)
    for shape in (first, second):
        assert np.linalg.eigvalsh(covariance * MU**2 - shape)[0] >= -1e-12
    both = shapes.ellipsoid_covariance(first, MU) + shapes.ellipsoid_covariance(second, MU)
    assert np.trace(covariance) < np.trace(both)


def test_the_certificate_holds_and_a_flat_set_gets_noise_in_its_span_only():
    points = RNG.standard_normal((40, 5))
    found = least_covariance(points, np.array([1.0, 2.0, 0.5, 1.0, 3.0]), MU)
    assert length(found.covariance, points) <= MU * (1 + 1e-9)
    assert 0 <= found.gap < 1e-5
    flat = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])
    covariance = least_covariance(flat, np.ones(3), 1.0).covariance
    assert np.linalg.matrix_rank(covariance, tol=1e-9) == 1
    assert covariance[0, 0] == pytest.approx(4.0)
    for bad in (np.zeros((2, 3)), np.full((2, 3), np.nan)):
        with pytest.raises(CalibrationError):
            least_covariance(bad, np.ones(3), 1.0)

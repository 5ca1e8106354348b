"""Least noise for listed changes: private for each, certified, and equal to closed forms and to a direct search."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.shapes.box_noise import box_variances
from blockveil.engine.shapes.duality import least_covariance

MU = 0.7


def length(covariance, changes):
    """Largest ``|K^-1/2 d|``."""
    return math.sqrt(np.max(np.einsum("ij,ij->i", np.linalg.solve(covariance, changes.T).T, changes)))


def corners(half_widths, low=-1.0):
    return np.array([c for c in itertools.product([low, 1.0], repeat=len(half_widths)) if any(c)]) * half_widths


def sphere(count, n, seed=4):
    drawn = np.random.default_rng(seed).standard_normal((count, n))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None]


def direct_search(points, importance, mu):
    """Least weighted trace over Cholesky factors, scaled to the loss: knows nothing of duality."""
    n = points.shape[1]
    lower = np.tril_indices(n)

    def total(entries):
        root = np.zeros((n, n))
        root[lower] = entries
        covariance = root @ root.T + 1e-12 * np.eye(n)
        return np.sum(importance * np.diagonal(covariance)) * (length(covariance, points) / mu) ** 2

    start = np.eye(n)[lower]
    rng = np.random.default_rng(1)
    found = []
    for _ in range(4):
        at = start + 0.3 * rng.standard_normal(start.size)
        for _ in range(3):
            at = minimize(total, at, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-12}).x
        found.append(total(at))
    return min(found)


@pytest.mark.parametrize("seed", range(3))
def test_no_direct_search_finds_less_noise(seed):
    rng = np.random.default_rng(seed)
    points, importance = rng.standard_normal((6, 2)), rng.exponential(1, 2) + 0.1
    found = least_covariance(points, importance, MU, 1e-8)
    searched = direct_search(points, importance, MU)
    assert found.lower_bound <= searched * (1 + 1e-9)
    assert found.total == pytest.approx(searched, rel=1e-4)


def test_the_certificate_holds_for_random_points():
    rng = np.random.default_rng(8)
    points, importance = rng.standard_normal((40, 5)), np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    found = least_covariance(points, importance, MU)
    assert length(found.covariance, points) <= MU
    assert length(found.covariance, points) >= MU * (1 - 1e-9)
    assert 0 <= found.gap < 1e-5
    assert found.total == pytest.approx(np.sum(importance * np.diagonal(found.covariance)), rel=1e-12)
    # A certificate that were 5 % too high would cross what the noise needs.
    assert found.lower_bound * 1.05 > found.total


def test_weights_that_are_not_optimal_still_give_a_bound_and_private_noise():
    points = np.random.default_rng(2).standard_normal((30, 4))
    rough, fine = (least_covariance(points, np.ones(4), MU, tolerance) for tolerance in (0.5, 1e-8))
    assert rough.lower_bound <= fine.total
    assert rough.total >= fine.lower_bound
    assert length(rough.covariance, points) <= MU
    assert rough.gap < 0.5 + 1e-9


def test_corners_of_a_box_get_the_closed_form():
    c, importance = np.array([1.0, 0.5, 0.25, 0.7]), np.array([1.0, 2.0, 3.0, 0.4])
    found = least_covariance(corners(c), importance, MU)
    closed = box_variances(c, importance, MU)
    assert np.diagonal(found.covariance) == pytest.approx(closed, rel=1e-4)
    assert found.total == pytest.approx(float(np.sum(c * np.sqrt(importance))) ** 2 / MU**2, rel=1e-5)


@pytest.mark.parametrize(("features", "optimum"), [(4, 9.0), (6, 17.766)])
def test_corners_of_a_one_sided_box_get_less_than_a_boxs_noise(features, optimum):
    found = least_covariance(corners(np.ones(features), 0.0), np.ones(features), 1.0)
    assert found.total == pytest.approx(optimum, rel=1e-4)
    assert found.total < np.sum(box_variances(np.ones(features), np.ones(features), 1.0))
    # Lebeda, 2024: this much suffices for correlated noise, and it is nearly the least.
    assert found.lower_bound <= features * (math.sqrt(features) + 1) ** 2 / 4 <= optimum * 1.006


def test_points_of_an_ellipsoid_get_nearly_its_own_shape():
    root = np.array([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.0, 0.1, 0.3]])
    found = least_covariance(sphere(3000, 3) @ root.T, np.array([1.0, 5.0, 0.2]), MU, 1e-3)
    assert found.covariance * MU**2 == pytest.approx(root @ root.T, abs=0.03)
    assert found.lower_bound * MU**2 <= np.sum(np.array([1.0, 5.0, 0.2]) * np.diagonal(root @ root.T))


def test_outer_products_of_ellipsoids_get_the_product_of_traces():
    left, right = np.array([1.0, 0.25]), np.array([2.0, 0.6])
    angles = np.linspace(0, np.pi, 24, endpoint=False)  # the axes are among them
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    changes = np.einsum("ai,bj->abij", circle * np.sqrt(left), circle * np.sqrt(right)).reshape(-1, 4)
    found = least_covariance(changes, np.ones(4), 1.0)
    assert found.total == pytest.approx(left.sum() * right.sum(), rel=1e-4)


def test_histograms_need_the_same_noise_in_all_bins():
    bins = 5
    unit = np.eye(bins)
    added = least_covariance(unit, np.ones(bins), 1.0)
    assert np.diagonal(added.covariance) == pytest.approx(np.ones(bins), rel=1e-5)
    moved = np.array([a - b for a, b in itertools.combinations(unit, 2)])
    replaced = least_covariance(moved, np.ones(bins), 1.0)
    diagonal = np.diagonal(replaced.covariance)
    assert diagonal == pytest.approx(np.full(bins, diagonal[0]), rel=1e-6)
    # Differences sum to zero: the span has one dimension less, and needs 2 on each of the others.
    assert replaced.core.shape == (bins - 1, bins - 1)
    assert replaced.total == pytest.approx(2.0 * (bins - 1), rel=1e-5)


def test_a_flat_set_gets_noise_in_its_span_only():
    flat = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])
    importance = np.array([1.0, 4.0, 1.0])
    found = least_covariance(flat, importance, 1.0)
    assert np.linalg.matrix_rank(found.covariance, tol=1e-9) == 1
    assert found.covariance[0, 0] == pytest.approx(4.0)
    projected = flat @ found.projection.T
    assert length(found.core, projected) == pytest.approx(1.0, rel=1e-9)
    assert length(found.core, projected) <= 1.0
    # What is released is the projection; expanding it gives back every change of the set.
    assert projected @ found.expansion.T == pytest.approx(flat)
    assert found.expansion @ found.core @ found.expansion.T == pytest.approx(found.covariance)


@pytest.mark.parametrize("small", [1.0, 1e-3, 1e-6, 1e-8])
def test_a_nearly_flat_set_is_private_in_its_short_direction_too(small):
    points = np.array([[1.0, 0.0], [1.0, small], [0.3, -small]])
    found = least_covariance(points, np.ones(2), 1.0)
    with mp.workdps(60):
        matrix = mp.matrix([[mpf(float(x)) for x in row] for row in found.covariance])
        for point in points:
            d = mp.matrix([mpf(float(x)) for x in point])
            assert (d.T * mp.inverse(matrix) * d)[0] <= 1


def test_a_set_too_flat_to_check_is_refused():
    with pytest.raises(CalibrationError, match="rescale the entries"):
        least_covariance(np.array([[1.0, 0.0], [1.0, 1e-11]]), np.ones(2), 1.0)


def test_units_do_not_matter():
    points, importance = np.random.default_rng(3).standard_normal((9, 3)), np.ones(3)
    plain = least_covariance(points, importance, MU)
    for size in (1e-170, 1e170):
        scaled = least_covariance(points * size, importance, MU * size)
        assert scaled.core == pytest.approx(plain.core, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "importance", "mu"),
    [
        (np.zeros((2, 3)), np.ones(3), 1.0),
        (np.zeros((0, 3)), np.ones(3), 1.0),
        (np.full((2, 3), np.nan), np.ones(3), 1.0),
        (np.ones((2, 3)), np.ones(2), 1.0),
        (np.ones((2, 3)), np.array([1.0, 0.0, 1.0]), 1.0),
        (np.ones((2, 3)), np.array([1.0, math.nan, 1.0]), 1.0),
        (np.ones((2, 3)), np.ones(3), 0.0),
    ],
)
def test_what_cannot_be_solved_is_refused(changes, importance, mu):
    with pytest.raises(CalibrationError):
        least_covariance(changes, importance, mu)

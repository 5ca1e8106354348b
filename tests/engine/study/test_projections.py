"""Gaussian sketches: whole outputs against the one-number law, and the published floors against the exact one."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.published.subspace import least_noise
from blockveil.engine.study.projections import (
    blocki_floor,
    delta_less,
    delta_more,
    exact_floor,
    expected_squared_error,
    moved_row_delta,
    sheffet_floor,
    sketch_delta,
)

SIGMAS = float(stats.norm.isf(0.5e-9))
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEES = [ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-9), ApproxDP(5.0, 1e-3)]


def simulated_delta(first, second, rows, epsilon, seed, count=200_000):
    """Delta of k rows of N(0, first) against N(0, second) from whole outputs: estimate and its error."""
    rng = np.random.default_rng(seed)
    d = len(first)
    z = rng.standard_normal((count, rows, d)) @ np.linalg.cholesky(first).T

    def log_density(s):
        return -0.5 * rows * np.linalg.slogdet(s)[1] - 0.5 * np.einsum("nki,ij,nkj->n", z, np.linalg.inv(s), z)

    part = np.maximum(0.0, -np.expm1(np.minimum(epsilon - log_density(first) + log_density(second), 0.0)))
    return part.mean(), SIGMAS * max(part.std(), 1e-3) / math.sqrt(count)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("floor", [1.0, 1.7])
def test_whole_sketches_have_the_privacy_loss_of_one_sum_of_squares(rows, floor):
    s = floor**2 * np.eye(3) + np.diag([0.0, 2.0, 9.0])
    more = s + np.diag([1.0, 0.0, 0.0])  # a record along the weakest direction
    for first, second, exact in ((more, s, delta_more), (s, more, delta_less)):
        found, error = simulated_delta(first, second, rows, 0.1, 1)
        assert abs(found - exact(rows, floor**-2, 0.1)) < error
        assert abs(found - exact(rows, 1.2 * floor**-2, 0.1)) > error


def test_no_record_costs_more_than_the_one_along_the_weakest_direction():
    rng = np.random.default_rng(2)
    floor, rows = 1.3, 3
    for _ in range(200):
        a = rng.standard_normal((4, 3))
        s = a.T @ a * rng.exponential(1.0) + floor**2 * np.eye(3)
        y = rng.standard_normal(3)
        y /= max(1.0, np.linalg.norm(y))
        tau = float(y @ np.linalg.solve(s, y))
        own = max(delta_more(rows, tau, 0.2), delta_less(rows, tau, 0.2))
        assert own <= sketch_delta(rows, 1.0, floor, 0.2, ADD)


def exact_deltas(rows, tau, epsilon):
    """Both directions with 50 digits."""
    with mpmath.workdps(50):
        k, tau, eps = mpmath.mpf(rows) / 2, mpmath.mpf(tau), mpmath.mpf(epsilon)

        def upper(x):
            return mpmath.gammainc(k, x / 2, mpmath.inf, regularized=True)

        at = 2 * (eps + k * mpmath.log1p(tau)) * (1 + tau) / tau
        more = upper(at / (1 + tau)) - mpmath.exp(eps) * upper(at)
        at = 2 * (k * mpmath.log1p(tau) - eps) * (1 + tau) / tau
        less = 1 - upper(at) - mpmath.exp(eps) * (1 - upper(at / (1 + tau))) if at > 0 else mpmath.mpf(0)
        return more, less


@pytest.mark.parametrize("rows", [1, 10, 100, 2000])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_exact_floor_keeps_its_guarantee_in_high_precision_and_wastes_nothing(rows, guarantee):
    floor = exact_floor(rows, 2.0, guarantee, ADD)
    with mpmath.workdps(50):
        tau = (mpmath.mpf(2) / mpmath.mpf(floor)) ** 2
    worst = max(exact_deltas(rows, tau, guarantee.epsilon))
    assert guarantee.delta * (1 - 1e-6) < worst <= guarantee.delta


@pytest.mark.parametrize("rows", [1, 10, 100, 2000])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_published_floors_are_valid_and_loose(rows, guarantee):
    exact = exact_floor(rows, 1.0, guarantee, ADD)
    assert blocki_floor(rows, guarantee) > sheffet_floor(rows, 1.0, guarantee) > 1.5 * exact
    assert blocki_floor(rows, guarantee) > 50 * exact
    assert moved_row_delta(rows, blocki_floor(rows, guarantee), guarantee.epsilon) < guarantee.delta


def test_the_table_of_floors():
    guarantee = ApproxDP(1.0, 1e-6)
    assert blocki_floor(100, guarantee) == pytest.approx(12_916, rel=1e-4)
    assert sheffet_floor(100, 1.0, guarantee) == pytest.approx(26.6, rel=2e-3)
    assert exact_floor(100, 1.0, guarantee, ADD) == pytest.approx(5.96, rel=1e-3)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_moved_row_costs_what_whole_sketches_show_and_more_than_an_added_one(rows):
    floor = 4.0
    base = np.array([[500.0, 0.0], [0.0, 0.0]])  # one long row: leverage nearly 1
    moved = np.array([[500.0, 1.0], [0.0, 0.0]])
    s, t = (a.T @ a + floor**2 * np.eye(2) for a in (base, moved))
    relative = np.sort(np.linalg.eigvals(np.linalg.solve(s, t)).real)
    assert relative[0] * relative[1] == pytest.approx(1.0, rel=1e-3)
    assert relative.sum() == pytest.approx(2 + floor**-2, rel=1e-3)
    for first, second in ((s, t), (t, s)):
        found, error = simulated_delta(first, second, rows, 0.1, 3)
        assert abs(found - moved_row_delta(rows, floor, 0.1)) < error
        assert abs(found - moved_row_delta(rows, 0.8 * floor, 0.1)) > error
    assert moved_row_delta(rows, floor, 0.1) > 2 * sketch_delta(rows, 1.0, floor, 0.1, ADD)


@pytest.mark.parametrize(("rows", "floor", "epsilon"), [(1, 3.0, 0.1), (7, 10.0, 0.5), (100, 26.6, 1.0)])
def test_the_loss_of_a_moved_row_agrees_with_quadrature_in_two_variables(rows, floor, epsilon):
    excess = 0.5 / floor**2 + math.sqrt(1 + 0.25 / floor**2) / floor
    law = stats.chi2(rows)
    # By quantiles of both chi-squares, an independent grid: E (1 - e^(eps - L))_+.
    nodes, weights = np.polynomial.legendre.leggauss(400)
    root = 0.5 * (nodes + 1) * math.sqrt(law.isf(1e-16))
    mass = 0.5 * math.sqrt(law.isf(1e-16)) * weights * law.pdf(root**2) * 2 * root
    g = root**2
    loss = (g[:, None] * (1 / (1 + excess) - 1) + g[None, :] * excess) / 2
    direct = mass @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))) @ mass
    assert moved_row_delta(rows, floor, epsilon) == pytest.approx(direct, rel=1e-4)


def test_a_floor_for_added_records_does_not_hold_for_moved_rows():
    guarantee = ApproxDP(1.0, 1e-6)
    assert moved_row_delta(100, exact_floor(100, 1.0, guarantee, ADD), 1.0) > 1e3 * 1e-6
    assert moved_row_delta(100, sheffet_floor(100, 1.0, guarantee), 1.0) > 500 * 1e-6


def test_without_regularisation_the_loss_is_unbounded():
    # Records of rank one: the sketch of one more record leaves the line that the other data set cannot leave.
    assert sketch_delta(5, 1.0, 1e-8, 10.0, ADD) > 0.999


def test_replaced_records_stay_within_the_bound():
    s = 1.5**2 * np.eye(2)
    first, second = s + np.diag([1.0, 0.0]), s + np.diag([0.0, 1.0])
    found, error = simulated_delta(first, second, 3, 0.5, 4)
    bound = sketch_delta(3, 1.0, 1.5, 0.5, REPLACE)
    assert found - error <= bound < 1.0
    guarantee = ApproxDP(1.0, 1e-6)
    floor = exact_floor(50, 1.0, guarantee, REPLACE)
    assert floor > exact_floor(50, 1.0, guarantee, ADD)
    assert sketch_delta(50, 1.0, floor, 1.0, REPLACE) <= 1e-6


def test_the_error_of_the_estimate_grows_with_the_data():
    rng = np.random.default_rng(5)
    spectrum, floor, rows = np.array([9.0, 4.0, 1.0]), 1.5, 6
    z = rng.standard_normal((100_000, rows, 3)) * np.sqrt(spectrum + floor**2)
    estimate = np.einsum("nki,nkj->nij", z, z) / rows - floor**2 * np.eye(3)
    squares = np.sum((estimate - np.diag(spectrum)) ** 2, axis=(1, 2))
    error = SIGMAS * squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - expected_squared_error(rows, floor, spectrum)) < error
    assert abs(squares.mean() * 1.05**2 - expected_squared_error(rows, floor, spectrum)) > error
    assert abs(squares.mean() * 0.95**2 - expected_squared_error(rows, floor, spectrum)) > error


def test_what_promises_nothing_is_refused():
    for arguments, match in [
        ((0, 1.0, 1.0), "rows"),
        ((10**6, 1.0, 1.0), "accurate"),
        ((1, 0.0, 1.0), "ratio"),
        ((1, 1.0, math.nan), "epsilon"),
    ]:
        with pytest.raises(CalibrationError, match=match):
            delta_more(*arguments)
    with pytest.raises(CalibrationError, match="floor 0"):
        sketch_delta(3, 1.0, 0.0, 1.0, ADD)


def test_no_sketch_of_any_size_beats_symmetric_gaussian_noise():
    guarantee, features = ApproxDP(1.0, 1e-6), 20
    gaussian = least_noise(features, 1.0, guarantee, ADD).total_variance
    floors = {rows: exact_floor(rows, 1.0, guarantee, ADD) for rows in (25, 100, 1000, 10_000, 100_000)}
    for records, best in ((0, 3791), (100, 3832), (10_000, 8832)):
        spectrum = np.full(features, records / features)
        least = min(expected_squared_error(rows, floor, spectrum) for rows, floor in floors.items())
        assert least > gaussian
        assert least == pytest.approx(best, rel=1e-3)

"""The error report is honest: what it says happens as often as it says, by simulation."""

import numpy as np
import pytest

from blockveil.engine.estimates.error_bounds import (
    band,
    error_report,
    expected_spectral_norm,
    spectral_bound,
    subspace_error,
    total_variance,
)
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace, Laplace
from blockveil.engine.records.geometry import Body

K = 2**15 - 1
ASKED = ApproxDP(1.0, 1e-6)
UNITS = np.array([1.0, 2.0, 7.0, 0.5, 3.0])
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
DRAWS = 4000
# 4,000 draws of a 95 % event: six standard errors are 0.021.
SLACK = 6 * np.sqrt(0.95 * 0.05 / DRAWS)

PROBLEMS = {
    "second moment": (SecondMoment(Body.CUBE, UNITS, ADD, K, 1000, False), UNITS, UNITS),
    "rows": (Rows(Body.CUBE, UNITS, REPLACE, K, 9), np.ones(9), UNITS),
    "outer products": (OuterProducts(Body.BALL, Body.CUBE, UNITS[:3], UNITS, ADD, K, 1000), UNITS[:3], UNITS),
}


def noise(design, count=DRAWS, seed=1):
    """Draws of the noise in coordinates, shape (count, m, n), in float arithmetic."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((count, *design.shape))
    if design.spread.symmetric:
        upper = np.triu(drawn)
        drawn = upper + np.swapaxes(np.triu(drawn, 1), 1, 2)
    return drawn * design.entry_standard_deviation()


@pytest.fixture(params=PROBLEMS)
def case(request):
    problem, left, right = PROBLEMS[request.param]
    return ShapedGaussian(Importance("absolute-error")).design(problem, ASKED), left, right


def test_the_total_variance_is_what_is_drawn(case):
    design, left, right = case
    raw = noise(design) * np.outer(left, right)
    found = np.mean(np.sum(raw**2, axis=(1, 2)))
    assert total_variance(design, left, right) == pytest.approx(found, rel=0.06)  # six standard errors
    assert total_variance(design, left, right) == pytest.approx(
        np.sum((np.outer(left, right) * design.entry_standard_deviation()) ** 2), rel=1e-3
    )


def test_all_entries_stay_in_the_band_in_95_of_100_releases_and_not_in_a_narrower_one(case):
    design, _, _ = case
    worst = np.max(np.abs(noise(design) / design.entry_standard_deviation()), axis=(1, 2))
    assert abs(np.mean(worst <= band(design)) - 0.95) < SLACK
    assert np.mean(worst <= 0.9 * band(design)) < 0.95 - SLACK


def test_of_a_small_matrix_the_frobenius_bound_is_that_of_the_spectral_norm_too():
    design = Gaussian().design(SecondMoment(Body.CUBE, UNITS[:2], ADD, K, 1000, False), ASKED)
    report = error_report(design, UNITS[:2], UNITS[:2])
    assert report.spectral == report.frobenius < spectral_bound(design, UNITS[:2], UNITS[:2])


def test_spectral_and_frobenius_bounds_hold_in_at_least_95_of_100_releases(case):
    design, left, right = case
    raw = noise(design) * np.outer(left, right)
    report = error_report(design, left, right)
    spectral = np.linalg.norm(raw, 2, axis=(1, 2))
    assert np.mean(spectral <= report.spectral) >= 0.95 - SLACK
    assert np.mean(np.linalg.norm(raw, axis=(1, 2)) <= report.frobenius) >= 0.95 - SLACK
    assert report.spectral <= report.frobenius
    assert np.mean(spectral) <= expected_spectral_norm(design, left, right) <= 3 * np.mean(spectral)


def test_bounds_hold_where_coordinates_are_mixed():
    ball = SecondMoment(Body.BALL, np.ones(5), ADD, K, 1000, False)
    design = Gaussian().design(ball, ASKED)
    mixing = np.random.default_rng(4).standard_normal((5, 5))
    raw = mixing @ noise(design) @ mixing.T
    assert total_variance(design, mixing, mixing) == pytest.approx(np.mean(np.sum(raw**2, axis=(1, 2))), rel=0.1)
    assert np.mean(np.linalg.norm(raw, 2, axis=(1, 2)) <= spectral_bound(design, mixing, mixing)) >= 0.95 - SLACK


def test_a_projection_onto_a_convex_set_that_holds_the_truth_is_never_further_from_it():
    problem = PROBLEMS["second moment"][0]
    design = ShapedGaussian(Importance("relative-error")).design(problem, ASKED)
    truth = np.diag([40.0, 30.0, 20.0, 10.0, 0.0])
    values, vectors = np.linalg.eigh(truth + noise(design, 300))
    projected = (vectors * np.maximum(values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    after = np.linalg.norm(projected - truth, axis=(1, 2))
    assert np.all(after <= np.linalg.norm(noise(design, 300), axis=(1, 2)) + 1e-9)
    assert np.mean(after <= error_report(design, np.ones(5), np.ones(5)).frobenius) >= 0.95 - SLACK


def test_the_subspace_error_is_right_to_first_order():
    spectrum, deviation = np.array([1.0, 10.0, 5.0, 0.5]), np.full((4, 4), 0.02)
    rng = np.random.default_rng(2)
    sines = []
    for _ in range(2000):
        z = rng.standard_normal((4, 4)) * deviation
        z = np.triu(z) + np.triu(z, 1).T
        leading = np.linalg.eigh(np.diag(spectrum) + z)[1][:, -2:]
        sines.append(2 - np.sum(leading[[1, 2]] ** 2))
    # 2,000 draws of a quantity with relative spread about one: 0.13 is six standard errors.
    assert subspace_error(deviation, spectrum, 2) == pytest.approx(np.mean(sines), rel=0.13)
    assert subspace_error(np.full((4, 4), 1e9), spectrum, 2) == 2.0


def test_noise_in_whole_numbers_has_its_exact_error():
    problem = Counts((4, 5), ADD, 1000)
    design = IntegerLaplace().design(problem, ApproxDP(0.5, 1e-6))
    exact = 20 * 0.5 / np.sinh(0.25) ** 2
    assert total_variance(design, np.ones(4), np.ones(5)) == pytest.approx(exact, rel=1e-9)
    assert np.sum(design.entry_standard_deviation() ** 2) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_laplace_noise_keeps_its_band_and_its_bounds_too(name):
    problem, left, right = PROBLEMS[name]
    design = Laplace(Importance("absolute-error")).design(problem, ASKED)
    rng = np.random.default_rng(6)
    drawn = rng.laplace(scale=np.sqrt(0.5), size=(DRAWS, *design.shape))
    if design.spread.symmetric:
        upper = np.triu(drawn)
        drawn = upper + np.swapaxes(np.triu(drawn, 1), 1, 2)
    worst = np.max(np.abs(drawn), axis=(1, 2))
    assert abs(np.mean(worst <= band(design)) - 0.95) < SLACK
    assert np.mean(worst <= 0.9 * band(design)) < 0.95 - SLACK
    raw = drawn * design.entry_standard_deviation() * np.outer(left, right)
    report = error_report(design, left, right)
    # 4,000 draws of a sum with heavy tails: six standard errors are below a tenth.
    assert report.total_variance == pytest.approx(np.mean(np.sum(raw**2, axis=(1, 2))), rel=0.1)
    assert np.mean(np.linalg.norm(raw, 2, axis=(1, 2)) <= report.spectral) >= 0.95 - SLACK
    assert np.mean(np.linalg.norm(raw, axis=(1, 2)) <= report.frobenius) >= 0.95 - SLACK

"""K-norm noise of rows and of gradients: how much less error it has, and what it is not for."""

import mpmath
import numpy as np
import pytest

from benchmarks.k_norm import FEWEST_GRADIENTS, FEWEST_ROWS, gain_of_gradients, gain_of_rows
from blockveil.engine.audit.k_norm_cases import k_norm_cases
from blockveil.engine.estimates.error_bounds import error_report, total_variance
from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.k_norm.norm_noise import KNorm
from blockveil.engine.records.geometry import Body, CappedBox
from blockveil.testing.mechanism import REPLACE, K

GUARANTEE = ApproxDP(0.9, 1e-6)


@pytest.mark.parametrize("features", [2, 3, 6, 12, 20, 24])
def test_records_of_up_to_24_features_have_at_least_19_tenths_less_error(features):
    assert gain_of_rows(features) >= FEWEST_ROWS == 1.9


@pytest.mark.parametrize("weights", [2, 4, 8, 12])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_gradients_of_up_to_12_weights_have_at_least_13_tenths_less_error(weights, neighbours):
    assert gain_of_gradients(weights, neighbours) >= FEWEST_GRADIENTS == 1.3


def test_auto_leaves_it_where_gaussian_noise_is_less():
    wide = Rows(Body.CUBE, np.ones(55), REPLACE, K, 100)
    found = compare(wide, GUARANTEE, Metric("total"))
    assert found.design.gaussian
    errors = {row.mechanism: row.error for row in found.table}
    assert errors["k-norm"] > 1.01 * errors["shaped-gaussian"]


@pytest.mark.parametrize("features", [2, 7, 24])
def test_the_error_is_that_of_an_integral_of_30_digits(features):
    """Density ``exp(-max |x_i| / s)`` over volumes of cubes, in a box of widths that differ."""
    mpmath.mp.dps = 30
    widths = np.linspace(0.5, 2.0, features)
    problem = Rows(*(Body.CUBE, np.ones(features), REPLACE, K, 1), even=False, ends=(-widths / 2, widths / 2))
    design = KNorm().design(problem, GUARANTEE)
    shell = [mpmath.quad(lambda r, p=p: r**p * mpmath.exp(-r), [0, 2 * features, mpmath.inf]) for p in (0, 2)]
    d = features
    # E max^2 over shells of volume d (2 r)^(d - 1) 2 dr, and of an entry on a shell: (1 + (d - 1) / 3) / d of it.
    square = mpmath.quad(lambda r: r ** (d + 1) * mpmath.exp(-r), [0, 3 * d, mpmath.inf]) / mpmath.quad(
        lambda r: r ** (d - 1) * mpmath.exp(-r), [0, 3 * d, mpmath.inf]
    )
    assert shell[1] == pytest.approx(2.0)
    entry = float(square) * (1 + (d - 1) / 3) / d
    wanted = entry * float(np.sum(widths**2)) / GUARANTEE.epsilon**2
    assert total_variance(design, *problem.units) == pytest.approx(wanted, rel=1e-4)


def test_the_bounds_of_all_entries_hold_in_19_of_20_releases():
    problem = Rows(Body.CUBE, np.array([1.0, 3.0, 0.2]), REPLACE, K, 10)
    design = KNorm().design(problem, GUARANTEE)
    report = error_report(design, *problem.units)
    rng, trials = np.random.default_rng(3), 4000
    noise = rng.gamma(4.0, size=(trials, 10, 1)) * rng.uniform(-1, 1, (trials, 10, 3))
    sizes = np.abs(noise).max(axis=(1, 2)) / np.sqrt(20 / 3)
    raw = noise * design.scale * design.spread.columns * problem.units[1]
    assert np.mean(sizes > report.band) < 0.05
    assert np.mean(np.linalg.norm(raw, axis=(1, 2)) > report.frobenius) < 0.05
    assert report.spectral == report.frobenius
    assert np.mean(np.sum(raw**2, axis=(1, 2))) == pytest.approx(report.total_variance, rel=0.05)


@pytest.mark.parametrize(
    "problem",
    [
        Rows(Body.CUBE, np.ones(1), REPLACE, K, 5),
        Rows(Body.CUBE, np.ones(65), REPLACE, K, 5),
        Rows(Body.BALL, np.ones(3), REPLACE, K, 5),
        GradientProblem(Body.BALL, Body.BALL, np.ones(1), np.ones(17), REPLACE, K, 100),
        GradientProblem(Body.BALL, Body.BALL, np.ones(4), np.ones(2), REPLACE, K, 100, steps=4),
        OuterProducts(Body.BALL, Body.BALL, np.ones(2), np.ones(2), REPLACE, K, 100),
    ],
)
def test_what_it_is_not_for_is_refused_with_what_to_choose(problem):
    with pytest.raises(NotApplicable, match="; choose"):
        KNorm().design(problem, GUARANTEE)


def test_a_spectral_error_is_compared_without_it():
    rows = {
        row.mechanism: row
        for row in compare(Rows(Body.CUBE, np.ones(4), REPLACE, K, 5), GUARANTEE, Metric("spectral")).table
    }
    assert "not bounded; minimise total" in rows["k-norm"].reason


@pytest.mark.parametrize(
    ("ends", "widest"),
    [
        ((np.array([-1.0, -0.2]), np.array([1.0, 0.4])), 2.0),
        ((np.array([0.0, -0.2]), np.array([0.1, 0.4])), 0.6),
    ],
)
def test_the_largest_entry_is_the_widest_feature_over_its_spread(ends, widest):
    problem = Rows(Body.CUBE, np.ones(2), REPLACE, K, 3, even=False, ends=ends)
    found = problem.largest_entry(problem.spread(np.ones(3), np.ones(2)))
    assert found.exact
    assert found.bound == pytest.approx(widest)
    corners = np.array(np.meshgrid(*zip(*ends, strict=True))).reshape(2, -1).T
    assert found.attained == pytest.approx(max(np.max(np.abs(a - b)) for a in corners for b in corners))
    within = Rows(CappedBox(Body.CUBE, np.array([0.5, 0.9])), np.ones(2), REPLACE, K, 3, even=False, ends=ends)
    assert not within.largest_entry(within.spread(np.ones(3), np.ones(2))).exact, "a bound, which is said"


def test_an_epsilon_without_room_for_rounding_is_refused():
    problem = Rows(Body.CUBE, np.ones(4), REPLACE, K, 5)
    with pytest.raises(CannotCalibrate, match="leaves no room"):
        KNorm().design(problem, ApproxDP(1e-6, 1e-6))


def test_its_mutants_are_refused_by_name():
    with pytest.raises(CalibrationError, match="half-scale, reseeded, unclipped"):
        k_norm_cases(GUARANTEE, "other")

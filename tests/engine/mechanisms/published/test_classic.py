"""The classic Gaussian: its formula, its range, and the exact loss that is charged instead of its claim."""

import json
import math
from pathlib import Path

import mpmath
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.mechanisms.published.classic import classic_loss, classic_standard_deviation

VECTORS = json.loads((Path(__file__).parents[3] / "data" / "testvectors.json").read_text())
DELTAS = (0.99, 0.5, 0.1, 1e-3, 1e-5, 1e-10, 1e-100, 1e-300)


def exact_log_delta(mu, epsilon):
    with mpmath.workdps(700):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first, second = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return mpmath.log(first - mpmath.exp(epsilon) * second)


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["name"] == "classic_gaussian_sigma"])
def test_the_standard_deviation_is_the_independent_number_from_above(vector):
    epsilon, delta, sensitivity = (vector["inputs"][name] for name in ("eps", "delta", "sensitivity"))
    found = classic_standard_deviation(float(sensitivity), float(epsilon), float(delta))
    with mpmath.workdps(40):
        assert found == pytest.approx(float(vector["expected"]["sigma"]), rel=vector["tolerance"])
        decimals = mpmath.mpf(float(sensitivity)), mpmath.mpf(float(epsilon)), mpmath.mpf(float(delta))
        exact = mpmath.sqrt(2 * mpmath.log(mpmath.mpf("1.25") / decimals[2])) * decimals[0] / decimals[1]
        assert exact < found <= exact * (1 + mpmath.mpf("1e-14"))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 0.5, math.nextafter(1.0, 0.0)])
def test_the_true_delta_is_below_the_claim_over_the_whole_range_of_the_theorem(epsilon, delta):
    mu = classic_loss(3.0, classic_standard_deviation(3.0, epsilon, delta)).mu
    assert mu < gaussian_mu(epsilon, delta)
    if delta > 1e-11:
        assert exact_log_delta(mu, epsilon) < mpmath.log(delta)


@pytest.mark.parametrize(("epsilon", "ratio"), [(10.0, 2.27), (20.0, 153.0)])
def test_the_claim_is_false_for_large_epsilon(epsilon, ratio):
    mu = epsilon / math.sqrt(2 * math.log(1.25e5))
    assert float(mpmath.exp(exact_log_delta(mu, epsilon))) / 1e-5 == pytest.approx(ratio, rel=0.005)
    assert gaussian_log_delta(mu, epsilon) == pytest.approx(float(exact_log_delta(mu, epsilon)))


def test_the_exact_loss_is_sensitivity_over_standard_deviation_from_above():
    for sensitivity, deviation in ((1.0, 3.0), (0.7, 0.1), (2.0, 7e5)):
        mu = mpmath.mpf(classic_loss(sensitivity, deviation).mu)
        exact = mpmath.mpf(sensitivity) / mpmath.mpf(deviation)
        assert exact <= mu <= exact * (1 + mpmath.mpf("1e-15"))


REFUSED = [
    (1.0, 1.0, 1e-5),
    (1.0, 10.0, 1e-5),
    (1.0, 0.0, 1e-5),
    (1.0, -0.5, 1e-5),
    (1.0, math.nan, 1e-5),
    (1.0, 0.5, 0.0),
    (1.0, 0.5, 1.0),
    (0.0, 0.5, 1e-5),
    (-1.0, 0.5, 1e-5),
    (math.inf, 0.5, 1e-5),
    (1e300, 1e-100, 1e-5),
]


@pytest.mark.parametrize("sensitivity, epsilon, delta", REFUSED)
def test_what_the_theorem_does_not_cover_is_refused(sensitivity, epsilon, delta):
    with pytest.raises(CalibrationError, match=r" is .*; .*"):
        classic_standard_deviation(sensitivity, epsilon, delta)


def test_the_refusal_of_a_large_epsilon_names_value_rule_and_remedy():
    with pytest.raises(CalibrationError, match=r"epsilon is 2.0; .* needs epsilon < 1 .*; use the analytic Gaussian"):
        classic_standard_deviation(1.0, 2.0, 1e-5)

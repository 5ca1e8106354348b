"""Losses compose and convert as the independent numbers say, and are rounded to the safe side."""

import json
import math
from pathlib import Path

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Neighbours, PureDP, compose

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())


def vectors(name):
    return [vector for vector in VECTORS if vector["name"] == name]


@pytest.mark.parametrize("vector", vectors("gdp_composition"))
def test_mu_squared_adds_up(vector):
    total = compose(GaussianDP(float(mu)) for mu in vector["inputs"]["mus"])
    with mpmath.workdps(40):
        assert 1 <= total.mu / mpmath.mpf(vector["expected"]["mu"]) <= 1 + 1e-14
        delta = total.delta(float(vector["inputs"]["eps"]))
        assert 1 <= delta / mpmath.mpf(vector["expected"]["delta_at_eps"]) <= 1 + 1e-12


@pytest.mark.parametrize("vector", vectors("imgm_composition"))
def test_equal_steps_need_noise_that_grows_with_the_root_of_their_number(vector):
    given_ = {name: float(value) for name, value in vector["inputs"].items()}
    product = float(vector["expected"]["required_product"])
    step = GaussianDP(given_["s2"] / product)
    total = compose([step] * int(given_["T"]))
    assert total.mu == pytest.approx(gaussian_mu(given_["eps"], given_["delta"]), rel=2e-12)


@pytest.mark.parametrize("vector", vectors("gaussian_rdp"))
def test_the_renyi_divergence_of_gaussian_noise_is_rho_times_its_order(vector):
    epsilon, delta, alpha = (float(vector["inputs"][name]) for name in ("eps", "delta", "alpha"))
    loss = GaussianDP(gaussian_mu(epsilon, delta)).to_zcdp()
    assert loss.rho * alpha == pytest.approx(float(vector["expected"]["correct_rdp"]), rel=3e-12)


@given(st.lists(st.floats(-320, 300), min_size=1, max_size=30))
def test_a_composition_is_never_understated(logarithms):
    mus = [mu for mu in (10.0**value for value in logarithms) if mu > 0]
    if mus:
        with mpmath.workdps(700):
            exact = mpmath.sqrt(sum(mpmath.mpf(mu) ** 2 for mu in mus))
            total = compose(GaussianDP(mu) for mu in mus).mu
            assert exact <= total
            assert total <= exact * (1 + mpmath.mpf("2e-15")) + mpmath.mpf("2e-323")


def test_a_composition_beyond_the_largest_float_is_refused():
    with pytest.raises(CalibrationError):
        compose([GaussianDP(1.7e308)] * 2)


def test_nothing_composes_to_nothing():
    with pytest.raises(CalibrationError):
        compose([])


def test_epsilon_and_delta_are_each_others_inverse():
    loss = GaussianDP(0.4)
    assert loss.delta(loss.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-9)
    assert loss.delta(loss.epsilon(1e-6)) <= 1e-6
    assert loss.rho == pytest.approx(0.08)


@given(mu=st.floats(1e-200, 1e100))
def test_rho_is_rounded_up(mu):
    with mpmath.workdps(40):
        exact = mpmath.mpf(mu) ** 2 / 2
        for rho in (GaussianDP(mu).to_zcdp().rho, PureDP(mu).to_zcdp().rho):
            assert exact <= rho <= exact * (1 + mpmath.mpf("2e-15")) + mpmath.mpf("1e-323")


@given(epsilon=st.floats(1e-3, 20), log_excess=st.floats(-3, 3))
def test_the_divergence_of_randomised_response_stays_below_what_its_epsilon_converts_to(epsilon, log_excess):
    with mpmath.workdps(60):
        alpha = 1 + mpmath.mpf(10) ** mpmath.mpf(log_excess)
        yes = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        moment = yes**alpha * (1 - yes) ** (1 - alpha) + (1 - yes) ** alpha * yes ** (1 - alpha)
        assert mpmath.log(moment) / (alpha - 1) <= PureDP(epsilon).to_zcdp().rho * alpha


@given(log_rho=st.floats(-8, 4), log_delta=st.floats(-300, -0.302))
def test_an_epsilon_from_rho_covers_gaussian_noise_and_beats_the_simple_bound(log_rho, log_delta):
    rho, delta = 10.0**log_rho, 10.0**log_delta
    stated = ZCDP(rho).to_approx(delta)
    assert stated.delta == delta
    # Gaussian noise of mu = sqrt(2 rho) satisfies rho exactly, so no valid conversion states less than it needs.
    assert stated.epsilon >= GaussianDP(math.sqrt(2.0 * rho) * (1 - 1e-15)).epsilon(delta) * (1 - 1e-12)
    assert stated.epsilon <= rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


@given(log_rho=st.floats(-8, 4), log_delta=st.floats(-300, -0.302))
def test_an_epsilon_from_rho_is_the_best_order_to_three_digits_and_never_below_it(log_rho, log_delta):
    rho, delta = 10.0**log_rho, 10.0**log_delta
    stated = ZCDP(rho).to_approx(delta).epsilon
    with mpmath.workdps(50):
        r, log = mpmath.mpf(rho), mpmath.log(mpmath.mpf(delta))

        def bound(point):
            alpha = 1 + mpmath.exp(point)
            return r * alpha + mpmath.log1p(-1 / alpha) - (log + mpmath.log(alpha)) / (alpha - 1)

        centre = mpmath.log(-log / r) / 2
        best = min(bound(centre + mpmath.mpf(k) / 50) for k in range(-200, 201))
    assert max(0.0, float(best) * (1 - 1e-3)) <= stated <= max(1e-15, float(best) * (1 + 1e-3) + 1e-12)


@pytest.mark.parametrize("rho", [5e-324, 1e-300, 1e300])
def test_the_ends_of_the_range_of_floats_convert(rho):
    assert rho <= ZCDP(rho).to_approx(1e-6).epsilon <= max(1e-15, rho * (1 + 1e-12))


@pytest.mark.parametrize("loss", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", [lambda loss: ApproxDP(loss, 1e-6), PureDP, ZCDP, GaussianDP])
def test_a_loss_must_be_stated(kind, loss):
    with pytest.raises(CalibrationError):
        kind(loss)


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_delta_must_be_a_probability(delta):
    with pytest.raises(CalibrationError):
        ApproxDP(1.0, delta)
    with pytest.raises(CalibrationError):
        ZCDP(1.0).to_approx(delta)


def test_relations_are_named_as_in_configs():
    assert {relation.value for relation in Neighbours} == {"add-remove", "replace-one"}

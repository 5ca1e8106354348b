"""The analytic Gaussian against independent numbers and 120-digit arithmetic, never on the unsafe side."""

import json
import math
from pathlib import Path

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.calibration import CalibrationError, gaussian_delta, gaussian_epsilon, gaussian_log_delta, gaussian_mu

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "testvectors.json").read_text())
TOLERANCE = 1e-12


def vectors(prefix):
    return [vector for vector in VECTORS if vector["name"].startswith(prefix)]


def exact_delta(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def relative_error_of_mu(mu, epsilon, delta):
    """First-order distance of mu from the root, using that the derivative of delta is the density at a."""
    mu = mpmath.mpf(mu)
    return (exact_delta(mu, epsilon) - mpmath.mpf(delta)) / (mu * mpmath.npdf(mu / 2 - mpmath.mpf(epsilon) / mu))


@pytest.mark.parametrize("vector", vectors("analytic_gaussian_B"))
def test_mu_is_the_independent_number_from_below(vector):
    with mpmath.workdps(40):
        exact = mpmath.mpf(vector["expected"]["B"])
        error = (gaussian_mu(float(vector["inputs"]["eps"]), float(vector["inputs"]["delta"])) - exact) / exact
        assert -TOLERANCE <= error <= 0


@pytest.mark.parametrize("vector", vectors("gaussian_profile"))
def test_the_profile_is_the_independent_number_and_delta_is_rounded_up(vector):
    mu, epsilon = float(vector["inputs"]["mu"]), float(vector["inputs"]["eps"])
    with mpmath.workdps(40):
        exact_log = mpmath.mpf(vector["expected"]["log_delta"])
        assert abs(gaussian_log_delta(mu, epsilon) / exact_log - 1) <= TOLERANCE
        ratio = gaussian_delta(mu, epsilon) / mpmath.mpf(vector["expected"]["delta"])
        assert 1 <= ratio <= 1 + TOLERANCE


EPSILONS = [1e-9, 1e-5, 0.01, 0.3, 1.0, 4.0, 30.0, 1000.0]
DELTAS = [1e-300, 1e-80, 1e-20, 1e-8, 1e-3, 0.1, 0.5]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_private_and_tight_on_a_wide_grid(epsilon, delta):
    with mpmath.workdps(120):
        assert -TOLERANCE <= relative_error_of_mu(gaussian_mu(epsilon, delta), epsilon, delta) <= 0


@given(log_epsilon=st.floats(-9, 3), log_delta=st.floats(-300, -0.31))
def test_mu_is_private_and_tight_anywhere(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    with mpmath.workdps(400):
        assert -TOLERANCE <= relative_error_of_mu(gaussian_mu(epsilon, delta), epsilon, delta) <= 0


@given(mu=st.floats(1e-4, 30), share=st.floats(0, 8))
def test_delta_is_an_upper_bound_and_tight(mu, share):
    epsilon = share * mu
    with mpmath.workdps(200):
        exact = exact_delta(mu, epsilon)
        if exact > mpmath.mpf("1e-290"):
            assert 1 <= gaussian_delta(mu, epsilon) / exact <= 1 + TOLERANCE


@given(mu=st.floats(1e-3, 30), log_delta=st.floats(-100, -0.5))
def test_epsilon_is_an_upper_bound_and_tight(mu, log_delta):
    delta = 10.0**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    with mpmath.workdps(200):
        assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)
        if epsilon > 1e-6:
            assert exact_delta(mu, epsilon * (1 - 1e-9)) > mpmath.mpf(delta) * (1 - mpmath.mpf("1e-8"))


def test_no_loss_is_needed_when_delta_alone_suffices():
    assert gaussian_epsilon(0.01, 0.5) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_a_delta_that_is_no_probability_is_refused(delta):
    for call in (lambda: gaussian_mu(1.0, delta), lambda: gaussian_epsilon(1.0, delta)):
        with pytest.raises(CalibrationError, match="delta"):
            call()


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_an_epsilon_that_is_no_loss_is_refused(epsilon):
    for call in (lambda: gaussian_mu(epsilon, 1e-6), lambda: gaussian_log_delta(1.0, epsilon)):
        with pytest.raises(CalibrationError, match="epsilon"):
            call()


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_mu_that_is_no_loss_is_refused(mu):
    with pytest.raises(CalibrationError, match="mu"):
        gaussian_log_delta(mu, 1.0)

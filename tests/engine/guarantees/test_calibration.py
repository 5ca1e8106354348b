"""The analytic Gaussian against independent numbers and arithmetic of at least 80 digits, never on the unsafe side."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from blockveil.engine.guarantees import calibration
from blockveil.engine.guarantees.calibration import (
    CalibrationError,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
)

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
TOLERANCE = 1e-12


def vectors(prefix):
    return [vector for vector in VECTORS if vector["name"].startswith(prefix)]


def digits(mu, epsilon):
    """Working digits that leave 80: the difference loses about those of 1 / mu, and those of epsilon."""
    return 80 + max(0, -math.floor(2 * math.log10(mu))) + max(0, math.ceil(math.log10(epsilon + 1)))


def exact_delta(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def relative_error_of_mu(mu, epsilon, delta):
    """First-order distance of mu from the root, using that the derivative of delta is the density at a."""
    with mpmath.workdps(digits(mu, epsilon)):
        density = mpmath.npdf(mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mpmath.mpf(mu))
        return (exact_delta(mu, epsilon) - mpmath.mpf(delta)) / (mpmath.mpf(mu) * density)


@pytest.mark.parametrize("vector", vectors("analytic_gaussian_B"))
def test_mu_is_the_independent_number_from_below(vector):
    with mpmath.workdps(40):
        exact = mpmath.mpf(vector["expected"]["B"])
        mu = gaussian_mu(float(vector["inputs"]["eps"]), float(vector["inputs"]["delta"]))
        assert -TOLERANCE <= (mu - exact) / exact <= 0
        if "zcdp_rho" in vector["expected"]:
            assert mu * mu / 2 == pytest.approx(float(vector["expected"]["zcdp_rho"]), rel=3 * TOLERANCE)
            assert 1 / mu == pytest.approx(float(vector["expected"]["sigma_over_sensitivity"]), rel=TOLERANCE)


@pytest.mark.parametrize("vector", vectors("gaussian_profile"))
def test_the_profile_is_the_independent_number_and_delta_is_rounded_up(vector):
    mu, epsilon = float(vector["inputs"]["mu"]), float(vector["inputs"]["eps"])
    with mpmath.workdps(40):
        exact_log = mpmath.mpf(vector["expected"]["log_delta"])
        assert abs(gaussian_log_delta(mu, epsilon) / exact_log - 1) <= 1e-15
        ratio = gaussian_delta(mu, epsilon) / mpmath.mpf(vector["expected"]["delta"])
        assert 1 <= ratio <= 1 + TOLERANCE


@pytest.mark.parametrize("vector", vectors("classic_gaussian"))
def test_the_classic_formula_is_never_quieter_than_needed_where_it_holds(vector):
    epsilon, delta, sensitivity = (float(vector["inputs"][name]) for name in ("eps", "delta", "sensitivity"))
    assert sensitivity / gaussian_mu(epsilon, delta) < float(vector["expected"]["sigma"])


EPSILONS = [0.0, 1e-300, 1e-9, 1e-5, 0.01, 0.3, 1.0, 4.0, 30.0, 1000.0]
DELTAS = [1e-300, 1e-80, 1e-20, 1e-8, 1e-3, 0.1, 0.5]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_is_private_and_tight_on_a_wide_grid(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert -TOLERANCE <= relative_error_of_mu(mu, epsilon, delta) <= 0
    assert gaussian_delta(mu, epsilon) <= delta


@given(log_epsilon=st.floats(-9, 3), log_delta=st.floats(-300, -0.302))
@example(log_epsilon=-9.0, log_delta=-300.0)
@example(log_epsilon=3.0, log_delta=-0.302)
def test_mu_is_private_and_tight_anywhere(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    mu = gaussian_mu(epsilon, delta)
    assert -TOLERANCE <= relative_error_of_mu(mu, epsilon, delta) <= 0
    assert gaussian_delta(mu, epsilon) <= delta


@given(log_epsilon=st.floats(-3, 12), log_rest=st.floats(-15, -0.302))
@example(log_epsilon=-2.1, log_rest=-12.0)
def test_mu_is_private_even_where_delta_is_nearly_one(log_epsilon, log_rest):
    epsilon, delta = 10.0**log_epsilon, 1.0 - 10.0**log_rest
    assert relative_error_of_mu(gaussian_mu(epsilon, delta), epsilon, delta) <= 0


@given(shift=st.floats(-37, 37), log_epsilon=st.floats(-9, 9))
@example(shift=-36.0, log_epsilon=6.93)
@example(shift=-37.0, log_epsilon=3.0)
@example(shift=0.0, log_epsilon=0.0)
def test_delta_is_an_upper_bound_and_tight_however_much_its_terms_cancel(shift, log_epsilon):
    epsilon = 10.0**log_epsilon
    mu = shift + math.sqrt(shift * shift + 2.0 * epsilon)  # mu/2 - epsilon/mu is about shift
    assume(mu > 0)
    with mpmath.workdps(digits(mu, epsilon)):
        exact = exact_delta(mu, epsilon)
        if exact > mpmath.mpf("1e-300"):
            assert abs(gaussian_log_delta(mu, epsilon) - mpmath.log(exact)) <= 1.7e-13
            ratio = gaussian_delta(mu, epsilon) / exact
            assert 1 <= ratio <= 1 + TOLERANCE or gaussian_delta(mu, epsilon) == 1.0


@given(log_mu=st.floats(-290, 1.8))
def test_delta_at_epsilon_zero_is_the_total_variation_rounded_up(log_mu):
    mu = 10.0**log_mu
    with mpmath.workdps(80):
        exact = mpmath.erf(mpmath.mpf(mu) / (2 * mpmath.sqrt(2)))
        assert gaussian_delta(mu, 0.0) == 1.0 or 1 <= gaussian_delta(mu, 0.0) / exact <= 1 + TOLERANCE


@given(log_mu=st.floats(-3, 3), log_delta=st.floats(-300, -0.302))
def test_epsilon_is_an_upper_bound_and_tight(log_mu, log_delta):
    mu, delta = 10.0**log_mu, 10.0**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    with mpmath.workdps(digits(mu, epsilon)):
        assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)
        if epsilon > 0:
            # A little less loss, or the same loss of a delta below the margin, does not suffice.
            smaller = mpmath.mpf(epsilon) * (1 - mpmath.mpf(TOLERANCE))
            assert exact_delta(mu, smaller) > mpmath.mpf(delta) * (1 - mpmath.mpf("5e-13"))


@given(log_mu=st.floats(-4, 1), log_gap=st.floats(-12, -1))
def test_epsilon_is_an_upper_bound_where_it_is_nearly_zero(log_mu, log_gap):
    mu = 10.0**log_mu
    delta = gaussian_delta(mu, 0.0) * (1.0 - 10.0**log_gap)
    epsilon = gaussian_epsilon(mu, delta)
    with mpmath.workdps(digits(mu, epsilon)):
        assert exact_delta(mu, epsilon) <= mpmath.mpf(delta)


@given(log_epsilon=st.floats(-9, 3), log_delta=st.floats(-300, -0.302))
def test_a_few_evaluations_find_mu(log_epsilon, log_delta):
    with pytest.MonkeyPatch.context() as patch:
        calls = []
        plain = calibration.gaussian_log_delta
        patch.setattr(calibration, "gaussian_log_delta", lambda *given: calls.append(given) or plain(*given))
        gaussian_mu(10.0**log_epsilon, 10.0**log_delta)
    assert len(calls) <= 25


def test_mu_grows_with_both_parameters_and_delta_falls_with_epsilon():
    mus = [[gaussian_mu(epsilon, delta) for epsilon in EPSILONS[2:]] for delta in DELTAS]
    assert np.all(np.diff(mus, axis=0) > 0)
    assert np.all(np.diff(mus, axis=1)[:, 1:] > 0)
    assert np.all(np.diff([gaussian_log_delta(0.7, epsilon) for epsilon in np.linspace(0.0, 30.0, 400)]) < 0)


def test_the_forms_meet_where_one_hands_over_to_the_next():
    # mu/2 = epsilon / (4 mu), mu/2 = 1/4, and mu/2 = epsilon / mu, each approached from both sides.
    for epsilon, mu in [(40.0, math.sqrt(20.0)), (0.01, 0.5), (0.3, math.sqrt(0.6)), (200.0, 20.0)]:
        for side in (1 - 1e-9, 1 + 1e-9):
            with mpmath.workdps(80):
                exact = mpmath.log(exact_delta(mu * side, epsilon))
            assert gaussian_log_delta(mu * side, epsilon) == pytest.approx(float(exact), abs=1e-14)


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-320, 1.0), (1e-300, 1e-150), (1e-10, 1e300), (1e-200, 1e-9)])
def test_a_delta_below_every_float_is_stated_as_the_least_ones(mu, epsilon):
    assert gaussian_log_delta(mu, epsilon) < -1e6
    assert 0 < gaussian_delta(mu, epsilon) <= 1e-322


def test_the_ends_of_the_range_of_floats_are_safe():
    assert gaussian_delta(1e200, 1.0) == 1.0
    assert gaussian_delta(5e-324, 0.0) >= 5e-324
    assert gaussian_epsilon(1e160, 0.1) == math.inf
    assert gaussian_epsilon(1e100, 0.5) == pytest.approx(5e199, rel=TOLERANCE)
    assert gaussian_mu(1e308, 0.5) == pytest.approx(math.sqrt(2.0) * 1e154, rel=TOLERANCE)
    assert relative_error_of_mu(gaussian_mu(1e-9, 1e-310), 1e-9, 1e-310) <= 0
    with pytest.raises(CalibrationError, match="larger"):
        gaussian_mu(0.0, 5e-324)


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
    for call in (gaussian_log_delta, gaussian_delta):
        with pytest.raises(CalibrationError, match="mu"):
            call(mu, 1.0)
    with pytest.raises(CalibrationError, match="mu"):
        gaussian_epsilon(mu, 1e-6)

"""What calibration and the budget promise, proved in enclosing arithmetic that shares no code with them."""

from fractions import Fraction

import pytest

from blockveil.engine.guarantees.calibration import gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.guarantee import Loss
from blockveil.pipeline.budget.filter import LOSS_TICK, Cap, Ticks
from tests.oracles.enclosures import Enclosure, exponential, gaussian_profile, normal, pi

PROMISES = [(0.01, 1e-6), (0.1, 1e-9), (0.5, 1e-5), (1.0, 1e-6), (1.0, 1e-12), (3.0, 1e-5), (8.0, 1e-10), (0.0, 1e-3)]


def profile(mu, epsilon):
    return gaussian_profile(Enclosure.of(Fraction(mu)), Fraction(epsilon))


def test_the_enclosures_hold_what_is_known_and_are_narrow():
    digits = 314159265358979323846264338327950288419716939937510582097494459230781640628620899
    assert pi().least < Fraction(digits + 1, 10**80)
    assert pi().most > Fraction(digits, 10**80)
    e = Fraction(271828182845904523536028747135266249775724709369995, 10**50)
    assert exponential(Fraction(1)).least < e + Fraction(1, 10**50)
    assert exponential(Fraction(1)).most > e
    one = normal(Enclosure.of(-1))  # Abramowitz and Stegun, table 26.1
    assert one.least < Fraction(158655253931457052, 10**18) < one.most + Fraction(1, 10**18)
    assert one.most - one.least < Fraction(1, 2**1000)


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_a_calibrated_loss_keeps_its_promise_and_a_larger_one_does_not(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert profile(mu, epsilon).most <= Fraction(delta)
    assert profile(Fraction(mu) * Fraction(10**9 + 1, 10**9), epsilon).least > Fraction(delta)


@pytest.mark.parametrize(("mu", "delta"), [(0.05, 1e-6), (0.3, 1e-9), (1.0, 1e-6), (2.5, 1e-5), (4.0, 1e-12)])
def test_a_stated_epsilon_is_kept_and_a_smaller_one_is_not(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert profile(mu, epsilon).most <= Fraction(delta)
    assert profile(mu, Fraction(epsilon) * Fraction(10**9 - 1, 10**9)).least > Fraction(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (1.0, 1e-6), (3.0, 1e-5), (8.0, 1e-9)])
def test_all_that_a_budget_lets_be_spent_keeps_its_promise(epsilon, delta):
    cap = Cap(epsilon, delta)
    spent = Enclosure.of(cap.most_loss * LOSS_TICK).root()
    # The Gaussian part leaves the slack for failures and for the samplers' distances.
    most = gaussian_profile(spent, Fraction(epsilon)).most
    assert most <= Fraction(delta) * (1 - Fraction(cap.slack)) * (1 + Fraction(1, 10**12))
    assert most <= Fraction(delta)
    over = Enclosure.of(cap.most_loss * LOSS_TICK * Fraction(10**9 + 1, 10**9)).root()
    assert gaussian_profile(over, Fraction(epsilon)).least > Fraction(delta) * (1 - Fraction(cap.slack))


@pytest.mark.parametrize("mu", [0.001, 0.1234567, 1.0, 3.3])
def test_a_charge_is_never_booked_below_its_square(mu):
    booked = Ticks.of(Loss(mu=mu, epsilon=0.0, total_variation=2.0**-80)).loss
    assert booked * LOSS_TICK >= Fraction(mu) ** 2 > (booked - 1) * LOSS_TICK

"""Charges add up exactly, never understate, and a cap holds exactly what fits."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.calibration import gaussian_delta, gaussian_epsilon
from engine.guarantees import GaussianDP, compose
from pipeline.accounting import LOSS_TICK, NOTHING, SAMPLER_TICK, Cap, GaussianCharge, Ticks

SAMPLER = 300 * 2.0**-90
MUS = st.floats(1e-4, 3.0)


@given(mu=st.floats(1e-6, 50), variation=st.floats(0, 1e-15))
def test_ticks_round_up_by_less_than_one(mu, variation):
    ticks = GaussianCharge(mu, variation).ticks()
    assert 0 <= ticks.loss * LOSS_TICK - Fraction(mu) ** 2 < LOSS_TICK
    assert 0 <= ticks.sampler * SAMPLER_TICK - Fraction(variation) < SAMPLER_TICK


@given(st.lists(MUS, min_size=1, max_size=30))
def test_sums_are_the_composition_and_never_below_it(mus):
    total = sum((GaussianCharge(mu, 0.0).ticks() for mu in mus), NOTHING)
    exact = math.sqrt(sum(Fraction(mu) ** 2 for mu in mus))
    assert total.mu >= exact
    assert total.mu == pytest.approx(compose(GaussianDP(mu) for mu in mus).mu, rel=1e-6)


@given(mu=MUS, epsilon=st.floats(0, 20))
def test_delta_pays_for_the_sampler_too(mu, epsilon):
    spent = GaussianCharge(mu, SAMPLER).ticks()
    assert spent.delta(epsilon) >= gaussian_delta(mu, epsilon) + (1 + math.exp(epsilon)) * SAMPLER


@given(mu=st.floats(1e-4, 1.0), log_delta=st.floats(-9, -1))
def test_epsilon_is_enough_and_not_much_more(mu, log_delta):
    spent, delta = GaussianCharge(mu, SAMPLER).ticks(), 10.0**log_delta
    epsilon = spent.epsilon(delta)
    assert spent.delta(epsilon) <= delta
    assert epsilon <= gaussian_epsilon(mu, delta) * (1 + 1e-5) + 1e-5


def test_epsilon_is_infinite_where_the_samplers_alone_exceed_delta():
    assert Ticks(1, 2**100).epsilon(1e-6) == math.inf


def test_nothing_spent_costs_nothing():
    assert NOTHING.epsilon(1e-6) == 0.0
    assert NOTHING.delta(0.1) == 0.0


@given(epsilon=st.floats(0.1, 20), log_delta=st.floats(-10, -2), share=st.floats(0.05, 0.9))
def test_what_is_left_fits_and_a_thousandth_more_does_not(epsilon, log_delta, share):
    cap = Cap(epsilon, 10.0**log_delta)
    spent = GaussianCharge(cap.left(NOTHING) * share, SAMPLER).ticks()
    assert cap.holds(spent)
    left = cap.left(spent)
    assert cap.holds(spent + GaussianCharge(left, SAMPLER).ticks())
    assert not cap.holds(spent + GaussianCharge(left * 1.001, SAMPLER).ticks())


@given(epsilon=st.floats(0.5, 20), mu=st.floats(0.05, 0.5))
def test_as_many_nights_fit_as_are_told(epsilon, mu):
    cap, charge = Cap(epsilon, 1e-6), GaussianCharge(mu, SAMPLER)
    nights = cap.nights(NOTHING, mu)
    total = Ticks(charge.ticks().loss * nights, charge.ticks().sampler * nights)
    assert cap.holds(total)
    assert not cap.holds(total + charge.ticks() + charge.ticks())


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_a_finite_loss_is_refused(mu):
    with pytest.raises(ValueError, match="positive finite mu"):
        GaussianCharge(mu, 0.0)


def test_a_very_large_cap_is_not_lost_to_the_samplers():
    cap = Cap(1000.0, 1e-6)
    left = cap.left(NOTHING)
    assert left > Cap(10.0, 1e-6).left(NOTHING)
    assert cap.holds(GaussianCharge(left, SAMPLER).ticks())

"""Charges add up exactly, never understate, and a cap holds exactly what fits."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_epsilon, gaussian_mu
from blockveil.engine.guarantees.events import PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Loss, Neighbours, PureDP, compose
from blockveil.engine.guarantees.profiles import gaussian_profile, pure_profile
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace, Laplace
from blockveil.engine.records.geometry import Body
from blockveil.pipeline.budget.filter import FAILURE_TICK, LOSS_TICK, NOTHING, SAMPLER_TICK, Accountant, Cap, Ticks

SAMPLER = 300 * 2.0**-90
MUS = st.floats(1e-4, 3.0)


@given(mu=st.floats(1e-6, 50), variation=st.floats(0, 1e-15))
def test_ticks_round_up_by_less_than_one(mu, variation):
    ticks = Ticks.of(Loss(mu, 0.0, variation))
    assert 0 <= ticks.loss * LOSS_TICK - Fraction(mu) ** 2 < LOSS_TICK
    assert 0 <= ticks.sampler * SAMPLER_TICK - Fraction(variation) < SAMPLER_TICK


@given(st.lists(MUS, min_size=1, max_size=30))
def test_sums_are_the_composition_and_never_below_it(mus):
    total = sum((Ticks.of(Loss(mu, 0.0, 0.0)) for mu in mus), NOTHING)
    exact = math.sqrt(sum(Fraction(mu) ** 2 for mu in mus))
    assert total.mu >= exact
    assert total.mu == pytest.approx(compose(GaussianDP(mu) for mu in mus).mu, rel=1e-6)


@given(mu=MUS, epsilon=st.floats(0, 20))
def test_delta_pays_for_the_sampler_too(mu, epsilon):
    spent = Ticks.of(Loss(mu, 0.0, SAMPLER))
    assert spent.delta(epsilon) >= gaussian_delta(mu, epsilon) + (1 + math.exp(epsilon)) * SAMPLER


@given(mu=st.floats(1e-4, 1.0), log_delta=st.floats(-9, -1))
def test_epsilon_is_enough_and_not_much_more(mu, log_delta):
    spent, delta = Ticks.of(Loss(mu, 0.0, SAMPLER)), 10.0**log_delta
    epsilon = spent.epsilon(delta)
    assert spent.delta(epsilon) <= delta
    assert epsilon <= gaussian_epsilon(mu, delta) * (1 + 1e-5) + 1e-5


def test_epsilon_is_infinite_where_the_samplers_alone_exceed_delta():
    assert Ticks(1, 2**100).epsilon(1e-6) == math.inf


def test_shares_of_a_budget_add_up_within_one_currency_and_the_largest_counts_among_several():
    cap = Cap(3.0, 1e-5, reserve=0.5)
    gaussian, pure = Ticks.of(Loss(0.2, 0.0, 0.0)), Ticks.of(Loss(0.0, 0.1, 0.0))
    for night in (gaussian, pure):
        assert cap.used(night + night + night) == pytest.approx(3 * cap.used(night))
    both = gaussian + pure
    assert cap.used(both) == max(cap.used(gaussian), cap.used(pure, beside=gaussian))
    assert cap.used(both) < cap.used(gaussian) + cap.used(pure, beside=gaussian)
    assert cap.used(both) > cap.used(gaussian) + cap.used(pure), "a pure loss alone takes its share of all of epsilon"


def test_nothing_spent_costs_nothing():
    assert NOTHING.epsilon(1e-6) == 0.0
    assert NOTHING.delta(0.1) == 0.0


@given(epsilon=st.floats(0.1, 20), log_delta=st.floats(-10, -2), share=st.floats(0.05, 0.9))
def test_what_is_left_fits_and_a_thousandth_more_does_not(epsilon, log_delta, share):
    cap = Cap(epsilon, 10.0**log_delta)
    spent = Ticks.of(Loss(cap.left(NOTHING) * share, 0.0, SAMPLER))
    assert cap.holds(spent)
    left = cap.left(spent)
    assert cap.holds(spent + Ticks.of(Loss(left, 0.0, SAMPLER)))
    assert not cap.holds(spent + Ticks.of(Loss(left * 1.001, 0.0, SAMPLER)))


@given(epsilon=st.floats(0.5, 20), mu=st.floats(0.05, 0.5))
def test_as_many_nights_fit_as_are_told(epsilon, mu):
    cap, charge = Cap(epsilon, 1e-6), Ticks.of(Loss(mu, 0.0, SAMPLER))
    nights = cap.nights(NOTHING, charge)
    assert cap.holds(charge.times(nights), nights)
    assert not cap.holds(charge.times(nights + 1), nights + 1)


@given(epsilon=st.floats(1.0, 20), mu=st.floats(0.05, 0.5), pure=st.floats(0.001, 0.5))
def test_pure_and_gaussian_losses_add_up_to_what_the_shifted_profile_says(epsilon, mu, pure):
    spent = Ticks.of(Loss(mu, 0.0, 0.0)) + Ticks.of(Loss(0.0, pure, 0.0))
    together = gaussian_delta(mu, epsilon - pure)
    assert together <= spent.delta(epsilon) <= together * (1 + 1e-6) + 1e-300
    assert spent.delta(pure * 0.999) == 1.0
    assert spent.epsilon(1e-6) == pytest.approx(pure + Ticks.of(Loss(mu, 0.0, 0.0)).epsilon(1e-6), rel=1e-9)


@given(pure=st.floats(0.001, 1.0))
def test_pure_losses_alone_are_summed_without_any_delta(pure):
    cap, charge = Cap(2.0, 1e-9), Ticks.of(Loss(0.0, pure, 0.0))
    assert cap.nights(NOTHING, charge) in (int(2.0 / pure), int(2.0 / pure) - 1)
    assert charge.times(3).epsilon(1e-9) == pytest.approx(3 * pure)
    assert cap.left(charge) < cap.left(NOTHING)


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_a_charge_without_a_finite_loss_is_refused(mu):
    with pytest.raises(ValueError, match="finite parts"):
        Loss(mu, 0.0, 0.0)


def test_a_very_large_cap_is_not_lost_to_the_samplers():
    cap = Cap(1000.0, 1e-6)
    left = cap.left(NOTHING)
    assert 27.0 < cap.level < 28.0
    assert left > Cap(10.0, 1e-6).left(NOTHING)
    assert cap.holds(Ticks.of(Loss(left, 0.0, SAMPLER)), 1)


@pytest.mark.parametrize("guarantee", [ApproxDP(1.0, 1e-6), ApproxDP(0.5, 0.4), ApproxDP(8.0, 1e-10)])
def test_a_budget_equal_to_a_release_holds_exactly_that_release(guarantee):
    problem = SecondMoment(Body.CUBE, np.ones(5), Neighbours.ADD_REMOVE, 2**15 - 1, 1000, True)
    charge = Ticks.of(Gaussian().design(problem, guarantee).loss)
    cap = Cap(guarantee.epsilon, guarantee.delta)
    assert cap.holds(charge, 1)
    assert not cap.holds(charge.times(2), 2)
    assert cap.nights(NOTHING, charge) == 1


COUNTS = Counts((3, 4), Neighbours.REPLACE_ONE, 1000)
LAPLACE = Laplace(Importance("relative-error"))
MOMENT = SecondMoment(Body.CUBE, np.ones(2), Neighbours.ADD_REMOVE, 2**15 - 1, 1000, False)
EPSILONS = st.one_of(st.sampled_from([0.1, 0.3, 0.9, 1e-3]), st.floats(1e-3, 12.0))


@pytest.mark.parametrize("epsilon", [0.5, 0.25, 3.0])
def test_a_short_fraction_is_spent_to_the_last_bit_in_whole_numbers(epsilon):
    design = IntegerLaplace().design(COUNTS, ApproxDP(epsilon, 1e-6))
    assert 2 * design.grid.rate == Fraction(epsilon) == Fraction(design.loss.epsilon)


@given(epsilon=EPSILONS, problem=st.sampled_from([COUNTS, MOMENT]))
def test_a_pure_budget_equal_to_a_release_holds_exactly_that_release(epsilon, problem):
    guarantee, cap = ApproxDP(epsilon, 1e-6), Cap(epsilon, 1e-6)
    mechanisms = [LAPLACE, IntegerLaplace()] if problem is COUNTS else [LAPLACE]
    for mechanism in mechanisms:
        design = mechanism.design(problem, guarantee)
        charge = Ticks.of(design.loss)
        assert cap.holds(charge)
        assert cap.nights(NOTHING, charge) == 1
        assert charge.pure * LOSS_TICK == Fraction(design.loss.epsilon)  # nothing is lost to the ledger's rounding
        assert design.loss.epsilon == pytest.approx(epsilon, rel=2e-3)
    if problem is COUNTS:
        assert Fraction(design.loss.epsilon) >= 2 * design.grid.rate


# A sum of two budgets is rounded by up to 4e-15, which the smaller of the two has to leave.
# Beyond 27 a cap counts as 27.
@given(first=st.floats(0.01, 12.0), second=st.floats(0.01, 12.0))
def test_a_pure_budget_equal_to_two_releases_of_both_kinds_holds_exactly_those(first, second):
    losses = (
        LAPLACE.design(COUNTS, ApproxDP(first, 1e-6)).loss,
        IntegerLaplace().design(COUNTS, ApproxDP(second, 1e-6)).loss,
    )
    spent = Ticks.of(losses[0]) + Ticks.of(losses[1])
    cap = Cap(first + second, 2e-6)
    assert cap.holds(spent)
    assert not any(cap.holds(spent + Ticks.of(loss)) for loss in losses)


def test_what_is_chosen_after_a_first_outcome_beats_a_rule_that_accepts_any_mixture_but_not_the_cap():
    epsilon, delta, first = 1.0, 1e-3, 0.15
    grid = np.linspace(-12, 12, 200_001)
    weight = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    loss = first**2 / 2 + first * grid  # of the first step, under the first data set

    def outcome(mu_left, pure_left, choose):
        gaussian = (
            gaussian_profile(mu_left, epsilon - loss) if mu_left > 0 else np.maximum(0, -np.expm1(epsilon - loss))
        )
        pure = pure_profile(pure_left, epsilon - loss)
        return float((np.maximum(gaussian, pure) if choose else gaussian) @ weight)

    any_mixture_mu = math.sqrt(gaussian_mu(epsilon, delta) ** 2 - first**2)
    any_mixture_pure = epsilon - gaussian_epsilon(first, delta)
    assert outcome(any_mixture_mu, any_mixture_pure, False) == pytest.approx(delta, rel=1e-4)
    assert outcome(any_mixture_mu, any_mixture_pure, True) > 1.0005 * delta  # a false guarantee
    cap = Cap(epsilon, delta, reserve=0.3)
    spent = Ticks.of(Loss(first, 0.0, 0.0))
    # Both parts may be spent in full here, whatever was seen: the mean over outcomes of the later of the two bounds.
    left = cap.left(spent)
    shifted = gaussian_profile(left, epsilon - cap.reserve - loss)
    assert float(shifted @ weight) <= delta
    assert cap.holds(spent + Ticks.of(Loss(left, 0.0, 0.0)) + Ticks.of(Loss(0.0, 0.3, 0.0)))


def test_a_pure_loss_is_booked_as_one_in_the_reserve_and_as_the_gaussian_above_it_beyond():
    cap = Cap(2.0, 1e-6, reserve=0.5)
    gaussian = Ticks.of(Loss(0.1, 0.0, 0.0))
    inside, beyond = cap.book(Loss(0.0, 0.4, SAMPLER), gaussian), cap.book(Loss(0.0, 0.6, SAMPLER), gaussian)
    assert (inside.loss, inside.pure) == (0, Ticks.of(Loss(0.0, 0.4, 0.0)).pure)
    assert beyond.pure == 0
    assert beyond.sampler == Ticks.of(Loss(0.1, 0.0, SAMPLER)).sampler
    # Its Gaussian has the same total variation as randomised response: tanh(eps / 4)-like, larger than eps.
    assert 0.6 < beyond.mu < 0.6 * math.sqrt(math.pi / 2)
    assert gaussian_delta(beyond.mu, 0.0) >= math.tanh(0.3)


def test_pure_losses_before_anything_else_are_booked_as_they_are_and_no_gaussian_may_follow_beyond_the_reserve():
    cap = Cap(1.0, 1e-6)
    pure = cap.book(Loss(0.0, 0.6, 0.0), NOTHING)
    assert pure.loss == 0
    assert cap.holds(pure)
    assert not cap.holds(pure + Ticks.of(Loss(1e-3, 0.0, 0.0)))
    assert Cap(1.0, 1e-6, reserve=0.6).holds(pure + Ticks.of(Loss(1e-3, 0.0, 0.0)))


def test_failures_need_slack_and_are_never_lost():
    event = (Step(ApproxDP(0.1, 1e-8)),)
    narrow, wide = Cap(2.0, 1e-6), Cap(2.0, 1e-6, slack=0.2)
    assert narrow.book(event, NOTHING).failure * FAILURE_TICK >= Fraction(1e-8)
    assert not narrow.holds(narrow.book(event, NOTHING), 2)
    booked = wide.book(event, NOTHING)
    assert wide.holds(booked.times(9))
    assert not wide.holds(booked.times(11))
    assert booked.delta(1.0) > 1e-8


def test_zero_concentrated_budgets_add_rho():
    cap = Cap(2.0, 1e-6, accountant=Accountant.ZCDP)
    half = cap.book((Step(ZCDP(0.01), 3), Step(PureDP(0.1), 2)), NOTHING)
    assert half.loss * LOSS_TICK == pytest.approx(2 * (0.03 + 0.01), rel=1e-9)
    rho = float(cap.most_loss * LOSS_TICK) / 2
    assert ZCDP(rho).to_approx(1e-6).epsilon <= 2.0
    assert ZCDP(rho * 1.01).to_approx(1e-6).epsilon > 2.0
    # What was spent is stated as what rho proves, which is more than the Gaussian of the same mu.
    stated = half.epsilon(1e-6, Accountant.ZCDP)
    assert stated >= ZCDP(float(half.loss * LOSS_TICK) / 2).to_approx(1e-6).epsilon
    assert stated == pytest.approx(ZCDP(0.04).to_approx(1e-6).epsilon, rel=1e-5)
    assert stated > half.epsilon(1e-6)
    assert (half + Ticks(0, 0, 0, 2**60)).epsilon(1e-6, Accountant.ZCDP) == math.inf
    assert (half + Ticks(0, 2**100)).epsilon(1e-6, Accountant.ZCDP) == math.inf
    gaussian = Cap(2.0, 1e-6)
    event = (Step(ZCDP(0.02)),)
    # The same event takes a larger share where Gaussians are the currency; a Gaussian one a larger share here.
    assert cap.used(cap.book(event, NOTHING)) < gaussian.used(gaussian.book(event, NOTHING))
    night = Ticks.of(Loss(0.1, 0.0, 0.0))
    assert cap.used(night) > gaussian.used(night)


def test_a_series_that_samples_records_is_booked_above_its_loss_distribution():
    cap = Cap(3.0, 1e-5, slack=0.1)
    training = (Step(PoissonGaussian(0.01, 1.0), 1000),)
    booked = cap.book(training, NOTHING)
    assert cap.holds(booked)
    assert 1.8 < booked.epsilon(1e-5) < 2.1  # dp-accounting: 1.8282


def test_ten_thousand_charges_are_one_sum_and_one_comparison():
    charges = [Ticks.of(Loss(1e-3 * (1 + k % 7), 0.0, SAMPLER)) for k in range(10_000)]
    total = sum(charges, NOTHING)
    assert total.loss == sum(charge.loss for charge in charges)
    assert Cap(5.0, 1e-6).holds(total) == (total.loss <= Cap(5.0, 1e-6).most_loss)


def test_a_budget_that_is_all_reserve_can_be_told_after_a_gaussian_release():
    cap = Cap(1.0, 1e-6, reserve=1.0)
    spent = Ticks.of(Loss(0.1, 0.0, 0.0))
    assert cap.holds(spent, 1)
    assert cap.used(spent) == 1.0
    assert cap.nights(spent, spent) == 0

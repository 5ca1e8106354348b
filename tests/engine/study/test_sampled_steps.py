"""Amplification by sampling and strong composition: exact, tight, and what print makes of them."""

import math

import mpmath
import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.study.sampled_steps import published_step, strong_composition, subsampled

RATE = 256 / 60000


def close(found, expected, tolerance):
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=tolerance, atol=0)


@pytest.mark.parametrize(
    "epsilon, rate, expected", [(1.0, 0.01, 0.01703686323617654978638525), (5.42, RATE, 0.6726813039269677829036864)]
)
def test_amplification_by_subsampling_is_the_independent_number(epsilon, rate, expected):
    found = subsampled(ApproxDP(epsilon, 1e-6), rate)
    close([found.epsilon, found.delta], [expected, rate * 1e-6], 1e-14)


@pytest.mark.parametrize("epsilon", [1e-12, 0.1, 30.0, 699.0, 701.0, 5000.0])
@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.7, 1.0])
def test_amplification_is_never_below_the_exact_value(epsilon, rate):
    with mpmath.workdps(3000):
        exact = mpmath.log(1 + mpmath.mpf(rate) * mpmath.expm1(mpmath.mpf(epsilon)))
        found = subsampled(ApproxDP(epsilon, 1e-6), rate).epsilon
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-14"))


def test_dividing_a_loss_by_the_rate_is_no_amplification():
    rate = 256 / 50000
    assert subsampled(ApproxDP(1.0 / rate, 1e-5), rate).epsilon == pytest.approx(190.0, rel=1e-3)


def test_amplification_is_tight_for_randomised_response_on_a_sampled_record():
    # The answer "yes" is e^epsilon times likelier when the record is there and seen than when it is not.
    epsilon, rate = 2.0, 0.1
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    seen, unseen = rate * truth + (1 - rate) * (1 - truth), 1 - truth
    assert math.log(seen / unseen) == pytest.approx(subsampled(ApproxDP(epsilon, 1e-9), rate).epsilon, rel=1e-12)
    # Multiplying epsilon by the rate would be a false claim here.
    assert math.log(seen / unseen) > rate * epsilon


def test_the_published_composition_is_reproduced_and_corrected():
    step = published_step(ApproxDP(16.983, 1e-5), RATE, 30, 1e-10)
    close([step.epsilon, step.delta], [5.425176003751151253878821, 3.33330e-7], 1e-12)
    claimed = strong_composition(ApproxDP(RATE * step.epsilon, RATE * step.delta), 30 / RATE, 1e-10)
    close([claimed.epsilon, claimed.delta], [16.983, 1e-5], 1e-12)
    amplified = subsampled(step, RATE)
    proven = strong_composition(amplified, 30 / RATE, 1e-10)
    close([amplified.epsilon, proven.epsilon], [0.6752304128960078317215316, 4963.331329012453989453169], 1e-12)


@pytest.mark.parametrize("total, step", [(1.795, 0.7125207617), (16.983, 5.425176004)])
def test_published_steps_of_the_training_experiments_are_reproduced(total, step):
    assert published_step(ApproxDP(total, 1e-5), RATE, 30, 1e-10).epsilon == pytest.approx(step, rel=1e-9)


@pytest.mark.parametrize("epsilon, steps", [(0.01, 50), (0.3, 10), (1.0, 4)])
def test_strong_composition_bounds_the_exact_composition_of_randomised_responses(epsilon, steps):
    slack, step_delta = 1e-4, 1e-9
    bound = strong_composition(ApproxDP(epsilon, step_delta), steps, slack)
    truth = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
    exact = mpmath.mpf(0)
    for right in range(steps + 1):
        first = mpmath.binomial(steps, right) * truth**right * (1 - truth) ** (steps - right)
        second = mpmath.binomial(steps, right) * truth ** (steps - right) * (1 - truth) ** right
        exact += max(0, first - mpmath.exp(bound.epsilon) * second)
    assert exact <= slack
    assert bound.delta == pytest.approx(slack + steps * step_delta)


@pytest.mark.parametrize(
    "call",
    [
        lambda: subsampled(ApproxDP(1.0, 1e-5), 0.0),
        lambda: subsampled(ApproxDP(1.0, 1e-5), 1.5),
        lambda: strong_composition(ApproxDP(1.0, 1e-5), 0, 1e-5),
        lambda: strong_composition(ApproxDP(1.0, 1e-5), 3, 0.0),
        lambda: strong_composition(ApproxDP(800.0, 1e-5), 3, 1e-5),
        lambda: strong_composition(ApproxDP(1.0, 0.4), 3, 1e-5),
        lambda: published_step(ApproxDP(1.0, 1e-5), 0.1, 3, 1e-4),
    ],
)
def test_what_has_no_value_is_refused(call):
    with pytest.raises(CalibrationError, match="; "):
        call()

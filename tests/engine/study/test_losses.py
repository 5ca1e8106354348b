"""Moments of the error against exact moments of its law, published constants, and composition with amplification."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, norm

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.published.mvg import equimodal
from blockveil.engine.mechanisms.published.mvg_allocation import uniform_allocation
from blockveil.engine.mechanisms.published.mvg_limits import MvgQuery, Theorem, Zeta, precision_limit
from blockveil.engine.study.losses import (
    analytic_constant,
    analytic_constant_upper_bound,
    analytic_expected_loss,
    classic_constant,
    classic_expected_loss,
    gaussian_loss_moments,
    kronecker_loss_moments,
    mvg_constant_lower_bound,
    published_composition,
    published_step,
    r1smg_loss_moments,
    r1smg_published_constant,
    strong_composition,
    subsampled,
)

# Raw and central kurtosis and skewness; independent, 25 digits.
GAUSSIAN = {
    100: (1.080784313725490196078431, 1.029753444695741281519404, 3.12, 0.2828427124746190097603377),
    7921: (1.001010100961815548126287, 1.000378700219550235190493, 3.001514960232293902285065,
           0.03178008005332797862475705),
}  # fmt: skip
RATE = 256 / 60000


def moments_by_series(variances):
    """First four moments of sum v z^2, from the Taylor series of prod (1 - 2 v t)^(-1/2)."""
    with mpmath.workdps(40):
        series = mpmath.taylor(lambda t: mpmath.fprod((1 - 2 * v * t) ** -0.5 for v in variances), 0, 4)
        return [mpmath.factorial(k) * series[k] for k in range(5)]


def shape_of(moments):
    _, first, second, third, fourth = moments
    variance = second - first**2
    central_third = third - 3 * first * second + 2 * first**3
    central_fourth = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
    raw = fourth / second**2, third / second**1.5
    return [first, *raw, central_fourth / variance**2, central_third / variance**1.5, mpmath.sqrt(variance) / first]


def numbers(found):
    return [
        found.mean,
        found.raw_kurtosis,
        found.raw_skewness,
        found.central_kurtosis,
        found.central_skewness,
        found.coefficient_of_variation,
    ]


def close(found, expected, tolerance):
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=tolerance, atol=0)


@pytest.mark.parametrize("entries", GAUSSIAN)
def test_gaussian_moments_are_the_independent_numbers(entries):
    found = gaussian_loss_moments(entries, 3.0)
    close(numbers(found)[1:5], GAUSSIAN[entries], 1e-14)
    close(found.mean, 9.0 * entries, 1e-15)
    raw = (entries + 6) * (entries + 4) / (entries * (entries + 2)), (entries + 4) / math.sqrt(entries * (entries + 2))
    close([found.raw_kurtosis, found.raw_skewness], raw, 1e-14)
    close(found.coefficient_of_variation, chi2.std(entries) / chi2.mean(entries), 1e-13)


def test_matrix_moments_are_the_independent_numbers():
    found = kronecker_loss_moments(np.array([4.0, 2.0, 1.0]), np.array([3.0, 1.0]))
    close(
        [found.mean, found.raw_kurtosis, found.raw_skewness],
        [28, 4.156609750444255582168, 1.76134188107759242446],
        1e-14,
    )


def test_rank_one_moments_are_the_independent_numbers_and_its_error_is_the_least_stable():
    found = r1smg_loss_moments(402110.0)
    close(numbers(found), [402110.0, 35 / 3, 2.886751345948128822545744, 15, math.sqrt(8), math.sqrt(2)], 1e-14)
    gaussian = gaussian_loss_moments(7921, 1.0)
    # What the paper calls stability: its ratios are larger, and so is the relative spread of the error, 89 times.
    assert found.raw_kurtosis > gaussian.raw_kurtosis
    assert found.coefficient_of_variation == pytest.approx(89 * gaussian.coefficient_of_variation)


@pytest.mark.parametrize("rows, columns", [([2.0], [0.5]), ([1.0, 1e-3], [7.0]), ([4.0, 2.0, 1.0], [3.0, 1.0, 0.1])])
def test_moments_are_those_of_the_law_itself(rows, columns):
    law = moments_by_series([mpmath.mpf(a) * b for a in rows for b in columns])
    close(numbers(kronecker_loss_moments(np.array(rows), np.array(columns))), shape_of(law), 1e-12)
    close(numbers(gaussian_loss_moments(5, 1.5)), shape_of(moments_by_series([2.25] * 5)), 1e-12)
    close(numbers(r1smg_loss_moments(2.25)), shape_of(moments_by_series([2.25])), 1e-12)


def test_moments_neither_overflow_nor_underflow():
    for scale in (1e-150, 1e150):
        found = kronecker_loss_moments(np.array([4.0, 2.0, 1.0]) * scale, np.array([3.0, 1.0]))
        close(
            numbers(found)[1:],
            numbers(kronecker_loss_moments(np.array([4.0, 2.0, 1.0]), np.array([3.0, 1.0])))[1:],
            1e-14,
        )


def test_the_mean_error_of_drawn_noise_is_the_stated_one():
    rng = np.random.default_rng(12)
    rows, columns = np.array([4.0, 2.0, 1.0]), np.array([3.0, 1.0])
    noise = np.sqrt(np.multiply.outer(rows, columns)) * rng.normal(size=(200_000, 3, 2))
    direction = rng.normal(size=(200_000, 6))
    direction *= (5.0 * rng.normal(size=200_000) / np.linalg.norm(direction, axis=1))[:, None]
    for loss, stated in (
        (np.sum(noise**2, axis=(1, 2)), kronecker_loss_moments(rows, columns)),
        (np.sum(direction**2, axis=1), r1smg_loss_moments(25.0)),
    ):
        spread = stated.mean * stated.coefficient_of_variation / math.sqrt(loss.size)
        allowed = -float(norm.ppf(5e-10)) * spread
        assert abs(float(np.mean(loss)) - stated.mean) < allowed
        assert abs(float(np.mean(loss)) - 1.05 * stated.mean) > allowed


@pytest.mark.parametrize(
    "entries, epsilon, delta, classic, upper, published, analytic",
    [
        (7921, 0.5, 1e-7, 1035511.645769605652137363, 872359.0982265062790091551, 4.021100975950170796864710,
         640985.4290329422438812018),
        (100, 1.0, 1e-5, 2347.213803256887635171250, 1918.929348408766137312561, 2.663258233617605914068445,
         1391.761239468946677845598),
    ],
)  # fmt: skip
def test_the_published_constants_are_reproduced(entries, epsilon, delta, classic, upper, published, analytic):
    arguments = entries, epsilon, delta
    close(classic_constant(*arguments), classic, 1e-11)
    close(analytic_constant_upper_bound(*arguments), upper, 1e-11)
    close(r1smg_published_constant(*arguments), published, 1e-11)
    close(analytic_constant(*arguments), analytic, 1e-11)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.1, 0.5, 0.9, 0.999])
def test_the_published_lower_bound_of_the_analytic_gaussian_is_an_upper_one(epsilon, delta):
    assert analytic_constant_upper_bound(1, epsilon, delta) > analytic_constant(1, epsilon, delta)


@pytest.mark.parametrize("entries", [3, 4, 10, 100, 7921, 10**6, 5_760_000])
def test_the_published_rank_one_scale_is_that_of_gamma_functions(entries):
    with mpmath.workdps(60):
        ratio = mpmath.gammaprod([mpmath.mpf(entries - 1) / 2], [mpmath.mpf(entries) / 2])
        psi = (mpmath.mpf(1e-5) * ratio / mpmath.sqrt(mpmath.pi)) ** (mpmath.mpf(2) / (entries - 2))
        close(r1smg_published_constant(entries, 0.7, 1e-5), float(2 / (mpmath.mpf(0.7) * psi)), 1e-11)


def test_the_published_constant_of_mvg_lies_far_below_its_noise():
    close(mvg_constant_lower_bound(4, 16, 1.0), 26.40224743408567991115332, 1e-13)
    close(mvg_constant_lower_bound(21, 44646, 1.0), 145324.2169313437620541981, 1e-13)
    for norm_bound, epsilon, delta in ((0.5, 1.0, 0.1), (0.5, 10.0, 0.4), (4.0, 0.1, 1e-5)):
        limit = precision_limit(MvgQuery(4, 4, norm_bound, 1.0), epsilon, delta, Theorem.GENERAL, Zeta.SQUARE_ROOT)
        assert mvg_constant_lower_bound(4, 16, epsilon) < equimodal(limit, uniform_allocation(4)).expected_loss


def test_expected_errors_of_the_mobility_matrix_are_the_independent_numbers():
    sensitivity = math.sqrt(2.0)
    close(classic_expected_loss(7921, sensitivity, 0.5, 1e-7), 2071023.291539211304274726, 1e-11)
    close(analytic_expected_loss(7921, sensitivity, 0.5, 1e-7), 1281970.858065884487762404, 1e-11)
    close(2.0 * r1smg_published_constant(7921, 1e-5, 1e-7), 402110.0975950170796864710, 1e-11)


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
    claimed = published_composition(step, RATE, 30, 1e-10)
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
        lambda: gaussian_loss_moments(0, 1.0),
        lambda: gaussian_loss_moments(3, 0.0),
        lambda: kronecker_loss_moments(np.array([1.0, math.inf]), np.ones(1)),
        lambda: kronecker_loss_moments(np.array([]), np.ones(1)),
        lambda: r1smg_loss_moments(-1.0),
        lambda: r1smg_published_constant(2, 0.1, 1e-5),
        lambda: classic_expected_loss(3, 1.0, 1.0, 1e-5),
        lambda: analytic_expected_loss(3, 0.0, 1.0, 1e-5),
        lambda: mvg_constant_lower_bound(0, 1, 1.0),
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


def test_the_analytic_error_is_that_of_the_root():
    assert analytic_constant(10, 1.0, 1e-5) == pytest.approx(10 / gaussian_mu(1.0, 1e-5) ** 2, rel=1e-15)

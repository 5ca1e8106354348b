"""Moments of the error against exact moments of its law."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, norm

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.study.error_moments import gaussian_loss_moments, kronecker_loss_moments, r1smg_loss_moments

# Raw and central kurtosis and skewness; independent, 25 digits.
GAUSSIAN = {
    100: (1.080784313725490196078431, 1.029753444695741281519404, 3.12, 0.2828427124746190097603377),
    7921: (1.001010100961815548126287, 1.000378700219550235190493, 3.001514960232293902285065,
           0.03178008005332797862475705),
}  # fmt: skip


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
    "call",
    [
        lambda: gaussian_loss_moments(0, 1.0),
        lambda: gaussian_loss_moments(3, 0.0),
        lambda: kronecker_loss_moments(np.array([1.0, math.inf]), np.ones(1)),
        lambda: kronecker_loss_moments(np.array([]), np.ones(1)),
        lambda: r1smg_loss_moments(-1.0),
    ],
)
def test_what_has_no_value_is_refused(call):
    with pytest.raises(CalibrationError, match="; "):
        call()

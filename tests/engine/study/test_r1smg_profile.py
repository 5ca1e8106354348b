"""The true privacy profile of R1SMG noise against an independent integral, simulation, closed forms and printed tables.

The oracle is the difference ``P(L > epsilon) - e^epsilon P(L < -epsilon)``, a one-dimensional integral of incomplete
beta functions; the engine integrates positive terms over two dimensions. Where the difference loses digits or range,
the expected numbers were computed the same way with mpmath at 40 digits.
"""

import functools
import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betainc
from scipy.stats import norm

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta, gaussian_mu
from blockveil.engine.study.error_constants import analytic_constant
from blockveil.engine.study.r1smg import published
from blockveil.engine.study.r1smg_attack import allowed_success, attack_success, ball_test
from blockveil.engine.study.r1smg_integral import log_half_step
from blockveil.engine.study.r1smg_profile import (
    ACCURACY,
    correct_variance,
    true_delta,
    true_epsilon,
    true_epsilon_law,
    true_log_delta,
)
from tests.oracles.r1smg_laws import correct_variance_law, total_variation_law

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


pytestmark = pytest.mark.slow


def cap(entries, cosine):
    """Probability that the cosine of a uniform direction exceeds this one."""
    c = np.clip(cosine, -1.0, 1.0)
    half = 0.5 * betainc((entries - 1) / 2, 0.5, 1.0 - c * c)
    return np.where(c >= 0, half, 1.0 - half)


def relative_change(entries, z, loss):
    """v at which the loss is given: root of (M-1) ln(1+v) + z^2 v = 2 loss, by bisection on ln(1+v)."""
    low, high = (np.full_like(z, x) for x in sorted((0.0, 2.0 * loss / (entries - 1))))
    for _ in range(80):
        middle = 0.5 * (low + high)
        above = (entries - 1) * middle + z * z * np.expm1(middle) > 2.0 * loss
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.expm1(0.5 * (low + high))


def by_difference(entries, s, epsilon):
    def cosines(x):
        z = np.exp(np.atleast_1d(x))
        t = 1.0 / (s * z)
        up, down = (relative_change(entries, z, loss) for loss in (epsilon, -epsilon))
        return (t * t - up) / (2 * t), (t * t - down) / (2 * t)

    def integrand(x):
        up, down = cosines(x)
        # L > epsilon where the cosine is below up; L < -epsilon where it is above down.
        return 2.0 * norm.pdf(np.exp(x)) * np.exp(x) * (cap(entries, -up) - math.exp(epsilon) * cap(entries, down))

    grid = np.linspace(-math.log(s) - epsilon / (entries - 1) - 45.0, math.log(40.0), 4000)
    edges = [*np.arange(grid[0], grid[-1], 0.4), grid[-1]]
    for which, target in ((0, 1.0), (0, 0.0), (0, -1.0), (1, 1.0)):
        values = cosines(grid)[which] - target
        for i in np.nonzero(values[1:] * values[:-1] < 0)[0]:
            turn = brentq(lambda x: cosines(x)[which][0] - target, grid[i], grid[i + 1], xtol=1e-15)  # noqa: B023
            edges += [turn, *(turn + sign * 2.0**-k for k in range(26) for sign in (-1, 1))]
    # Losses below -epsilon are likeliest where the least cosine that gives them is smallest.
    edges += list(grid[np.argmin(cosines(grid)[1])] + np.linspace(-0.3, 0.3, 41))
    edges = np.unique(np.clip(edges, grid[0], grid[-1]))
    half = np.diff(edges)[:, None] / 2
    values = integrand((edges[:-1, None] + half * (NODES + 1)).ravel())
    return float(np.sum(values.reshape(half.size, -1) * half * WEIGHTS))


@pytest.mark.parametrize(
    ("entries", "s", "epsilon"),
    [
        (2, 0.3, 3.0),
        (2, 0.7, 0.01),
        (2, 40.0, 2.0),
        (3, 2.0, 0.5),
        (4, 10.0, 0.1),
        (5, 0.2, 15.0),
        (10, 1.0, 20.0),
        (100, 30.0, 300.0),
        (100, 10.0, 0.0),
        (7921, 448.4, 1e-5),
        (7921, 30.0, 100.0),
        (5_760_000, 4472.0, 1e-7),
        (5_760_000, 4472.0, 3.0),
    ],
)
def test_delta_agrees_with_the_difference_of_two_probabilities(entries, s, epsilon):
    assert true_delta(entries, s, epsilon) == pytest.approx(by_difference(entries, s, epsilon), rel=1e-9)


# Computed with mpmath at 40 digits, as the same difference.
@pytest.mark.parametrize(
    ("entries", "s", "epsilon", "delta"),
    [
        (7921, 1.0, 1e5, 2.6205742043282e-6),
        (7921, 30.0, 1000.0, 0.0495726431812893),
        (10_000, 1000.0, 1000.0, 0.00169505139355193),
        (2, 1e6, 0.0, 4.12956783893666e-6),
        (2, 1e6, 1e-7, 4.08015412415159e-6),
        (100, 1e5, 1e-6, 0.000347941194953715),
        (4, 1000.0, 0.1, 0.00150482673005248),
    ],
)
def test_delta_agrees_with_high_precision_where_floats_would_cancel(entries, s, epsilon, delta):
    assert true_delta(entries, s, epsilon) == pytest.approx(delta, rel=1e-11)


def losses(entries, s, trials, rng):
    """Privacy losses of whole vectors of noise."""
    z, v = rng.standard_normal(trials), rng.standard_normal((trials, entries))
    x = s * z[:, None] * v / np.linalg.norm(v, axis=1)[:, None]
    here = np.sum(x**2, axis=1)
    there = here - 2 * x[:, 0] + 1
    return (entries - 1) / 2 * np.log(there / here) + (there - here) / (2 * s * s)


@pytest.mark.parametrize(("entries", "s", "epsilon"), [(3, 2.0, 0.5), (10, 3.0, 0.1), (100, 10.0, 0.1)])
def test_delta_agrees_with_whole_vectors_and_5_percent_of_noise_is_seen(entries, s, epsilon):
    gains = np.maximum(
        0.0,
        -np.expm1(epsilon - losses(entries, s, 100_000 if entries > 10 else 200_000, np.random.default_rng(entries))),
    )
    bound = 6.2 * np.std(gains) / math.sqrt(gains.size)  # alpha 1e-9
    assert abs(np.mean(gains) - true_delta(entries, s, epsilon)) < bound
    assert abs(np.mean(gains) - true_delta(entries, 1.05 * s, epsilon)) > bound
    assert abs(np.mean(gains) - true_delta(entries, s / 1.05, epsilon)) > bound


@pytest.mark.parametrize(("s", "epsilon"), [(0.5, 0.0), (0.5, 3.0), (20.0, 0.4)])
def test_one_entry_is_the_scalar_gaussian(s, epsilon):
    assert true_delta(1, s, epsilon) == pytest.approx(gaussian_delta(1 / s, epsilon), rel=1e-12)
    assert correct_variance(1, 0.7, 1e-6) == pytest.approx(gaussian_mu(0.7, 1e-6) ** -2, rel=1e-12)


@pytest.mark.parametrize(("entries", "s"), [(2, 1.0), (3, 1e-1), (10, 1e12), (1000, 7.0)])
def test_a_delta_below_the_least_float_has_a_logarithm(entries, s):
    # Noise so small that its direction does not matter: L = (M-1) ln t + 1/(2 s^2), t = 1 / (s |z|).
    epsilon = 1e5
    log_least = -(epsilon - 0.5 / s**2) / (entries - 1) - math.log(s)
    expected = 0.5 * math.log(2 / math.pi) + log_least + math.log1p(-1 / entries)
    assert true_log_delta(entries, s, epsilon) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("entries", "s"), [(2, 1.0), (5, 0.3), (100, 3.0), (3, 2e-2), (2, 3e-3)])
def test_the_two_ways_for_small_noise_meet(entries, s):
    # The closed form takes over where ln t reaches 30.
    edge = 30.0 * (entries - 1) + 0.5 / s**2
    below, above = (true_log_delta(entries, s, edge * (1 + side * 1e-13)) for side in (-1, 1))
    assert below == pytest.approx(above, abs=1e-10)


def test_large_noise_in_the_tail_is_not_lost():
    # sigma_star is small: the loss of noise along one line is that of a Gaussian far out, far above that of small z.
    s, epsilon = 3e-3, 1e5
    found = true_log_delta(2, s, epsilon)
    gaussian = norm.logsf(s * (epsilon - 0.5 / s**2))
    assert -0.5 * 0.02 * abs(gaussian) < found - gaussian < 0
    assert found > -(epsilon - 0.5 / s**2) + 1000


@pytest.mark.parametrize("entries", [2, 3, 100, 10_000, 10**8])
def test_delta_falls_with_epsilon_and_with_more_noise(entries):
    grid = [0.0, 1e-12, 1e-3, 1.0, 1e3, 1e5]
    table = np.array([[true_log_delta(entries, s, e) for e in grid] for s in (1e-3, 0.1, 1e3, 1e12)])
    slack = ACCURACY * np.maximum(1.0, np.abs(table))
    assert np.all(table <= 0)
    assert np.all(np.diff(table, axis=0) <= slack[1:])
    assert np.all(np.diff(table, axis=1) <= slack[:, 1:])


def test_half_steps_of_the_gamma_function_do_not_cancel():
    with mpmath.workdps(40):
        for a in (0.5, 1.0, 7.5, 49.5, 50.0, 50.5, 3960.0, 5e5, 2_880_000.0, 5e7):
            exact = mpmath.loggamma(mpmath.mpf(a) + 0.5) - mpmath.loggamma(a)
            assert abs(log_half_step(a) - exact) <= 4e-16 * (1 + abs(exact))


# M, epsilon, delta: sigma_star, true delta, true epsilon, correct sigma_star, over the analytic Gaussian; as printed.
PAPER = """
7921    1e-5   1e-7    2.011e5 0.2166 77509   1.218e19 5.17e4
5760000 2e-8   1e-7    1.000e8 0.2476 3.849e7 1.98e22  260
5760000 4e-8   1e-7    5.000e7 0.3130 4.048e7 1.85e22  286
5760000 6e-8   1e-7    3.333e7 0.3570 4.165e7 1.77e22  315
5760000 8e-8   1e-7    2.500e7 0.3907 4.248e7 1.71e22  347
5760000 1e-7   1e-7    2.000e7 0.4182 4.312e7 1.67e22  381
5760000 1.2e-7 1e-7    1.667e7 0.4416 4.365e7 1.64e22  415
5760000 1.4e-7 1e-7    1.429e7 0.4619 4.409e7 1.61e22  451
5760000 1.6e-7 1e-7    1.250e7 0.4799 4.448e7 1.58e22  487
10000   0.71   3.33e-7 2.828   1.000  1.417e5 2.77e16  7.4e10
100000  0.71   3.33e-7 2.818   1.000  1.417e6 2.77e17  7.4e10
1000000 0.71   3.33e-7 2.817   1.000  1.417e7 2.77e18  7.4e10
10000   5.42   3.33e-7 0.3705  1.000  1.518e5 4.89e15  5.4e11
100000  5.42   3.33e-7 0.3692  1.000  1.519e6 4.89e16  5.4e11
1000000 5.42   3.33e-7 0.3690  1.000  1.519e7 4.89e17  5.4e11
"""
# delta 1e-5; M, epsilon: true delta, true epsilon, correct sigma_star over the analytic Gaussian; as printed.
GENERIC = """
3       0.1 1.61e-6 0      4.5e6
3       0.5 1.88e-6 5.6e-4 2.3e7
3       1.0 1.74e-6 5.7e-3 3.6e7
4       0.1 7.5e-4  10.2   6.0e6
4       0.5 9.2e-4  12.6   3.4e7
4       1.0 9.0e-4  13.65  5.9e7
10      0.1 0.128   72.7   9.1e6
10      0.5 0.172   80.0   6.0e7
10      1.0 0.181   83.1   1.2e8
100     0.1 0.770   954    1.1e7
100     0.5 0.935   1034   7.8e7
100     1.0 0.971   1068   1.6e8
1000    0.1 0.988   9763   1.1e7
1000    0.5 0.9999  1.06e4 8.0e7
1000    1.0 1.000   1.09e4 1.7e8
10000   1.0 1.000   1.09e5 1.7e8
1000000 1.0 1.000   1.09e7 1.7e8
"""


def rows(table):
    return [tuple(line.split()) for line in table.strip().splitlines()]


def same_digits(found, printed):
    """Whether a number rounds to the printed one, a unit of its last digit allowed for printing from fewer digits."""
    digits = len(printed.lower().split("e")[0].replace(".", "").lstrip("0"))
    expected = float(printed)
    unit = 10.0 ** (math.floor(math.log10(expected)) - digits + 1) if expected else 0.0
    return abs(found - expected) <= 0.51 * unit


@functools.cache
def gaussian_total(entries, epsilon, delta):
    return analytic_constant(entries, epsilon, delta)


@pytest.mark.parametrize("row", rows(PAPER), ids=lambda row: f"M={row[0]} epsilon={row[1]}")
def test_the_papers_settings_have_the_known_true_profile(row):
    entries, epsilon, delta = int(row[0]), float(row[1]), float(row[2])
    variance = published(entries, epsilon, delta, 1.0).variance
    correct = correct_variance(entries, epsilon, delta)
    found = (
        variance,
        true_delta(entries, math.sqrt(variance), epsilon),
        true_epsilon(entries, math.sqrt(variance), delta),
        correct,
        correct / gaussian_total(entries, epsilon, delta),
    )
    assert all(same_digits(*pair) for pair in zip(found, row[3:], strict=True)), found
    assert correct == pytest.approx(correct_variance_law(entries, epsilon, delta), rel=0.02)
    # The claim is false by at least five orders of magnitude.
    assert found[1] > 1e5 * delta


@pytest.mark.parametrize("row", rows(GENERIC), ids=lambda row: f"M={row[0]} epsilon={row[1]}")
def test_other_settings_have_the_known_true_profile(row):
    entries, epsilon, delta = int(row[0]), float(row[1]), 1e-5
    s = math.sqrt(published(entries, epsilon, delta, 1.0).variance)
    correct = correct_variance(entries, epsilon, delta) / gaussian_total(entries, epsilon, delta)
    found = true_delta(entries, s, epsilon), true_epsilon(entries, s, delta), correct
    assert all(same_digits(*pair) for pair in zip(found, row[2:], strict=True)), found
    # Only at three entries, and by noise of millions of times the Gaussian's, does the claim hold.
    assert (found[0] > delta) == (entries > 3)


@pytest.mark.parametrize(
    ("entries", "s", "delta"), [(2, 0.01, 0.3), (3, 2.0, 1e-5), (3, 1e3, 1e-4), (7921, 448.0, 1e-7)]
)
def test_the_true_epsilon_is_safe_and_tight(entries, s, delta):
    epsilon = true_epsilon(entries, s, delta)
    assert delta * (1 - 1e-8) < true_delta(entries, s, epsilon) <= delta * (1 - 0.9 * ACCURACY)
    assert true_epsilon(entries, s, 0.99999) == 0.0 or entries == 2


@pytest.mark.parametrize(
    ("entries", "epsilon", "delta"),
    [(2, 0.0, 0.5), (2, 1e5, 0.9), (10, 130.0, 1e-5), (10**8, 1e5, 1e-3), (3, 1e3, 1e-90)],
)
def test_the_correct_variance_is_safe_and_tight(entries, epsilon, delta):
    s = math.sqrt(correct_variance(entries, epsilon, delta))
    assert delta * (1 - 1e-8) < true_delta(entries, s, epsilon) <= delta * (1 - 0.9 * ACCURACY)


@pytest.mark.parametrize(
    ("entries", "epsilon", "delta", "ratio"),
    [
        (2, 0.0, 0.8, 1.11),
        (2, 0.0, 0.9, 0.94),
        (10, 0.0, 0.9, 1.0),
        (2, 1.25 * math.log(1e5), 1e-5, 0.62),
        (3, 2.5 * math.log(1e5), 1e-5, 0.71),
        (10, 11.25 * math.log(1e5), 1e-5, 0.56),
        (100, 123.75 * math.log(1e5), 1e-5, 0.18),
        (2, 5.0, 0.01, 0.8),
    ],
)
def test_correct_noise_beats_the_gaussian_only_where_privacy_is_gone(entries, epsilon, delta, ratio):
    gaussian = gaussian_total(entries, max(epsilon, 1e-9), delta)
    assert correct_variance(entries, epsilon, delta) / gaussian == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize("settings", [(10**6, 0.1, 1e-5), (10**6, 1.0, 1e-5), (5_760_000, 1e-7, 1e-7)])
def test_many_entries_follow_the_closed_forms(settings):
    entries, epsilon, delta = settings
    correct = correct_variance(entries, epsilon, delta)
    assert correct == pytest.approx(correct_variance_law(entries, epsilon, delta), rel=2e-3)
    s = math.sqrt(published(*settings, 1.0).variance)
    assert true_epsilon(entries, s, delta) == pytest.approx(true_epsilon_law(entries, s, delta), rel=1e-3)
    assert true_delta(entries, s, 0.0) == pytest.approx(total_variation_law(entries, s), rel=1e-6)


@pytest.mark.parametrize(
    ("entries", "epsilon", "delta", "success", "allowed"),
    [
        (7921, 1e-5, 1e-7, 0.60832, 0.5000026),
        (5_760_000, 0.2e-7, 1e-7, 0.62378, 0.5000001),
        (5_760_000, 1e-7, 1e-7, 0.70910, 0.5000001),
        (5_760_000, 1.6e-7, 1e-7, 0.73994, 0.5000001),
        (10_000, 0.71, 3.33e-7, 1.0, 0.6704),
        (1_000_000, 5.42, 3.33e-7, 1.0, 0.9956),
    ],
)
def test_the_nearer_answer_is_right_as_often_as_known_and_more_than_claimed(entries, epsilon, delta, success, allowed):
    s = math.sqrt(published(entries, epsilon, delta, 1.0).variance)
    assert attack_success(entries, s) == pytest.approx(success, abs=6e-6)
    assert allowed_success(epsilon, delta) == pytest.approx(allowed, abs=6e-5 if epsilon > 0.1 else 6e-8)
    assert attack_success(entries, s) > allowed_success(epsilon, delta)


@pytest.mark.parametrize(("entries", "epsilon", "rate"), [(7921, 1e-5, 8838e-7), (5_760_000, 1.6e-7, 1.1433e-4)])
def test_the_ball_test_alone_refutes_the_claim(entries, epsilon, rate):
    test = ball_test(entries, math.sqrt(published(entries, epsilon, 1e-7, 1.0).variance))
    assert test.detection == pytest.approx(rate, rel=0.06)
    assert test.log_false_alarm < -0.69 * entries
    assert test.least_delta(epsilon) > 1000 * 1e-7
    assert test.least_delta(0.69 * entries) > 1000 * 1e-7


@pytest.mark.parametrize(("entries", "s"), [(2, 0.7), (3, 1.0), (10, 0.4)])
def test_the_ball_test_bounds_what_is_simulated_and_never_exceeds_the_profile(entries, s):
    rng, trials = np.random.default_rng(entries), 200_000
    z, v = rng.standard_normal(trials), rng.standard_normal((trials, entries))
    x = s * z[:, None] * v / np.linalg.norm(v, axis=1)[:, None]
    test = ball_test(entries, s)
    near, far = np.sum(x**2, axis=1) < 0.25, np.sum(x**2, axis=1) - 2 * x[:, 0] + 1 < 0.25
    assert abs(np.mean(near) - test.detection) < 6.2 * 0.5 / math.sqrt(trials)
    assert np.mean(far) <= math.exp(test.log_false_alarm) + 6.2 * 0.5 / math.sqrt(trials)
    assert all(test.least_delta(e) <= true_delta(entries, s, e) for e in (0.0, 0.1, 1.0, 3.0))


def test_parameters_out_of_range_are_refused():
    for call in (
        lambda: true_delta(0, 1.0, 1.0),
        lambda: true_delta(3, 0.0, 1.0),
        lambda: true_delta(3, math.nan, 1.0),
        lambda: true_delta(3, 1.0, -1.0),
        lambda: true_delta(3, 1.0, math.inf),
        lambda: true_epsilon(3, 1.0, 0.0),
        lambda: correct_variance(0, 1.0, 0.1),
        lambda: correct_variance(3, 1.0, 1.0),
        lambda: correct_variance(3, 1.0, 1e-300),
        lambda: ball_test(3, math.inf),
    ):
        with pytest.raises(CalibrationError):
            call()

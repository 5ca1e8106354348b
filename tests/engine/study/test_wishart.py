"""Wishart noise: whole matrices against the one-number law, and the published pure claims against counterexamples."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.study.wishart import (
    WishartNoise,
    calibrate_wishart,
    delta_less,
    delta_more,
    impossible_after_removal,
    impossible_after_replacement,
    imtiaz_wishart,
    jiang_wishart,
    sheffet_wishart,
)

SIGMAS = float(stats.norm.isf(0.5e-9))
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def noise_matrices(noise, count, seed):
    rng = np.random.default_rng(seed)
    d = noise.dimension
    g = rng.standard_normal((count, noise.degrees, d)) * math.sqrt(noise.scale)
    return np.einsum("nki,nkj->nij", g, g)


def unit(d, k):
    return np.outer(np.eye(d)[k], np.eye(d)[k])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(
    ("published", "rate"), [(jiang_wishart, 1 / 3), (imtiaz_wishart, 1.0)], ids=["c = 3/2eps", "c = 1/2eps"]
)
def test_pure_wishart_noise_makes_outputs_that_a_neighbour_cannot(published, rate, epsilon):
    noise, d = published(4, 1.0, epsilon), 4
    drawn = noise_matrices(noise, 60_000, 1)
    # Outputs A + N of the smaller data set that A + yy' + (positive definite) never reaches.
    seen = np.mean(np.linalg.eigvalsh(drawn - unit(d, 0))[:, 0] < 0)
    exact = -math.expm1(-rate * epsilon)
    assert impossible_after_removal(noise.shift) == pytest.approx(exact, rel=1e-12)
    assert abs(seen - exact) < SIGMAS * math.sqrt(exact * (1 - exact) / 60_000)
    # The claim is delta 0; the truth does not depend on epsilon at all.
    for at in (0.0, epsilon, 50.0):
        assert noise.delta(at, ADD) == pytest.approx(exact, rel=1e-9)
    # The other direction alone does hold, at kappa / 2.
    assert delta_more(2, noise.shift, rate * epsilon * (1 + 1e-12)) == 0
    assert delta_more(2, noise.shift, 0.9 * rate * epsilon) > 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_replacing_a_record_breaks_the_pure_claim_too(epsilon):
    noise, d = jiang_wishart(3, 1.0, epsilon), 3
    drawn = noise_matrices(noise, 60_000, 2)
    seen = np.mean(np.linalg.eigvalsh(drawn + unit(d, 1) - unit(d, 0))[:, 0] < 0)
    exact = impossible_after_replacement(noise.shift)
    assert abs(seen - exact) < SIGMAS * math.sqrt(exact * (1 - exact) / 60_000)
    assert exact > 0.19 * min(epsilon, 1.0)
    assert exact <= noise.delta(epsilon, REPLACE)


def test_one_output_is_enough_to_see_the_violation_by_hand():
    # d = 1: chi-square of 2 degrees is exponential noise on a sum of squares; outputs below the larger sum betray it.
    noise = jiang_wishart(1, 1.0, 1.0)
    assert noise.degrees == 2
    assert noise.delta(1.0, ADD) == pytest.approx(stats.expon(scale=2 * noise.scale).cdf(1.0), rel=1e-9)


@pytest.mark.parametrize(("excess", "scale"), [(2, 1.5), (4, 0.7), (9, 0.4)])
def test_whole_matrices_have_the_privacy_loss_of_one_chi_square_number(excess, scale):
    d, epsilon = 3, 0.5
    noise = WishartNoise(d, d + excess - 1, scale, 1.0)
    half = (noise.degrees - d - 1) / 2
    law = stats.wishart(df=noise.degrees, scale=scale * np.eye(d))
    y = np.full((d, d), 1.0 / d)  # an outer product of a unit vector off the axes

    def log_density(m):
        sign, value = np.linalg.slogdet(m)
        definite = np.linalg.eigvalsh(m)[:, 0] > 0
        with np.errstate(invalid="ignore"):
            found = half * value - np.trace(m, axis1=1, axis2=2) / (2 * scale)
        return np.where(definite & (sign > 0), found, -np.inf)

    count = 150_000
    drawn = noise_matrices(noise, count, 3)
    assert log_density(drawn[:2])[1] - log_density(drawn[:2])[0] == pytest.approx(
        law.logpdf(drawn[1]) - law.logpdf(drawn[0])
    )
    for loss, exact in [
        (log_density(drawn) - log_density(drawn - y), delta_less(excess, noise.shift, epsilon)),
        (log_density(drawn) - log_density(drawn + y), delta_more(excess, noise.shift, epsilon)),
    ]:
        part = np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))
        # delta is E (1 - e^(eps - L))_+ under the first law.
        spread = SIGMAS * max(part.std(), 1e-3) / math.sqrt(count)
        assert abs(part.mean() - exact) < spread
        wrong = delta_less if exact == delta_less(excess, noise.shift, epsilon) else delta_more
        if exact > 0.01:
            assert abs(part.mean() - wrong(excess, 1.25 * noise.shift, epsilon)) > spread


@pytest.mark.parametrize(
    ("excess", "shift", "epsilon"), [(2, 0.3, 0.1), (3, 0.5, 0.2), (20, 1.0, 0.3), (3000, 9.0, 1.0)]
)
def test_delta_is_the_positive_part_of_the_difference_of_densities(excess, shift, epsilon):
    p = stats.chi2(excess)

    def integral(first, second, low, high):
        def part(x):
            return max(0.0, first(x) - math.exp(epsilon) * second(x))

        return integrate.quad(part, low, high, limit=2000, epsabs=1e-13, epsrel=1e-10)[0]

    low, high = p.ppf(1e-16), p.isf(1e-16) + shift

    def shifted(x):
        return p.pdf(x - shift)

    less = integral(p.pdf, shifted, low, shift) if low < shift else 0.0
    less += integral(p.pdf, shifted, max(low, shift), high)
    assert delta_less(excess, shift, epsilon) == pytest.approx(less, rel=1e-5, abs=1e-11)
    assert delta_more(excess, shift, epsilon) == pytest.approx(integral(shifted, p.pdf, low, high), rel=1e-5, abs=1e-11)


@pytest.mark.parametrize("excess", [2, 5, 60, 3000, 100_000])
@pytest.mark.parametrize("guarantee", [ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-9), ApproxDP(5.0, 1e-3)])
def test_calibrated_noise_keeps_its_guarantee_in_high_precision_and_wastes_nothing(excess, guarantee):
    noise = calibrate_wishart(10, excess, 2.0, guarantee, ADD)
    with mpmath.workdps(60):
        half, shift = mpmath.mpf(excess) / 2, mpmath.mpf(noise.shift)
        eps = mpmath.mpf(guarantee.epsilon)

        def lower(x):
            return mpmath.gammainc(half, 0, max(x, 0) / 2, regularized=True)

        at = shift if excess == 2 else shift / (1 - mpmath.exp(-(2 * eps + shift) / (excess - 2)))
        less = lower(at) - mpmath.exp(eps) * lower(at - shift)
        more = mpmath.mpf(0)
        if shift > 2 * eps:
            at = shift if excess == 2 else shift / (1 - mpmath.exp(-(shift - 2 * eps) / (excess - 2)))
            more = 1 - lower(at - shift) - mpmath.exp(eps) * (1 - lower(at))
        assert max(less, more) <= guarantee.delta
        assert max(less, more) > guarantee.delta * (1 - 1e-6)


def test_replaced_records_cost_more_and_the_bound_covers_both_orders():
    guarantee = ApproxDP(1.0, 1e-6)
    added, replaced = (calibrate_wishart(5, 40, 1.0, guarantee, relation) for relation in (ADD, REPLACE))
    assert replaced.scale > added.scale
    assert replaced.delta(1.0, REPLACE) <= 1e-6
    # Two orthogonal records in two dimensions, by full simulation of the loss.
    noise = WishartNoise(2, 9, 1.0, 1.0)
    drawn = noise_matrices(noise, 200_000, 5) + unit(2, 0)
    half, losses = (noise.degrees - 3) / 2, []
    for record in (unit(2, 0), unit(2, 1)):
        rest = drawn - record
        definite = np.linalg.eigvalsh(rest)[:, 0] > 0
        losses.append(np.where(definite, half * np.linalg.slogdet(rest)[1], -np.inf))
    loss = losses[0] - losses[1]
    measured = np.mean(np.maximum(0.0, -np.expm1(np.minimum(0.5 - loss, 0.0))))
    assert measured <= noise.delta(0.5, REPLACE)


def test_many_degrees_approach_symmetric_gaussian_noise_from_above():
    guarantee, d = ApproxDP(1.0, 1e-6), 20
    gaussian = d * (d + 1) / 2 / gaussian_mu(1.0, 1e-6) ** 2
    ratios = [calibrate_wishart(d, nu, 1.0, guarantee, ADD).total_variance / gaussian for nu in (30, 300, 3000, 30_000)]
    assert ratios == sorted(ratios, reverse=True)
    assert 1.0 < ratios[-1] < 1.06


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_sheffets_degrees_are_valid_for_one_record_more_or_less(epsilon, delta):
    noise = sheffet_wishart(7, 3.0, ApproxDP(epsilon, delta))
    assert noise.delta(epsilon, ADD) < delta


def test_moments_of_the_noise():
    noise = WishartNoise(4, 9, 0.3, 1.0)
    drawn = noise_matrices(noise, 100_000, 6)
    centred = drawn - noise.mean * np.eye(4)
    squares = np.sum(centred**2, axis=(1, 2))
    error = SIGMAS * squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - noise.total_variance) < error
    assert abs(squares.mean() - 1.05**2 * noise.total_variance) > error
    assert abs(squares.mean() - 0.95**2 * noise.total_variance) > error


def test_noise_without_a_proof_is_refused():
    for arguments, match in [
        ((3, 3, 1.0, 1.0), "degrees is 3"),
        ((3, 4, 0.0, 1.0), "positive"),
        ((3, 4, 1.0, math.inf), "finite"),
    ]:
        with pytest.raises(CalibrationError, match=match):
            WishartNoise(*arguments)
    for arguments, match in [
        ((1, 1.0, 0.0), "excess"),
        ((200_000, 1.0, 0.0), "accurate"),
        ((2, 0.0, 0.0), "shift"),
        ((2, 1.0, -1.0), "epsilon"),
    ]:
        with pytest.raises(CalibrationError, match=match):
            delta_less(*arguments)

"""Bands hold as many noises as they say, and shares beyond a size are those of the law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, special, stats

from blockveil.engine.estimates.bands import GaussianNoise, LaplaceNoise, LaplaceSums, RandomDirection, length_band
from blockveil.engine.mechanisms.k_norm.joint_entries import BallEntry, CubeEntry
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace


def most(trials, share=0.05):
    """Exceedances that chance goes beyond with probability 1e-9."""
    return stats.binom.isf(1e-9, trials, share)


def test_the_gaussian_band_holds_all_at_once():
    assert GaussianNoise().band(1) == pytest.approx(stats.norm.ppf(0.975))
    for entries in (2, 300, 10**8):
        inside = 1.0 - 2.0 * stats.norm.sf(GaussianNoise().band(entries))
        assert entries * math.log(inside) == pytest.approx(math.log(0.95), rel=1e-6)


@pytest.mark.parametrize("rate", [Fraction(1, 2**20), Fraction(1, 10), Fraction(3, 2), Fraction(8)])
@pytest.mark.parametrize("count", [1, 50, 10**6])
def test_the_laplace_band_is_the_narrowest_that_a_union_bound_proves(rate, count):
    law, q = LaplaceNoise(rate), math.exp(-float(rate))
    assert law.deviation == pytest.approx(DiscreteLaplace(rate.numerator, rate.denominator).variance ** 0.5)
    least = math.floor(law.band(count) * law.deviation) + 1
    beyond = [2.0 * q**k / (1.0 + q) for k in (least - 1, least)]
    assert beyond[1] <= 0.05 / count < beyond[0] or least == 1


def test_the_share_beyond_two_deviations_is_the_laws_own():
    assert GaussianNoise().beyond(2.0) == pytest.approx([0.0455003] * 2, rel=1e-5)
    assert LaplaceNoise(Fraction(1, 2**20)).beyond(2.0) == pytest.approx(
        [math.exp(-2.0 * math.sqrt(2.0))] * 2, rel=1e-4
    )
    for rate in (Fraction(1, 10), Fraction(3, 2)):
        k = np.arange(-4000, 4001)
        mass = np.exp(-float(rate) * np.abs(k))
        law = LaplaceNoise(rate)
        expected = mass[np.abs(k) > 2.0 * law.deviation].sum() / mass.sum()
        assert law.beyond(2.0) == pytest.approx([expected] * 2)


def test_sums_of_laplace_noise_lie_between_both_laws_beyond_two_deviations():
    low, high = LaplaceSums().beyond(2.0)
    rng = np.random.default_rng(1)
    for count in (2, 3, 5, 9):
        for _ in range(200):
            scale = rng.dirichlet(np.full(count, 0.5)) ** 0.5 / math.sqrt(2.0)
            if np.diff(np.sort(scale)).min() < 1e-3:
                continue
            # Of distinct scales: a mixture of Laplace tails with weights that may be negative.
            ratio = scale[:, None] ** 2 / (scale[:, None] ** 2 - scale[None, :] ** 2 + np.eye(count))
            weights = np.prod(np.where(np.eye(count), 1.0, ratio), axis=1)
            assert low < float(weights @ np.exp(-2.0 / scale)) < high


@pytest.mark.parametrize("rate", [0, 1, 3])
def test_the_band_of_sums_is_safe_and_not_idle(rate):
    rng, trials, entries = np.random.default_rng(7), 20_000, 20
    if rate:
        p = -math.expm1(-rate)
        one = rng.geometric(p, (3, trials, entries)) - rng.geometric(p, (3, trials, entries))
        deviation = DiscreteLaplace(rate, 1).variance ** 0.5
    else:
        one, deviation = rng.laplace(size=(3, trials, entries)), math.sqrt(2.0)
    limit = LaplaceSums(Fraction(rate)).band(entries)
    for weights in ((1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.9, 0.3, 0.1)):
        size = np.abs(np.tensordot(weights, one, 1)).max(axis=1) / (deviation * math.hypot(*weights))
        assert np.count_nonzero(size > limit) <= most(trials)
    mixed = 0.8 * one[0] / deviation + 0.6 * rng.standard_normal(one[0].shape)  # two nights, one with Gaussian noise
    assert np.count_nonzero(np.abs(mixed).max(axis=1) > limit) <= most(trials)
    # A band for a fiftieth of the entries is found out.
    assert np.count_nonzero(np.abs(one[0]).max(axis=1) > 1.01 * deviation * 2.2) > most(trials)


def k_norm(law, trials):
    """Noise in standard deviations of an entry, shape (trials, entries)."""
    rng, d = np.random.default_rng(4), law.entries
    if isinstance(law, CubeEntry):
        return rng.gamma(d + 1, size=(trials, 1)) * rng.uniform(-1, 1, (trials, d)) / math.sqrt((d + 1) * (d + 2) / 3)
    ways = rng.standard_normal((trials, d))
    return rng.gamma(d, size=(trials, 1)) * ways / np.linalg.norm(ways, axis=1)[:, None] / math.sqrt(d + 1)


@pytest.mark.parametrize("law", [CubeEntry(2), CubeEntry(6), CubeEntry(40), BallEntry(2), BallEntry(5), BallEntry(16)])
def test_entries_of_k_norm_noise_and_their_sums_are_held(law):
    trials = 40_000
    noise = k_norm(law, trials)
    assert np.count_nonzero(np.abs(noise).max(axis=1) > law.band(law.entries)) <= most(trials)
    assert np.count_nonzero(np.abs(noise[:, 0]) > law.band(1)) <= most(trials)
    assert np.count_nonzero(np.abs(noise[:, 0]) > 0.95 * law.band(1)) > trials * 0.05
    share = law.beyond(2.0)[0]
    beyond = np.count_nonzero(np.abs(noise[:, 0]) > 2.0)
    assert stats.binom.isf(1 - 1e-9, trials, share) <= beyond <= stats.binom.isf(1e-9, trials, share)
    # Of any linear function: along all entries, two of them, and a fall in sizes.
    for weights in (
        np.ones(law.entries),
        np.eye(law.entries)[0] + np.eye(law.entries)[1],
        0.5 ** np.arange(law.entries),
    ):
        sums = noise @ weights / np.linalg.norm(weights)
        assert np.count_nonzero(np.abs(sums) > LaplaceSums().band(1)) <= most(trials)
        assert np.count_nonzero(np.abs(sums) > LaplaceSums().band(1000)) <= most(trials, 5e-5)


def test_one_entry_by_the_largest_or_by_the_length_is_laplace_noise():
    for size in (0.5, 2.0, 6.0):
        assert CubeEntry(1).beyond(size)[0] == pytest.approx(math.exp(-math.sqrt(2.0) * size), rel=1e-9)
    # In two dimensions an entry has the Bessel law, whose tail another integral gives.
    density = lambda a: a * special.k1(a) / math.pi  # noqa: E731
    tail = 2.0 * integrate.quad(density, 2.0 * math.sqrt(3.0), 80.0)[0]
    assert BallEntry(2).beyond(2.0)[0] == pytest.approx(tail, rel=1e-7)


@pytest.mark.parametrize("dimension", [2, 3, 7, 200])
def test_directions_drawn_at_random_are_held(dimension):
    rng, trials, law = np.random.default_rng(3), 20_000, RandomDirection(dimension)
    vectors = rng.standard_normal((trials, dimension))
    size = np.abs(vectors / np.linalg.norm(vectors, axis=1)[:, None]) * math.sqrt(dimension)
    assert np.count_nonzero(size.max(axis=1) > law.band(dimension)) <= most(trials)
    assert np.count_nonzero(size[:, 0] > law.band(1)) <= most(trials)
    assert np.count_nonzero(size[:, 0] > 0.95 * law.band(1)) > most(trials) or dimension > 3
    share = law.beyond(2.0)[0]
    beyond = np.count_nonzero(size[:, 0] > 2.0)
    assert stats.binom.isf(1 - 1e-9, trials, share) <= beyond <= stats.binom.isf(1e-9, trials, share)


SIZES = {"one entry": (1.0,), "equal entries": (1.0, 1.0, 1.0), "one long among short": (1.0, 0.2, 0.2, 0.1)}


@pytest.mark.parametrize("laplace", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_no_length_of_noise_is_beyond_its_band_more_often_than_is_said(sizes, laplace):
    """Twice the root mean square, which a report once counted, is exceeded by noise alone in most trainings."""
    rng, trials, steps = np.random.default_rng(23), 2000, 100
    drawn = rng.laplace(scale=0.5**0.5, size=(trials, steps, len(sizes))) if laplace else None
    drawn = rng.standard_normal((trials, steps, len(sizes))) if drawn is None else drawn
    lengths = np.sqrt(((drawn * sizes) ** 2).sum(axis=2) / np.square(sizes).sum())
    assert (lengths > length_band(steps, laplace=laplace)).any(axis=1).sum() <= most(trials)
    assert (lengths > 2.0).any(axis=1).sum() > most(trials)


def test_the_band_of_lengths_of_one_gaussian_entry_is_found_out_if_it_is_five_percent_too_narrow():
    rng, trials, steps = np.random.default_rng(29), 2000, 100
    lengths = np.abs(rng.standard_normal((trials, steps)))
    assert (lengths > 0.95 * length_band(steps, laplace=False)).any(axis=1).sum() > most(trials)


@pytest.mark.parametrize("count", [1, 30, 10**5])
def test_the_band_of_lengths_of_laplace_noise_is_the_least_that_its_bound_proves(count):
    rare = 0.05 / count

    def square(t):
        excess = integrate.quad(lambda x: (x * x - t) * math.sqrt(2.0) * math.exp(-math.sqrt(2.0) * x), t**0.5, 60.0)[0]
        return t + excess / rare

    least = min(square(t) for t in np.linspace(0.1, 200.0, 4000))
    assert length_band(count, laplace=True) ** 2 == pytest.approx(least, rel=1e-3)

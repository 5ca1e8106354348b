"""Noise by the largest entry of a row: its exact law, its privacy, and the same bits in any block."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.k_norm.cube_noise import MOST_ENTRIES, CubeNoise, scaled_down
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.testing.recording import RecordingKey, check_asked_once

KEY = NoiseKey(bytes(range(32)))
ALPHA = 1e-9
PINNED = [
    [-6068678, 1892456, -3677713, 5028799, 546484, -3371708],
    [-135742, -4088784, -3693915, -1233773, -4498001, 4830490],
]
SMALL = [CubeNoise(1, 2), CubeNoise(2, 1), CubeNoise(2, 3), CubeNoise(3, 2), CubeNoise(5, 1)]
RELEASED = CubeNoise(6)


def direct(entries, scale, reach, wrong=1.0):
    """Probability of a largest entry of 0 to ``reach - 1``, and of more, from the points of each shell."""
    q = math.exp(-1.0 / (scale * wrong))
    points = [(2 * k + 1) ** entries - max(2 * k - 1, 0) ** entries for k in range(400 * scale)]
    mass = np.array([count * q**k for k, count in enumerate(points)])
    mass /= math.fsum(mass)
    return np.append(mass[:reach], mass[reach:].sum())


@pytest.mark.parametrize("law", SMALL)
def test_the_largest_entry_has_its_exact_probabilities_and_a_scale_wrong_by_5_percent_is_rejected(law):
    largest = np.abs(law.draw(KEY, (0, 20_000), (0, law.entries), False)).max(axis=1)
    reach = int(np.quantile(largest, 0.999))
    found = np.bincount(np.minimum(largest, reach), minlength=reach + 1)

    def pvalue(wrong):
        return stats.chisquare(found, direct(law.entries, law.scale, reach, wrong) * largest.size).pvalue

    assert pvalue(1.0) > ALPHA
    if law.entries > 1:  # of one entry fewer draws tell less
        assert max(pvalue(1.05), pvalue(1 / 1.05)) < ALPHA


@pytest.mark.parametrize("law", SMALL[1:4])
def test_every_point_of_a_shell_is_as_likely_as_every_other(law):
    drawn = law.draw(KEY, (0, 20_000), (0, law.entries), False)
    shell = [point for point in product((-1, 0, 1), repeat=law.entries) if max(map(abs, point)) == 1]
    found = [int(np.sum(np.all(drawn == point, axis=1))) for point in shell]
    assert sum(found) > 500
    assert stats.chisquare(found).pvalue > ALPHA


def test_no_two_rows_whose_entries_differ_by_k_have_probabilities_more_than_k_over_the_scale_apart():
    """The law itself, point by point, against every shift of up to two steps."""
    law = CubeNoise(2, 3)

    def log_mass(point):
        """In thirds, which are its scale."""
        return -max(map(abs, point))

    worst = {
        shift: max(
            log_mass(point) - log_mass((point[0] + shift[0], point[1] + shift[1]))
            for point in product(range(-9, 10), repeat=2)
        )
        for shift in product((-2, -1, 0, 1, 2), repeat=2)
    }
    charged = {shift: max(map(abs, shift)) / law.privacy_scale for shift in worst}
    assert all(loss / 3 <= charged[shift] for shift, loss in worst.items())
    assert all(loss / 3 == pytest.approx(charged[shift]) for shift, loss in worst.items())


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
def test_a_uniform_number_is_scaled_down_as_whole_numbers_are(high, low, limit):
    found = scaled_down(*(np.array([each], dtype=np.uint64) for each in (high, low, limit)))
    assert int(found[0]) == ((high << 64) + low) * limit >> 128


@given(st.sampled_from([1, 2, 6, 24, 64]), st.integers(0, 2**31 - 1), st.integers(0, 2**128 - 1), st.booleans())
def test_a_radius_is_accepted_exactly_as_its_share_says(entries, radius, bits, near):
    share = Fraction(1)
    for i in range(1, entries + 1):
        share *= Fraction(2 * radius + 1, 2 * radius + 2 * i)
    if near:  # bits around the share itself
        bits = min(max(int(share * 2**128) + bits % 3 - 1, 0), 2**128 - 1)
    words = np.array([[bits >> 64, bits & (2**64 - 1)]], dtype=np.uint64)
    found = CubeNoise(entries)._accepted(words, np.array([radius], dtype=np.uint64))
    assert bool(found[0]) == (Fraction(bits, 2**128) < share)


@pytest.mark.parametrize("entries", [1, 2, 6, 24, 64])
def test_the_standard_deviation_is_that_of_an_independent_sum(entries):
    """By 30 digits at a scale where the sum over all radii can be made."""
    mpmath.mp.dps = 30
    scale = 64
    radii = range(scale * (entries + 40 + 8 * math.isqrt(entries)))
    weights = [mpmath.mpf(2 * m + 1) ** entries * mpmath.exp(mpmath.mpf(-m) / scale) for m in radii]
    variance = sum(w * m * (m + 1) for m, w in zip(radii, weights, strict=True)) / 3 / sum(weights)
    # What is left out is a quarter in units of scale squared: nothing at the released scale.
    assert CubeNoise(entries, scale).standard_deviation == pytest.approx(float(mpmath.sqrt(variance)), rel=1e-4)


def test_released_draws_have_the_moments_and_the_spread_of_their_law():
    drawn = RELEASED.draw(KEY, (0, 30_000), (0, 6), False) / RELEASED.standard_deviation
    largest = np.abs(drawn).max(axis=1) * RELEASED.standard_deviation / RELEASED.scale
    gamma = stats.gamma(6)
    assert stats.kstest(largest, gamma.cdf).pvalue > ALPHA
    assert stats.kstest(1.05 * largest, gamma.cdf).pvalue < ALPHA
    assert stats.kstest(largest / 1.05, gamma.cdf).pvalue < ALPHA
    # Entries of a row are uncorrelated: by 6.1 of their own standard errors, the products having kurtosis below 20.
    products = np.array([drawn[:, i] * drawn[:, j] for i in range(6) for j in range(i)])
    assert np.abs(products.mean(axis=1)).max() < 6.1 * products.std() / math.sqrt(len(drawn))


def test_any_block_has_the_bits_of_the_whole():
    law = CubeNoise(5)
    whole = law.draw(KEY, (0, 300), (0, 23), False)
    rng = np.random.default_rng(5)
    for _ in range(12):
        a, b = np.sort(rng.choice(301, 2, replace=False))
        c, d = np.sort(rng.choice(24, 2, replace=False))
        assert np.array_equal(law.draw(KEY, (a, b), (c, d), False), whole[a:b, c:d])


def test_rejected_rows_draw_anew_from_parts_of_the_stream_that_nothing_else_reads():
    key = RecordingKey(bytes(range(32)))
    CubeNoise(5, 1).draw(key, (0, 256), (0, 10), False)
    check_asked_once(key.asked)
    assert {counter[3] for counter, _ in key.asked} > {0, 1}


def test_the_bits_of_a_key_are_what_they_were():
    assert RELEASED.draw(KEY, (127, 129), (0, 6), False).tolist() == PINNED


def test_what_has_no_proof_is_refused():
    for entries, scale in ((0, 1), (MOST_ENTRIES + 1, 1), (2, 0), (2, 2**20 + 1)):
        with pytest.raises(CalibrationError, match=";"):
            CubeNoise(entries, scale)
    with pytest.raises(ValueError, match="symmetric"):
        RELEASED.draw(KEY, (0, 6), (0, 6), True)
    with pytest.raises(ValueError, match="half-open"):
        RELEASED.draw(KEY, (2, 2), (0, 6), False)

"""Discrete Laplace noise of rational rate: its exact law, its proof, and the same bits in any block."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.noise import discrete_laplace
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey
from blockveil.engine.noise.discrete_laplace import (
    LARGEST_SCALE,
    TOTAL_VARIATION_PER_DRAW,
    DiscreteLaplace,
    digit_thresholds,
    invert,
    powers,
    zero_threshold,
)

KEY = NoiseKey(bytes(range(32)))
LAWS = [DiscreteLaplace(1, 1), DiscreteLaplace(3, 10), DiscreteLaplace(7, 2), DiscreteLaplace(1, 8191)]
ALPHA = 1e-9


def joined(high, low):
    return [(int(h) << 64) + int(s) for h, s in zip(high, low, strict=True)]


def masses(scale, power):
    """Probabilities of a digit from its table, exact."""
    edges = [0, *joined(*digit_thresholds(scale, power)), 2**128]
    return [Fraction(b - a, 2**128) for a, b in zip(edges, edges[1:], strict=False)]


@pytest.mark.parametrize("scale", [1, 3, 8, 9, 1000, 8192, 8193, 2**20 - 1, 2**20])
def test_the_tables_are_within_the_proven_distance_of_the_law_in_exact_rational_arithmetic(scale):
    distance = Fraction(0)
    for power in powers(scale):
        held = masses(scale, power)
        assert min(held) >= 0
        leading = power == powers(scale)[-1]
        with localcontext() as context:
            context.prec = 110
            ratio = (-Decimal(power) / scale).exp()
            # An independent form: each mass by itself, and the tail beyond the table as a difference of its own.
            whole = Decimal(1) if leading else sum(ratio**k for k in range(1024)) * (1 - ratio)
            exact = [Fraction((1 - ratio) * ratio**k / whole) for k in range(len(held))]
            beyond = Fraction(ratio ** len(held)) if leading else Fraction(0)
        distance += (sum(abs(a - b) for a, b in zip(held, exact, strict=True)) + beyond) / 2
    assert distance < Fraction(1, 2**116)
    assert TOTAL_VARIATION_PER_DRAW <= 2.0**-90


@pytest.mark.parametrize("law", LAWS)
def test_zero_has_its_exact_probability_to_127_bits(law):
    held = Fraction(joined(*zero_threshold(law.numerator, law.scale))[0], 2**127)
    with localcontext() as context:
        context.prec = 110
        exact = Fraction((Decimal(law.numerator) / law.scale / 2).exp())
    half = (exact - 1 / exact) / (exact + 1 / exact)  # tanh(rate / 2)
    assert abs(held - half) < Fraction(1, 2**127)


def test_digits_zero_and_sign_make_exactly_the_two_sided_law():
    # All in exact arithmetic from the tables: P(k) against (1-q)/(1+q) q^|k| for rate 3/10.
    law = DiscreteLaplace(3, 10)
    low, high = masses(10, 1), masses(10, 1024)
    zero = Fraction(joined(*zero_threshold(3, 10))[0], 2**127)
    held = {0: zero}
    for a, top in enumerate(high[:2]):
        for b, bottom in enumerate(low):
            k = 1 + (a * 1024 + b) // law.numerator
            held[k] = held.get(k, Fraction(0)) + (1 - zero) * top * bottom / 2
    q = Decimal("-0.3").exp()
    for k in (0, 1, 2, 10, 100):
        exact = (1 - q) / (1 + q) * q**k
        assert float(held[k]) == pytest.approx(float(exact), rel=1e-15)


def cells(law, drawn, scale_error=1.0):
    """Chi-square p-value of draws against the exact law of a rate that is off by a factor."""
    rate = law.numerator / law.scale * scale_error
    q = math.exp(-rate)
    edge = math.ceil(math.log(drawn.size / 50) / rate)
    step = max(1, edge // 50)
    bounds = np.arange(-edge - (step - 1) // 2, edge + step, step)

    def cumulative(k):  # P(x < k)
        k = np.asarray(k, dtype=float)
        return np.where(k > 0, 1 - q ** np.maximum(k, 0) / (1 + q), q ** (1 - np.minimum(k, 1)) / (1 + q))

    expected = np.diff(np.concatenate([[0.0], cumulative(bounds), [1.0]])) * drawn.size
    found = np.histogram(drawn, np.concatenate([[-np.inf], bounds - 0.5, [np.inf]]))[0]
    return stats.chisquare(found, expected).pvalue


@pytest.mark.parametrize("law", LAWS)
def test_draws_follow_the_exact_probabilities_and_a_scale_wrong_by_5_percent_is_rejected(law):
    drawn = law.draw(KEY, (0, 512), (0, 512), symmetric=False).ravel()
    assert cells(law, drawn) > ALPHA
    assert cells(law, drawn, 1.05) < ALPHA
    assert cells(law, drawn, 0.95) < ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_the_variance_is_that_of_the_law(law):
    q = math.exp(-law.numerator / law.scale)
    direct = 2 * math.fsum(k * k * q**k for k in range(1, 60 * law.scale)) * (1 - q) / (1 + q)
    assert law.variance == pytest.approx(direct, rel=1e-9)
    assert law.standard_deviation**2 == pytest.approx(law.variance, rel=1e-14)


def test_signs_are_fair_and_know_nothing_of_magnitudes():
    drawn = LAWS[1].draw(KEY, (0, 512), (0, 512), symmetric=False).ravel()
    other = drawn[drawn != 0]
    bound = stats.norm.isf(ALPHA / 2) / math.sqrt(other.size)
    assert abs(np.mean(np.sign(other))) < bound
    assert abs(np.mean(np.sign(other) * (np.abs(other) > 2))) < bound


@pytest.mark.parametrize("symmetric", [False, True])
def test_any_chunks_give_the_same_bits(symmetric):
    law = DiscreteLaplace(1, 30_000)
    whole = law.draw(KEY, (0, 300), (0, 300), symmetric=symmetric)
    if symmetric:
        assert np.array_equal(whole, whole.T)
    rng = np.random.default_rng(5)
    for _ in range(12):
        a, b = np.sort(rng.choice(301, 2, replace=False))
        c, d = np.sort(rng.choice(301, 2, replace=False))
        assert np.array_equal(law.draw(KEY, (a, b), (c, d), symmetric=symmetric), whole[a:b, c:d])
    edges = [0, *np.sort(rng.choice(np.arange(1, 300), 4, replace=False)), 300]
    rows = [
        law.draw(KEY, (int(a), int(b)), (0, 300), symmetric=symmetric) for a, b in zip(edges, edges[1:], strict=False)
    ]
    assert np.array_equal(np.vstack(rows), whole)


def test_streams_keys_and_other_laws_share_nothing():
    law = DiscreteLaplace(1, 2**20)
    size = ((0, 128), (0, 128))
    first = law.draw(KEY, *size, symmetric=False) / law.standard_deviation
    others = [
        law.draw(KEY, *size, symmetric=False, stream=1) / law.standard_deviation,
        law.draw(NoiseKey(bytes(32)), *size, symmetric=False) / law.standard_deviation,
        GRID_TWO_LEVEL.draw(KEY, *size, symmetric=False) / GRID_TWO_LEVEL.standard_deviation,
    ]
    for other in others:
        assert abs(np.mean(first * other)) < stats.norm.isf(ALPHA / 2) / 128
    with pytest.raises(ValueError, match="stream is 65536"):
        law.draw(KEY, *size, symmetric=False, stream=2**16)


def test_ties_are_settled_by_the_second_word_also_among_thresholds_with_equal_leading_bits():
    high = np.array([5, 9, 9, 9], dtype=np.uint64)
    low = np.array([7, 1, 4, 8], dtype=np.uint64)
    words = np.array([5, 5, 4, 9, 9, 9, 9, 10], dtype=np.uint64)
    ties = np.array([6, 7, 99, 0, 1, 7, 8, 0], dtype=np.uint64)
    assert invert(high, low, words, lambda: ties).tolist() == [0, 1, 0, 1, 2, 3, 4, 4]


@pytest.mark.parametrize(("scale", "power"), [(1, 1), (8, 1), (2**20, 1), (2**20, 1024), (2**20, 2**20)])
def test_the_guided_search_finds_what_a_plain_search_finds(scale, power):
    high, low = digit_thresholds(scale, power)
    one = np.uint64(1)
    words = np.concatenate(
        [
            high - one,
            high[high < np.uint64(2**64 - 1)] + one,
            np.random.default_rng(3).integers(0, 2**64, 50_000, dtype=np.uint64),
            np.array([0, 2**64 - 2, 2**64 - 1], dtype=np.uint64),
        ]
    )
    words = words[~np.isin(words, high)]
    assert np.array_equal(invert(high, low, words, lambda: words), np.searchsorted(high, words, side="right"))
    # Numbers equal to a threshold reach it, and those one below in the trailing bits do not.
    everything = joined(high, low)
    for shift in (0, 1):
        numbers = [value - shift for value in everything]
        leading = np.array([value >> 64 for value in numbers], dtype=np.uint64)
        trailing = np.array([value % 2**64 for value in numbers], dtype=np.uint64)
        expected = [sum(edge <= value for edge in everything) for value in numbers]
        assert invert(high, low, leading, lambda trailing=trailing: trailing).tolist() == expected


def test_words_come_from_lanes_of_its_own():
    seen = []

    class Spy(NoiseKey):
        def stream(self, counter, length):
            seen.append(counter[2])
            return super().stream(counter, length)

    DiscreteLaplace(1, 2**20).draw(Spy(bytes(32)), (0, 1), (0, 1), symmetric=False)
    assert set(seen) == set(range(24, 28))


@given(st.fractions(min_value=Fraction(1, 2**20), max_value=64, max_denominator=10**12))
def test_the_largest_rate_below_a_given_one_is_found(rate):
    law = DiscreteLaplace.at_most(rate)
    nearest = rate.limit_denominator(LARGEST_SCALE)
    assert law.rate <= rate
    assert law.scale <= LARGEST_SCALE
    # The nearest fraction is either the one found or lies above.
    assert law.rate == nearest or nearest > rate
    # No fraction in between: neighbours in the Farey sequence are at most 1 / (scale * (limit + 1 - scale)) apart.
    assert rate - law.rate <= Fraction(1, law.scale * max(1, LARGEST_SCALE + 1 - law.scale))


@pytest.mark.parametrize(("limit", "value"), [(7, Fraction(10, 17)), (5, Fraction(1, 3)), (9, Fraction(355, 113))])
def test_the_largest_fraction_agrees_with_trying_all(limit, value):
    best = max(Fraction(math.floor(value * t), t) for t in range(1, limit + 1))
    assert discrete_laplace._largest_fraction(value, limit) == best


def test_rates_without_a_table_are_refused():
    with pytest.raises(CalibrationError, match="the scale is 0"):
        DiscreteLaplace(1, 0)
    with pytest.raises(CalibrationError, match="at most 64"):
        DiscreteLaplace(65, 1)
    with pytest.raises(CalibrationError, match="coarser grid"):
        DiscreteLaplace.at_most(Fraction(1, 2**21))

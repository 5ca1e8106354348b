"""The discrete Laplace sampler: its law, its proof, and the same bits in any block."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from engine.laplace_grid import LAPLACE_GRID, SCALE, thresholds
from engine.noise import GRID_TWO_LEVEL, NoiseKey

KEY = NoiseKey(bytes(range(32)))


@pytest.mark.parametrize(("rate", "values"), [("1", 90), ("1024", 1024), (str(SCALE), 1024)])
def test_thresholds_are_the_exact_cumulative_probabilities_to_128_bits(rate, values):
    high, low = thresholds(rate)
    assert high.size == values, "the last one is a sentinel"
    with localcontext() as context:
        context.prec = 100
        # An independent form: P(value < k) as a sum of probabilities.
        ratio = (-1 / Decimal(rate)).exp()
        masses = [ratio**k for k in range(values)]
        total, running = sum(masses), Decimal(0)
        for k in range(values - 1):
            running += masses[k]
            stored = (int(high[k]) << 64) + int(low[k])
            assert abs(Decimal(stored) - running / total * 2**128) <= 1


def test_the_bound_of_the_total_variation_holds_for_the_tables_in_use():
    cut = math.exp(-90)
    rounding = (1023 + 1023 + 89) * 2.0**-128
    assert 2 * (cut + rounding) <= LAPLACE_GRID.total_variation_per_draw


def test_words_that_tie_are_settled_by_the_second_word():
    high, low = thresholds("1024")
    assert np.all(high[1:] > high[:-1]), "a word ties with one threshold at most"
    from engine import laplace_grid

    def words(_key, lane, _row, _column):
        filled = np.full(2 * 128 * 128, high[500])
        return filled if lane < 19 else np.where(np.arange(filled.size) % 2 == 0, low[500] - np.uint64(1), low[500])

    original = laplace_grid._words
    laplace_grid._words = words
    try:
        found = laplace_grid._digits(KEY, 1, 0, 0, "1024")
    finally:
        laplace_grid._words = original
    assert set(found[::2]) == {500}
    assert set(found[1::2]) == {501}


def test_the_law_is_discrete_laplace_and_a_scale_wrong_by_5_percent_is_rejected():
    # alpha 1e-9, fixed key. 65,536 draws; the distance of grid and continuous law is below one part in a million.
    drawn = LAPLACE_GRID.draw(KEY, (0, 256), (0, 256), symmetric=False).ravel() / SCALE
    assert stats.kstest(drawn, stats.laplace().cdf).pvalue > 1e-9
    assert not _scale_rejected(drawn)
    assert _scale_rejected(drawn * 0.95)
    assert _scale_rejected(drawn * 1.05)
    assert np.std(drawn) * SCALE == pytest.approx(LAPLACE_GRID.standard_deviation, rel=0.02)


def _scale_rejected(values):
    """Mean absolute value of unit Laplace draws: mean 1, variance 1."""
    return abs(np.mean(np.abs(values)) - 1.0) > stats.norm.isf(0.5e-9) / math.sqrt(values.size)


def test_low_digits_are_uniform_and_independent_of_the_sign():
    drawn = LAPLACE_GRID.draw(KEY, (0, 256), (0, 256), symmetric=False).ravel()
    # 16 classes of the last four bits: uniform to one part in a million.
    assert stats.chisquare(np.bincount(drawn & 15, minlength=16)).pvalue > 1e-9
    assert abs(np.mean(drawn > 0) - 0.5) < stats.norm.isf(0.5e-9) * 0.5 / math.sqrt(drawn.size)


def test_a_block_is_part_of_the_whole_and_a_symmetric_matrix_is_symmetric():
    whole = LAPLACE_GRID.draw(KEY, (0, 300), (0, 300), symmetric=True)
    assert np.array_equal(whole, whole.T)
    assert np.array_equal(LAPLACE_GRID.draw(KEY, (100, 290), (7, 200), symmetric=True), whole[100:290, 7:200])


def test_laplace_and_gaussian_noise_share_no_words():
    gaussian = GRID_TWO_LEVEL.draw(KEY, (0, 128), (0, 128), symmetric=False).ravel() / GRID_TWO_LEVEL.standard_deviation
    laplace = LAPLACE_GRID.draw(KEY, (0, 128), (0, 128), symmetric=False).ravel() / LAPLACE_GRID.standard_deviation
    bound = stats.norm.isf(0.5e-9) / math.sqrt(gaussian.size)
    assert abs(np.mean(gaussian * laplace)) < bound


@pytest.mark.parametrize("rate", ["1", "1024", str(SCALE)])
def test_the_guided_search_finds_what_a_plain_search_finds(rate, monkeypatch):
    from engine import laplace_grid

    high, _ = thresholds(rate)
    rng = np.random.default_rng(3)
    near = np.concatenate([high[:-1] - np.uint64(1), high[:-1] + np.uint64(1)])
    words = np.concatenate(
        [near, rng.integers(0, 2**64, 30_000, dtype=np.uint64), np.array([0, 2**64 - 2, 2**64 - 1], dtype=np.uint64)]
    )
    monkeypatch.setattr(laplace_grid, "_words", lambda *_: words)
    found = laplace_grid._digits(KEY, 0, 0, 0, rate)
    assert np.array_equal(found, np.searchsorted(high[:-1], words, side="right"))

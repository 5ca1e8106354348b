"""The table against 400-bit arithmetic, and the proof that the sampler is within 2**-90 of the discrete Gaussian."""

from bisect import bisect_right

import mpmath
import numpy as np
import pytest

from blockveil.engine.noise.discrete_gaussian import SECOND, THIRD, TOTAL_VARIATION_PER_DRAW
from blockveil.engine.noise.gaussian_table import PRECISION, WIDTH, cumulative, invert, table

BITS = 400


def magnitudes():
    """Probabilities of magnitudes 0, 1, ... of the exact discrete Gaussian, far beyond the table."""
    q = mpmath.exp(-mpmath.mpf(1) / (2 * WIDTH**2))
    weights, factor, square = [mpmath.mpf(1)], q, q * q
    for _ in range(40_000):
        weights.append(weights[-1] * factor)
        factor *= square
    total = weights[0] + 2 * sum(weights[1:])
    return [weights[0] / total] + [2 * weight / total for weight in weights[1:]]


def table_distance():
    """Total variation between the table's law and the exact one: half the sum of absolute differences."""
    exact = magnitudes()
    scale = mpmath.mpf(2) ** PRECISION
    borders = [0, *cumulative(), 2**PRECISION]
    tabled = [mpmath.mpf(high - low) / scale for low, high in zip(borders, borders[1:], strict=False)]
    shared = sum(abs(a - b) for a, b in zip(tabled, exact, strict=False))
    beyond = sum(exact[len(tabled) :])
    # Past the 40 000th magnitude the exact law holds less than twice its last weight times S (geometric tail).
    return (shared + beyond + 2 * WIDTH * exact[-1]) / 2


def smoothing(width, step, inner):
    """Bound of the relative error of one convolution: 2.1 exp(-2 pi^2 w^2), w = inner * width / sqrt(inner^2 + step^2
    width^2)."""
    w = inner * width / mpmath.sqrt(mpmath.mpf(inner) ** 2 + mpmath.mpf(step) ** 2 * width**2)
    return mpmath.mpf("2.1") * mpmath.exp(-2 * mpmath.pi**2 * w**2)


def test_a_draw_is_within_two_to_the_minus_ninety_of_the_discrete_gaussian():
    with mpmath.workprec(BITS):
        each = table_distance()
        second = smoothing(WIDTH, SECOND, WIDTH)
        inner = WIDTH * mpmath.sqrt(1 + SECOND**2)
        third = smoothing(WIDTH, THIRD, inner)
        # Independent parts: distances of the tables add up (three levels at most); a law whose weights are within a
        # factor 1 +- e before normalising is within e in total variation after it (e small); the third level mixes
        # the second level's law, so its errors add. The last term is the transfer to continuous noise.
        transfer = mpmath.mpf("2.1") * mpmath.exp(-200 * mpmath.pi**2)
        distance = 3 * each + 2 * second + 2 * third + 2 * transfer
        assert distance <= mpmath.mpf(TOTAL_VARIATION_PER_DRAW)
        assert distance >= mpmath.mpf(2) ** -120, "the bound must come from the table that is used, not from nothing"


@pytest.mark.parametrize(("width", "step"), [(3, 1), (4, 2), (5, 3), (6, 2)])
def test_the_smoothing_bound_holds_for_small_gaussians_by_brute_force(width, step):
    with mpmath.workprec(BITS):
        reach = 25 * width
        rho = [mpmath.exp(-mpmath.mpf(x * x) / (2 * width**2)) for x in range(-reach, reach + 1)]
        sigma_squared = mpmath.mpf(width**2 * (1 + step**2))
        ratios = []
        for t in range(-3 * width, 3 * width + 1):
            summed = sum(
                rho[t - step * y + reach] * rho[y + reach]
                for y in range(-reach, reach + 1)
                if abs(t - step * y) <= reach
            )
            ratios.append(summed / mpmath.exp(-t * t / (2 * sigma_squared)))
        # Each ratio is the same number up to (1 + e) / (1 - e); truncation at 25 widths is far below e.
        bound = smoothing(width, step, width)
        assert max(ratios) / min(ratios) <= (1 + bound) / (1 - bound)
        assert max(ratios) / min(ratios) >= 1 + bound / 100, "the case must be coarse enough to test anything"


def test_the_smoothing_bound_would_refuse_a_step_that_is_too_large():
    with mpmath.workprec(BITS):
        assert smoothing(WIDTH, 2 * SECOND, WIDTH) > mpmath.mpf(TOTAL_VARIATION_PER_DRAW)


def test_cumulative_entries_ascend_and_are_those_of_four_hundred_bit_arithmetic():
    entries = cumulative()
    assert all(a <= b for a, b in zip(entries, entries[1:], strict=False))
    with mpmath.workprec(BITS):
        running, scale = mpmath.mpf(0), mpmath.mpf(2) ** PRECISION
        for entry, probability in zip(entries, magnitudes(), strict=False):
            running += probability
            assert abs(entry - running * scale) <= mpmath.mpf("0.5") + mpmath.mpf(2) ** -20


def by_hand(word, low):
    """Independent inversion with Python integers."""
    magnitude = bisect_right(cumulative(), ((word >> 1) << 64) | low)
    return -magnitude if word & 1 else magnitude


def inverted(words, further):
    words, further = (np.array(values, dtype=np.uint64) for values in (words, further))
    out = np.empty(words.size, dtype=np.int64)
    invert(words, lambda where: further[where], out)
    return out.tolist()


def test_inversion_agrees_with_python_integers_at_edges_ties_and_random_words():
    entries = cumulative()
    rng = np.random.default_rng(12)
    words = rng.integers(0, 2**64, 4000, dtype=np.uint64).tolist()
    words += [0, 1, 2, 2**64 - 1, 2**64 - 2]
    further = rng.integers(0, 2**64, len(words), dtype=np.uint64).tolist()
    for k in [0, 1, 2, 1000, 9000, 15_000, 20_000, 24_000, 26_000, len(entries) - 2, len(entries) - 1]:
        leading, trailing = entries[k] >> 64, entries[k] & (2**64 - 1)
        for near in (leading - 1, leading, leading + 1):
            for low in (0, max(trailing - 1, 0), trailing, min(trailing + 1, 2**64 - 1), 2**64 - 1):
                for sign in (0, 1):
                    if near < 2**63:
                        words.append(near << 1 | sign)
                        further.append(low)
    assert inverted(words, further) == [by_hand(w, f) for w, f in zip(words, further, strict=True)]


def test_ties_really_occur_in_the_edge_cases_and_their_further_bits_decide():
    entry = cumulative()[1000]
    word = (entry >> 64) << 1
    below, above = (entry & (2**64 - 1)) - 1, entry & (2**64 - 1)
    assert inverted([word, word], [below, above]) == [1000, 1001]


def test_few_words_need_more_than_one_comparison():
    share = np.mean(np.diff(table().guide, append=len(cumulative())) > 1)
    assert 0 < share < 0.01

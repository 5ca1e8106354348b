"""Noise by the length of a whole answer: its exact law, its privacy, and the same bits in any block."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.k_norm.ball_noise import MOST_ENTRIES, BallNoise
from blockveil.engine.noise.discrete_gaussian import NoiseKey

KEY = NoiseKey(bytes(range(32)))
ALPHA = 1e-9
PINNED = [[-95808, -1649576, 1604991]]


def ceiling(point):
    square = sum(each * each for each in point)
    return math.isqrt(square - 1) + 1 if square else 0


def shells(law, reach, wrong=1.0):
    """Probability of each length rounded up, below ``reach`` and beyond, from all points of a box."""
    far = {2: 60, 3: 30}[law.entries]
    counts = np.zeros(2 * far, dtype=np.int64)
    for point in product(range(-far, far + 1), repeat=law.entries):
        counts[ceiling(point)] += 1
    mass = counts[:far] * np.exp(-np.arange(far) * wrong / law.privacy_scale)
    mass /= mass.sum()
    return np.append(mass[:reach], mass[reach:].sum())


@pytest.mark.parametrize("law", [BallNoise(1, 2, 1), pytest.param(BallNoise(3, 1, 0), marks=pytest.mark.slow)])
def test_lengths_have_their_exact_probabilities_and_a_scale_wrong_by_5_percent_is_rejected(law):
    drawn = law.draw(KEY, (0, 12_000 * law.rows), (0, law.columns), False).reshape(-1, law.entries)
    lengths = np.array([ceiling(point) for point in drawn.tolist()])
    reach = int(np.quantile(lengths, 0.995))
    found = np.bincount(np.minimum(lengths, reach), minlength=reach + 1)
    assert stats.chisquare(found, shells(law, reach) * lengths.size).pvalue > ALPHA

    def score(wrong):
        """Standard errors of the mean from that of the law."""
        mass = shells(law, 30, wrong)
        mean = mass @ np.arange(31)
        return (lengths.mean() - mean) / math.sqrt((mass @ np.arange(31) ** 2 - mean**2) / lengths.size)

    bound = stats.norm.isf(ALPHA / 2)
    assert abs(score(1.0)) < bound
    assert score(1.05) > bound
    assert score(1 / 1.05) < -bound


def test_points_of_one_length_are_as_likely_as_each_other():
    law = BallNoise(1, 2, 1)
    drawn = law.draw(KEY, (0, 6_000), (0, 2), False)
    ring = [point for point in product((-2, -1, 0, 1, 2), repeat=2) if ceiling(point) == 2]
    found = [int(np.sum(np.all(drawn == point, axis=1))) for point in ring]
    assert sum(found) > 500
    assert stats.chisquare(found).pvalue > ALPHA


@pytest.mark.parametrize("law", [BallNoise(1, 2, 1), BallNoise(1, 3, 2)])
def test_a_change_of_length_k_costs_at_most_k_and_a_step_over_the_scale(law):
    points = list(product(range(-6, 7), repeat=law.entries))
    # The least multiple of 2^-10 that is not below the root of the number of entries, over the scale of an entry.
    rate = math.ceil(math.sqrt(law.entries) * 2**10) / 2**10 / 2**law.bits
    for shift in product((0, 1, 3), repeat=law.entries):
        moved = [tuple(a + b for a, b in zip(point, shift, strict=True)) for point in points]
        loss = max(ceiling(b) - ceiling(a) for a, b in zip(points, moved, strict=True)) * rate
        assert loss <= (math.hypot(*shift) + 1.0) / law.privacy_scale


@pytest.mark.parametrize("entries", range(1, MOST_ENTRIES + 1))
def test_no_proposal_is_accepted_with_more_than_certainty(entries):
    numerator, bits = BallNoise(1, entries)._rate
    assert numerator**2 >= entries << 20, "the least multiple of 2^-10 that is not below the root"
    assert (numerator - 1) ** 2 < entries << 20
    assert bits == 30


def test_released_draws_have_the_length_of_their_law():
    law = BallNoise(2, 2)
    drawn = law.draw(KEY, (0, 2 * 1500), (0, 2), False).reshape(-1, 4) / law.privacy_scale
    lengths, gamma = np.linalg.norm(drawn, axis=1), stats.gamma(4)
    assert stats.kstest(lengths, gamma.cdf).pvalue > ALPHA
    assert stats.kstest(1.25 * lengths, gamma.cdf).pvalue < ALPHA
    # Var |z|^2 of a gamma length; the mean square is that of the stated standard deviation, alpha 1e-9.
    squares = lengths**2
    spread = math.sqrt((gamma.moment(4) - gamma.moment(2) ** 2) / squares.size)
    assert abs(squares.mean() - 4 * (law.standard_deviation / law.privacy_scale) ** 2) < 6.1 * spread


def test_any_block_has_the_bits_of_the_whole():
    law = BallNoise(2, 3)
    whole = law.draw(KEY, (0, 8), (0, 9), False)
    for rows, columns in (((0, 2), (0, 3)), ((1, 5), (2, 7)), ((7, 8), (8, 9))):
        assert np.array_equal(law.draw(KEY, rows, columns, False), whole[slice(*rows), slice(*columns)])
    assert len(np.unique(whole)) == whole.size, "answers beside and below each other have noise of their own"


def test_the_bits_of_a_key_are_what_they_were():
    assert BallNoise(1, 3).draw(KEY, (0, 1), (0, 3), False).tolist() == PINNED


def test_what_would_take_too_long_or_has_no_law_is_refused():
    with pytest.raises(CalibrationError, match="choose gaussian noise"):
        BallNoise(1, MOST_ENTRIES + 1)
    with pytest.raises(ValueError, match="symmetric"):
        BallNoise(2, 2).draw(KEY, (0, 2), (0, 2), True)

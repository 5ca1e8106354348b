"""Whole-number samplers have exactly their laws."""

import math

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.exact_random import KeyBits

KEY = NoiseKey(bytes(range(32)))
SIGMAS = float(stats.norm.isf(0.5e-9))


def test_bits_are_those_of_the_key_in_order_whatever_pieces_are_asked_for():
    one, other = KeyBits(KEY, 0, 3), KeyBits(KEY, 0, 3)
    pieces = [one.bits(count) for count in (0, 1, 7, 64, 40_000, 1000)]
    whole = other.bits(sum((0, 1, 7, 64, 40_000, 1000)))
    joined = 0
    for piece, count in zip(pieces, (0, 1, 7, 64, 40_000, 1000), strict=True):
        joined = (joined << count) | piece
    assert joined == whole
    assert KeyBits(KEY, 0, 4).bits(256) != KeyBits(KEY, 0, 3).bits(256) != KeyBits(KEY, 1, 3).bits(256)


def test_numbers_below_a_limit_are_uniform():
    bits = KeyBits(KEY, 0, 0)
    found = np.bincount([bits.below(5) for _ in range(20_000)], minlength=5)
    assert found.size == 5
    assert stats.chisquare(found).pvalue > 1e-9
    assert bits.below(1) == 0


@pytest.mark.parametrize("exponent", [0, 300, 1024, 2600])
def test_chances_are_exponential_and_five_percent_off_is_rejected(exponent):
    bits, trials = KeyBits(KEY, 0, exponent), 60_000
    hits = sum(bits.exponential_trial(exponent, 10) for _ in range(trials))
    chance = math.exp(-exponent / 1024)
    error = SIGMAS * math.sqrt(chance * (1 - chance) / trials)
    assert abs(hits / trials - chance) <= error
    for wrong in (1.05, 0.95) if exponent >= 1024 else ():
        assert abs(hits / trials - chance**wrong) > error


def test_discrete_gaussians_follow_their_probabilities_and_a_five_percent_wrong_scale_is_rejected():
    bits = KeyBits(KEY, 0, 1)
    drawn = np.clip([bits.discrete_gaussian(2) for _ in range(60_000)], -12, 12)
    values = np.arange(-40, 41)

    def pvalue(width):
        mass = np.exp(-(values**2) / (2 * width**2))
        mass = np.bincount(np.clip(values, -12, 12) + 12, mass / mass.sum())
        return stats.chisquare(np.bincount(drawn + 12, minlength=25), drawn.size * mass).pvalue

    assert pvalue(4.0) > 1e-9
    assert pvalue(4.0 * 1.05) < 1e-9
    assert pvalue(4.0 / 1.05) < 1e-9

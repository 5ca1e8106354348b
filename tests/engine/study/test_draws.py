"""Draws for study: the same bits in any blocks, the right laws, and the claim that structured projections break."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.study.draws import finished_sketch, quantised, sketch, wishart_noise
from blockveil.engine.study.projections import structured_block

KEY = NoiseKey(bytes(range(32)))
SIGMAS = float(stats.norm.isf(0.5e-9))
RECORDS = np.random.default_rng(1).standard_normal((60, 5))


def cuts(length):
    return st.lists(st.integers(1, length - 1), max_size=3, unique=True).map(lambda inner: [0, *sorted(inner), length])


def spans(borders):
    return list(itertools.pairwise(borders))


@settings(max_examples=15, deadline=None)
@given(rows=cuts(9), columns=cuts(9))
def test_wishart_noise_is_the_same_in_any_blocks_and_symmetric(rows, columns):
    whole = wishart_noise(KEY, 3000, 2.0, (0, 9), (0, 9))
    assert np.array_equal(whole, whole.T)
    for r in spans(rows):
        for c in spans(columns):
            assert np.array_equal(whole[slice(*r), slice(*c)], wishart_noise(KEY, 3000, 2.0, r, c))


def test_wishart_noise_has_its_law_and_a_five_percent_wrong_scale_is_rejected():
    degrees, scale, d = 12, 0.5, 40
    drawn = [wishart_noise(NoiseKey.derive(bytes(32), bytes([i])), degrees, scale, (0, d), (0, d)) for i in range(200)]
    # Diagonal entries are independent: scale times chi-squared with `degrees` degrees of freedom.
    diagonal = np.concatenate([np.diagonal(n) for n in drawn]) / scale
    assert stats.kstest(diagonal, stats.chi2(degrees).cdf).pvalue > 1e-9
    error = SIGMAS * math.sqrt(2 * degrees / diagonal.size)
    assert abs(diagonal.mean() - degrees) < error
    for wrong in (0.95, 1.05):
        assert abs(wrong * diagonal.mean() - degrees) > error
    off = np.concatenate([n[np.triu_indices(d, 1)] for n in drawn])
    # alpha 1e-9: a product of normals has variance one, and kurtosis below nine.
    assert abs(off.mean()) < SIGMAS * scale * math.sqrt(degrees / off.size)
    assert abs(np.mean(off**2) / (scale**2 * degrees) - 1) < SIGMAS * math.sqrt(9 / off.size) * 2
    assert np.linalg.eigvalsh(wishart_noise(KEY, 50, 1.0, (0, d), (0, d)))[0] > 0


@settings(max_examples=15, deadline=None)
@given(rows=cuts(7), records=cuts(60))
def test_a_sketch_is_the_same_whatever_rows_and_records_are_taken_together(rows, records):
    whole = finished_sketch(KEY, sketch(KEY, RECORDS, 0, (0, 7), 2.0), (0, 7), 2.0, 1.5)
    for r in spans(rows):
        parts = [sketch(KEY, RECORDS[slice(*n)], n[0], r, 2.0) for n in spans(records)]
        limbs = sum(p[0] for p in parts), sum(p[1] for p in parts)
        assert np.array_equal(whole[slice(*r)], finished_sketch(KEY, limbs, r, 2.0, 1.5))


def test_rows_of_a_sketch_have_the_regularised_second_moment_and_a_five_percent_wrong_scale_is_rejected():
    k, floor = 60_000, 3.0
    drawn = finished_sketch(KEY, sketch(KEY, RECORDS, 0, (0, k), 1.0), (0, k), 1.0, floor)
    clipped = quantised(RECORDS, 1.0) / 2**15
    assert np.max(np.linalg.norm(clipped, axis=1)) <= 1.0
    assert np.max(np.abs(clipped - RECORDS / np.maximum(1, np.linalg.norm(RECORDS, axis=1))[:, None])) < 2.0**-14
    root = np.linalg.cholesky(clipped.T @ clipped + floor**2 * np.eye(5))
    white = np.linalg.solve(root, drawn.T)
    assert stats.kstest(white.ravel(), stats.norm.cdf).pvalue > 1e-9
    error = SIGMAS * math.sqrt(2 / k)
    moment = white @ white.T / k
    assert np.all(np.abs(moment - np.eye(5)) < error)
    for wrong in (0.95, 1.05):
        assert np.any(np.abs(moment * wrong**2 - np.eye(5)) > error)


def test_structured_projections_with_short_blocks_tell_neighbours_apart_for_certain():
    """All signs and permutations of four records: a row of one data set is impossible on its neighbour."""
    rng = np.random.default_rng(4)
    first = rng.standard_normal((4, 3)) * 100  # whatever the least singular value
    second = first.copy()
    second[0] += rng.standard_normal(3)
    mixing = hadamard(4) / 2.0
    assert structured_block(1, 3, 2) == 2

    def least_distance(row, records):
        """Of a row from all subspaces that signs and pairs of mixed rows span."""
        distances = []
        for signs in itertools.product((-1.0, 1.0), repeat=4):
            mixed = mixing @ (np.array(signs)[:, None] * records)
            for pair in itertools.combinations(range(4), 2):
                normal = np.cross(mixed[pair[0]], mixed[pair[1]])
                distances.append(abs(row @ normal) / np.linalg.norm(normal) / np.linalg.norm(row))
        return min(distances)

    for _ in range(20):
        signs, order = rng.choice([-1.0, 1.0], 4), rng.permutation(4)
        row = rng.standard_normal(2) @ (mixing @ (signs[:, None] * first))[order[:2]]
        assert least_distance(row, first) < 1e-12
        assert least_distance(row, second) > 1e-6


@pytest.mark.parametrize(("n", "d", "k", "block"), [(1000, 20, 100, 11), (1, 3, 2, 2), (4096 - 20, 20, 64, 64)])
def test_blocks_count_the_padding_and_the_rows_that_regularise(n, d, k, block):
    assert structured_block(n, d, k) == block


def test_too_many_terms_are_refused():
    with pytest.raises(CalibrationError, match="at most"):
        wishart_noise(KEY, 2**24 + 1, 1.0, (0, 1), (0, 1))
    with pytest.raises(CalibrationError, match="at most"):
        sketch(KEY, np.zeros((2, 2)), 2**24 - 1, (0, 1), 1.0)

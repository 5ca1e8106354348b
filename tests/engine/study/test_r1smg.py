"""R1SMG as published, and noise that agrees across chunks; what really holds is in test_r1smg_profile.py."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey, noise_block
from blockveil.engine.study.r1smg import block_energy, noise, published, radius, scale

KEY = NoiseKey(bytes(range(32)))


@pytest.mark.parametrize("entries", [3, 4, 10, 101, 7921, 10_000, 999_983, 5_760_000, 10**8])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-7, 1e-7), (0.71, 3.33e-7), (5.42, 0.5), (1.0, 1e-60)])
def test_the_published_numbers_agree_with_high_precision(entries, epsilon, delta):
    with mpmath.workdps(40):
        ratio = mpmath.gammaprod([mpmath.mpf(entries - 1) / 2], [mpmath.mpf(entries) / 2]) / mpmath.sqrt(mpmath.pi)
        psi = (mpmath.mpf(delta) * ratio) ** (mpmath.mpf(2) / (entries - 2))
        expected = float(psi), float(mpmath.asin(mpmath.sqrt(1 - psi))), float(4 / (mpmath.mpf(epsilon) * psi))
    found = published(entries, epsilon, delta, math.sqrt(2.0))
    assert (found.psi, found.theta, found.variance) == pytest.approx(expected, rel=1e-12)


def test_noise_is_the_same_bits_in_whatever_blocks():
    rng, shape = np.random.default_rng(1), (300, 200)
    whole_energy = block_energy(KEY, (0, shape[0]), (0, shape[1]))
    factor = scale(KEY, whole_energy, 4.0)
    whole = noise(KEY, (0, shape[0]), (0, shape[1]), factor)
    for _ in range(10):
        rows = [0, *sorted(rng.integers(1, shape[0], 2)), shape[0]]
        columns = [0, *sorted(rng.integers(1, shape[1], 2)), shape[1]]
        blocks = [
            (r, c)
            for r in zip(rows, rows[1:], strict=False)
            for c in zip(columns, columns[1:], strict=False)
            if r[0] < r[1] and c[0] < c[1]
        ]
        assert sum(block_energy(KEY, r, c) for r, c in blocks) == whole_energy
        for r, c in blocks:
            assert np.array_equal(noise(KEY, r, c, factor), whole[slice(*r), slice(*c)])


def test_the_energy_is_the_exact_sum_of_squares():
    base = noise_block(KEY, (100, 140), (4000, 8300), grid=GRID_TWO_LEVEL, symmetric=False)
    assert block_energy(KEY, (100, 140), (4000, 8300)) == sum(int(value) ** 2 for value in base.ravel())


def test_the_length_is_the_radius_whatever_the_field():
    for shape in ((1, 3), (40, 50), (1, 130)):
        ranges = tuple((0, size) for size in shape)
        field = noise(KEY, *ranges, scale(KEY, block_energy(KEY, *ranges), 9.0))
        assert field.dtype == np.float64
        assert field.shape == shape
        assert np.linalg.norm(field) == pytest.approx(abs(radius(KEY, 9.0)), rel=1e-12)
    assert radius(KEY, 36.0) == pytest.approx(2.0 * radius(KEY, 9.0), rel=1e-15)
    assert radius(NoiseKey(bytes(32)), 9.0) != radius(KEY, 9.0)


def test_the_squared_length_is_chi_squared_and_5_percent_more_is_rejected():
    # Fourth moments decide: the deviation of a mean square of 16,000 draws is 1.1 percent; 5 percent of scale is 10.
    draws = np.array([radius(NoiseKey.derive(bytes(32), number.to_bytes(4)), 4.0) for number in range(16_000)]) / 2.0
    bound = stats.norm.isf(0.5e-9) * math.sqrt(2.0 / draws.size)  # alpha 1e-9
    assert abs(np.mean(draws**2) - 1) < bound
    assert abs(np.mean((1.05 * draws) ** 2) - 1) > bound
    assert abs(np.mean((draws / 1.05) ** 2) - 1) > bound
    assert stats.kstest(draws**2, stats.chi2(1).cdf).pvalue > 1e-9
    assert stats.kstest(draws, "norm").pvalue > 1e-9


def test_the_direction_is_uniform_and_5_percent_in_one_entry_is_rejected():
    # Groups of six entries of one field are fields of their own; a squared entry of a direction is Beta(1/2, 5/2).
    field = np.concatenate([noise(NoiseKey.derive(b"d" * 32, bytes([k])), (0, 128), (0, 126), 1.0) for k in range(8)])
    groups = field.reshape(-1, 6)

    def squares(values):
        return values**2 / np.sum(values**2, axis=1, keepdims=True)

    deviation = stats.beta(0.5, 2.5).std() / math.sqrt(groups.shape[0])
    bound = stats.norm.isf(0.5e-9 / 6) * deviation
    assert np.all(np.abs(np.mean(squares(groups), axis=0) - 1 / 6) < bound)
    for factor in (1.05, 1 / 1.05):
        wrong = groups * np.array([factor, 1, 1, 1, 1, 1])
        assert np.any(np.abs(np.mean(squares(wrong), axis=0) - 1 / 6) > bound)
    for column in squares(groups).T:
        assert stats.kstest(column, stats.beta(0.5, 2.5).cdf).pvalue > 1e-9 / 6
    # Signs are fair and independent of each other.
    signs = np.sign(groups)
    assert np.max(np.abs(signs.T @ signs / groups.shape[0] - np.eye(6))) < 6.5 / math.sqrt(groups.shape[0])
    assert np.max(np.abs(np.mean(signs, axis=0))) < 6.5 / math.sqrt(groups.shape[0])


@pytest.mark.parametrize(
    "arguments",
    [(2, 1.0, 1e-5, 1.0), (10, 0.0, 1e-5, 1.0), (10, 1.0, 0.0, 1.0), (10, 1.0, 1e-5, math.inf), (3, 1.0, 1e-200, 1.0)],
)
def test_parameters_out_of_range_are_refused(arguments):
    with pytest.raises(CalibrationError):
        published(*arguments)


def test_a_field_without_energy_is_refused():
    with pytest.raises(CalibrationError):
        scale(KEY, 0, 1.0)

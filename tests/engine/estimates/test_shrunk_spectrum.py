"""Shrunk eigenvalues: none negative, of the released sum, as the theory of noise has them, and nearer to the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.estimates import shrunk_spectrum as module
from blockveil.engine.estimates.postprocessing import nearest_psd
from blockveil.engine.estimates.shrunk_spectrum import (
    FEWEST,
    SpectrumNoise,
    noise_of_covariance,
    noise_of_moment,
    shrunk,
    shrunk_spectra,
    shrunk_spectrum,
    suits,
)
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.records.geometry import Body
from blockveil.testing.mechanism import ADD, K

PROMISE = ApproxDP(1.0, 1e-6)
RELATIVE = ShapedGaussian(Importance("relative-error"))


def problem(features, augmented=False, units=None):
    scale = np.ones(features) if units is None else units
    return SecondMoment(Body.CUBE, scale, ADD, K, 1000, augmented)


def noise(rng, d, draws, deviation=1.0):
    """Symmetric Gaussian noise, sqrt(2) larger on the diagonal, shape (draws, d, d)."""
    drawn = np.triu(rng.standard_normal((draws, d, d)), 1) * deviation
    diagonal = rng.standard_normal((draws, d)) * deviation * np.sqrt(2.0)
    return drawn + np.swapaxes(drawn, 1, 2) + diagonal[..., None] * np.eye(d)


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 30), deviation=st.sampled_from([0.0, 0.01, 0.3, 1.0, 10.0]))
def test_no_eigenvalue_is_negative_and_their_sum_is_the_released_one_unless_more_stands_out(seed, d, deviation):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.standard_normal(d) + rng.choice([0.0, 0.5, 5.0]))
    found = shrunk_spectrum(values, SpectrumNoise(deviation, rng.choice([0.0, deviation * np.sqrt(d) * 3.0])))
    assert np.all(found >= 0.0)
    tolerance = 1e-9 * np.abs(values).sum()
    assert found.sum() >= values.sum() - tolerance
    if found.sum() > max(values.sum(), 0.0) + tolerance:
        assert found[0] == 0.0, "nothing is left for the rest"
        assert found.max() <= values.max() + tolerance


def test_a_trace_that_is_not_positive_gives_zero_where_nothing_stands_out():
    assert not shrunk_spectrum(np.array([-3.0, -1.0, 1.0, 2.0]), SpectrumNoise(1.0)).any()
    assert not shrunk(np.zeros((3, 3)), SpectrumNoise(1.0)).any()


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 12))
def test_without_noise_a_positive_semi_definite_matrix_stays_as_it_is(seed, d):
    factor = np.random.default_rng(seed).standard_normal((d, d))
    matrix = factor @ factor.T
    assert np.allclose(shrunk(matrix, SpectrumNoise(0.0)), matrix, rtol=0.0, atol=1e-10 * np.abs(matrix).max())


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 12))
def test_of_one_sum_there_is_no_nearer_vector_without_negative_entries(seed, d):
    rng = np.random.default_rng(seed)
    values, total = np.sort(rng.standard_normal(d))[::-1], rng.random() + 0.01
    found = module._of_one_sum(values[None], np.array([[total]]))[0]
    assert np.all(found >= 0.0)
    assert found.sum() == pytest.approx(total, rel=1e-9)
    assert not module._of_one_sum(values[None], np.array([[-total]])).any()
    for other in rng.dirichlet(np.ones(d), 50) * total:
        # The obtuse angle at a projection onto a convex set.
        assert (values - found) @ (other - found) <= 1e-9


def test_a_lone_eigenvalue_is_weighed_by_how_much_of_its_direction_is_its_own():
    d, rng = 400, np.random.default_rng(1)
    largest = 3.0 * np.sqrt(d)
    truth = np.zeros((d, d))
    truth[0, 0] = largest
    seen, weights, best = np.zeros(10), np.zeros(10), np.zeros(10)
    for draw, drawn in enumerate(noise(rng, d, 10)):
        values, vectors = np.linalg.eigh(truth + drawn)
        seen[draw], weights[draw] = values[-1], shrunk_spectrum(values, SpectrumNoise(1.0))[-1]
        best[draw] = largest * vectors[0, -1] ** 2
    assert np.mean(seen) == pytest.approx(largest + d / largest, rel=0.02)
    assert np.mean(weights) == pytest.approx(np.mean(best), rel=0.02)
    assert np.mean(best) == pytest.approx(largest * (1.0 - d / largest**2), rel=0.02)


def test_noise_alone_leaves_hardly_an_eigenvalue_that_stands_out():
    d, rng = 100, np.random.default_rng(2)
    for drawn in noise(rng, d, 20):
        values = np.linalg.eigvalsh(drawn + 0.5 * np.eye(d))
        found = shrunk_spectrum(values, SpectrumNoise(1.0))
        assert np.linalg.norm(found - 0.5) <= 0.25 * np.linalg.norm(np.maximum(values, 0.0) - 0.5)


@pytest.mark.parametrize(
    ("d", "rank", "strength", "least", "most"),
    [
        (23, 1, 2.0, 0.35, 0.6),
        (23, 22, 2.5, 0.4, 0.6),
        (10, 9, 2.5, 0.5, 0.8),
        (32, 16, 2.5, 0.9, 1.02),
        (100, 10, 3.0, 0.4, 0.7),
        (64, 4, 0.5, 0.05, 0.3),
    ],
)
def test_its_error_over_that_of_cutting_is_as_the_page_says(d, rank, strength, least, most):
    """Hundreds of draws, whose ratio has a standard error below 0.5 %."""
    rng = np.random.default_rng(d + rank)
    truth = np.diag((np.arange(d) < rank) * strength * np.sqrt(d))
    sums = np.zeros(2)
    for drawn in noise(rng, d, 12_000 // d):
        noisy = truth + drawn
        for way, found in enumerate((nearest_psd(noisy)[0], shrunk(noisy, SpectrumNoise(1.0)))):
            sums[way] += np.sum((found - truth) ** 2)
    assert least <= np.sqrt(sums[1] / sums[0]) <= most


@pytest.mark.parametrize("d", [1, 3, 10, 40])
def test_of_many_matrices_each_becomes_what_it_becomes_alone_to_the_last_bit(d):
    rng = np.random.default_rng(d)
    values = np.sort(rng.normal(size=(60, d)) * rng.lognormal(0.0, 2.0, (60, d)), axis=1)
    values[-3:] = [[0.0], [2.0], [-1.0]]
    alike = SpectrumNoise(0.7)
    own = [SpectrumNoise(*sizes) for sizes in rng.exponential([1.0, 5.0], (60, 2))]
    for noise, noises in ((alike, [alike] * 60), (own, own)):
        one_by_one = [shrunk_spectrum(each, of) for each, of in zip(values, noises, strict=True)]
        assert np.array_equal(shrunk_spectra(values, noise), one_by_one)
        assert np.min(one_by_one) >= 0.0


def test_noise_along_the_mean_of_a_covariance_is_as_large_as_is_said():
    d, rng = 40, np.random.default_rng(3)
    asked = problem(d, augmented=True)
    design = RELATIVE.design(asked, PROMISE)
    centre, count = np.full(d, -0.8), 2000.0
    deviations = design.entry_standard_deviation()
    known = noise_of_covariance(design, centre, count, deviations[0, 0])
    assert known.beside == pytest.approx(deviations[1, 2] / count)
    seen = []
    for _ in range(200):
        sums, counted = rng.standard_normal(d) * deviations[0, 1], rng.standard_normal() * deviations[0, 0]
        change = np.outer(centre, centre) * counted - np.outer(sums, centre) - np.outer(centre, sums)
        seen.append(np.abs(np.linalg.eigvalsh(change / count)).max())
    assert 0.6 * known.along <= np.mean(seen) <= known.along
    assert np.quantile(seen, 0.99) <= 1.5 * known.along
    assert noise_of_covariance(design, np.zeros(d), count, 0.0).along == 0.0


def test_the_noise_of_a_second_moment_is_that_of_two_different_features():
    design = RELATIVE.design(problem(12), PROMISE)
    assert noise_of_moment(design) == SpectrumNoise(design.entry_standard_deviation()[3, 7])


@pytest.mark.parametrize("augmented", [False, True])
def test_it_suits_noise_that_is_even_and_features_that_are_not_few(augmented):
    lead, uneven = int(augmented), np.append(np.ones(FEWEST), 3.0)
    assert suits(RELATIVE.design(problem(FEWEST, augmented), PROMISE), lead)
    assert not suits(RELATIVE.design(problem(FEWEST - 1, augmented), PROMISE), lead)
    assert suits(RELATIVE.design(problem(FEWEST + 1, augmented, uneven), PROMISE), lead)
    assert not suits(Gaussian().design(problem(FEWEST + 1, augmented, uneven), PROMISE), lead)

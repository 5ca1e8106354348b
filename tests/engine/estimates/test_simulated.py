"""Simulated errors are those of the law, also after post-processing; proven bounds hold as often as they say."""

from dataclasses import replace

import numpy as np
import pytest

from blockveil.engine.estimates import simulated as simulated_errors
from blockveil.engine.estimates.error_bounds import error_report
from blockveil.engine.estimates.matrices import covariance_of
from blockveil.engine.estimates.shrunk_spectrum import noise_of_covariance, noise_of_moment, shrunk
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace, Laplace
from blockveil.engine.records.geometry import Box, Ellipsoid

ADD = Neighbours.ADD_REMOVE
ASKED = ApproxDP(1.0, 1e-6)
EVEN = Box(-np.ones(24), np.ones(24), np.zeros(24)).coordinates()
UNEVEN = Box([-1.0] * 8, [1.0, 2.0, 3.0, 1.0, 1.0, 5.0, 1.0, 1.0], [0.0] * 8).coordinates()
SHAPE = Ellipsoid([0.0] * 8, np.diag(np.arange(1.0, 9.0)) + 0.5).coordinates()
DRAWS = 2000
SIMULATED = 200


def designed(coordinates, augmented=False, mechanism=ShapedGaussian):
    problem = SecondMoment(coordinates.body, coordinates.scale, ADD, 2**15 - 1, 1000, augmented)
    return mechanism(Importance("relative-error")).design(problem, ASKED)


def truth(design, strength=1.0):
    """Second moment in coordinates, strong in some directions and weak in others beside the noise."""
    size = design.width
    basis = np.linalg.qr(np.random.default_rng(2).standard_normal((size, size)))[0]
    spectrum = 40.0 * 0.4 ** np.arange(size)
    return (basis * spectrum) @ basis.T * strength * float(design.entry_standard_deviation()[0, 1])


def drawn(design, count=DRAWS, seed=0):
    """Independent Gaussian draws of the noise, in float arithmetic."""
    noise = np.random.default_rng(seed).standard_normal((count, *design.shape))
    if design.spread.symmetric:
        noise = np.triu(noise) + np.triu(noise, 1).transpose(0, 2, 1)
    return noise * design.entry_standard_deviation()


def psd(matrices):
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * np.maximum(values, 0)[..., None, :]) @ vectors.swapaxes(-1, -2)


def raw(matrices, coordinates):
    units = coordinates.to_raw()
    return matrices * np.outer(units, units) if units.ndim == 1 else units @ matrices @ units.T


def scaled(matrices, coordinates):
    units = coordinates.to_scaled()
    return matrices if units is None else units @ matrices @ units.T


def entry(errors):
    return np.sqrt(np.mean(errors**2))


def lost(first, second, k):
    ours, theirs = (np.linalg.eigh(matrix)[1][..., ::-1][..., :k] for matrix in (first, second))
    return k - np.sum((ours.T @ theirs) ** 2, axis=(-2, -1))


def check(simulated, errors):
    """All sizes within six standard errors of 200 simulated releases (alpha 2e-9 each); returns those of the entry."""
    each = np.std(np.mean(errors**2, axis=(1, 2))) / np.mean(errors**2) / 2  # of the root, for one release
    slack = 6 * each * np.sqrt(1 / SIMULATED + 1 / len(errors))
    assert abs(simulated.entry / entry(errors) - 1) < slack
    sizes = {"frobenius": np.linalg.norm(errors, axis=(1, 2)), "largest": np.max(np.abs(errors), axis=(1, 2))}
    if simulated.spectral is not None:
        sizes["spectral"] = np.max(np.abs(np.linalg.eigvalsh(errors)), axis=1)
    for name, found in sizes.items():
        share = np.mean(found <= getattr(simulated, name))
        assert abs(share - 0.95) < 6 * np.sqrt(0.05 * 0.95 / SIMULATED), name
    return slack


@pytest.mark.parametrize("coordinates", [EVEN, UNEVEN, SHAPE], ids=["even", "uneven", "matrix"])
def test_simulated_errors_of_a_second_moment_are_those_before_and_after_post_processing(coordinates):
    design = designed(coordinates)
    stand_in = truth(design)
    found = simulated_errors.second_moment(stand_in, design, coordinates)
    noisy = stand_in + drawn(design)
    check(found.noisy, raw(noisy - stand_in, coordinates))
    check(found.after, raw(psd(noisy) - stand_in, coordinates))
    assert found.after.entry < found.noisy.entry
    for k, simulated in enumerate(found.subspace, 1):
        actual = lost(scaled(stand_in, coordinates), scaled(noisy, coordinates), k)
        assert simulated == pytest.approx(np.mean(actual), abs=6 * np.std(actual) / np.sqrt(SIMULATED))


def test_a_scale_five_percent_off_is_seen_before_and_after_post_processing():
    design = designed(EVEN)
    stand_in = truth(design)
    wrong = simulated_errors.second_moment(stand_in, replace(design, scale=1.05 * design.scale), EVEN)
    noisy = stand_in + drawn(design)
    for simulated, errors in ((wrong.noisy, noisy - stand_in), (wrong.after, psd(noisy) - stand_in)):
        with pytest.raises(AssertionError):
            check(simulated, errors)


@pytest.mark.parametrize("public_count", [None, 900])
def test_simulated_errors_of_a_covariance_are_those_of_all_its_parts(public_count):
    design = designed(UNEVEN, augmented=True)
    lead = np.concatenate([[1.0], 0.3 * np.ones(8)])
    stand_in = 900 * (np.outer(lead, lead) + np.diag([0.0, *0.05 * np.arange(1.0, 9.0)]))
    found = simulated_errors.covariance(stand_in, design, UNEVEN, public_count)
    noisy = stand_in + drawn(design)
    count = noisy[:, :1, :1] if public_count is None else 900.0
    centre = noisy[:, :1, 1:] / count
    errors = noisy[:, 1:, 1:] / count - centre.transpose(0, 2, 1) * centre - np.diag(0.05 * np.arange(1.0, 9.0))
    check(found.noisy, raw(errors, UNEVEN))
    assert covariance_of(stand_in, 900, 0.0) == pytest.approx(np.diag(0.05 * np.arange(1.0, 9.0)), abs=1e-9)
    norms = np.max(np.abs(np.linalg.eigvalsh(errors)), axis=1)
    assert abs(np.mean(norms <= found.scaled_spectral) - 0.95) < 6 * np.sqrt(0.05 * 0.95 / SIMULATED)


def shrunk_all(matrices, noises):
    return np.stack([shrunk(matrix, noise) for matrix, noise in zip(matrices, noises, strict=True)])


def test_simulated_errors_of_shrunk_eigenvalues_are_those_of_what_is_released():
    design = designed(EVEN)
    stand_in = truth(design)
    found = simulated_errors.second_moment(stand_in, design, EVEN, shrinks=True)
    noisy = stand_in + drawn(design)
    after = shrunk_all(noisy, [noise_of_moment(design)] * DRAWS) - stand_in
    check(found.after, after)
    assert found.after.entry < simulated_errors.second_moment(stand_in, design, EVEN).after.entry
    wrong = simulated_errors.second_moment(stand_in, replace(design, scale=1.05 * design.scale), EVEN, shrinks=True)
    with pytest.raises(AssertionError):
        check(wrong.after, after)


@pytest.mark.parametrize("public_count", [None, 900])
def test_simulated_errors_of_shrunk_covariances_are_those_of_what_is_released(public_count):
    design = designed(EVEN, augmented=True)
    lead, inner = np.concatenate([[1.0], 0.6 * np.ones(24)]), 0.5 * 0.8 ** np.arange(24.0)
    stand_in = 900 * (np.outer(lead, lead) + np.diag([0.0, *inner]))
    found = simulated_errors.covariance(stand_in, design, EVEN, public_count, shrinks=True)
    noisy = stand_in + drawn(design, 1000)
    deviation = float(design.entry_standard_deviation()[0, 0]) if public_count is None else 0.0
    counts = noisy[:, 0, 0] if public_count is None else np.full(1000, 900.0)
    noises = [
        noise_of_covariance(design, moment[0, 1:] / count, float(count), deviation)
        for moment, count in zip(noisy, counts, strict=True)
    ]
    check(found.after, shrunk_all(covariance_of(noisy, public_count, deviation), noises) - np.diag(inner))


@pytest.mark.parametrize("mechanism", [IntegerLaplace(), Laplace(Importance("relative-error"))])
def test_counts_are_compared_before_and_after_they_are_made_whole(mechanism):
    design = mechanism.design(Counts((30, 20), ADD, 1000), ASKED)
    stand_in = np.floor(np.random.default_rng(4).gamma(0.3, 3.0, (30, 20)))
    found = simulated_errors.counts(stand_in, design)
    size = float(design.entry_standard_deviation()[0, 0])
    rng = np.random.default_rng(5)
    if design.whole:
        parts = rng.geometric(1 - np.exp(-1.0), (2, DRAWS, 30, 20))
        noise = (parts[0] - parts[1]).astype(float)
    else:
        noise = rng.laplace(scale=size / np.sqrt(2), size=(DRAWS, 30, 20))
    after = np.rint(np.maximum(stand_in + noise, 0)) - stand_in
    check(found.noisy, noise)
    check(found.after, after)
    assert found.after.entry < found.noisy.entry
    distance = np.linalg.norm(noise, axis=(1, 2))
    assert np.all(np.linalg.norm(after, axis=(1, 2)) <= np.minimum(2 * distance, distance + 0.5 * np.sqrt(600)))


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_a_release_standing_in_for_the_truth_tells_the_error_after_post_processing(strength):
    design = designed(UNEVEN)
    matrix = truth(design, strength)
    noisy = matrix + drawn(design)
    actual = entry(raw(psd(noisy) - matrix, UNEVEN))
    found = [simulated_errors.second_moment(each, design, UNEVEN) for each in psd(noisy[:20])]
    assert np.mean([each.after.entry for each in found]) == pytest.approx(actual, rel=0.1)
    for k in (1, 2):
        said = np.mean([each.subspace[k - 1] for each in found])
        really = np.mean(lost(matrix, noisy, k))
        assert 0.5 * really - 0.01 < said < 2.5 * really + 0.01


@pytest.mark.parametrize("coordinates", [UNEVEN, SHAPE], ids=["box", "matrix"])
def test_bounds_of_subspaces_and_of_the_projected_matrix_hold_in_at_least_95_of_100_releases(coordinates):
    design = designed(coordinates)
    matrix = truth(design, 30.0)
    noisy = matrix + drawn(design)
    units = np.ones(8) if coordinates.mixing is None else coordinates.to_scaled()
    norm = error_report(design, units, units).spectral
    slack = 6 * np.sqrt(0.05 * 0.95 / DRAWS)
    spectra = np.linalg.eigvalsh(scaled(noisy, coordinates))
    for k in (1, 2, 3):
        bounds = np.array([simulated_errors.davis_kahan(spectrum, norm, k) for spectrum in spectra])
        assert np.mean(bounds) < k, "the bound says something"
        found = lost(scaled(matrix, coordinates), scaled(noisy, coordinates), k)
        assert np.mean(found <= bounds) >= 0.95 - slack
    inside = error_report(design, np.ones(8), np.ones(8)).frobenius
    assert np.mean(np.linalg.norm(psd(noisy) - matrix, axis=(1, 2)) <= inside) >= 0.95 - slack


def test_davis_kahan_is_at_most_the_dimension_and_says_nothing_without_a_gap():
    spectrum = np.array([5.0, 4.0, 1.0, 1.0])
    assert simulated_errors.davis_kahan(spectrum, 0.1, 2) == pytest.approx(2 * (0.2 / 3.0) ** 2)
    assert simulated_errors.davis_kahan(spectrum, 100.0, 2) == 2.0
    assert simulated_errors.davis_kahan(spectrum, 1e-9, 3) == 1.0
    assert simulated_errors.davis_kahan(spectrum[::-1], 0.1, 1) == pytest.approx(0.04)


def test_a_simulation_is_the_same_every_time_and_too_large_a_matrix_has_none():
    design = designed(UNEVEN)
    first, again = (simulated_errors.second_moment(truth(design), design, UNEVEN) for _ in range(2))
    assert first == again
    assert first.draws == SIMULATED
    wide = Box(-np.ones(200), np.ones(200), np.zeros(200)).coordinates()
    assert simulated_errors.second_moment(np.eye(200), designed(wide), wide) is None
    assert simulated_errors.covariance(np.eye(201), designed(wide, augmented=True), wide, None) is None
    one = Box([-1.0], [1.0], [0.0]).coordinates()
    assert simulated_errors.second_moment(np.ones((1, 1)), designed(one), one).subspace == ()

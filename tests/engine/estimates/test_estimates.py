"""Estimates in raw units are unbiased and their stated standard deviations are those of the noise."""

import numpy as np
import pytest

from blockveil.engine.answers import gram
from blockveil.engine.estimates import matrices
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.mechanisms.gaussian import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey, noise_block
from blockveil.engine.records.geometry import Ball, Body, Box, Ellipsoid
from blockveil.engine.records.quantiser import Quantiser
from blockveil.testing.moment_noise import calibrate

MATRIX = np.array([[4.0, 1.5, 0.2], [1.5, 1.0, 0.1], [0.2, 0.1, 9.0]])
GEOMETRIES = {
    "box": Box([-1.0, 0.0, 5.0], [3.0, 1.0, 25.0], [1.0, 0.5, 15.0]),
    "ball": Ball([1.0, 0.5, 15.0], 8.0),
    "matrix": Ellipsoid([1.0, 0.5, 15.0], MATRIX * 5),
}
RECORDS = (
    np.random.default_rng(10)
    .multivariate_normal([1.2, 0.4, 14.0], MATRIX * 0.05, 20_000)
    .clip([-1.0, 0.0, 5.0], [3.0, 1.0, 25.0])
)
RUNS = 400


def prepared(name, augmented):
    coordinates = GEOMETRIES[name].coordinates()
    quantiser = Quantiser(coordinates, 32767, augmented, None)
    constant = 0.3 if augmented else 0.0
    weights = np.full(3, (1 - constant) / (1 if coordinates.body is Body.BALL else 3))
    design = calibrate(coordinates.body, weights, constant, ApproxDP(1.0, 1e-6), Neighbours.ADD_REMOVE, 32767)
    return coordinates, design, gram.partial_gram(RECORDS, 0, len(RECORDS), quantiser, 5000)


def draws(design, exact):
    size, steps = (0, design.width), design.steps((0, design.width), (0, design.width))
    for run in range(RUNS):
        key = NoiseKey.derive(bytes(32), run.to_bytes(4, "big"))
        yield add_noise(exact, steps, noise_block(key, size, size, grid=design.grid, symmetric=True))


def check(values, truth, stated):
    values = np.asarray(values)
    # 400 draws: standard error of a mean 5 %, of a deviation 3.5 %; six of them bound each entry at alpha 2e-9.
    assert np.max(np.abs(values.mean(0) - truth) / stated) < 6 / np.sqrt(RUNS) + 0.02
    ratio = values.std(0) / stated
    assert np.all(np.abs(ratio - 1) < 6 / np.sqrt(2 * RUNS) + 0.01)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_a_second_moment_has_its_stated_mean_and_deviation(name):
    coordinates, design, exact = prepared(name, augmented=False)
    found = [matrices.second_moment(released, design, coordinates) for released in draws(design, exact)]
    centred = RECORDS - coordinates.origin
    check([f.value for f in found], centred.T @ centred, found[0].standard_deviation)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_count_mean_and_covariance_come_from_one_release_with_true_deviations(name):
    coordinates, design, exact = prepared(name, augmented=True)
    found = [matrices.covariance(released, design, coordinates, None) for released in draws(design, exact)]
    check([f.count.value for f in found], len(RECORDS), found[0].count.standard_deviation)
    check([f.mean.value for f in found], RECORDS.mean(0), found[0].mean.standard_deviation)
    truth = np.cov(RECORDS.T, bias=True)
    check([f.covariance.value for f in found], truth, found[0].covariance.standard_deviation)


def test_a_public_count_is_used_as_it_is():
    coordinates, design, exact = prepared("box", augmented=True)
    found = matrices.covariance(next(draws(design, exact)), design, coordinates, len(RECORDS))
    assert float(found.count.value) == len(RECORDS)
    assert float(found.count.standard_deviation) == 0.0


def test_the_positive_semi_definite_version_is_symmetric_without_negative_eigenvalues():
    coordinates, design, exact = prepared("box", augmented=True)
    few = exact // 2000  # ten records: the noise dominates, so the plain estimate is indefinite
    found = matrices.covariance(next(draws(design, few)), design, coordinates, None)
    assert np.array_equal(found.covariance_psd, found.covariance_psd.T)
    values = np.linalg.eigvalsh(found.covariance_psd)
    assert values[0] >= -1e-9 * values[-1]


def test_the_planned_deviation_bounds_the_released_one():
    coordinates, design, exact = prepared("box", augmented=True)
    found = matrices.covariance(next(draws(design, exact)), design, coordinates, None)
    scale = np.outer(coordinates.scale, coordinates.scale)
    assert np.all(
        found.covariance.standard_deviation <= matrices.worst_covariance_deviation(design, len(RECORDS)) * scale * 1.05
    )

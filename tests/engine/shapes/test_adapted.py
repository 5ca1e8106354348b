"""Shapes adapted to a public covariance: of the right form, robust to noise, and the best of their typical length."""

import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.shapes.adapted import adapted_shape

RNG = np.random.default_rng(8)


def test_an_adapted_shape_is_the_root_of_the_covariance_and_survives_noise():
    spectrum = np.arange(1, 31.0) ** -2
    shape = adapted_shape(np.diag(spectrum), np.ones(30))
    ratio = np.diagonal(shape) / np.sqrt(np.maximum(spectrum, 1e-3))
    assert np.ptp(ratio) / ratio[0] < 1e-9
    assert np.trace(np.linalg.solve(shape, np.diag(np.maximum(spectrum, 1e-3)))) == pytest.approx(1.0)
    for floor in (1.0, 1e-2, 1e-12):
        exact = np.diagonal(adapted_shape(np.diag(spectrum), np.ones(30), floor))
        assert np.allclose(exact / exact[0], np.sqrt(np.maximum(spectrum, floor)), rtol=1e-9)
    for floor in (0.0, 1.1, np.nan, 1e-13):
        with pytest.raises(CalibrationError, match="floor"):
            adapted_shape(np.diag(spectrum), np.ones(30), floor)
    noisy = np.diag(spectrum) + 0.05 * (lambda z: z + z.T)(RNG.standard_normal((30, 30)))
    assert np.linalg.eigvalsh(adapted_shape(noisy, np.arange(1, 31.0)))[0] > 0
    with pytest.raises(CalibrationError, match="no positive eigenvalue"):
        adapted_shape(-np.eye(2), np.ones(2))
    for importance in (np.zeros(2), np.array([1.0, np.nan])):
        with pytest.raises(CalibrationError, match="importance"):
            adapted_shape(np.eye(2), importance)


@pytest.mark.parametrize("importance", [np.ones(30), np.arange(1, 31.0)])
def test_an_adapted_shape_saves_what_its_ratio_says(importance):
    spectrum = 1.0 / np.arange(1, 31.0)
    noise = np.sum(importance * np.diagonal(adapted_shape(np.diag(spectrum), importance)))
    of_ball = np.sum(spectrum) * np.sum(importance)
    assert noise == pytest.approx(np.sum(np.sqrt(importance * spectrum)) ** 2, rel=1e-9)
    assert noise < of_ball or np.ptp(importance * spectrum) == 0


def test_an_adapted_shape_is_the_best_of_its_typical_length():
    rng = np.random.default_rng(12)
    root = rng.standard_normal((4, 4))
    covariance, importance = root @ root.T + np.eye(4), np.array([1.0, 2.0, 0.5, 3.0])
    shape = adapted_shape(covariance, importance)
    least = np.sum(importance * np.diagonal(shape))
    for _ in range(200):
        turn = np.eye(4) + 0.2 * rng.standard_normal((4, 4))
        tried = turn @ shape @ turn.T
        tried *= np.trace(np.linalg.solve(tried, covariance))
        assert np.sum(importance * np.diagonal(tried)) >= least * (1 - 1e-9)

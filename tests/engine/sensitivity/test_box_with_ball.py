"""A box within a ball: the loss is attained, no difference of the set exceeds it, and it is the linear programme's."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.sensitivity.box_with_ball import knapsack_loss, water_level

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
C = np.array([1.0, 0.8, 0.5, 0.3])
K = np.array([0.3, 0.5, 0.4, 0.9])


def border(rng, count, radius):
    """Points on the border: random magnitudes, each cut to the box, raised to fill the ball one entry at a time."""
    points = np.zeros((count, 4))
    for row in points:
        left = radius**2
        for i in rng.permutation(4):
            square = min(left, C[i] ** 2) * (1.0 if rng.random() < 0.8 else rng.random())
            row[i], left = math.sqrt(square), left - square
    return points


def test_the_loss_is_attained_and_never_exceeded():
    rng = np.random.default_rng(5)
    points = border(rng, 4000, 1.1)
    for variances in (np.ones(4), K, np.exp(rng.normal(0, 2, 4)), np.array([math.inf, 0.5, math.inf, 0.2])):
        best = math.sqrt(np.max(np.sum(points**2 / variances, axis=1)))
        assert best <= knapsack_loss(C, 1.1, variances) <= best * 1.02
    assert knapsack_loss(C, 1.1, np.full(4, math.inf)) == 0.0


@pytest.mark.parametrize("vector", [vector for vector in VECTORS if vector["name"] == "box_and_ball_exact_mu"])
def test_the_knapsack_meets_the_independent_number(vector):
    given = vector["inputs"]
    widths, variances = (np.array(given[name], dtype=float) for name in ("c", "K_diag"))
    found, expected = knapsack_loss(widths, float(given["C"]), variances), float(vector["expected"]["mu_squared"])
    assert found**2 == pytest.approx(expected, rel=float(vector["tolerance"]))
    assert found**2 >= expected


def test_the_knapsack_is_the_linear_programme():
    rng = np.random.default_rng(7)
    for _ in range(30):
        n = int(rng.integers(1, 9))
        c, variances, radius = rng.exponential(1, n) + 1e-3, rng.exponential(1, n) + 1e-3, rng.exponential(1) + 0.1
        bounds = [(0, width**2) for width in c]
        solved = linprog(-1 / variances, A_ub=np.ones((1, n)), b_ub=[radius**2], bounds=bounds)
        assert knapsack_loss(c, radius, variances) ** 2 == pytest.approx(-solved.fun, rel=1e-9)
        level = water_level(c, variances, radius)
        if math.isfinite(level):
            filled = np.sum(np.minimum(c, level * np.sqrt(variances)) ** 2)
            assert filled == pytest.approx(radius**2, rel=1e-12)
        else:
            assert np.sum(c**2) <= radius**2 * (1 + 1e-12)


def test_the_knapsack_is_safe_where_features_tie_or_bounds_are_extreme():
    assert knapsack_loss(np.full(100_000, 0.1), 1.0, np.ones(100_000)) >= 1.0
    assert knapsack_loss(np.array([1e200, 1e200]), 1.0, np.ones(2)) == pytest.approx(1.0)
    assert knapsack_loss(np.array([0.0, 1.0]), 1.0, np.array([1e-300, 1e300])) == pytest.approx(1e-150)


@pytest.mark.parametrize(
    ("widths", "radius", "variances"),
    [
        (np.zeros(4), 1.0, K),
        (-C, 1.0, K),
        (C * math.inf, 1.0, K),
        (C, -1.0, K),
        (C, math.nan, K),
        (C, 1.0, K[:3]),
        (C, 1.0, K * 0.0),
        (C, 1.0, K * math.nan),
    ],
)
def test_what_bounds_nothing_is_refused(widths, radius, variances):
    with pytest.raises(CalibrationError):
        knapsack_loss(widths, radius, variances)

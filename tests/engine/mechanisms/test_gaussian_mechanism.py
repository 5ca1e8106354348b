"""The noise design carries its proof on the integers that are released, and is no larger than it must be."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.gaussian import CannotCalibrate, add_noise, least_noise
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity
from blockveil.testing.moment_noise import calibrate

LARGEST = 2**15 - 1
VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
ASKED = ApproxDP(1.0, 1e-6)


def design(body=Body.CUBE, weights=(0.5, 0.3, 0.2), constant=0.0, asked=ASKED, relation=Neighbours.ADD_REMOVE, bits=16):
    return calibrate(body, np.asarray(weights, dtype=float), constant, asked, relation, 2 ** (bits - 1) - 1)


def everything(d):
    return d.steps((0, d.width), (0, d.width))


def grid_distance(d, first, second):
    """Distance of two neighbours' un-noised grid answers, over independent entries, in standard deviations."""
    steps, upper = everything(d), np.triu_indices(d.width)
    none = np.zeros_like(steps)
    answers = [add_noise(np.outer(k, k), steps, none) for k in (first, second)]
    return np.linalg.norm((answers[0] - answers[1])[upper]) / d.grid.privacy_scale


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("body", [Body.CUBE, Body.HALF_CUBE])
@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_no_pair_of_neighbours_released_on_the_grid_exceeds_mu(relation, body, constant):
    d = design(body, constant=constant, relation=relation)
    rng = np.random.default_rng(2)
    largest = LARGEST
    low = 0 if body is Body.HALF_CUBE else -largest
    worst = 0.0
    for _ in range(2000):
        pair = rng.choice([low, largest], (2, d.width)).astype(np.int64)
        if constant:
            pair[:, 0] = largest
        if relation is Neighbours.ADD_REMOVE:
            pair[1] = 0
        worst = max(worst, grid_distance(d, *pair))
    assert 0.85 * d.mu <= worst <= d.mu


def test_the_charged_loss_is_the_asked_one():
    d = design()
    spent = gaussian_delta(d.mu, ASKED.epsilon) + (1 + np.e) * d.total_variation
    assert spent <= ASKED.delta
    assert d.mu == pytest.approx(gaussian_mu(ASKED.epsilon, ASKED.delta), rel=1e-9)


def test_the_deviation_is_the_analytic_gaussian_up_to_the_cost_of_rounding():
    d = design()
    ideal = d.sensitivity.bound / gaussian_mu(ASKED.epsilon, ASKED.delta)
    assert ideal <= d.scale <= ideal * 1.001


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["name"] == "covariance_ellipsoid_total"])
def test_total_noise_of_an_ellipsoid_meets_the_independent_number(vector):
    axes = np.array([float(e) for e in vector["inputs"]["E_diag"]])
    d = design(Body.BALL, np.ones(axes.size))
    per_unit_mu = d.entry_standard_deviation() * gaussian_mu(ASKED.epsilon, ASKED.delta) / float(vector["inputs"]["B"])
    total = np.sum(np.outer(axes, axes) * per_unit_mu**2)
    assert total == pytest.approx(float(vector["expected"]["total"]), rel=2e-3)


def test_noise_off_the_diagonal_has_half_the_variance():
    deviation = design(Body.BALL, np.ones(4)).entry_standard_deviation()
    assert deviation[0, 1] == pytest.approx(deviation[0, 0] / np.sqrt(2), rel=1e-4)
    assert np.array_equal(deviation, deviation.T)


def test_a_block_of_steps_is_the_block_of_all_steps():
    d = design(weights=np.linspace(0.01, 0.1, 9))
    assert np.array_equal(d.steps((2, 7), (5, 9)), everything(d)[2:7, 5:9])


def test_a_large_matrix_takes_the_finer_grid():
    assert design(weights=np.full(50, 0.02)).grid == GRID_TWO_LEVEL
    assert design(weights=np.full(2000, 1 / 2000)).grid == GRID_THREE_LEVEL


@given(st.integers(-(2**61), 2**61), st.integers(1, 2**40))
def test_rounding_to_the_grid_is_exact_and_to_the_nearest(exact, step):
    one = lambda value: np.array([[value]], dtype=np.int64)  # noqa: E731
    found = int(add_noise(one(exact), one(step), one(0))[0, 0])
    assert 2 * abs(found * step - exact) <= step


@pytest.mark.parametrize("asked", [ApproxDP(1.0, 1e-26), ApproxDP(300.0, 1e-6)])
def test_a_delta_below_the_samplers_own_distance_is_refused(asked):
    with pytest.raises(CannotCalibrate, match="raise delta or lower epsilon"):
        design(asked=asked)


def test_weights_so_uneven_that_noise_leaves_the_integers_are_refused():
    with pytest.raises(CannotCalibrate, match="more even width"):
        design(weights=[1.0, 1e-16])


def test_the_sensitivity_in_the_design_is_the_declared_one():
    found = second_moment_sensitivity(Body.CUBE, np.array([0.5, 0.3, 0.2]), Neighbours.REPLACE_ONE)
    assert design(relation=Neighbours.REPLACE_ONE).sensitivity.bound == pytest.approx(found.bound, rel=1e-12)


@pytest.mark.parametrize("lead", [0, 1])
def test_the_extremes_of_a_design_hold_its_least_and_largest_noise(lead):
    spread = np.random.default_rng(lead).lognormal(size=40)
    problem = SecondMoment(Body.CUBE, np.ones(40 - lead), Neighbours.ADD_REMOVE, 32767, 1000, bool(lead))
    design = least_noise(problem, problem.spread(spread, spread), ApproxDP(1.0, 1e-6))
    whole, few = (found.entry_standard_deviation()[lead:, lead:] for found in (design, design.extremes(lead)))
    assert few.shape == (4, 4)
    assert (few.min(), few.max()) == (whole.min(), whole.max())
    assert np.diagonal(few).min() == np.diagonal(whole).min()

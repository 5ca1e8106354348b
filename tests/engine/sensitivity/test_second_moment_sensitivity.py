"""Sensitivities against independent numbers, brute force over corners, and adversarial search."""

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.second_moment import MOST_SUMMED, second_moment_sensitivity

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "testvectors.json").read_text())
BODIES = list(Body)
RELATIONS = list(Neighbours)


def vectors(name):
    return [vector for vector in VECTORS if vector["name"] == name]


def random_records(body, weights, constant, rng, number):
    """Records of the body, most often on its border, where extremes lie."""
    shape = number, weights.size
    if body is Body.BALL:
        direction = rng.standard_normal(shape)
        length = np.where(rng.random((number, 1)) < 2 / 3, 1.0, rng.random((number, 1)))
        coordinates = direction / np.linalg.norm(direction, axis=1, keepdims=True) * length
    else:
        low = 0.0 if body is Body.HALF_CUBE else -1.0
        coordinates = np.where(rng.random(shape) < 0.8, rng.choice([low, 1.0], shape), rng.uniform(low, 1.0, shape))
    return np.hstack([np.full((number, 1), np.sqrt(constant)), np.sqrt(weights) * coordinates])


def distance(relation, first, second):
    """Between records, or between the rows of two arrays of records."""
    change = first[..., :, None] * first[..., None, :]
    if relation is Neighbours.REPLACE_ONE:
        change = change - second[..., :, None] * second[..., None, :]
    return np.linalg.norm(change, axis=(-2, -1))


@pytest.mark.parametrize("vector", vectors("gram_sensitivity_box"))
def test_a_symmetric_cube_meets_the_independent_numbers(vector):
    m, c = int(vector["inputs"]["m"]), float(vector["inputs"]["c"])
    for relation, key in ((Neighbours.ADD_REMOVE, "add_remove"), (Neighbours.REPLACE_ONE, "replace_one")):
        found = second_moment_sensitivity(Body.CUBE, np.full(m, c * c), relation)
        assert found.bound == pytest.approx(float(vector["expected"][key]), rel=1e-12)
        assert found.exact
    half = second_moment_sensitivity(Body.HALF_CUBE, np.full(m, c * c), Neighbours.REPLACE_ONE)
    assert half.bound == pytest.approx(float(vector["expected"]["replace_one_box01"]), rel=1e-12)
    assert half.exact


@pytest.mark.parametrize("vector", vectors("gram_sensitivity_ball"))
def test_a_ball_meets_the_independent_numbers(vector):
    for relation, key in ((Neighbours.ADD_REMOVE, "add_remove"), (Neighbours.REPLACE_ONE, "replace_one")):
        found = second_moment_sensitivity(Body.BALL, np.ones(5), relation)
        assert found.bound == pytest.approx(float(vector["expected"][key]), rel=1e-12)
        assert found.exact


def exact(weights, constant=0.0):
    """Sum of float weights, rounded once."""
    return Fraction(math.fsum([*weights.tolist(), constant]))


LARGE = {
    # One by one, each of the others would be lost beside the first.
    "one large": np.concatenate([[1.0], np.full(MOST_SUMMED - 1, 2.0**-53)]),
    "one large at the end": np.concatenate([np.full(MOST_SUMMED - 1, 2.0**-53), [1.0]]),
    "tenths": np.resize([0.1, 0.3], MOST_SUMMED),
}


@pytest.mark.parametrize("weights", LARGE.values(), ids=LARGE.keys())
@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_so_many_weights_as_are_allowed_are_added_up_within_the_margin(weights, constant):
    total, largest = exact(weights, constant), Fraction(float(np.max(weights)))
    added = Fraction(second_moment_sensitivity(Body.CUBE, weights, Neighbours.ADD_REMOVE, constant).bound)
    assert total <= added <= total * (1 + Fraction(1, 10**12))
    replaced = Fraction(second_moment_sensitivity(Body.HALF_CUBE, weights, Neighbours.REPLACE_ONE, constant).bound)
    assert total <= replaced <= total * (1 + Fraction(1, 10**12))
    signs = Fraction(second_moment_sensitivity(Body.CUBE, weights, Neighbours.REPLACE_ONE, constant).bound)
    # All signs against that of the largest, where it outweighs them; else they split evenly.
    assert 2 * total**2 - 2 * max(0, 2 * largest - total) ** 2 <= signs**2
    with pytest.raises(ValueError, match="131072 features"):
        second_moment_sensitivity(Body.CUBE, np.append(weights, 1.0), Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("size", [1e-3, 1e-9, 1e-14])
def test_a_constant_far_above_all_features_takes_no_digits_from_a_bound(size):
    weights, wanted = np.array([size, 0.7 * size, 0.1 * size]), Neighbours.REPLACE_ONE
    rest = exact(weights)
    square = Fraction(second_moment_sensitivity(Body.CUBE, weights, wanted, 1.0).bound) ** 2
    assert 8 * rest <= square <= 8 * rest * (1 + Fraction(1, 10**12))
    rows = np.concatenate([[1.0], weights**-0.5])
    problem = SecondMoment(Body.CUBE, np.ones(3), wanted, 127, 100, True)
    alone = sum(1 / Fraction(row) for row in rows[1:].tolist())
    bound = Fraction(problem.l1(problem.spread(rows, rows)).bound)
    assert alone * (2 + alone) <= bound <= alone * (2 + alone) * (1 + Fraction(1, 10**12))


def test_one_feature_has_no_orthogonal_pair():
    for body in BODIES:
        assert second_moment_sensitivity(body, np.array([4.0]), Neighbours.REPLACE_ONE).bound == pytest.approx(4.0)


@pytest.mark.parametrize("body", [Body.CUBE, Body.HALF_CUBE])
@pytest.mark.parametrize("constant", [0.0, 0.4])
def test_all_corners_stay_within_the_bound_and_reach_what_is_claimed(body, constant):
    weights = np.array([1.0, 0.5, 0.3, 0.2, 0.05])
    low = 0.0 if body is Body.HALF_CUBE else -1.0
    corners = [
        np.concatenate([[np.sqrt(constant)], np.sqrt(weights) * corner])
        for corner in itertools.product([low, 1.0], repeat=weights.size)
    ]
    first, second = np.array(list(itertools.product(corners, repeat=2))).swapaxes(0, 1)
    for relation in RELATIONS:
        found = second_moment_sensitivity(body, weights, relation, constant)
        reached = np.max(distance(relation, first, second))
        assert reached <= found.bound
        assert reached >= found.attained * (1 - 1e-12)


@pytest.mark.parametrize("rest", [0.999, 0.9, 0.6, 0.4, 0.3, 0.25, 0.2, 0.15, 0.05, 1e-3, 1e-9])
@pytest.mark.parametrize("constant", [False, True])
def test_a_feature_that_outweighs_all_others_has_an_exact_sensitivity(rest, constant):
    weights = np.array([3.0, 2.0 * rest, rest])
    found = second_moment_sensitivity(Body.CUBE, weights[: 3 - constant], Neighbours.REPLACE_ONE, rest * constant)
    assert found.exact
    # All signs and sizes s that the proof leaves open.
    grid = np.linspace(-1.0, 1.0, 161)
    last = np.array([1.0]) if constant else grid
    s = np.stack(np.meshgrid(grid, grid, last, indexing="ij"), axis=-1).reshape(-1, 3)
    square = np.sum(weights) ** 2 + (s**2 @ weights) ** 2 - 2.0 * (s @ weights) ** 2
    best = np.sqrt(np.max(square))
    assert best <= found.bound
    assert found.bound <= best * (1 + 2e-4)
    # The pair itself: the largest moves to x of its width or against it, the others turn.
    x = np.linspace(-1.0, 1.0, 40_001)
    y, z = np.sqrt(weights), np.sqrt(weights) * np.stack([x, -np.ones_like(x), -np.ones_like(x)], axis=-1)
    z = -z if constant else z  # the constant coordinate is the last one, and stays
    reached = np.sqrt(np.max((y @ y) ** 2 + np.sum(z**2, axis=1) ** 2 - 2.0 * (z @ y) ** 2))
    assert reached >= found.attained * (1 - 1e-6)
    assert reached <= found.bound


@pytest.mark.parametrize("constant", [1.2, 3.0, 50.0])
def test_a_constant_that_outweighs_all_features_has_an_exact_sensitivity(constant):
    weights = np.array([0.5, 0.3, 0.2])
    found = second_moment_sensitivity(Body.CUBE, weights, Neighbours.REPLACE_ONE, constant)
    assert found.exact
    y = np.concatenate([[np.sqrt(constant)], np.sqrt(weights)])
    z = y * np.array([1.0, -1.0, -1.0, -1.0])
    assert distance(Neighbours.REPLACE_ONE, y, z) == pytest.approx(found.bound, rel=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    body=st.sampled_from(BODIES),
    relation=st.sampled_from(RELATIONS),
    d=st.integers(1, 6),
    constant=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    equal=st.booleans(),
)
def test_no_pair_of_records_is_further_apart_than_the_bound(seed, body, relation, d, constant, equal):
    rng = np.random.default_rng(seed)
    weights = np.ones(d) if equal else rng.random(d) + 0.05
    found = second_moment_sensitivity(body, weights, relation, constant)
    assert found.attained <= found.bound
    first, second = (random_records(body, weights, constant, rng, 200) for _ in range(2))
    assert np.max(distance(relation, first, second)) <= found.bound


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("body", BODIES)
def test_random_pairs_come_close_to_the_bound_where_it_is_called_exact(body, relation):
    rng = np.random.default_rng(5)
    weights = np.array([1.0, 0.6, 0.6]) if body is not Body.CUBE else np.ones(3)
    found = second_moment_sensitivity(body, weights, relation)
    assert found.exact
    first, second = (random_records(body, weights, 0.0, rng, 30_000) for _ in range(2))
    best = np.max(distance(relation, first, second))
    assert found.bound * 0.96 <= best <= found.bound


@pytest.mark.parametrize("weights", [[], [1.0, 0.0], [1.0, np.inf], [1.0, np.nan], [-1.0]])
def test_weights_that_are_not_positive_are_refused(weights):
    with pytest.raises(ValueError, match="positive and finite"):
        second_moment_sensitivity(Body.BALL, np.array(weights), Neighbours.ADD_REMOVE)

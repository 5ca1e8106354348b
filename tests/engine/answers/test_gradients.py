"""Ghost clipping: equal to clipping one by one, within its bound on integers, the same for every chunking."""

import math

import dask
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.graph import assembled, exact_graph
from blockveil.engine.answers.layout import Tile, grouped, summed
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output, PublicMap
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser

K = 2**15 - 1


def make(output=Output.SOFTMAX, units=None, clip=0.5, features=6, outputs=3, size=1.0, seed=1, largest=K):
    rng = np.random.default_rng(seed)
    count = outputs if output is Output.SOFTMAX else 1
    last = rng.standard_normal((count, (units or features) + 1)) * size
    hidden = () if units is None else (PublicMap.of(rng.standard_normal((units, features + 1)) * size),)
    model = Model(output, PublicMap.of(last), hidden, Activation.TANH)
    box = Box(np.full(features, -3.0), np.full(features, 5.0), np.ones(features))
    label = (-2.0, 4.0) if output is Output.SQUARED else (0.0, float(max(count, 2) - 1))
    clipper = Quantiser(box.coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
    return GradientsQuery(model, clipper, label, clip, largest)


def records(query, rows=300, seed=2, reach=6.0):
    rng = np.random.default_rng(seed)
    features = query.features.coordinates.dimension
    x = rng.uniform(-reach, reach, (rows, features))
    lower, upper = query.label
    whole = query.model.output is not Output.SQUARED
    y = rng.integers(int(lower), int(upper) + 1, rows) if whole else rng.uniform(lower - 1, upper + 1, rows)
    return np.column_stack([x, y])


def one_by_one(query, values):
    """Clipped gradients, each made and clipped by itself in floats, shape (n, entries)."""
    integers = query.features.quantise(values[:, :-1])
    factors = query.model.factors(integers, query._labels(values[:, -1]))
    found = []
    for i in range(len(values)):
        whole = np.concatenate([np.outer(p.errors[i], p.inputs[i] / p.steps).ravel() for p in factors])
        found.append(whole * min(1.0, query.clip / max(np.linalg.norm(whole), 1e-300)))
    return np.array(found)


def raw(query, answer):
    parts = [part / query.largest**2 * unit for part, unit in zip(query.split(answer), query.units, strict=True)]
    return np.concatenate([part.ravel() for part in parts])


KINDS = [(output, units) for output in Output for units in (None, 4)]


@pytest.mark.parametrize(("output", "units"), KINDS)
@pytest.mark.parametrize("clip", [1e-3, 0.5, 50.0])
def test_the_sum_is_that_of_gradients_clipped_one_by_one(output, units, clip):
    query = make(output, units, clip)
    values = records(query)
    found = raw(query, query.total(values, 0, len(values), 64).astype(float))
    each = one_by_one(query, values)
    entries = found.size
    # A step of 1/K in each factor of each record, added up.
    assert np.allclose(found, each.sum(axis=0), atol=clip * len(values) * 2 * math.sqrt(entries) / K)
    single = np.array([raw(query, query.total(values, i, i + 1, 1).astype(float)) for i in range(40)])
    assert np.allclose(single, each[:40], atol=clip * 3 * math.sqrt(entries) / K)
    assert np.linalg.norm(each, axis=1).max() <= clip * (1 + 1e-9)


@pytest.mark.parametrize(("output", "units"), KINDS)
@given(cuts=st.lists(st.integers(1, 299), max_size=5), chunk=st.integers(1, 301))
def test_every_chunking_gives_the_same_bits(output, units, cuts, chunk):
    query = make(output, units)
    values = records(query)
    whole = query.total(values, 0, 300, 300)
    borders = [0, *sorted(set(cuts)), 300]
    parts = [query.total(values, a, b, chunk) for a, b in zip(borders, borders[1:], strict=False)]
    assert np.array_equal(sum(parts), whole)
    assert np.array_equal(query.total(values[::-1], 0, 300, chunk), whole)


def test_the_piece_that_is_multiplied_at_once_does_not_matter(monkeypatch):
    query = make(units=4)
    values = records(query)
    whole = query.total(values, 0, 300, 300)
    monkeypatch.setattr("blockveil.engine.answers.gradients._PIECE_BYTES", 1)
    assert np.array_equal(query.total(values, 0, 300, 300), whole)


def changes(query, values):
    """Integers that each record adds, shape (n, entries)."""
    parts = [np.einsum("ni,nj->nij", k, m).reshape(len(values), -1) for k, m in query.integers(values)]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize(("output", "units"), KINDS)
@pytest.mark.parametrize("size", [0.0, 1.0, 300.0])
def test_no_record_moves_the_integers_further_than_the_sensitivity(output, units, size):
    for clip in (1e-9, 0.3):
        query = make(output, units, clip, size=size)
        values = np.concatenate([records(query, 200), records(query, 50, reach=1e200)])
        moved = changes(query, values)
        squares = [sum(int(v) ** 2 for v in row) for row in moved[:60]]
        assert max(squares) <= query.largest**4, "integers of Python have no rounding"
        assert np.linalg.norm(moved, axis=1).max() <= query.largest**2 * (1 + 1e-12)


@pytest.mark.parametrize(("neighbours", "factor"), [(Neighbours.ADD_REMOVE, 1.0), (Neighbours.REPLACE_ONE, 2.0)])
@pytest.mark.parametrize("units", [None, 4])
def test_the_worst_pair_nearly_attains_the_sensitivity_and_none_exceeds_it(neighbours, factor, units):
    query = make(Output.LOGISTIC, units, 1e-3, size=0.5)
    rows, columns = query.shape
    problem = GradientProblem(Body.BALL, Body.BALL, np.ones(rows), np.ones(columns), neighbours, K, 1000)
    bound = problem.l2(problem.spread(np.ones(rows), np.ones(columns))).bound
    assert bound == pytest.approx(factor)
    x = records(query, 1)[:, :-1]
    pair = changes(query, np.column_stack([np.repeat(x, 2, axis=0), [0.0, 1.0]]))
    alone = np.linalg.norm(pair[0]) / K**2
    replaced = np.linalg.norm(pair[0] - pair[1]) / K**2
    distance = alone if neighbours is Neighbours.ADD_REMOVE else replaced
    assert 0.998 * bound < distance <= bound


def test_the_problem_is_bounded_by_all_matrices_of_norm_one():
    rng = np.random.default_rng(5)
    rows, columns = rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 2.0, 7)
    problem = GradientProblem(Body.BALL, Body.BALL, np.ones(3), np.ones(7), Neighbours.ADD_REMOVE, K, 1000)
    spread = problem.spread(rows, columns)
    assert isinstance(problem, OuterProducts)
    assert not problem.l2(spread).exact
    change = rng.standard_normal((2000, 3, 7))
    change /= np.linalg.norm(change, axis=(1, 2))[:, None, None]
    shown = np.abs(change / np.outer(rows, columns))
    assert np.sqrt((shown**2).sum(axis=(1, 2))).max() <= problem.l2(spread).bound
    assert shown.sum(axis=(1, 2)).max() <= problem.l1(spread).bound
    corner = 1.0 / (rows.min() * columns.min())
    assert problem.l2(spread).bound == pytest.approx(corner)


def test_a_graph_of_blocks_and_a_mechanism_take_it_as_any_other_query():
    query = make()
    values = records(query)
    tiles = (Tile((0, 2), (0, 5)), Tile((2, 3), (0, 5)), Tile((0, 2), (5, 7)), Tile((2, 3), (5, 7)))
    layout = summed(tiles, grouped(tiles, 2), [(0, 128), (128, 300)])
    graph = exact_graph(values, query, layout, 64, "test")
    found = assembled(dask.compute(*graph.tiles, scheduler="sync"), layout, symmetric=False)
    assert np.array_equal(found, query.total(values, 0, 300, 300))
    rows, columns = query.shape
    problem = GradientProblem(Body.BALL, Body.BALL, np.ones(rows), np.ones(columns), Neighbours.ADD_REMOVE, K, 1000)
    design = Gaussian().design(problem, ApproxDP(1.0, 1e-6))
    assert design.loss.delta(1.0) <= 1e-6


def test_labels_outside_count_as_the_nearest_and_missing_ones_are_refused():
    query = make()
    values = records(query, 4)
    odd, even = values.copy(), values.copy()
    odd[:, -1] = [-7.0, 0.4, 99.0, 1.6]
    even[:, -1] = [0.0, 0.0, 2.0, 2.0]
    assert np.array_equal(query.total(odd, 0, 4, 4), query.total(even, 0, 4, 4))
    for place in (0, -1):
        broken = values.copy()
        broken[1, place] = np.nan
        with pytest.raises(NotFiniteError):
            query.total(broken, 0, 4, 4)


def test_shapes_that_the_integers_do_not_cover_are_refused():
    good = make()
    for changed, words in (
        ({"features": Quantiser(good.features.coordinates, K, True, None)}, "model's steps"),
        ({"features": Quantiser(good.features.coordinates, FEATURE_STEPS, False, None)}, "constant"),
        ({"model": make(features=5).model}, "one weight for each feature"),
        ({"largest": 2}, "too few quantisation bits"),
        ({"clip": 1e-306}, "largest gradient"),
        ({"clip": math.inf}, "largest gradient"),
        ({"clip": math.nan}, "largest gradient"),
    ):
        parts = {"model": good.model, "features": good.features, "label": good.label, "clip": 1.0, "largest": K}
        with pytest.raises(ValueError, match=words):
            GradientsQuery(**{**parts, **changed})

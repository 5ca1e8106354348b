"""The sensitivity of every problem is never exceeded by a pair of neighbours, and is attained where it says so."""

import itertools

import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.records.geometry import Body, CappedBox

K = 2**15 - 1
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
RNG = np.random.default_rng(5)


def points(body, width, number):
    """Admissible coordinates, corners and axes among them."""
    if body is Body.BALL:
        drawn = RNG.standard_normal((number, width))
        drawn /= np.linalg.norm(drawn, axis=1)[:, None]
        return np.vstack([np.zeros(width), np.eye(width), -np.eye(width), drawn])
    capped = body if isinstance(body, CappedBox) else None
    low = 0.0 if (capped.box if capped else body) is Body.HALF_CUBE else -1.0
    corners = np.array(list(itertools.product([low, 1.0], repeat=width)))
    found = np.vstack([np.zeros(width), corners, RNG.uniform(low, 1.0, (number, width))])
    return found if capped is None else found / np.maximum(np.linalg.norm(found * capped.shares, axis=1), 1.0)[:, None]


def bodies(width):
    """Every body of that many features."""
    shares = np.array([1.0, 0.8, 0.4])[:width]
    return [*Body, CappedBox(Body.CUBE, shares), CappedBox(Body.HALF_CUBE, shares)]


def named(body):
    return body.value


def worst(problem, spread, answers):
    """Largest L2 and L1 change over pairs; the first answer is that of no record."""
    answers = np.array(answers) / np.outer(spread.rows, spread.columns)
    first, second = np.triu_indices(len(answers), 1)
    changes = answers - answers[0] if problem.neighbours is ADD else answers[first] - answers[second]
    distinct = (
        changes[:, *np.triu_indices(changes.shape[1])] if problem.symmetric else changes.reshape(len(changes), -1)
    )
    return np.max(np.linalg.norm(changes, axis=(1, 2))), np.max(np.sum(np.abs(distinct), axis=1))


def check(problem, spread, answers, attained):
    l2, l1 = worst(problem, spread, answers)
    for found, claim in ((l2, problem.l2(spread)), (l1, problem.l1(spread))):
        assert found <= claim.bound
        assert claim.attained <= claim.bound
        if attained and claim.exact:
            assert found >= 0.995 * claim.attained


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("body", bodies(3), ids=named)
@pytest.mark.parametrize("augmented", [False, True])
def test_second_moments(relation, body, augmented):
    width = 3
    problem = SecondMoment(body, np.array([1.0, 2.0, 5.0]), relation, K, 1000, augmented)
    spread = np.array([0.7, 1.0, 2.0, 1.5][: width + augmented])
    records = points(body, width, 60)
    records = np.hstack([np.ones((len(records), 1)), records]) if augmented else records
    answers = [np.zeros((width + augmented,) * 2)] * (relation is ADD) + [np.outer(v, v) for v in records]
    check(problem, problem.spread(spread, spread), answers, attained=False)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("augmented", [False, True])
def test_no_search_finds_a_replaced_record_beyond_the_bound_in_l1(width, augmented):
    problem = SecondMoment(Body.CUBE, np.ones(width), REPLACE, K, 1000, augmented)
    size = width + augmented
    spread = RNG.uniform(0.5, 2.0, size)
    claim = problem.l1(problem.spread(spread, spread))
    free = np.arange(size) >= augmented

    def distance(pairs):
        moments = pairs[..., :, None] * pairs[..., None, :]
        scaled = np.abs(moments[:, 0] - moments[:, 1]) / np.outer(spread, spread)
        return np.sum(scaled[:, *np.triu_indices(size)], axis=1)

    pairs = RNG.uniform(-1, 1, (30, 2, size))
    pairs[0] = [[1.0], [0.0]]
    pairs = np.where(free, pairs, 1.0)
    for step in np.geomspace(1.0, 1e-3, 150):
        tried = np.where(free, np.clip(pairs + step * RNG.standard_normal(pairs.shape), -1, 1), 1.0)
        pairs = np.where((distance(tried) > distance(pairs))[:, None, None], tried, pairs)
    best = np.max(distance(pairs))
    assert claim.attained * (1 - 1e-12) <= best <= claim.bound
    assert claim.bound <= (1.6 if width > 1 or augmented else 1.0001) * claim.attained


@pytest.mark.parametrize("body", bodies(3), ids=named)
def test_rows(body):
    problem = Rows(body, np.array([1.0, 2.0, 5.0]), REPLACE, K, 2)
    spread = problem.spread(np.ones(2), np.array([0.7, 1.0, 2.0]))
    answers = [np.vstack([v, np.zeros(3)]) for v in points(body, 3, 200)]
    check(problem, spread, answers, attained=body in (Body.CUBE, Body.HALF_CUBE))


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("left", bodies(2), ids=named)
@pytest.mark.parametrize("right", bodies(2), ids=named)
def test_outer_products(relation, left, right):
    problem = OuterProducts(left, right, np.ones(2), np.ones(2), relation, K, 1000)
    spread = problem.spread(np.array([0.7, 2.0]), np.array([1.0, 0.5]))
    sides = [points(left, 2, 12), points(right, 2, 12)]
    answers = [np.outer(a, b) for a in sides[0] for b in sides[1]]
    check(problem, spread, answers, attained=not {left, right} - {Body.CUBE, Body.HALF_CUBE})


@pytest.mark.parametrize("relation", Neighbours)
def test_counts(relation):
    problem = Counts((3, 4), relation, 1000)
    spread = problem.spread(np.ones(3), np.ones(4))
    answers = [np.zeros((3, 4))] * (relation is ADD) + list(np.eye(12).reshape(12, 3, 4))
    check(problem, spread, answers, attained=True)


def test_the_rows_query_refuses_a_relation_under_which_the_number_of_rows_is_private():
    with pytest.raises(CannotCalibrate, match="replace-one"):
        Rows(Body.CUBE, np.ones(2), ADD, K, 2)


def test_box_noise_meets_the_closed_form_optimum():
    """Per-feature precision budget: variance_i = c_i (sum of c_j sqrt(w_j)) / (B^2 sqrt(w_i))."""
    half_widths, importance = np.array([1.0, 0.5, 0.25]), np.array([1.0, 2.0, 3.0])
    problem = Rows(Body.CUBE, half_widths, REPLACE, K, 7)
    design = ShapedGaussian(Importance("weights", (), tuple(importance))).design(problem, ApproxDP(1.0, 1e-6))
    raw = design.entry_standard_deviation()[0] * half_widths
    changes = 2 * half_widths
    optimum = changes * np.sum(changes * np.sqrt(importance)) / (design.mu**2 * np.sqrt(importance))
    assert raw**2 == pytest.approx(optimum, rel=1e-3)
    assert np.sum(changes**2 / raw**2) <= design.mu**2


@pytest.mark.parametrize(
    "problem",
    [
        Rows(Body.CUBE, np.array([1.0, 3.0]), REPLACE, K, 5),
        OuterProducts(Body.CUBE, Body.BALL, np.array([1.0, 3.0]), np.ones(3), ADD, K, 100),
        SecondMoment(Body.CUBE, np.array([1.0, 3.0]), ADD, K, 100, False),
    ],
)
def test_the_shape_never_loses_to_equal_noise_in_what_it_optimises(problem):
    rows, columns = problem.units
    totals = []
    for mechanism in (Gaussian(), ShapedGaussian(Importance("absolute-error"))):
        deviation = mechanism.design(problem, ApproxDP(1.0, 1e-6)).entry_standard_deviation()
        totals.append(np.sum((np.outer(rows, columns) * deviation) ** 2))
    assert totals[1] <= totals[0] * (1 + 1e-3)

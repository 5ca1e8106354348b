"""How far records of a box within a ball can reach: attained by a pair where it says so, and exceeded by none."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.records.geometry import Body, Box, CappedBox
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.reach import (
    capped_second_moment,
    largest_l1,
    largest_l2,
    uncapped,
    wider_l2,
    widest_l1,
    widest_l2,
)
from blockveil.engine.sensitivity.second_moment import second_moment_sensitivity
from blockveil.engine.shapes.duality import least_covariance

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
K = 2**15 - 1
BOXES = [Body.CUBE, Body.HALF_CUBE]


def extremes(body):
    """Corners of a box within a ball: features in every order fill what is left of the norm; with every sign."""
    found = {(0.0,) * body.shares.size}
    for order in itertools.permutations(range(body.shares.size)):
        left, squares = 1.0, np.zeros(body.shares.size)
        for i in order:
            squares[i] = min(left, body.shares[i] ** 2)
            left = max(left - squares[i], 0.0)
        point = np.sqrt(squares) / body.shares
        signs = itertools.product((-1.0, 1.0) if body.box is Body.CUBE else (1.0,), repeat=point.size)
        found |= {tuple(np.minimum(point, 1.0) * sign) for sign in signs}
    return np.array(sorted(found))


def inside(body, rng, number):
    """Records of the body, most of them on its border."""
    d = body.shares.size
    low = 0.0 if body.box is Body.HALF_CUBE else -1.0
    v = np.where(
        rng.random((number, d)) < 0.7, rng.choice([low, 0.0, 1.0], (number, d)), rng.uniform(low, 1, (number, d))
    )
    return v / np.maximum(np.linalg.norm(v * body.shares, axis=1), 1.0)[:, None]


def squares(first, second):
    """``|yy' - zz'|_F`` of all pairs."""
    a, b, p = np.sum(first**2, axis=1), np.sum(second**2, axis=1), first @ second.T
    return np.sqrt(np.max(a[:, None] ** 2 + b[None, :] ** 2 - 2.0 * p**2))


@settings(max_examples=60)
@given(
    d=st.integers(1, 4),
    tight=st.floats(0.1, 0.95),
    constant=st.sampled_from([0.0, 0.3, 5.0]),
    box=st.sampled_from(BOXES),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_pair_of_records_is_beyond_any_bound(d, tight, constant, box, seed):
    rng = np.random.default_rng(seed)
    widths = rng.uniform(0.05, 1.0, d)
    body = CappedBox(box, np.minimum(widths / (tight * np.linalg.norm(widths)), 1.0))
    spread = rng.uniform(0.2, 2.0, d)
    records = np.vstack([extremes(body), inside(body, rng, 300)])
    y = np.column_stack([np.full(len(records), np.sqrt(constant)), records / spread])
    own = y[:, 1:]
    pairs = own[:, None, :] - own[None, :, :]
    assert np.max(np.linalg.norm(own, axis=1)) <= largest_l2(body, spread)
    assert np.max(np.sum(np.abs(own), axis=1)) <= largest_l1(body, spread)
    for norms, widest in ((np.linalg.norm(pairs, axis=2), widest_l2), (np.sum(np.abs(pairs), axis=2), widest_l1)):
        found = widest(body, spread)
        assert found.attained <= found.bound
        assert np.max(norms) <= found.bound
        assert norms.max() >= found.attained * (1 - 1e-9) or widest is widest_l1  # no corner is furthest in L1
    add, replaced = (capped_second_moment(body, spread**-2.0, each, constant) for each in (ADD, REPLACE))
    assert np.max(np.sum(y**2, axis=1)) <= add.bound
    assert add.exact
    assert squares(y, y) <= replaced.bound
    assert replaced.attained <= squares(y, y) * (1 + 1e-9)
    # Never more than without the norm, nor than what the norm alone allows.
    assert replaced.bound <= second_moment_sensitivity(box, spread**-2.0, REPLACE, constant).bound
    assert largest_l2(body, spread) <= min(np.linalg.norm(1 / spread), np.max(1 / (spread * body.shares))) * (1 + 1e-12)


@pytest.mark.parametrize("box", BOXES)
def test_suprema_of_one_record_are_attained(box):
    body = CappedBox(box, np.array([1.0, 0.7, 0.4, 0.1]))
    spread = np.array([0.5, 1.0, 0.3, 2.0])
    assert np.max(np.linalg.norm(extremes(body) / spread, axis=1)) == pytest.approx(largest_l2(body, spread), rel=1e-9)
    # In L1 along the gains, cut to the box: found here by bisection on the level.
    gains, low, high = 1.0 / (body.shares * spread), 0.0, 1e3
    for _ in range(200):
        level = (low + high) / 2.0
        low, high = (level, high) if np.sum(np.minimum(body.shares, level * gains) ** 2) < 1.0 else (low, level)
    best = np.sum(np.minimum(body.shares, low * gains) * gains)
    assert best == pytest.approx(largest_l1(body, spread), rel=1e-9)


def test_many_equal_features_have_exact_sensitivities_under_both_relations():
    for box in BOXES:
        body = CappedBox(box, np.full(40, 0.25))  # sixteen full features fill the ball
        for relation in Neighbours:
            found = capped_second_moment(body, np.ones(40), relation)
            assert found.exact
            assert found.bound == pytest.approx(16.0 * (1.0 if relation is ADD else np.sqrt(2.0)), rel=1e-9)


@pytest.mark.parametrize("filled", [0.45, 0.55, 0.62, 0.7, 0.85, 0.99])
def test_the_bound_for_records_of_one_sign_is_close_to_the_worst_pair(filled):
    # Twenty equal features, of which records may fill this share.
    body = CappedBox(Body.HALF_CUBE, np.full(20, np.sqrt(1.0 / (20.0 * filled))))
    found = capped_second_moment(body, np.ones(20), REPLACE)
    full = int(20 * filled)
    best = 0.0
    for shared in range(full + 1):
        for many, few in itertools.product([full], range(full + 1)):
            if shared <= few and many + few - shared <= 20:
                best = max(best, np.sqrt(many**2 + few**2 - 2.0 * shared**2))
    assert best <= found.bound <= 1.1 * best


@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_neighbours_of_the_quantiser_itself_stay_within_the_bounds_and_reach_them(low):
    d, rng = 6, np.random.default_rng(4)
    box = Box(np.full(d, low), np.ones(d), np.zeros(d), 1.5)
    clip = Quantiser(box.coordinates(), K, False, None)
    body = clip.coordinates.body
    far = np.vstack([np.sign(inside(body, rng, 400)) * 1e9, inside(body, rng, 400) * 2.0, extremes(body)[:200]])
    integers = clip.quantise(far)
    problem = SecondMoment(body, box.half_widths, REPLACE, K, 10, False)
    even = problem.spread(np.ones(d), np.ones(d))
    worst = squares(integers, integers) / K**2
    assert 0.97 * problem.l2(even).attained <= worst <= problem.l2(even).bound
    rows = Rows(body, box.half_widths, REPLACE, K, 2)
    apart = np.max(np.linalg.norm(integers[:, None, :] - integers[None, :, :], axis=2)) / K
    assert apart <= rows.l2(rows.spread(np.ones(2), np.ones(d))).bound
    assert np.max(np.linalg.norm(integers, axis=1)) / K >= 1.5 * (1 - 1e-3)


def weighted(problem, design):
    rows, columns = problem.units
    return np.sum((np.outer(rows, columns) * design.entry_standard_deviation()) ** 2)


@pytest.mark.parametrize("norm", [0.5, 1.5, 3.0])
@pytest.mark.parametrize("box", BOXES)
def test_the_shaped_noise_is_never_worse_than_for_the_box_or_the_ball_alone(norm, box):
    units = np.array([2.0, 1.0, 1.0, 0.5, 0.1])
    target = ApproxDP(1.0, 1e-6)
    body = CappedBox(box, np.minimum(units / norm, 1.0))
    shaped = ShapedGaussian(Importance("absolute-error"))
    for make in (
        lambda b, u: Rows(b, u, REPLACE, K, 3),
        lambda b, u: SecondMoment(b, u, ADD, K, 1000, False),
        lambda b, u: SecondMoment(b, u, REPLACE, K, 1000, False),
        lambda b, u: SecondMoment(b, u, ADD, K, 1000, True),
        lambda b, u: OuterProducts(b, b, u, u, REPLACE, K, 1000),
    ):
        capped = make(body, np.minimum(units, norm))
        both = weighted(capped, shaped.design(capped, target))
        assert both <= weighted(make(box, units), shaped.design(make(box, units), target)) * (1 + 1e-3)
        assert both <= weighted(capped, Gaussian().design(capped, target)) * (1 + 1e-3)
        if not getattr(capped, "augmented", False):
            ball = make(Body.BALL, np.full(5, norm))
            assert both <= weighted(ball, shaped.design(ball, target)) * (1 + 1e-3)


@pytest.mark.parametrize("importance", [(1.0, 1.0, 1.0, 1.0), (1.0, 9.0, 0.1, 2.0)])
@pytest.mark.parametrize("box", BOXES)
def test_no_gaussian_noise_at_all_has_less_error_on_rows_than_the_shaped_one(importance, box):
    units, norm = np.array([1.0, 0.8, 0.5, 0.3]), 0.9
    problem = Rows(CappedBox(box, np.minimum(units / norm, 1.0)), np.minimum(units, norm), REPLACE, K, 1)
    design = ShapedGaussian(Importance("weights", (), importance)).design(problem, ApproxDP(1.0, 1e-6))
    records = extremes(problem.body)
    changes = np.unique((records[:, None, :] - records[None, :, :]).reshape(-1, 4), axis=0) * problem.scale
    found = np.sum(np.array(importance) * (design.entry_standard_deviation()[0] * problem.scale) ** 2)
    dual = least_covariance(changes[np.any(changes != 0, axis=1)], np.array(importance), design.mu, 1e-3)
    # One part in a thousand for steps of the noise; in a half cube pairs of records do not fill what the bound allows.
    assert found >= dual.lower_bound
    assert box is Body.HALF_CUBE or found <= dual.total * 1.002


WIDE = {
    "totals": lambda body, size: Totals(body, size, ADD, K, 1000),
    "rows": lambda body, size: Rows(body, size, REPLACE, K, 3),
    "left": lambda body, size: OuterProducts(body, Body.CUBE, size, np.ones(2), ADD, K, 1000),
    "right": lambda body, size: OuterProducts(Body.CUBE, body, np.ones(2), size, ADD, K, 1000),
}


@pytest.mark.parametrize("make", WIDE.values(), ids=WIDE.keys())
def test_a_query_whose_proof_covers_fewer_features_refuses_more(make):
    size = np.ones(2**15)
    for body in (Body.CUBE, Body.HALF_CUBE, CappedBox(Body.CUBE, size)):
        assert make(body, size[1:]).shape
        with pytest.raises(ValueError, match="32768 features, where the proof of this query covers 32767"):
            make(body, size)
    SecondMoment(Body.CUBE, size, ADD, K, 1000, True)


def test_a_length_is_bounded_in_whatever_order_a_machine_adds_up_its_squares(monkeypatch):
    widths = np.concatenate([[1.0], np.full(2**15 - 2, 2.0**-27)])
    monkeypatch.setattr(np.linalg, "norm", lambda v: np.sqrt(np.cumsum(v**2)[-1]))  # one by one, as without vectors
    bound = Fraction(wider_l2(Body.CUBE, widths, np.ones(widths.size)).bound)
    square = 1 + (2**15 - 2) * Fraction(1, 2**54)
    assert square <= bound**2 <= square * (1 + Fraction(1, 10**12))


def test_a_body_without_its_norm_is_the_box():
    assert uncapped(CappedBox(Body.HALF_CUBE, np.ones(1))) is Body.HALF_CUBE
    assert uncapped(Body.BALL) is Body.BALL

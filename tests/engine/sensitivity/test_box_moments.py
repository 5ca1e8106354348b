"""Replacing a record in a box: no pair that a search finds is further apart than the bound, and some pair is as far."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.dither import Dither
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity import box_moments
from blockveil.engine.sensitivity.box_moments import replaced_in_box
from blockveil.engine.sensitivity.second_moment import MOST_SUMMED, second_moment_sensitivity
from blockveil.testing.mechanism import REPLACE, K

ROUNDING = 1.0 + 1e-12


def distance(y, z, constant=0.0):
    """Frobenius norm of the difference itself, entry by entry; records in the last axis."""

    def of(v):
        v = np.concatenate([np.full((*v.shape[:-1], 1), np.sqrt(constant)), v], axis=-1)
        return v[..., :, None] * v[..., None, :]

    return np.linalg.norm(of(y) - of(z), axis=(-2, -1))


def climbed(lower, upper, constant, rng, starts=40):
    """Largest distance of pairs that continuous optimisation reaches from corners, edges, faces and the inside.

    An independent oracle: it knows of no structure, only of the squared distance and its gradient.
    """
    d, low, high = lower.size, np.tile(lower, 2), np.tile(upper, 2)

    def negative(pair):
        y, z = pair[:d], pair[d:]
        a, b, p = y @ y + constant, z @ z + constant, y @ z + constant
        return -(a * a + b * b - 2.0 * p * p), -4.0 * np.concatenate([a * y - p * z, b * z - p * y])

    best = 0.0
    for start in range(starts):
        corner, inside = np.where(rng.random(2 * d) < 0.5, low, high), rng.uniform(low, high)
        pair = np.where(rng.random(2 * d) < (0.0, 0.5, 0.9, 1.0)[start % 4], corner, inside)
        pair[d:] *= start % 5 != 0
        found = minimize(negative, pair, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)))
        best = max(best, float(distance(found.x[:d], found.x[d:], constant)))
    return best


def all_pairs(lower, upper, constant, places):
    """Largest distance of pairs of records that have each coordinate at one of several even places between its ends."""
    axes = [np.append(np.linspace(low, high, places), 0.0) for low, high in zip(lower, upper, strict=True)]
    records = np.array(list(product(*axes)))
    a, p = np.sum(records**2, axis=1), records @ records.T
    # The constant's square cancels: 2 c (a + b - 2 p) is left of it.
    return np.sqrt(
        np.max(np.add.outer(a * (a + 2.0 * constant), a * (a + 2.0 * constant)) - 2.0 * p * (p + 2.0 * constant))
    )


@pytest.mark.parametrize(
    ("lower", "upper", "at_corners", "largest"),
    [
        ([-1.0], [2.0], 3.0, 4.0),
        ([-1.0, -(0.1**0.5)], [1.0, 0.1**0.5], 0.8**0.5, 1.1056125002786668),
        ([-0.2, -3.0], [1.0, 1.0], 96.0**0.5, 10.063324988851766),
    ],
)
def test_the_furthest_pair_of_a_small_box_is_not_one_of_corners(lower, upper, at_corners, largest):
    lower, upper = np.array(lower), np.array(upper)
    corners = np.array(list(product(*zip(lower, upper, strict=True))))
    assert np.max(distance(corners[:, None], corners[None])) == pytest.approx(at_corners, rel=1e-12)
    found = replaced_in_box(lower, upper)
    assert found.exact
    assert found.bound == pytest.approx(largest, rel=1e-12)
    assert climbed(lower, upper, 0.0, np.random.default_rng(1)) == pytest.approx(largest, rel=1e-7)


@st.composite
def boxes(draw, most=5):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, most))
    far = rng.random(d) ** draw(st.sampled_from([0.0, 1.0, 4.0])) + 1e-3
    near = far * np.where(rng.random(d) < 0.3, rng.choice([0.0, 1e-3, 0.2, 1.0], d), rng.random(d))
    turned = rng.random(d) < 0.5
    lower, upper = np.where(turned, -far, -near), np.where(turned, near, far)
    return lower, upper, draw(st.sampled_from([0.0, 0.0, 1e-3, 0.1, 1.0, 30.0])), rng


@given(boxes())
def test_no_pair_that_a_climb_over_the_whole_box_finds_is_further_apart(box):
    lower, upper, constant, rng = box
    found = replaced_in_box(lower, upper, constant)
    assert found.exact
    best = climbed(lower, upper, constant, rng, 12)
    assert best <= found.attained * ROUNDING


@given(boxes(3), st.sampled_from([5, 9]))
def test_no_pair_of_a_grid_of_records_is_further_apart_and_a_fine_one_comes_close(box, places):
    lower, upper, constant, _ = box
    found = replaced_in_box(lower, upper, constant)
    best = all_pairs(lower, upper, constant, places)
    assert best <= found.attained * ROUNDING
    # The furthest pair is at ends but for one coordinate, which is half a place off at most: its square counts.
    assert best >= found.attained * (1.0 - 4.0 / (places - 1) ** 2)


@given(boxes(4))
def test_what_is_called_attained_is_the_distance_of_two_records_of_the_box(box):
    """All pairs of records with ends in all coordinates but one of one record, which moves over its whole range."""
    lower, upper, constant, _ = box
    d, best = lower.size, 0.0
    corners = np.array(list(product(*zip(lower, upper, strict=True))))
    firsts, seconds = (np.repeat(corners, len(corners), axis=0), np.tile(corners, (len(corners), 1)))
    best = max(np.max(distance(corners, np.zeros_like(corners), constant)), np.max(distance(firsts, seconds, constant)))
    for i in range(d):
        low, high = lower[i], upper[i]
        seconds_moved = np.repeat(seconds[:, None], 65, axis=1)
        around, width = np.full(len(seconds), (low + high) / 2.0), (high - low) / 2.0
        while width > 1e-9:
            places = np.clip(around[:, None] + width * np.linspace(-1.0, 1.0, 65), low, high)
            seconds_moved[..., i] = places
            sizes = distance(firsts[:, None] + np.zeros((1, 65, 1)), seconds_moved, constant)
            around, width = places[np.arange(len(places)), np.argmax(sizes, axis=1)], width / 16.0
            best = max(best, float(np.max(sizes)))
    assert best == pytest.approx(replaced_in_box(lower, upper, constant).attained, rel=1e-9)


@given(boxes())
def test_the_bound_for_many_features_holds_where_the_exact_value_is_known(box):
    lower, upper, constant, _ = box
    exact = replaced_in_box(lower, upper, constant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(box_moments, "_CASES", 0)
        found = replaced_in_box(lower, upper, constant)
    assert exact.attained <= found.bound
    assert found.attained <= exact.bound
    # Never more than the supremum of two orthogonal records in the far corner.
    far = np.maximum(-lower, upper)
    assert found.bound <= np.sqrt(2.0) * (far @ far + constant) * ROUNDING


@pytest.mark.parametrize("features", [17, 40, 200])
def test_above_sixteen_different_features_no_climb_leaves_the_bound_and_corners_come_close_to_it(features):
    rng = np.random.default_rng(features)
    far = rng.random(features) + 0.5
    near = far * rng.random(features)
    found = replaced_in_box(-near, far, 0.3)
    best = climbed(-near, far, 0.3, rng, 8)
    assert max(best, found.attained) <= found.bound
    assert found.bound <= found.attained * 1.002


@pytest.mark.parametrize("features", [1, 2, 5, 16, 500])
@pytest.mark.parametrize("evenness", [0.0, 1e-3, 0.2, 0.5, 1.0])
def test_features_with_equal_ends_are_exact_whatever_their_number(features, evenness):
    found = replaced_in_box(np.full(features, -evenness), np.ones(features), 0.25)
    assert found.exact
    turned = np.arange(features + 1.0)
    a, b = features + 0.25, features + 0.25 - turned * (1.0 - evenness**2)
    p = features + 0.25 - turned * (1.0 + evenness)
    corners = np.sqrt(np.max(a * a + b * b - 2.0 * p * p))
    assert found.attained >= corners / ROUNDING
    assert climbed(np.full(features, -evenness), np.ones(features), 0.25, np.random.default_rng(2), 8) <= found.bound


def test_sixteen_different_features_are_exact():
    rng = np.random.default_rng(16)
    far = rng.random(16) + 0.5
    near = far * rng.random(16)
    found = replaced_in_box(-near, far)
    assert found.exact
    assert climbed(-near, far, 0.0, rng, 20) <= found.bound


@pytest.mark.parametrize("constant", [0.0, 0.4, 1e6])
def test_features_of_one_sign_differ_from_a_record_at_the_origin_most(constant):
    far = np.array([1.0, 0.7, 0.2])
    found = replaced_in_box(np.zeros(3), far, constant)
    assert found.exact
    assert found.bound == pytest.approx(np.sqrt((far @ far) ** 2 + 2.0 * constant * (far @ far)), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_only_scale_it(scale):
    lower, upper = np.array([-0.3, -1.0, 0.0]), np.array([1.0, 0.4, 0.7])
    found, scaled = replaced_in_box(lower, upper, 0.1), replaced_in_box(scale * lower, scale * upper, scale**2 * 0.1)
    assert scaled.bound == pytest.approx(found.bound * scale**2, rel=1e-12)


@pytest.mark.parametrize(
    ("lower", "upper"), [([0.1], [1.0]), ([-1.0], [-0.1]), ([0.0], [0.0]), ([-np.inf], [1.0]), ([], [])]
)
def test_ends_that_are_no_box_around_the_origin_are_refused(lower, upper):
    with pytest.raises(ValueError, match=r"ends|width"):
        replaced_in_box(np.array(lower), np.array(upper))


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("spread", [[1.0, 1.0, 1.0], [1.0, 0.6, 2.0], [1.0, 0.1, 0.1]])
def test_a_second_moment_never_has_a_larger_sensitivity_with_its_ends_than_without(spread, augmented):
    sizes = np.array([0.8, *spread]) if augmented else np.array(spread)
    for near in ([1.0, 1.0, 1.0], [0.2, 1.0, 0.0], [0.0, 0.0, 0.0], [1e-3, 1e-3, 0.7]):
        body = Body.HALF_CUBE if not any(near) else Body.CUBE
        without = SecondMoment(body, np.ones(3), REPLACE, K, 10, augmented, even=min(near) == 1.0)
        ends = -np.array(near), np.ones(3)
        within = SecondMoment(body, np.ones(3), REPLACE, K, 10, augmented, even=min(near) == 1.0, ends=ends)
        noise = without.spread(sizes, sizes)
        assert within.l2(noise).bound <= without.l2(noise).bound
        assert within.l1(noise).bound <= without.l1(noise).bound
        assert within.l2(noise).exact


def test_an_even_box_with_equal_noise_keeps_its_number_to_the_last_bit():
    for features in (2, 3, 16, 23, 784):
        ends = -np.ones(features), np.ones(features)
        without = second_moment_sensitivity(Body.CUBE, np.ones(features), REPLACE)
        within = SecondMoment(Body.CUBE, np.ones(features), REPLACE, K, 10, False, ends=ends)
        assert within.l2(within.spread(np.ones(features), np.ones(features))).bound == without.bound


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize(("norm", "dithered"), [(None, False), (None, True), (90.0, False)])
def test_no_integer_of_a_record_lies_beyond_the_ends_that_are_charged(norm, dithered, kind):
    shape = Box([-0.37, -3.0, 0.0, -77.7], [100.0, 41.3, 9.1, 60.2], np.zeros(4), norm)
    c = shape.coordinates()
    clip = Quantiser(c, 127, False, None, dither=Dither(4) if dithered else None)
    rng = np.random.default_rng(7)
    records = rng.uniform(-120.0, 120.0, (20_000, 4))
    records[:8000] = np.where(rng.random((8000, 4)) < 0.5, shape.lower, shape.upper)
    found = clip.quantise(records.astype(kind))
    low, high = clip.ends
    assert np.all(low <= found.min(axis=0))
    assert np.all(found.max(axis=0) <= high)
    if norm is None:
        assert np.all(found.min(axis=0) <= low + 1)
        assert np.all(found.max(axis=0) >= high - 1)
    assert all(np.array_equal(one, np.rint(one)) for one in (low, high))


@pytest.mark.parametrize("constant", [0.0, 0.3])
@pytest.mark.parametrize("features", [2**16 - 1, MOST_SUMMED])  # all corners are tried, and none of them
def test_rounding_of_the_most_features_stays_within_the_margin(features, constant):
    far, near, c = Fraction(0.3), Fraction(0.1), Fraction(constant)
    bound = Fraction(replaced_in_box(np.full(features, -0.1), np.full(features, 0.3), constant).bound)
    total, squares = features * far**2, list[Fraction]()
    for turned in range(features // 2 - 50, features, 500):
        b, p = total - turned * (far**2 - near**2), total - turned * far * (far + near)
        squares.append((c + total) ** 2 + (c + b) ** 2 - 2 * (c + p) ** 2)
    # Every 500th corner is tried: the largest square of all is less than a part in 100,000 above that of these.
    assert max(squares) <= bound**2 <= max(squares) * (1 + Fraction(1, 10**5))

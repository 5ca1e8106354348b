"""Noise along dense directions: the loss is at most what was asked, by trying records; integers stay in their set."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments import rotated as rotated_moments
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.rows import rotated as rotated_rows
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.published.mvg_noise import Allocation, ExactMvg, Mvg
from blockveil.engine.records.geometry import Ball, Body, Box, Ellipsoid, GeometryError
from blockveil.engine.records.quantiser import ROUNDING_ALONG_DIRECTIONS, Quantiser
from blockveil.engine.sensitivity import rotated_box, rotation
from blockveil.engine.sensitivity.rotated_box import RotatedBox

ADD, REPLACE = Neighbours
CLAIM = ApproxDP(1.0, 1e-6)
BOXES = {
    "cube": Box([-1.0, 0.0, 5.0], [3.0, 1.0, 25.0], [1.0, 0.5, 15.0]),
    "half cube": Box([0.0, 0.0, 5.0], [3.0, 1.0, 9.0], [0.0, 0.0, 5.0]),
    "uneven": Box([-1.0, 0.0, 5.0], [3.0, 1.0, 1e6], [0.5, 0.5, 10.0]),
}
SHARES = (0.6, 0.3, 0.1)


def basis(size, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def corners(size):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=size)))


def clip_of(name, *, seed=0, bits=16):
    coordinates = rotation.along(BOXES[name].coordinates(), basis(3, seed))
    return Quantiser(coordinates, 2 ** (bits - 1) - 1, False, None)


def box_records(name):
    """Corners of the box, its middle, its origin, and what lies far outside."""
    box = BOXES[name]
    found = np.where(corners(3) > 0, box.upper, box.lower)
    return np.vstack([found, box.origin, (box.lower + box.upper) / 2, 1e9 * found, np.full(3, -1e300)])


@given(seed=st.integers(0, 10**6), entries=st.integers(1, 5), generators=st.integers(1, 7), tilt=st.floats(-3, 3))
def test_every_corner_is_within_the_loss_and_one_attains_it(seed, entries, generators, tilt):
    rng = np.random.default_rng(seed)
    box = RotatedBox(rng.standard_normal((entries, generators)) * 10.0**tilt)
    variances = rng.uniform(0.1, 10.0, entries)
    found, signs = box.worst(variances)
    tried = np.linalg.norm(corners(generators) @ box.generators.T / np.sqrt(variances), axis=1)
    assert np.max(tried) <= found.bound <= np.max(tried) * (1 + 1e-8)
    assert np.linalg.norm(box.generators @ signs / np.sqrt(variances)) == pytest.approx(found.attained)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [0, 2048])
def test_a_certified_bound_holds_at_every_corner_and_is_near_the_worst(seed, most, monkeypatch):
    rng = np.random.default_rng(seed)
    turned = basis(17, seed) / np.sum(np.abs(basis(17, seed)), axis=0)
    box = RotatedBox(np.column_stack([turned.T, np.zeros(17)]))  # a generator that does nothing does no harm
    variances = rng.uniform(0.2, 5.0, 17)
    if not most:
        monkeypatch.setattr(rotated_box, "_MOST_RELAXED", 0)
    found = box.mu(variances)
    weighted = turned.T / np.sqrt(variances)[:, None]
    patterns = 1.0 - 2.0 * ((np.arange(2**16)[:, None] >> np.arange(17)) & 1)
    worst = np.max(np.linalg.norm(patterns @ weighted.T, axis=1))
    assert worst * 0.98 <= found.attained <= worst * (1 + 1e-12)
    hull = np.sqrt(np.sum(np.sum(np.abs(weighted), axis=1) ** 2))
    assert worst <= found.bound <= (hull * 1.001 if not most else worst * 1.04)


def test_a_bound_is_a_short_binary_number_so_that_machines_agree():
    found = RotatedBox(basis(40)).mu(np.ones(40))
    unit = np.max(np.abs(basis(40)))
    mantissa = np.frexp(found.bound / unit)[0] * 2**12
    assert mantissa == pytest.approx(round(mantissa), abs=1e-6)


def test_entries_without_release_and_rows_of_zeros_cost_nothing():
    box = RotatedBox(np.array([[1.0, 2.0], [5.0, 5.0]]))
    assert box.mu([1.0, np.inf]).bound == pytest.approx(3.0)
    assert box.mu([np.inf, np.inf]).bound == 0.0
    for bad in (np.zeros((2, 2)), np.ones(3), np.full((2, 2), np.nan)):
        with pytest.raises(CalibrationError):
            RotatedBox(bad)
    with pytest.raises(CalibrationError):
        box.mu([1.0, 0.0])


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("bits", [8, 16, 20])
@given(seed=st.integers(0, 1000))
def test_integers_are_within_half_a_step_of_the_turned_box(name, bits, seed):
    clip = clip_of(name, seed=seed, bits=bits)
    rng = np.random.default_rng(seed)
    box = BOXES[name]
    records = np.vstack([box_records(name), rng.uniform(box.lower, box.upper, (5, 3))])
    integers = clip.quantise(records)
    assert np.array_equal(integers, np.rint(integers))
    assert np.max(np.abs(integers)) <= clip.largest
    scaled = np.rint((np.clip(records, box.lower, box.upper) - box.origin) / box.half_widths * 2**20)
    low = 0 if name == "half cube" else -(2**20)
    assert np.all(scaled >= low)
    assert np.all(scaled <= 2**20)
    mixing = clip.coordinates.mixing
    for record, found in zip(scaled, integers, strict=True):
        for row, integer in zip(mixing.integers, found, strict=True):
            exact = sum(int(a) * int(b) for a, b in zip(row, record, strict=True))
            distance = abs(Fraction(exact * clip.largest, 2 ** (20 + mixing.bits)) - int(integer))
            assert distance <= ROUNDING_ALONG_DIRECTIONS


def test_a_record_alone_decides_its_integers_in_any_order_and_layout():
    clip = Quantiser(
        rotation.along(Box(-np.ones(60), np.ones(60), np.zeros(60)).coordinates(), basis(60)), 32767, False, None
    )
    records = np.random.default_rng(3).standard_normal((300, 60))
    whole = clip.quantise(records)
    assert np.array_equal(whole, np.vstack([clip.quantise(record[None, :]) for record in records]))
    assert np.array_equal(whole, clip.quantise(np.asfortranarray(records)))
    assert np.array_equal(whole, clip.quantise(records[::-1])[::-1])


@pytest.mark.parametrize("name", BOXES)
def test_coordinates_are_the_record_along_the_directions_and_lead_back(name):
    box, directions = BOXES[name], basis(3)
    coordinates = rotation.along(box.coordinates(), directions)
    record = np.random.default_rng(1).uniform(box.lower, box.upper)
    scaled = (record - box.origin) / box.half_widths
    found = coordinates.mixing.matrix @ scaled
    assert found == pytest.approx(directions.T @ scaled / np.sum(np.abs(directions), axis=0), rel=1e-7)
    assert coordinates.to_raw() @ found + box.origin == pytest.approx(record)


@pytest.mark.parametrize("name", ["cube", "half cube"])
@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("seed", range(3))
def test_the_charged_loss_of_a_second_moment_covers_every_pair_of_neighbours(name, relation, seed):
    clip = clip_of(name, seed=seed)
    problem = rotated_moments.second_moment(clip, relation, 1000)
    design = ExactMvg(Allocation("shares", SHARES)).design(problem, CLAIM)
    rng = np.random.default_rng(seed)
    box = BOXES[name]
    more = rng.uniform(box.lower, box.upper, (3000, 3))
    y = clip.quantise(np.vstack([box_records(name), more])) / clip.largest / design.spread.rows
    squares = np.sum(y**2, axis=1)
    if relation is ADD:
        worst = np.max(squares)
    else:
        worst = np.sqrt(np.max(squares[:, None] ** 2 + squares[None, :] ** 2 - 2.0 * (y @ y.T) ** 2))
    budget = design.mu * design.scale
    assert worst <= problem.l2(design.spread).bound <= budget
    # A bound that is exact but for rounding (add-remove), and at most sqrt(2) too large (replace-one).
    assert worst >= problem.l2(design.spread).bound * (0.999 if relation is ADD else 0.7)
    assert problem.l2(design.spread).attained <= worst * (1 + 1e-9)


@pytest.mark.parametrize("name", ["cube", "half cube"])
@pytest.mark.parametrize("seed", range(3))
def test_the_charged_loss_of_rows_covers_every_replaced_record(name, seed):
    clip = clip_of(name, seed=seed)
    problem = rotated_rows.rows(clip, REPLACE, 50)
    design = ExactMvg(Allocation("shares", SHARES)).design(problem, CLAIM)
    y = clip.quantise(box_records(name)) / clip.largest / design.spread.columns
    worst = np.max(np.linalg.norm(y[:, None, :] - y[None, :, :], axis=2))
    found = problem.l2(design.spread)
    assert found.attained <= worst * (1 + 1e-9)
    assert 0.999 * found.bound <= worst <= found.bound <= design.mu * design.scale


@pytest.mark.parametrize("relation", Neighbours)
def test_the_published_noise_along_directions_is_charged_at_its_loss(relation):
    clip = clip_of("cube")
    problem = rotated_moments.second_moment(clip, relation, 1000)
    design = Mvg(2, "square-root", Allocation("shares", SHARES)).design(problem, CLAIM)
    y = clip.quantise(box_records("cube")) / clip.largest / design.spread.rows
    assert np.max(np.sum(y**2, axis=1)) <= design.mu < 0.1
    exact = ExactMvg(Allocation("shares", SHARES)).design(problem, CLAIM)
    assert design.scale * np.min(design.spread.rows) > exact.scale * np.min(exact.spread.rows)


def test_a_turned_box_is_smaller_than_the_box_around_it_and_never_larger():
    for size in (3, 12, 40):
        box = Box(-np.ones(size), np.ones(size), np.zeros(size))
        clip = Quantiser(rotation.along(box.coordinates(), basis(size)), 2**19 - 1, False, None)
        problem = rotated_moments.second_moment(clip, ADD, 1000)
        around = SecondMoment(Body.CUBE, np.ones(size), ADD, clip.largest, 1000, False)
        spread = problem.spread(np.ones(size), np.ones(size))
        ratio = problem.l2(spread).bound / around.l2(spread).bound
        assert ratio < {3: 0.9, 12: 0.3, 40: 0.1}[size]
        assert problem.largest_norm() < around.largest_norm()
        assert problem.l1(spread).bound == around.l1(spread).bound


def test_directions_along_the_features_are_the_plain_box_but_for_rounding():
    plain = BOXES["cube"].coordinates()
    clip = Quantiser(rotation.along(plain, np.eye(3)), 2**19 - 1, False, None)
    for relation in Neighbours:
        turned = rotated_moments.second_moment(clip, relation, 1000)
        straight = SecondMoment(Body.CUBE, plain.scale, relation, clip.largest, 1000, False)
        spread = turned.spread(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]))
        assert turned.l2(spread).bound == pytest.approx(straight.l2(spread).bound, rel=1e-5)


@pytest.mark.parametrize("shape", [Ball([1.0, 2.0, 3.0], 5.0), Ellipsoid([0.0] * 3, np.diag([4.0, 1.0, 9.0]) + 0.3)])
def test_a_ball_along_directions_is_clipped_after_the_turn(shape):
    clip = Quantiser(rotation.along(shape.coordinates(), basis(3)), 32767, False, None)
    assert clip.coordinates.body is Body.BALL
    integers = clip.quantise(np.random.default_rng(2).standard_normal((400, 3)) * 20)
    assert np.max(np.sum(integers.astype(np.int64) ** 2, axis=1)) <= 32767**2
    near = clip.quantise(shape.origin + np.array([[0.1, 0.2, -0.3]])) / 32767
    assert clip.coordinates.to_raw() @ near[0] == pytest.approx([0.1, 0.2, -0.3], abs=1e-3)


def test_what_is_no_basis_is_refused():
    coordinates = BOXES["cube"].coordinates()
    for bad in (np.ones((3, 3)), np.eye(2), np.eye(3) * 1.001, np.full((3, 3), np.nan), np.zeros((3, 3))):
        with pytest.raises(GeometryError, match="direction"):
            rotation.along(coordinates, bad)
    with pytest.raises(GeometryError, match="box along directions"):
        rotated_moments.second_moment(Quantiser(coordinates, 32767, False, None), ADD, 10)
    augmented = Quantiser(rotation.along(coordinates, np.eye(3)), 32767, True, None)
    with pytest.raises(GeometryError, match="second-moment"):
        rotated_moments.second_moment(augmented, ADD, 10)
    ball = Quantiser(rotation.along(Ball([0.0] * 3, 1.0).coordinates(), np.eye(3)), 32767, False, None)
    problem = SecondMoment(Body.BALL, np.ones(3), ADD, ball.largest, 10, False)
    with pytest.raises(NotApplicable):
        ExactMvg(Allocation("uniform")).design(problem, CLAIM)

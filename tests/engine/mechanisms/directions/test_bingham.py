"""Exact Bingham draws against quadrature, and the loss of their law against its claim."""

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ive

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.mechanisms.directions import bingham
from blockveil.engine.mechanisms.directions.bingham import (
    CERTIFIED,
    captured_variance,
    directions,
    draw_directions,
    envelope,
    expected_sine_distance,
    key_uniforms,
    proposals,
    published_concentration,
)
from blockveil.engine.noise.discrete_gaussian import NoiseKey

KEY = NoiseKey(bytes(range(32)))
SIGMAS = float(stats.norm.isf(0.5e-9))


def simulated(rates, count, size, seed):
    """Accepted frames, shape (about size * acceptance, d, count)."""
    rng = np.random.default_rng(seed)
    frames, accepted = proposals(np.asarray(rates), count, lambda _, n: rng.random(n), 0, size)
    return frames[accepted]


def sphere_moments(rates):
    """E v_i^2 under exp(-sum rates v^2) on the 2-sphere, by quadrature over the last coordinate and the angle."""

    def integral(weight):
        def inner(z, angle):
            r = math.sqrt(1 - z * z)
            v = np.array([r * math.cos(angle), r * math.sin(angle), z])
            return weight(v) * math.exp(-float(np.dot(rates, v * v)))

        return integrate.dblquad(inner, 0, math.pi / 2, 0, 1, epsabs=1e-11, epsrel=1e-10)[0]

    whole = integral(lambda _: 1.0)
    return np.array([integral(lambda v, i=i: v[i] ** 2) / whole for i in range(3)])


@pytest.mark.parametrize("rate", [0.0, 0.7, 30.0])
def test_on_the_circle_angles_follow_the_density_and_a_5_percent_wrong_scale_does_not(rate):
    v = simulated([0.0, rate], 1, 400_000, 1)[:, :, 0]
    doubled = np.mod(2 * np.arctan2(v[:, 1], v[:, 0]) + math.pi, 2 * math.pi) - math.pi
    # exp(-rate sin^2) is von Mises of the doubled angle with concentration rate / 2.
    assert (
        stats.kstest(doubled, stats.vonmises(rate / 2).cdf if rate else stats.uniform(-math.pi, 2 * math.pi).cdf)[1]
        > 1e-9
    )
    if rate == 30.0:
        for wrong in (0.95, 1.05):
            assert stats.kstest(doubled, stats.vonmises(wrong * rate / 2).cdf)[1] < 1e-9


def test_on_the_sphere_second_moments_are_those_of_quadrature_and_5_percent_off_is_rejected():
    rates = np.array([0.0, 3.0, 8.0])
    squares = simulated(rates, 1, 900_000, 2)[:, :, 0] ** 2
    error = SIGMAS * squares.std(axis=0) / math.sqrt(len(squares))
    assert np.all(np.abs(squares.mean(axis=0) - sphere_moments(rates)) < error)
    for wrong in (0.95, 1.05):
        assert np.any(np.abs(squares.mean(axis=0) - sphere_moments(wrong * rates)) > error)


def test_pairs_in_three_dimensions_have_the_law_of_their_normal_vector():
    # V V' = I - w w', so exp(-tr V'CV) is exp(+ w'Cw) in the normal vector w.
    rates = np.array([0.0, 3.0, 8.0])
    frames = simulated(rates, 2, 600_000, 3)
    normal = np.cross(frames[:, :, 0], frames[:, :, 1]) ** 2
    error = SIGMAS * normal.std(axis=0) / math.sqrt(len(normal))
    assert np.all(np.abs(normal.mean(axis=0) - sphere_moments(8.0 - rates)) < error)
    assert np.any(np.abs(normal.mean(axis=0) - sphere_moments(1.05 * (8.0 - rates))) > error)
    assert np.any(np.abs(normal.mean(axis=0) - sphere_moments(0.95 * (8.0 - rates))) > error)


def test_pairs_in_four_dimensions_agree_with_weighted_uniform_frames():
    rates = np.array([0.0, 1.0, 2.0, 4.0])
    frames = simulated(rates, 2, 200_000, 4)
    haar = np.linalg.qr(np.random.default_rng(5).standard_normal((400_000, 4, 2)))[0]
    energy = np.einsum("nik,i->n", haar**2, rates)
    weight = np.exp(-energy) / np.mean(np.exp(-energy))
    found = np.einsum("nik,i->n", frames**2, rates)
    expected = np.mean(weight * energy)
    spread = math.hypot(found.std() / math.sqrt(found.size), np.std(weight * (energy - expected)) / math.sqrt(4e5))
    assert abs(found.mean() - expected) < SIGMAS * spread
    # Both columns have the same law: the frame is uniform within its plane.
    first, second = (np.einsum("ni,i->n", frames[:, :, k] ** 2, rates) for k in (0, 1))
    assert abs(np.mean(first - second)) < SIGMAS * np.std(first - second) / math.sqrt(found.size)


@pytest.mark.parametrize(("dimension", "count"), [(2, 1), (5, 1), (40, 1), (6, 3)])
def test_no_ratio_of_target_to_envelope_exceeds_its_bound(dimension, count):
    rng = np.random.default_rng(6)
    rates = np.sort(rng.exponential(20.0, dimension))
    rest = np.maximum(rates - rates[count - 1], 0)
    lead = np.maximum(rates[count - 1] - rates, 0)
    b, d = envelope(rest), dimension
    assert np.sum(1 / (b + 2 * rest)) == pytest.approx(1.0)
    frames = np.linalg.qr(rng.standard_normal((5000, d, count)) / np.sqrt(0.01 + rest)[:, None])[0]
    inner = np.einsum("nik,i,nil->nkl", frames, rest, frames)
    _, log_determinant = np.linalg.slogdet(np.eye(count) + 2 * inner / b)
    energy = np.einsum("nik,i->n", frames**2, rates - rates[count - 1])
    ratio = -energy + d / 2 * log_determinant
    bound = lead.sum() + count * (-(d - b) / 2 + d / 2 * math.log(d / b))
    assert np.max(ratio) <= bound + 1e-9


def circle_loss(concentration, moment, other):
    """Largest log ratio of the two laws on the circle; log of the integral of exp(c v'Av) by Bessel functions."""

    def log_integral(a):
        low, high = np.linalg.eigvalsh(a)
        half = concentration * (high - low) / 2
        return concentration * (high + low) / 2 + math.log(ive(0, half)) + half

    change = concentration * np.linalg.eigvalsh(moment - other)
    shift = log_integral(moment) - log_integral(other)
    return max(abs(change[0] - shift), abs(change[1] - shift))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_loss_of_the_law_is_the_claim_and_tight(epsilon, neighbours):
    c = directions(1, epsilon, neighbours, joint=True).concentration
    base = np.diag([1e4, 0.0])
    along, across = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    pair = (base + across, base) if neighbours is Neighbours.ADD_REMOVE else (base + across, base + along)
    assert 0.98 * epsilon < circle_loss(c, *pair) <= epsilon
    rng = np.random.default_rng(7)
    for _ in range(300):
        x, y = (v / max(1, np.linalg.norm(v)) for v in rng.standard_normal((2, 2)))
        base = np.diag(rng.exponential(10.0, 2))
        more = base + np.outer(x, x)
        less = base if neighbours is Neighbours.ADD_REMOVE else base + np.outer(y, y)
        assert circle_loss(c, more, less) <= epsilon


def test_the_published_constant_is_right_for_replaced_records_and_twice_too_small_for_added_ones():
    assert published_concentration(1.0) == pytest.approx(directions(3, 1.0, Neighbours.REPLACE_ONE, True).concentration)
    assert 2 * published_concentration(1.0) == pytest.approx(
        directions(3, 1.0, Neighbours.ADD_REMOVE, True).concentration
    )
    # The constant of added records would break the claim for replaced ones.
    base = np.diag([1e4, 0.0])
    pair = base + np.diag([0.0, 1.0]), base + np.diag([1.0, 0.0])
    assert circle_loss(directions(1, 1.0, Neighbours.ADD_REMOVE, True).concentration, *pair) > 1.9


def test_bounded_range_gives_a_quarter_of_what_pure_privacy_gives():
    design = directions(4, 1.0, Neighbours.ADD_REMOVE, joint=False)
    assert design.zcdp.rho == pytest.approx(4 * 0.25**2 / 8)
    assert directions(4, 1.0, Neighbours.ADD_REMOVE, joint=True).zcdp.rho == pytest.approx(1 / 8)
    # Renyi divergences of the circle's laws stay below alpha / 8 epsilon^2, numerically.
    c, angles = design.concentration * 4, np.linspace(0, math.pi, 20_001)[:-1]
    logs = [c * (s * np.cos(angles) ** 2 + t * np.sin(angles) ** 2) for s, t in ((3.0, 1.0), (3.0, 0.0))]
    p, q = (np.exp(v - v.max()) / np.sum(np.exp(v - v.max())) for v in logs)
    for alpha in (1.01, 2.0, 8.0):
        assert math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1) <= alpha / 8


@pytest.mark.parametrize("joint", [True, False])
def test_frames_are_orthonormal_repeatable_and_close_to_the_truth_where_data_are_many(joint):
    rng = np.random.default_rng(9)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    spectrum = np.array([4000.0, 2500.0, 300, 200, 100, 50, 20, 10])
    moment = basis @ np.diag(spectrum) @ basis.T
    moment = (moment + moment.T) / 2
    design = directions(2, 1.0, Neighbours.ADD_REMOVE, joint)
    frame = draw_directions(KEY, moment, design)
    assert np.array_equal(frame, draw_directions(KEY, moment, design))
    assert frame.T @ frame == pytest.approx(np.eye(2), abs=1e-12)
    drawn = [draw_directions(KEY, moment, design, stream=s) for s in range(1, 300)]
    assert not np.allclose(drawn[0], drawn[1])
    sines = [2 - np.sum((basis[:, :2].T @ v) ** 2) for v in drawn]
    if joint:
        assert np.mean(sines) == pytest.approx(
            expected_sine_distance(spectrum, design.count, design.concentration), rel=0.2
        )
    assert min(captured_variance(moment, v) for v in drawn) > 0.98


def test_successive_draws_share_no_words():
    first, second, other = key_uniforms(KEY, 0, 0), key_uniforms(KEY, 0, 1), key_uniforms(KEY, 1, 0)
    values = [first(0, 70_000), first(1, 70_000), second(0, 70_000), other(0, 70_000)]
    assert all(np.all((v > 0) & (v < 1)) for v in values)
    assert len(np.unique(np.concatenate(values))) == 280_000
    assert np.array_equal(first(0, 100), values[0][:100]), "a longer request continues a shorter one"
    assert stats.kstest(values[0], "uniform").pvalue > 1e-9


def test_the_law_is_proven_but_the_program_is_not_certified():
    assert CERTIFIED is False
    assert "no ledger may book it" in " ".join(bingham.__doc__.split())


def test_what_cannot_be_drawn_is_refused():
    design = directions(2, 1.0, Neighbours.ADD_REMOVE, joint=True)
    for moment, match in [
        (np.eye(2), "below the dimension"),
        (np.ones((2, 3)), "square"),
        (np.full((4, 4), np.nan), "finite"),
        (np.triu(np.ones((4, 4))), "not symmetric"),
    ]:
        with pytest.raises(CalibrationError, match=match):
            draw_directions(KEY, moment, design)
    with pytest.raises(CalibrationError, match="count is 0"):
        directions(0, 1.0, Neighbours.ADD_REMOVE, joint=True)
    with pytest.raises(CalibrationError, match="epsilon is 0"):
        directions(1, 0.0, Neighbours.ADD_REMOVE, joint=True)

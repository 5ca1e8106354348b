"""Drawn directions: the sampler's identity and its bound in exact numbers, its law, its charge, and refusals."""

import math
import pickle
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import hyp1f1, ive

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.directions import exact_bingham
from blockveil.engine.mechanisms.directions.exact_bingham import CertificateError, Sampler
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.exact_matrix import complement, identity, integers, inverse_root
from blockveil.engine.noise.exact_random import KeyBits
from blockveil.engine.records.geometry import Body

K = 2**15 - 1
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
CLAIM = ApproxDP(1.0, 1e-9)
KEY = NoiseKey(bytes(range(32)))


def problem(d=4, k=2, rows=10_000, neighbours=ADD):
    return PrincipalDirections(Body.BALL, np.full(d, 3.0), neighbours, K, rows, False, k)


def moment(d, rows=2000, seed=1, power=1.0):
    """Exact second moment of whole-number records in the ball."""
    x = np.random.default_rng(seed).standard_normal((rows, d)) * np.arange(1, d + 1) ** -power
    x = np.rint(x / np.linalg.norm(x, axis=1).max() * (K - 20))
    return integers((x.T @ x).astype(np.int64))


def sampler(a, c=0.5):
    return Sampler.of(a, K * K, Fraction(c))


@pytest.mark.parametrize("d", [2, 3, 17])
@pytest.mark.parametrize("spread", [0, 1, 10**5])
def test_the_chance_of_accepting_is_the_density_over_that_of_the_proposal(d, spread):
    made = sampler(moment(d) * spread)
    rng, top = np.random.default_rng(2), made.top()
    with mpmath.workdps(120):
        factor = mpmath.matrix(made.factor.tolist()) / mpmath.mpf(2) ** 100
        covariance = factor * factor.T
        inverse, a = covariance**-1, mpmath.matrix(made.moment.tolist()) * mpmath.mpf(0.5) / K**2
        logs = []
        for _ in range(5):
            normal = integers((rng.standard_normal(d) * 2**40).astype(np.int64))
            vector = made.factor.dot(normal)
            g = mpmath.mpf(made.exponent(normal, vector, top)) / 2**150
            v = mpmath.matrix(vector.tolist())
            v /= mpmath.norm(v)
            target, proposal = (v.T * a * v)[0], -mpmath.mpf(d) / 2 * mpmath.log((v.T * inverse * v)[0])
            logs.append(-g - (target - proposal))
            assert g >= 0
        # Chance times proposal is the target up to one constant, which is the same for all proposals.
        assert max(logs) - min(logs) < mpmath.mpf(2) ** -148
        assert abs(logs[0] + mpmath.mpf(str(top))) < 1e-30


@pytest.mark.parametrize("d", [2, 5, 40])
def test_the_envelope_lies_above_the_target_and_touches_it(d):
    made = sampler(moment(d))
    a = made.moment.astype(float) * 0.5 / K**2
    values, vectors = np.linalg.eigh(a)
    rest = float(made.shift) - values
    # w = v'Pv = d/2 is where the bound is attained; mix the two eigenvectors that enclose it.
    low, high = vectors[:, -1], vectors[:, 0]
    assert rest[-1] < d / 2
    share = min(1.0, (d / 2 - rest[-1]) / (rest[0] - rest[-1]))
    v = np.sqrt(1 - share) * low + np.sqrt(share) * high
    normal = np.linalg.solve(made.factor.astype(float) / 2.0**100, v)
    whole = integers(np.rint(normal * 2**40).astype(np.int64))
    g = made.exponent(whole, made.factor.dot(whole), made.top()) / 2**150
    assert 0 <= g < 0.001 * d + (0 if share < 1 else 0.5 * d)


def test_the_stated_bound_of_the_distance_holds_in_exact_numbers():
    """Its steps, with the sizes that the sampler has."""
    e = mpmath.mpf(2) ** -exact_bingham._SLACK_BITS
    of_g = mpmath.mpf(2) ** (1 - exact_bingham._EXPONENT_BITS)
    with mpmath.workdps(60):
        for d in (2, 3, 10, 100, exact_bingham.MOST_FEATURES):
            assert mpmath.mpf(2) ** 13 * mpmath.sqrt(d) <= 2**17
            far = mpmath.log(2 * d, 2) - mpmath.mpf(2) ** 26 / 200 / mpmath.log(2)
            small = mpmath.mpf(d) / 2 * (mpmath.log(mpmath.e, 2) - 2 * (exact_bingham._GAUSSIAN_BITS - 340))
            assert far < -480_000 + 10
            assert small <= -299 * d
            condition = 2 * mpmath.sqrt(2**40 / (1 - e))
            assert condition <= 2**22
            moved = 2 * condition * mpmath.mpf(2) ** (17 - 340)
            assert moved <= mpmath.mpf(2) ** -300
            of_the_chance = 2 * 2**40 * moved + d * condition * mpmath.mpf(2) ** -323 + of_g
            assert of_the_chance < mpmath.mpf(2) ** -148 * (1 - mpmath.mpf(2) ** -10)
            # Largest g on the event of probability 1/40; convex in t, so largest at an end.
            ends = (2 / mpmath.mpf(128 * 192), 2 * mpmath.mpf(64) / mpmath.mpf(0.5))
            largest = max(d / mpmath.mpf(2) * (t * (1 + e) - 1 - mpmath.log(t) - mpmath.log(1 - e)) for t in ends)
            assert largest <= 129 * d
            assert 1 / mpmath.mpf(16) - 1 / mpmath.mpf(64) - (mpmath.e / 128) ** (mpmath.mpf(d) / 2) >= 1 / mpmath.mpf(
                40
            )
            accepted = -129 * d / mpmath.log(2) - mpmath.log(40, 2)
            assert accepted >= -187 * d - 6
            rare = max(far, small) + 2 - accepted
            assert rare <= -112 * d + 8 <= -200
            assert mpmath.mpf(2) ** (4 - exact_bingham._VECTOR_BITS) <= mpmath.mpf(2) ** -250
            of_rounding = d * mpmath.mpf(2) ** (exact_bingham.STEP_BITS - 249)
            stated = exact_bingham.TOTAL_VARIATION_PER_DRAW
            assert mpmath.mpf(2) ** -146 + mpmath.mpf(2) ** -199 + of_rounding < stated


def doubled_angles(a, c, trials):
    """Doubled angles of drawn directions on the circle, from the first axis."""
    made = sampler(a, c)
    drawn = np.array([made.draw(KeyBits(KEY, 0, i)).astype(float) for i in range(trials)])
    return np.mod(2 * np.arctan2(drawn[:, 1], drawn[:, 0]) + np.pi, 2 * np.pi) - np.pi


def test_on_the_circle_directions_follow_the_density():
    a = integers(np.diag([12 * K * K, 0]))
    found = doubled_angles(a, 0.5, 3000)
    # exp(c lambda cos^2) is von Mises of the doubled angle with concentration c lambda / 2. alpha 1e-9, fixed key.
    assert stats.kstest(found, stats.vonmises(3.0).cdf).pvalue > 1e-9
    for wrong in (0.6, 1.6):
        assert stats.kstest(found, stats.vonmises(3.0 * wrong).cdf).pvalue < 1e-9


@pytest.mark.slow
def test_a_five_percent_wrong_concentration_is_rejected():
    # With one eigenvalue k and the others 0, v_1^2 has a density as t^(-1/2) (1 - t)^((d-3)/2) exp(k t).
    # A draw of ten dimensions says about k what a dozen on the circle say.
    d, k = 10, 12
    made = sampler(integers(np.diag([2 * k * K * K] + [0] * (d - 1))))
    drawn = np.array([made.draw(KeyBits(KEY, 0, i))[0] for i in range(5000)], dtype=float) / 2.0**40
    found = drawn**2

    def expected(size):
        return hyp1f1(1.5, d / 2 + 1, size) / hyp1f1(0.5, d / 2, size) / d

    error = stats.norm.isf(0.5e-9) * float(np.std(found)) / math.sqrt(found.size)
    assert abs(np.mean(found) - expected(k)) < error
    for wrong in (0.95, 1.05):
        assert abs(np.mean(found) - expected(k * wrong)) > error


def test_a_draw_depends_on_key_and_matrix_alone_and_is_pinned():
    design = Exponential().design(problem(), CLAIM)
    records = np.array([[30_000, 9_000, -800, 5], [-20_000, 20_000, 77, 3_000], [12_345, -678, 9_012, -3_456]])
    a = 500 * records.T @ records
    first = design.release(KEY, a)
    assert np.array_equal(first, pickle.loads(pickle.dumps(design)).release(NoiseKey(bytes(range(32))), a.copy()))
    assert not np.array_equal(first, design.release(NoiseKey(bytes(32)), a))
    assert first.tolist() == [
        [1072738617520, 233761412437],
        [-229938152937, 1069979389247],
        [13147496853, 59025645879],
        [-71507113262, 77081135088],
    ]


def test_columns_are_orthonormal_to_the_steps_they_are_released_in():
    for d, k in ((2, 1), (6, 5), (20, 3)):
        frame = np.ldexp(Exponential().design(problem(d, k), CLAIM).release(KEY, moment(d).astype(np.int64)), -40)
        assert np.max(np.abs(frame.T @ frame - np.eye(k))) < 4 * d * 2.0**-40


@pytest.mark.parametrize("values", [[0, 0, 0], [1, 0, 0], [5e7, 0, 0], [5e7, 5e7, 5e7], [5e7, 1, 0]])
def test_degenerate_and_extreme_records_are_drawn_from(values):
    a = np.diag(np.array(values, dtype=np.int64)) * K**2 // (1 if max(values) < 1e6 else 100)
    frame = np.ldexp(Exponential().design(problem(3, 2, 2**27), CLAIM).release(KEY, a), -40)
    assert np.all(np.isfinite(frame))
    if values[:2] == [5e7, 0]:
        assert abs(frame[0, 0]) > 0.99


def test_many_rows_find_the_leading_direction():
    d = 12
    a = moment(d, rows=50_000, power=1.5)
    frame = np.ldexp(Exponential().design(problem(d, 1, 50_000), CLAIM).release(KEY, a.astype(np.int64)), -40)
    exact = np.linalg.eigh(a.astype(float))[1][:, -1]
    assert abs(frame[:, 0] @ exact) > 0.99


def test_the_charge_is_pure_and_split_evenly():
    for relation, factor in ((ADD, 1.0), (REPLACE, 0.5)):
        design = Exponential().design(problem(5, 4, neighbours=relation), CLAIM)
        assert design.loss.mu == 0.0
        assert design.loss.epsilon <= 1.0
        assert design.loss.epsilon == pytest.approx(1.0, rel=1e-11)
        assert design.loss.delta(1.0) <= 1e-28
        assert design.concentration == pytest.approx(factor / 4, rel=2e-9)
        assert design.concentration < factor / 4 * (1 - 2.0**-31)


@pytest.mark.parametrize(
    ("asked", "claim", "words"),
    [
        (SecondMoment(Body.BALL, np.ones(4), ADD, K, 1000, False), CLAIM, "principal-directions"),
        (PrincipalDirections(Body.CUBE, np.ones(4), ADD, K, 1000, False, 1), CLAIM, "declare a ball"),
        (PrincipalDirections(Body.BALL, np.array([1.0, 2.0]), ADD, K, 1000, False, 1), CLAIM, "declare a ball"),
        (problem(300, 1), CLAIM, "at most 256"),
        (problem(4, 1, 10**12), CLAIM, "lower epsilon"),
        (problem(4, 1), ApproxDP(1.0, 1e-31), "delta"),
    ],
)
def test_what_the_proof_does_not_cover_is_refused(asked, claim, words):
    with pytest.raises((NotApplicable, CannotCalibrate), match=words):
        Exponential().design(asked, claim)


@pytest.mark.parametrize("count", [0, 4, 5])
def test_as_many_directions_as_features_are_refused(count):
    with pytest.raises(CannotCalibrate, match="fewer than all"):
        problem(4, count)


def test_a_wrong_factor_is_found_by_its_certificate(monkeypatch):
    def damaged(matrix):
        root = inverse_root(matrix)
        return None if root is None else root * 1.001

    monkeypatch.setattr(exact_bingham, "inverse_root", damaged)
    with pytest.raises(CertificateError, match="IEEE"):
        sampler(moment(4))
    monkeypatch.setattr(exact_bingham, "inverse_root", lambda _: None)
    with pytest.raises(CertificateError):
        sampler(moment(4))


def test_a_complement_is_orthonormal_and_orthogonal_to_its_direction():
    direction = integers(np.array([3, -5, 0, 2**40]))
    for d in (direction, -direction, direction[::-1].copy()):
        columns = complement(d, 80)
        assert columns.shape == (4, 3)
        unit = identity(3, 1 << 160)
        assert np.max(np.abs(columns.T.dot(columns) - unit)) < 1 << 86
        assert np.max(np.abs(columns.T.dot(d))) < 1 << 45


def test_no_record_moves_the_density_on_the_circle_by_more_than_epsilon():
    grid = np.linspace(0, np.pi, 721)
    frames = np.column_stack([np.cos(grid), np.sin(grid)])
    rng = np.random.default_rng(5)
    for relation in (ADD, REPLACE):
        design = Exponential().design(problem(2, 1, 100, relation), CLAIM)
        c, largest = design.concentration, 0.0
        for size in (0, 1, 3, 40):
            for _ in range(60):
                base = np.diag([size, 0.0])
                x, y = (v / np.linalg.norm(v) for v in rng.standard_normal((2, 2)))
                first = base + np.outer(x, x)
                second = base + (np.outer(y, y) if relation is REPLACE else 0)
                logs = []
                for a in (first, second):
                    exponent = c * np.einsum("ni,ij,nj->n", frames, a, frames)
                    size_ = 0.5 * c * np.hypot(a[0, 0] - a[1, 1], 2 * a[0, 1])
                    constant = 0.5 * c * np.trace(a) + np.log(ive(0, size_)) + size_
                    logs.append(exponent - constant)
                largest = max(largest, float(np.max(np.abs(logs[0] - logs[1]))))
        assert 0.9 * design.loss.epsilon < largest <= design.loss.epsilon


def test_a_design_with_another_concentration_gives_other_directions():
    design = Exponential().design(problem(), CLAIM)
    a = moment(4).astype(np.int64)
    assert not np.array_equal(
        design.release(KEY, a), replace(design, concentration=design.concentration / 64).release(KEY, a)
    )

"""Noise with sizes of its own on the diagonal, by feature and behind a count: the largest change over all records."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.diagonal_sizes import (
    JoinedCount,
    added_sensitivity,
    added_square,
    free_gain,
    replaced_bound,
)
from blockveil.engine.sensitivity.spread import LEAST_STEP, Diagonal, Spread

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ROWS = {
    "even": np.array([1.0, 1.0, 1.0]),
    "uneven": np.array([1.0, 1.3, 2.5]),
    "covariance": np.array([0.7, 1.0, 1.0, 1.0]),
    "uneven covariance": np.array([0.8, 1.0, 1.4, 3.0]),
}
DIAGONALS = [Diagonal(3.0, 0, 2.0), Diagonal(5.5, 2, 0.5), Diagonal(12.0, 3, 0.0), Diagonal(9.0, 1, 1.0)]
JOINED = [Diagonal(11.0, 3, 2.0, 1, 16.0, 2), Diagonal(5.0, 2, 0.5, 1, 3.5, 1)]


def inverse_root(rows, diagonal, lead):
    """Root of the inverse of the covariance of the noise of all distinct entries, densely; and where they are."""
    places = np.triu_indices(rows.size)
    own, sizes = places[0] == places[1], rows**diagonal.power / np.sqrt(diagonal.gain)
    sizes[:lead] = rows[:lead] ** 2 / np.sqrt(diagonal.first)
    together = np.where(np.arange(rows.size) >= lead, sizes, diagonal.times * sizes)
    covariance = np.diag((rows[places[0]] * rows[places[1]]) ** 2 / 2.0)
    covariance[np.ix_(own, own)] = np.diag(sizes**2) + diagonal.shared * np.outer(together, together)
    return np.linalg.inv(np.linalg.cholesky(covariance)), places


def moved(records, root, places):
    return (records[:, :, None] * records[:, None, :])[:, *places] @ root.T


def spread_of(rows, diagonal, lead):
    own = replace(diagonal, lead=lead)
    return Spread(rows, rows, True, rows.size * (rows.size + 1) // 2, diagonal=own)


def problem_of(name, neighbours, body=Body.CUBE):
    lead = int("covariance" in name)
    return SecondMoment(body, np.array([1.0, 2.0, 3.0]), neighbours, 127, 100, bool(lead)), lead


def records_of(lead, k, least=-1):
    free = np.array(list(product(np.arange(least * k, k + 1) / k, repeat=3)))
    return np.hstack([np.ones((len(free), lead)), free])


@pytest.mark.parametrize(
    ("name", "diagonal"), [*product(ROWS, DIAGONALS), *product(["covariance", "uneven covariance"], JOINED)]
)
@pytest.mark.parametrize("body", [Body.CUBE, Body.HALF_CUBE])
def test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far(name, diagonal, body):
    (problem, lead), rows = problem_of(name, ADD, body), ROWS[name]
    root, places = inverse_root(rows, diagonal, lead)
    records = records_of(lead, 5, -1 if body is Body.CUBE else 0)
    largest = np.max(np.linalg.norm(moved(records, root, places), axis=1))
    found = problem.l2(spread_of(rows, diagonal, lead))
    assert largest == pytest.approx(found.attained, rel=1e-12)
    # Steps of different sizes are rounded up by different parts, of 2^-14 at most.
    assert largest <= found.bound <= largest * 1.0005


def largest_square_of_whole_steps(sizes, own, shared, constant, count):
    """N^2 exactly, as a fraction: the largest over corners of records and over steps that are rounded up or are not.

    A step of ideally ``LEAST_STEP`` units may have one unit more; steps off the diagonal are ideal here.
    """
    p0, p, e = Fraction(constant), [*map(Fraction, sizes)], [*map(Fraction, own)]
    times = 0 if count is None else count.times
    common = Fraction(shared, 1 + shared * (len(p) + times**2))
    coarser = Fraction(LEAST_STEP, LEAST_STEP + 1)
    best = Fraction(0)
    for corner in product((0, 1), repeat=len(p)):
        on = [i for i, end in enumerate(corner) if end]
        off = (p0 + sum(p[i] for i in on)) ** 2 - p0**2 - sum(p[i] ** 2 for i in on)
        # The count is there whatever the corner: its change is one, or none without a constant.
        first = Fraction(count.own) if count else p0
        for factors in product((1, coarser), repeat=len(on) + 1):
            diagonal = [first * factors[0], *(e[i] * factor for i, factor in zip(on, factors[1:], strict=True))]
            along = times * diagonal[0] + sum(diagonal[1:])
            best = max(best, off + sum(each**2 for each in diagonal) - common * along**2)
    return best


@pytest.mark.parametrize("kind", ["second moment", "covariance", "covariance whose count takes part"])
def test_whole_steps_of_the_least_size_move_no_neighbour_further_than_is_charged(kind):
    rng, beyond = np.random.default_rng(len(kind)), 0
    for _ in range(60):
        features, shared = int(rng.integers(2, 5)), int(rng.integers(1, 65))
        sizes = np.exp(rng.uniform(-4.0, 0.0, features))
        own = np.maximum(sizes, np.exp(rng.uniform(0.0, 3.0)) * sizes ** rng.uniform(0.0, 2.0))
        constant = 0.0 if kind == "second moment" else float(rng.uniform(0.1, 3.0))
        joined = kind.endswith("takes part")
        count = JoinedCount(constant * float(rng.uniform(1.0, 20.0)), int(rng.integers(1, 9))) if joined else None
        found = added_sensitivity(sizes, own, shared, constant, count)
        square = largest_square_of_whole_steps(sizes, own, shared, constant, count)
        assert square <= Fraction(found.bound) ** 2
        beyond += square > Fraction(found.attained) ** 2 * (1 + Fraction(1, 10**9))
    # Without a margin for rounding up, many of these would be charged too little.
    assert beyond > 10


@pytest.mark.parametrize("name", ["uneven", "covariance", "uneven covariance"])
@pytest.mark.parametrize("share", [0.5, 1.0, 1.7])
def test_replacing_a_record_of_whole_numbers_moves_no_further(name, share):
    (problem, lead), rows = problem_of(name, REPLACE), ROWS[name]
    weights = rows**-2.0
    diagonal = Diagonal(max(2.0, share * free_gain(weights[lead:], weights[0] if lead else 0.0)), 0)
    root, places = inverse_root(rows, diagonal, lead)
    changes = moved(records_of(lead, 3), root, places)
    largest = max(np.max(np.linalg.norm(changes - one, axis=1)) for one in changes)
    found = problem.l2(spread_of(rows, diagonal, lead))
    assert found.attained <= largest * (1 + 1e-12)
    assert largest <= found.bound
    if share <= 1.0:
        isotropic = problem.l2(Spread(rows, rows, True, rows.size * (rows.size + 1) // 2))
        assert found.bound == pytest.approx(np.sqrt(2.0) * np.sum(weights), rel=1e-9)
        assert found.bound >= isotropic.attained


@pytest.mark.parametrize("lead", [0, 1])
def test_no_search_for_a_pair_of_records_finds_one_further_apart(lead):
    rng, d = np.random.default_rng(lead), 6
    rows = np.concatenate([np.full(lead, 0.6), 1.0 + rng.random(d)])
    weights = rows**-2.0
    gain = free_gain(weights[lead:], weights[0] if lead else 0.0)
    factors = np.outer(weights, weights) * np.where(np.eye(d + lead) > 0, gain, 1.0)
    bound, best = replaced_bound(weights[lead:], gain, weights[0] if lead else 0.0), 0.0

    def away(both):
        y, z = (np.concatenate([np.ones(lead), part]) for part in (both[:d], both[d:]))
        change = np.outer(y, y) - np.outer(z, z)
        slope = 4.0 * factors * change
        return -np.sum(factors * change**2), -np.concatenate([(slope @ y)[lead:], -(slope @ z)[lead:]])

    for number in range(40):
        start = np.sign(rng.uniform(-1.0, 1.0, 2 * d)) if number % 2 else rng.uniform(-1.0, 1.0, 2 * d)
        result = minimize(away, start * 0.97, jac=True, bounds=[(-1.0, 1.0)] * (2 * d))
        best = max(best, -result.fun)
    assert 0.97 * bound**2 <= best <= bound**2


def test_beyond_the_free_gain_a_record_at_the_origin_is_further_away():
    sizes = np.array([1.0, 0.8, 0.5])
    gain = 2.0 * free_gain(sizes)
    assert replaced_bound(sizes, gain) > np.sqrt(2.0) * np.sum(sizes) * 1.01
    from_origin = np.sum(np.outer(sizes, sizes)) + (gain - 1.0) * np.sum(sizes**2)
    assert 2.0 * np.sum(sizes) ** 2 < from_origin <= replaced_bound(sizes, gain) ** 2


@pytest.mark.parametrize("shared", [0, 1, 3])
@pytest.mark.parametrize(("constant", "count"), [(0.0, None), (2.5, None), (2.5, JoinedCount(6.0, 2))])
def test_the_bound_of_many_features_is_above_all_corners(shared, constant, count):
    rng = np.random.default_rng(shared)
    for _ in range(20):
        sizes = rng.uniform(0.2, 1.0, 9)
        own = sizes ** rng.uniform(0.0, 1.0) * rng.uniform(1.5, 6.0)
        exact, attained = added_square(sizes, own, shared, constant, count=count)
        assert exact == attained
        bound, corner = added_square(sizes, own, shared, constant, cases=1, count=count)
        assert corner <= exact * (1 + 1e-12)
        assert exact <= bound * (1 + 1e-12)
        if corner == pytest.approx(constant**2 + 2 * constant * sizes.sum() + own @ own, rel=0.2):
            assert bound <= 1.2 * exact


def test_what_is_not_proven_is_refused():
    rows = ROWS["uneven"]
    for neighbours, body, diagonal in (
        (REPLACE, Body.HALF_CUBE, Diagonal(2.0, 0)),
        (REPLACE, Body.CUBE, Diagonal(2.0, 1)),
        (REPLACE, Body.CUBE, Diagonal(2.0, 0, 1.0)),
    ):
        with pytest.raises(CannotCalibrate, match="not proven"):
            problem_of("uneven", neighbours, body)[0].l2(spread_of(rows, diagonal, 0))
    with pytest.raises(CannotCalibrate, match="after a count"):
        problem_of("uneven", ADD)[0].l2(spread_of(rows, Diagonal(4.0, 1), 1))
    with pytest.raises(CannotCalibrate, match="spreads of one"):
        spread_of(rows / 2.0, Diagonal(4.0, 1, 1.0), 0)
    with pytest.raises(CannotCalibrate, match="no proof"):
        Diagonal(4.0, 1, 2.5)
    with pytest.raises(CannotCalibrate, match="not proven"):
        problem_of("covariance", REPLACE)[0].l2(spread_of(ROWS["covariance"], JOINED[0], 1))
    for first, times, shared, lead in ((0.9, 1, 2, 1), (4.0, 0, 2, 1), (4.0, 9, 2, 1), (4.0, 1, 0, 1), (4.0, 1, 2, 0)):
        with pytest.raises(CannotCalibrate, match="count with gain"):
            Diagonal(4.0, shared, 2.0, lead, first, times)

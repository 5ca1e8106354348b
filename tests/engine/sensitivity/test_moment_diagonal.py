"""The sensitivity in the norm of noise with a diagonal of its own is the largest over all pairs of records."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.box_diagonal import sizes
from blockveil.engine.noise.additive import gaussian_design, whole_shifts
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.moment_diagonal import box_sensitivity, most_gain
from blockveil.engine.sensitivity.spread import Diagonal, Spread

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
DIAGONALS = [Diagonal(2.0, 0), Diagonal(2.0, 1), Diagonal(7.25, 1), Diagonal(13.75, 3), Diagonal(40.0, 9)]


def inverse_root(d, diagonal):
    """Root of the inverse of the covariance of the noise of all distinct entries, densely; and where they are."""
    places = np.triu_indices(d)
    own = places[0] == places[1]
    covariance = np.diag(np.where(own, 1.0 / diagonal.gain, 0.5))
    covariance[np.ix_(own, own)] += diagonal.shared / diagonal.gain
    return np.linalg.inv(np.linalg.cholesky(covariance)), places


def entries(records, places):
    return (records[:, :, None] * records[:, None, :])[:, *places]


def records_of(d, k, least):
    return np.array(list(product(np.arange(least * k, k + 1) / k, repeat=d)))


@pytest.mark.parametrize("diagonal", DIAGONALS)
@pytest.mark.parametrize(("d", "k"), [(2, 6), (3, 3), (4, 2), (5, 1), (6, 1)])
@pytest.mark.parametrize("body", [Body.CUBE, Body.HALF_CUBE])
def test_adding_a_record_of_whole_numbers_moves_no_further_and_one_of_them_as_far(body, d, k, diagonal):
    root, places = inverse_root(d, diagonal)
    records = records_of(d, k, -1 if body is Body.CUBE else 0)
    largest = np.max(np.linalg.norm(entries(records, places) @ root.T, axis=1))
    found = box_sensitivity(body, d, ADD, diagonal)
    assert found.exact
    assert largest <= found.bound * (1 + 1e-12)
    assert largest == pytest.approx(found.attained, rel=1e-12)


@pytest.mark.parametrize(("d", "k"), [(2, 6), (3, 3), (4, 1), (5, 1), (6, 1)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_replacing_a_record_of_whole_numbers_moves_no_further_and_one_pair_as_far(d, k, share):
    diagonal = Diagonal(2.0 + share * (most_gain(d) - 2.0), 0)
    root, places = inverse_root(d, diagonal)
    moved = entries(records_of(d, k, -1), places) @ root.T
    largest = max(np.max(np.linalg.norm(moved - one, axis=1)) for one in moved)
    found = box_sensitivity(Body.CUBE, d, REPLACE, diagonal)
    assert found.exact
    assert largest <= found.bound * (1 + 1e-12)
    assert largest == pytest.approx(found.attained, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5, 7, 8])
def test_no_search_for_a_pair_of_records_finds_one_further_apart(d):
    """Uphill within the box from random pairs, some of them near what attains the bound; replace-one."""
    diagonal, rng = sizes(d, REPLACE), np.random.default_rng(d)
    found, ones = box_sensitivity(Body.CUBE, d, REPLACE, diagonal), np.ones((d, d))
    weights = ones + (diagonal.gain - 1.0) * np.eye(d)

    def away(both):
        y, z = both[:d], both[d:]
        change = np.outer(y, y) - np.outer(z, z)
        slope = 4.0 * weights * change
        return -np.sum(weights * change**2), -np.concatenate([slope @ y, -slope @ z])

    best = 0.0
    for number in range(30):
        start = rng.uniform(-1.0, 1.0, 2 * d)
        start = np.sign(start) * (0.95 if number % 3 == 0 else 1.0) if number % 3 < 2 else start
        result = minimize(away, start + rng.normal(0.0, 0.05, 2 * d), jac=True, bounds=[(-1.0, 1.0)] * (2 * d))
        best = max(best, -result.fun)
        assert -result.fun <= found.bound**2 * (1 + 1e-12)
    assert best == pytest.approx(found.attained**2, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5, 9, 16])
def test_no_search_for_a_record_finds_one_further_from_none(d):
    diagonal, rng = sizes(d, ADD), np.random.default_rng(d)
    root, places = inverse_root(d, diagonal)
    found = box_sensitivity(Body.CUBE, d, ADD, diagonal)

    def away(v):
        return -float(np.sum((root @ np.outer(v, v)[places]) ** 2))

    best = 0.0
    for number in range(12):
        start = rng.uniform(-1.0, 1.0, d) if number % 2 else np.where(rng.random(d) < 0.8, 0.97, 0.02)
        result = minimize(away, start, bounds=[(-1.0, 1.0)] * d, method="L-BFGS-B")
        best = max(best, -result.fun)
        assert -result.fun <= found.bound**2 * (1 + 1e-12)
    assert best > 0.5 * found.attained**2


@pytest.mark.parametrize("d", range(2, 13))
def test_beyond_the_largest_gain_the_bound_would_be_false(d):
    """So that the refusal is needed: a record at all ends and one at the origin are further apart."""
    gain = 2.0 * d + 2.0
    assert d * (d - 1) + gain * d > 2.0 * d * d
    with pytest.raises(CannotCalibrate, match="not proven"):
        box_sensitivity(Body.CUBE, d, REPLACE, Diagonal(gain, 0))


@pytest.mark.parametrize(
    ("body", "neighbours", "diagonal", "features"),
    [
        (Body.BALL, ADD, Diagonal(4.0, 1), 4),
        (Body.HALF_CUBE, REPLACE, Diagonal(2.0, 0), 4),
        (Body.CUBE, REPLACE, Diagonal(2.0, 1), 4),
        (Body.CUBE, ADD, Diagonal(4.0, 1), 1),
    ],
)
def test_what_is_not_proven_is_refused(body, neighbours, diagonal, features):
    with pytest.raises(CannotCalibrate):
        box_sensitivity(body, features, neighbours, diagonal)


@pytest.mark.parametrize("size", [1.0, 0.5, 3.0])
def test_a_problem_measures_it_in_spread_coordinates(size):
    problem = SecondMoment(Body.CUBE, np.ones(4), ADD, 127, 100, False)
    spread = Spread(np.full(4, size), np.full(4, size), True, 10, diagonal=Diagonal(9.0, 2))
    alone = box_sensitivity(Body.CUBE, 4, ADD, Diagonal(9.0, 2))
    assert problem.l2(spread).attained == pytest.approx(alone.attained / size**2)
    with pytest.raises(CannotCalibrate, match="Gaussian"):
        problem.l1(spread)
    with pytest.raises(CannotCalibrate, match="symmetric"):
        Spread(np.ones(2), np.ones(2), True, 3, unscaled=True, diagonal=Diagonal(9.0, 2))


@pytest.mark.parametrize("d", [2, 3, 7])
def test_whole_shifts_of_what_is_shared_cost_no_more_than_is_charged(d):
    """The best of all whole shifts, by brute force, against what a design counts and the charge for rounding them."""
    rng = np.random.default_rng(d)
    problem = SecondMoment(Body.CUBE, np.ones(d), ADD, 127, 100, False)
    for shared in (1, 2):
        spread = Spread(np.ones(d), np.ones(d), True, d * (d + 1) // 2, diagonal=Diagonal(2.0, shared))
        design = gaussian_design(spread, problem.l2(spread), problem.scaling, ApproxDP(1.0, 1e-6))
        charged = whole_shifts(spread)
        shifts = np.array(list(product(range(-9, 10), repeat=shared)))
        # Those last ones are as far from a whole shift as from the next.
        for change in (*rng.integers(-8, 9, (60, d)), *(np.arange(d) < rng.integers(1, d, (8, 1))).astype(int)):
            rest = change - shifts.sum(axis=1)[:, None]
            whole = np.min(np.sum(rest**2, axis=1) + np.sum(shifts**2, axis=1))
            counted = np.linalg.norm(design.apart(np.diag(change)))
            real = change @ change - shared / (1.0 + shared * d) * np.sum(change) ** 2
            assert counted == pytest.approx(np.sqrt(real))
            assert counted <= np.sqrt(whole) + 1e-9
            assert np.sqrt(whole) <= counted + charged + 1e-9

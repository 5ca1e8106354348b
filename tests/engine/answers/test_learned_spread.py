"""Sums and rings by which a spread is learned: exact for every cut, and moved by one record no more than is proven."""

import numpy as np
import pytest

from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.learned_spread import FURTHEST, RingCounts, SpreadSums, ring_edges
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.mechanisms.contract import Importance
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.records.geometry import Body, Box, Coordinates
from blockveil.engine.records.quantiser import Quantiser

K = 2**15 - 1
LOWER, UPPER = np.array([-1.0, 0.0, 5.0, -40.0]), np.array([1.0, 8.0, 6.0, 60.0])
RNG = np.random.default_rng(4)


def sums(counted=True):
    lower, upper = np.append(LOWER, np.zeros(4)), np.append(UPPER, np.ones(4))
    both = Box(lower, upper, (lower + upper) / 2).coordinates()
    own = Box(LOWER, UPPER, (LOWER + UPPER) / 2).coordinates()
    return SpreadSums(Quantiser(both, K, counted, None), Quantiser(own, K, False, None))


def of(query, records, chunk_rows=7):
    width = 9 if isinstance(query, SpreadSums) and query.quantiser.augmented else 8
    width = width if isinstance(query, SpreadSums) else len(ring_edges(records.shape[1])) - 1
    return query.partial(records, 0, len(records), chunk_rows, [Tile((0, 1), (0, width))])[0]


def some(rows):
    """Records inside, on and far outside the bounds."""
    inside = RNG.uniform(LOWER, UPPER, (rows, 4))
    ends = np.where(RNG.random((rows, 4)) < 0.5, LOWER, UPPER)
    far = inside + RNG.normal(0, 1e6, (rows, 4))
    return np.concatenate([inside, ends, far])


def rings(centre, axes):
    furthest = axes * ring_edges(4)[-1]
    cube = Coordinates(Body.CUBE, centre - furthest, centre + furthest, centre, furthest)
    return RingCounts(Quantiser(cube, K, False, None))


def test_the_sums_are_number_coordinates_and_squares_about_a_half():
    records = some(300)
    found = of(sums(), records)[0] / K
    y = np.clip((records - (LOWER + UPPER) / 2) / ((UPPER - LOWER) / 2), -1, 1)
    assert found[0] == len(records)
    assert np.allclose(found[1:5], y.sum(0), atol=len(y) / K)
    assert np.allclose(found[5:], (2 * y**2 - 1).sum(0), atol=3 * len(y) / K)


@pytest.mark.parametrize("query", [sums(), sums(counted=False), rings(LOWER, UPPER - LOWER)])
def test_every_cut_of_the_records_gives_the_same_integers(query):
    records = some(100)
    whole = of(query, records, 1000)
    assert np.array_equal(whole, of(query, records, 3))
    first = query.partial(records, 0, 41, 9, [Tile((0, 1), (0, whole.shape[1]))])[0]
    rest = query.partial(records, 41, 300, 50, [Tile((0, 1), (0, whole.shape[1]))])[0]
    assert np.array_equal(whole, first + rest)
    parts = query.partial(records, 0, 300, 50, [Tile((0, 1), (0, 2)), Tile((0, 1), (2, whole.shape[1]))])
    assert np.array_equal(whole, np.concatenate(parts, axis=1))


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_one_record_moves_the_sums_by_no_more_than_their_sensitivity(neighbours):
    counted = neighbours is Neighbours.ADD_REMOVE
    query, records = sums(counted), some(400)
    problem = Totals(query.quantiser.coordinates.body, query.quantiser.coordinates.scale, neighbours, K, 10_000)
    spread = ShapedGaussian(Importance("relative-error")).spread(problem)
    sizes, bound = K * spread.rows[0] * spread.columns, problem.l2(spread).bound
    moved = np.array([of(query, records[i : i + 1])[0] for i in range(len(records))])
    if not counted:
        moved = moved[:, None, :] - moved[None, ::3, :]
    lengths = np.linalg.norm(moved / sizes, axis=-1)
    assert lengths.max() <= bound
    # Replacing moves squares and coordinates together less far than the box of both: the bound of that is not reached.
    assert lengths.max() >= bound * (0.999 if counted else 0.6)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_record_is_in_one_ring_wherever_they_lie(neighbours):
    problem = Counts((1, len(ring_edges(4)) - 1), neighbours, 10_000, (), 1)
    spread = ShapedGaussian(Importance("relative-error")).spread(problem)
    bound = problem.l2(spread).bound
    for _ in range(20):
        query = rings(RNG.uniform(LOWER, UPPER), np.exp(RNG.normal(0, 3, 4)))
        each = np.array([of(query, row[None])[0] for row in some(10)])
        assert np.array_equal(each.sum(1), np.ones(len(each)))
        assert set(np.unique(each)) == {0, 1}
        moved = each if neighbours is Neighbours.ADD_REMOVE else each[:, None] - each[None]
        assert np.linalg.norm(moved / spread.columns, axis=-1).max() <= bound


def test_rings_hold_the_records_between_their_edges():
    edges = ring_edges(4)
    query, axes = rings(np.zeros(4), np.ones(4)), np.eye(4)
    assert edges[-1] == FURTHEST * 2.0
    for place, (low, high) in enumerate(zip(edges, edges[1:], strict=False)):
        found = of(query, ((low + high) / 2 * axes[place % 4])[None])[0]
        assert np.flatnonzero(found).tolist() == [place]
    assert np.flatnonzero(of(query, np.full((1, 4), 1e200))[0]).tolist() == [len(edges) - 2]

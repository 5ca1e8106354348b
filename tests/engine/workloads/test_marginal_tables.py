"""Tables are made of residuals that are orthogonal, and tables that disagree have a nearest that agrees."""

import numpy as np
import pytest

from blockveil.engine.workloads.marginal_tables import MarginalTables, centred
from tests.oracles.dense_tables import table_matrix

TABLES = MarginalTables((3, 2, 4), ((0, 1), (1, 2), (0,)))
DENSE = table_matrix(TABLES.sizes, TABLES.tables)


def test_the_sets_are_all_within_a_table_and_tables_follow_each_other():
    assert TABLES.sets == ((), (0,), (1,), (2,), (0, 1), (1, 2))
    assert TABLES.above[0,] == ((0, 1), (0,))
    assert TABLES.above[()] == TABLES.tables
    assert [part.shape for part in TABLES.apart(np.arange(TABLES.cells))] == [(3, 2), (2, 4), (3,)]
    assert (TABLES.cells, TABLES.entries) == (17, 1 + 3 + 2 + 4 + 6 + 8)


def test_tables_of_one_grid_are_made_of_their_residuals():
    grid = np.random.default_rng(1).integers(0, 9, 24).astype(float)
    flat = DENSE @ grid
    found = TABLES.projected(TABLES.apart(flat))
    assert found[()] == pytest.approx(grid.sum())
    assert TABLES.made_of(found) == pytest.approx(flat)
    for axes in TABLES.sets[1:]:
        for along in range(len(axes)):
            assert np.allclose(found[axes].sum(axis=along), 0.0)


def test_tables_that_disagree_are_projected_to_the_nearest_that_agree():
    """Against the orthogonal projection onto the range of the dense matrix."""
    flat = np.random.default_rng(2).normal(size=TABLES.cells)
    expected = DENSE @ np.linalg.lstsq(DENSE, flat, rcond=None)[0]
    found = TABLES.made_of(TABLES.projected(TABLES.apart(flat)))
    assert found == pytest.approx(expected)
    together, second, first = TABLES.apart(found)
    assert together.sum(axis=1) == pytest.approx(first)
    assert together.sum(axis=0) == pytest.approx(second.sum(axis=1))


def test_centred_values_have_no_mean_along_any_axis():
    values = centred(np.random.default_rng(3).normal(size=(4, 3, 2)))
    assert all(np.allclose(values.mean(axis=axis), 0.0) for axis in range(3))


@pytest.mark.parametrize(
    ("sizes", "tables", "message"),
    [
        ((3, 1), ((0, 1),), "at least two"),
        ((3, 2), ((1, 0),), "ascending"),
        ((3, 2), ((0, 0),), "ascending"),
        ((3, 2), ((0, 2),), "ascending"),
        ((3, 2), ((),), "at least one axis"),
        ((3, 2), (), "at least one axis"),
        ((3, 2), ((0,), (0,)), "twice"),
        ((2,) * 40, (tuple(range(40)),), "sets of axes"),
        ((3000, 3000), ((0, 1),), "at most"),
    ],
)
def test_tables_that_do_not_exist_are_refused(sizes, tables, message):
    with pytest.raises(ValueError, match=message):
        MarginalTables(sizes, tables)

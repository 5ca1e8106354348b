"""Tables are counted exactly, in any chunks, and a record that is left out is in none of them."""

import numpy as np
import pytest

from blockveil.engine.answers.counts import CountQuery
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.table_counts import TablesQuery, table_counts
from blockveil.engine.answers.value_cells import Codes, CountError, Edges, Missing, Outside
from blockveil.engine.records.quantiser import NotFiniteError
from blockveil.engine.workloads.marginal_tables import MarginalTables

TABLES = MarginalTables((3, 2, 4), ((0, 1), (1, 2), (0,)))
AXES = (Codes(3), Edges([0.0, 0.5, 1.0]), Codes(4))
RNG = np.random.default_rng(4)
RECORDS = np.column_stack([RNG.integers(-1, 4, 700), RNG.uniform(-0.2, 1.2, 700), RNG.integers(0, 4, 700)])
RECORDS[::97, 1] = np.nan


def query(outside, missing=Missing.DROP):
    return TablesQuery(CountQuery(AXES, outside, missing), TABLES)


def by_hand(outside):
    found = np.zeros(TABLES.cells, dtype=np.int64)
    for code, share, other in RECORDS:
        if np.isnan(share):
            continue
        if outside is Outside.DROP and not (0 <= code <= 2 and 0.0 <= share <= 1.0):
            continue
        place = [int(min(max(code, 0), 2)), int(share >= 0.5), int(other)]
        for table, values in zip(TABLES.tables, TABLES.apart(found), strict=True):
            values[tuple(place[axis] for axis in table)] += 1
    return found[None, :]


@pytest.mark.parametrize("outside", list(Outside))
@pytest.mark.parametrize("chunk_rows", [1, 50, 1000])
def test_tables_are_those_of_python(outside, chunk_rows):
    found = table_counts(RECORDS, 0, 700, query(outside), chunk_rows)
    assert np.array_equal(found, by_hand(outside))
    parts = table_counts(RECORDS, 0, 311, query(outside), 33) + table_counts(RECORDS, 311, 700, query(outside), 70)
    assert np.array_equal(parts, found)


def test_all_tables_hold_the_same_records():
    """A record beyond one axis is in no table, also of the other axes: the tables are marginals of one grid."""
    parts = TABLES.apart(table_counts(RECORDS, 0, 700, query(Outside.DROP), 100)[0])
    assert len({int(part.sum()) for part in parts}) == 1
    assert np.array_equal(parts[0].sum(axis=1), parts[2])


def test_tiles_are_parts_of_it():
    whole = table_counts(RECORDS, 0, 700, query(Outside.CLIP), 100)
    (tile,) = query(Outside.CLIP).partial(RECORDS, 0, 700, 100, [Tile((0, 1), (2, 9))])
    assert np.array_equal(tile, whole[:, 2:9])


def test_what_is_refused_is_refused():
    with pytest.raises(NotFiniteError):
        table_counts(RECORDS, 0, 700, query(Outside.CLIP, Missing.REFUSE), 100)
    with pytest.raises(CountError, match="integer"):
        table_counts(RECORDS + 0.5, 0, 5, query(Outside.CLIP), 100)

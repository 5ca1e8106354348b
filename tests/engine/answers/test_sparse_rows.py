"""Records that are stored by their entries read like an array, and are refused where they are not rows in order."""

import numpy as np
import pytest
import scipy.sparse

from blockveil.engine.answers import progress, sparse
from blockveil.engine.answers.gram import IntegerFactor, tile_sums
from blockveil.engine.answers.layout import grid
from blockveil.engine.answers.sparse import EntrySource, entry_sums
from blockveil.engine.answers.sparse_rows import MalformedRowsError, SparseRows
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser

VALUES = scipy.sparse.random_array((200, 30), density=0.05, rng=2).toarray()
VALUES[10:40] = 0.0
VALUES[50] = 1.5


def stored(values=VALUES):
    found = scipy.sparse.csr_array(values)
    return SparseRows(found.data, found.indices, found.indptr, values.shape[1])


def test_rows_and_blocks_of_columns_read_like_an_array():
    source = stored()
    assert source.shape == (200, 30)
    for rows in (slice(0, 200), slice(10, 40), slice(199, 200), slice(7, 7), slice(150, 999), slice(None)):
        assert np.array_equal(source[rows], VALUES[rows])
        assert np.array_equal(source[rows, 3:17], VALUES[rows, 3:17])
    with pytest.raises(IndexError):
        source[::2]
    assert isinstance(source, EntrySource)
    assert "1.5" not in repr(source)


@pytest.mark.parametrize("most", [1, 7, 29, 10**6])
def test_blocks_of_entries_hold_all_rows_in_order_and_no_more_than_was_asked(most):
    for start, stop in ((0, 200), (15, 35), (49, 52)):
        seen = []
        for columns, values, borders in stored().entry_blocks(start, stop, most):
            assert columns.size == values.size == borders[-1]
            assert columns.size <= most or len(borders) == 2
            seen.append(scipy.sparse.csr_array((values, columns, borders), shape=(len(borders) - 1, 30)).toarray())
        assert np.array_equal(np.concatenate(seen), VALUES[start:stop])


@pytest.mark.parametrize("augmented", [False, True])
def test_sums_are_those_of_the_array_bit_for_bit(augmented):
    box = Box(-np.ones(30), np.full(30, 2.0), np.full(30, 0.5))
    quantiser = Quantiser(box.coordinates(), 32767, augmented, None)
    tiles = grid((quantiser.width, quantiser.width), True, int(augmented), 8)
    expected = tile_sums(VALUES, 20, 200, IntegerFactor(quantiser, (0, 30)), None, 64, tiles)
    by_entries = entry_sums(stored(), 20, 200, quantiser, 64, tiles)
    written_out = tile_sums(stored(), 20, 200, IntegerFactor(quantiser, (0, 30)), None, 64, tiles)
    for found in (by_entries, written_out, entry_sums(VALUES, 20, 200, quantiser, 64, tiles)):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_progress_is_told_at_rows_that_do_not_depend_on_the_records(monkeypatch):
    quantiser = Quantiser(Box(-np.ones(30), np.ones(30), np.zeros(30)).coordinates(), 32767, False, None)
    monkeypatch.setattr(sparse, "ENTRIES_AT_ONCE", 5)
    told = []
    for values in (VALUES, np.zeros_like(VALUES), np.ones_like(VALUES)):
        shares = []
        monkeypatch.setattr(progress, "advance", shares.append)
        entry_sums(stored(values), 0, 200, quantiser, 1, grid((30, 30), True))
        told.append(tuple(shares))
    assert told[0] == told[1] == told[2]
    assert told[0][-1] == 1.0
    assert len(told[0]) == 4


@pytest.mark.parametrize(
    ("data", "indices", "indptr"),
    [
        ([1.0, 2.0], [0, 0], [0, 2]),  # a column repeats
        ([1.0, 2.0, 3.0], [2, 0, 2], [0, 3]),  # it repeats among others
        ([1.0, 2.0], [1, 3], [0, 2]),  # outside
        ([1.0, 2.0], [-1, 2], [0, 2]),
        ([1.0, 2.0], [1, 2], [0, 3]),  # more entries than there are
        ([1.0, 2.0], [1, 2], [0, 2, 1]),  # borders fall
        ([1.0, 2.0], [1, 2], [-1, 2]),
    ],
)
def test_what_are_no_rows_in_order_is_refused_without_being_shown(data, indices, indptr):
    source = SparseRows(np.array(data), np.array(indices), np.array(indptr), 3)
    with pytest.raises(MalformedRowsError) as caught:
        list(source.entry_blocks(0, source.shape[0], 10))
    assert not any(character.isdigit() for character in str(caught.value))
    with pytest.raises(MalformedRowsError):
        source[0 : source.shape[0]]


def test_columns_of_a_row_may_come_in_any_order():
    found = scipy.sparse.csr_array(VALUES)
    order = np.concatenate(
        [np.random.default_rng(row).permutation(np.arange(*found.indptr[row : row + 2])) for row in range(len(VALUES))]
    )
    source = SparseRows(found.data[order], found.indices[order], found.indptr, VALUES.shape[1])
    assert np.array_equal(source[0:200], VALUES)
    for shuffled, plain in zip(source.entry_blocks(0, 200, 40), stored().entry_blocks(0, 200, 40), strict=True):
        assert all(np.array_equal(one, other) for one, other in zip(shuffled, plain, strict=True))


def test_a_new_row_may_begin_at_any_column_also_after_empty_ones():
    values = np.zeros((6, 3))
    values[0, 2], values[3, 0], values[4, 0], values[4, 2] = 1.0, 2.0, 3.0, 4.0
    assert np.array_equal(stored(values)[0:6], values)
    assert np.array_equal(stored(np.zeros((4, 3)))[0:4], np.zeros((4, 3)))

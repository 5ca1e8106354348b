"""Counts and sums of records are those of Python's integers, whatever the blocks and however the records are stored."""

import numpy as np
import pytest
import scipy.sparse

from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.sparse_rows import SparseRows
from blockveil.engine.kinds.totals.record_sums import RecordSumsQuery
from blockveil.engine.records.geometry import Ball, Box, Ellipsoid
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser

K = 2**19 - 1
D = 5
SHAPES = {
    "box": Box(np.full(D, -1.0), np.full(D, 2.0), np.full(D, 0.5)),
    "positive box": Box(np.zeros(D), np.full(D, 2.0), np.zeros(D)),
    "box in a ball": Box(np.full(D, -1.0), np.full(D, 2.0), np.zeros(D), 1.5),
    "ball": Ball(np.zeros(D), 1.5),
    "turned ellipsoid": Ellipsoid(np.zeros(D), np.eye(D) + 0.3),
}


def query(shape, augmented=True, stand_in=None):
    return RecordSumsQuery(Quantiser(SHAPES[shape].coordinates(), K, augmented, stand_in))


def sums(asked, source, cuts, chunk_rows):
    width = asked.quantiser.width
    parts = [
        asked.partial(source, start, stop, chunk_rows, [Tile((0, 1), (0, width))])[0]
        for start, stop in zip(cuts, cuts[1:], strict=False)
    ]
    return sum(parts[1:], parts[0])


@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_pythons_integers_for_every_cut(shape, augmented):
    records = np.random.default_rng(1).normal(0.0, 2.0, (211, D))
    records[3] = 1e300
    asked = query(shape, augmented)
    integers = asked.quantiser.quantise(records)
    exact = [sum(int(value) for value in column) for column in integers.T]
    for cuts, chunk_rows in (([0, 211], 211), ([0, 1, 64, 211], 7), ([0, 100, 211], 1)):
        found = sums(asked, records, cuts, chunk_rows)
        assert found.dtype == np.int64
        assert found.tolist() == [exact]
    if augmented:
        assert exact[0] == 211 * K


def test_many_rows_are_added_in_pieces_without_rounding(monkeypatch):
    monkeypatch.setattr("blockveil.engine.kinds.totals.record_sums._PIECE_BYTES", 8 * 6 * 3)  # three rows
    records = np.full((1000, D), 2.0)
    records[::2] = -1.0
    found = sums(query("box"), records, [0, 1000], 1000)
    assert found.tolist() == [[1000 * K, *[0] * D]]


@pytest.mark.parametrize("shape", ["box", "positive box", "box in a ball", "ball", "turned ellipsoid"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_sparse_records_have_the_same_bits(shape, dtype):
    rng = np.random.default_rng(2)
    records = np.where(rng.random((300, D)) < 0.9, 0.0, rng.normal(0.0, 3.0, (300, D))).astype(dtype)
    records[17] = 0
    stored = scipy.sparse.csr_array(records)
    source = SparseRows(stored.data, stored.indices, stored.indptr, D)
    asked = query(shape)
    found = sums(asked, source, [0, 130, 300], 50)
    assert np.array_equal(found, sums(asked, records, [0, 300], 300))


def test_a_missing_value_is_refused_or_takes_its_constant_in_both_kinds_of_records():
    records = np.zeros((20, D))
    records[4, 2] = np.nan
    stored = scipy.sparse.csr_array(records)
    for source in (records, SparseRows(stored.data, stored.indices, stored.indptr, D)):
        with pytest.raises(NotFiniteError):
            sums(query("positive box"), source, [0, 20], 20)
        found = sums(query("positive box", stand_in=np.full(D, 1.0)), source, [0, 20], 20)
        assert found.tolist() == [[20 * K, 0, 0, (K + 1) // 2, 0, 0]]


def test_tiles_are_parts_of_the_row():
    records = np.random.default_rng(3).normal(size=(50, D))
    tiles = [Tile((0, 1), (0, 2)), Tile((0, 1), (2, D + 1))]
    asked = query("ball")
    whole = sums(asked, records, [0, 50], 50)
    assert np.array_equal(np.hstack(asked.partial(records, 0, 50, 10, tiles)), whole)

"""Rows that several sums read: once where there is room, the same ones each time, in no other process."""

import pickle

import numpy as np
import pytest

from blockveil.engine.answers.kept_rows import KeptRows

RECORDS = np.arange(60.0).reshape(20, 3)


class Counted:
    """Records that count how often each key is read."""

    shape = RECORDS.shape

    def __init__(self):
        self.reads = []

    def __getitem__(self, key):
        self.reads.append(key)
        return RECORDS[key].copy()


def each(rows):
    return [rows[first : first + 5] for first in range(0, 20, 5)]


def test_rows_are_read_once_and_are_the_same_each_time():
    source = Counted()
    rows = KeptRows(source, RECORDS.nbytes)
    for _ in range(3):
        assert np.array_equal(np.concatenate(each(rows)), RECORDS)
    assert np.array_equal(rows[5:10, 1:], RECORDS[5:10, 1:])
    assert len(source.reads) == 4
    assert rows.shape == RECORDS.shape


def test_what_there_is_no_room_for_is_read_again():
    source = Counted()
    rows = KeptRows(source, RECORDS.nbytes // 2 + 1)
    for _ in range(2):
        assert np.array_equal(np.concatenate(each(rows)), RECORDS)
        assert np.array_equal(rows[15:20, 1:], RECORDS[15:20, 1:])
    assert len(source.reads) == 4 + 2 + 2
    assert sum(kept.nbytes for kept in rows._kept.values()) <= RECORDS.nbytes // 2


def test_nobody_can_write_to_rows_that_are_kept():
    rows = KeptRows(Counted(), RECORDS.nbytes)
    for _ in range(2):
        found = rows[0:5]
        with pytest.raises(ValueError, match="read-only"):
            found[0, 0] = 7.0


def test_no_record_travels_or_is_shown():
    rows = KeptRows(Counted(), RECORDS.nbytes)
    each(rows)
    found = pickle.loads(pickle.dumps(rows))
    assert isinstance(found, Counted)
    assert not any(each.tobytes() in pickle.dumps(rows) for each in RECORDS)
    assert repr(rows) == "KeptRows()"

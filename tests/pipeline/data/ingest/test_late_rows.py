"""Rows of a table that come late: each is stored once, by the next append, whatever its date."""

import collections
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.data.ingest import erasing, growth_state, ingest_run, readers, store_writer
from blockveil.pipeline.data.ingest.late_rows import Unseen, among, digests_of, joined
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database
from tests.pipeline.data.ingest.test_arrivals import append, configure, date, insert, killed_after, put


def held(folder):
    return collections.Counter(map(tuple, grown.records(folder).tolist()))


def rows(*nights):
    return collections.Counter((row["person"], row["stay"]) for night in nights for row in grown.day(night).to_pylist())


@pytest.mark.parametrize("unit", ["rows", "chosen"])
def test_rows_that_come_late_are_stored_by_the_next_append_and_once(tmp_path, database, unit):
    put(database, 0, 1)
    loaded = configure(tmp_path, database, unit, late="next")
    append(loaded, 1)
    insert(database, 7, date(0))
    before = grown.content(tmp_path)
    assert append(loaded, 1).endswith("nothing was read"), "late rows alone make no append"
    assert grown.content(tmp_path) == before
    append(loaded, 2)
    if unit == "rows":
        assert held(tmp_path) == rows(0, 1, 7)
    else:
        _, counts = np.unique(grown.records(tmp_path)[:, 0], return_counts=True)
        assert counts.max() == 2
        assert any(stay // 1000 == 7 for _, stay in held(tmp_path))
    insert(database, 2)
    append(loaded, 3)
    if unit == "rows":
        assert held(tmp_path) == rows(0, 1, 2, 7)
    assert Contract.of(grown.opened(tmp_path)).late == "next"
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_equal_rows_are_each_stored_once(tmp_path, database):
    put(database, 0)
    loaded = configure(tmp_path, database, "rows", late="next")
    append(loaded, 1)
    insert(database, 0, rows=5)  # the same five rows once more, under the date that was read
    insert(database, 1)
    append(loaded, 2)
    twice = collections.Counter({(row["person"], row["stay"]): 1 for row in grown.day(0).to_pylist()[:5]})
    assert held(tmp_path) == rows(0, 1) + twice


@pytest.mark.parametrize("change", ["DELETE FROM visits WHERE stay = 7", "UPDATE visits SET stay = 777 WHERE stay = 7"])
def test_a_stored_row_that_is_gone_or_changed_stops_the_next_append(tmp_path, database, change):
    put(database, 0, 1)
    loaded = configure(tmp_path, database, "rows", late="next")
    append(loaded, 1)
    database.execute(change)
    insert(database, 7, date(0), rows=1)  # so that there are as many rows as before
    before = grown.content(tmp_path)
    with pytest.raises(DataError, match="has other rows than before"):
        append(loaded, 2)
    assert grown.content(tmp_path) == before


def test_the_choice_may_be_changed_in_both_directions(tmp_path, database):
    put(database, 0, 1, 2, 3)
    append(configure(tmp_path, database, "rows"), 1)
    append(configure(tmp_path, database, "rows", late="next"), 2)
    insert(database, 7, date(0))
    append(configure(tmp_path, database, "rows", late="next"), 3)
    assert held(tmp_path) == rows(0, 1, 2, 7)
    append(configure(tmp_path, database, "rows"), 4)
    assert held(tmp_path) == rows(0, 1, 2, 3, 7)
    assert not list((tmp_path / ".grown-out.zarr").glob("rows-*")), "nobody asks for them any more"
    insert(database, 8, date(0))
    insert(database, 4)
    with pytest.raises(DataError, match="has other rows than before"):
        append(configure(tmp_path, database, "rows", late="next"), 5)


def test_erased_rows_stay_away_and_late_ones_of_others_are_not_lost(tmp_path, database):
    put(database, 0, 1, 2)
    loaded = configure(tmp_path, database, people.CHOOSE.format(most=9), late="next")
    append(loaded, 2)
    person = int(grown.records(tmp_path)[0, 0])
    insert(database, 7, date(0))
    database.execute(f"DELETE FROM visits WHERE person = {person}")
    with pytest.raises(DataError, match="has other rows than before"):
        append(loaded, 3)
    erasing.erase(ingest_run.look(loaded, needed=False), [person], lambda *_: None, ReleaseLedgers())
    append(loaded, 3)
    found = grown.records(tmp_path)
    assert person not in found[:, 0]
    assert (found[:, 1] // 1000 == 7).any()


def test_an_append_that_is_killed_goes_on_with_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 20)
    monkeypatch.setattr(store_writer, "BLOCK_BYTES", 1)
    database = Database("duckdb", tmp_path)
    put(database, 0, 1)
    loaded = configure(tmp_path, database, "rows", late="next")
    append(loaded, 1)
    insert(database, 7, date(0))
    before, kills = grown.records(tmp_path), 0
    while killed_after(monkeypatch, loaded, 2, kills + 1):
        assert len(grown.records(tmp_path)) in (60, 180), "no reader sees half of an append"
        kills += 1
    assert kills > 5
    assert np.array_equal(grown.records(tmp_path)[:60], before)
    assert held(tmp_path) == rows(0, 1, 7)
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_a_killed_append_does_not_go_on_under_the_other_choice(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 20)
    monkeypatch.setattr(store_writer, "BLOCK_BYTES", 1)
    database = Database("duckdb", tmp_path)
    put(database, 0, 1)
    append(configure(tmp_path, database, "rows", late="next"), 1)
    for kills in range(1, 12):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"), copy_function=shutil.copy2)
        folder = tmp_path / "copy"
        database.file = folder / "clinic.duckdb"
        killed_after(monkeypatch, configure(folder, database, "rows", late="next"), 2, kills)
        append(configure(folder, database, "rows"), 2)
        assert held(folder) == rows(0, 1)


def test_what_is_kept_of_rows_is_private_and_a_damaged_one_is_noticed(tmp_path, database):
    put(database, 0, 1)
    loaded = configure(tmp_path, database, "rows", late="next")
    append(loaded, 1)
    (kept,) = (tmp_path / ".grown-out.zarr").glob("rows-*")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.stat().st_size == 61 * 16
    content = pa.record_batch({name: grown.day(0)[name].combine_chunks() for name in ("person", "stay")})
    assert not any(digest in kept.read_bytes() for digest in digests_of(content))
    kept.write_bytes(bytes(61 * 16))
    with pytest.raises(StoreError, match="missing, damaged"):
        append(loaded, 2)


VALUES = st.lists(st.integers(0, 4), max_size=30)


def digests(values):
    return digests_of(pa.record_batch({"x": pa.array(values, pa.int64())}))


@given(stored=VALUES, more=VALUES, cut=st.integers(0, 60), seed=st.integers(0, 2**31))
def test_what_is_not_stored_is_what_is_there_beyond_it_in_any_order_and_in_any_batches(stored, more, cut, seed):
    table = np.random.default_rng(seed).permutation(stored + more)
    unseen, found = Unseen(joined([digests(stored)])), []
    for piece in (table[:cut], table[cut:]):
        found += piece[unseen.of(digests(piece))].tolist()
    assert collections.Counter(found) == collections.Counter(more)


@given(one=VALUES, other=VALUES)
def test_rows_that_are_among_others_are_counted_as_often_as_in_both(one, other):
    both = collections.Counter(one) & collections.Counter(other)
    assert np.array_equal(among(digests(one), digests(other)), joined([digests(sorted(both.elements()))]))


@given(removed=st.integers(0, 29), first=st.lists(st.integers(0, 3), min_size=1, max_size=15), seed=st.integers(0, 99))
def test_one_row_more_in_a_table_is_one_row_more_in_one_append(removed, first, seed):
    """Three appends of a table that grows, and of the table without one of its rows from the beginning."""
    rng = np.random.default_rng(seed)
    history = [list(first)]
    for _ in range(2):
        history.append([*history[-1], *rng.integers(0, 4, 5).tolist()])
    lacking = removed % len(history[-1])

    def appends(tables):
        stored, taken = digests([]), []
        for table in tables:
            found = Unseen(joined([stored])).of(digests(table))
            taken.append(collections.Counter(np.array(table, int)[found].tolist()))
            stored = joined([digests(table)])
        return taken

    whole = appends(history)
    without = appends([[value for place, value in enumerate(table) if place != lacking] for table in history])
    differences = [one - other for one, other in zip(whole, without, strict=True)]
    assert sum(sum(one.values()) for one in differences) == 1
    assert all(not other - one for one, other in zip(whole, without, strict=True))


def test_a_digest_follows_from_what_a_row_holds_and_not_from_its_batch_or_the_type_of_a_number():
    values = {"a": [1, 2, None, 4], "b": ["x", None, "y", "x"], "c": [1.5, 2.0, 3.0, float("nan")], "d": [True] * 4}
    whole = digests_of(pa.record_batch(values))
    assert len(set(whole.tolist())) == 4
    for place in range(4):
        alone = {name: pa.array([column[place]]) for name, column in values.items()}
        assert digests_of(pa.record_batch(alone))[0] == whole[place]
    floats = {**values, "a": [1.0, 2.0, None, 4.0], "b": pa.array(values["b"]).dictionary_encode()}
    assert np.array_equal(digests_of(pa.record_batch(floats)), whole)
    for name, other in (("a", 0), ("b", ""), ("c", 1.5000001), ("d", None)):
        changed = {**values, name: [other, *values[name][1:]]}
        assert digests_of(pa.record_batch(changed))[0] != whole[0]
    swapped = digests_of(pa.record_batch({"a": [1], "b": [2]}))
    assert swapped[0] != digests_of(pa.record_batch({"a": [2], "b": [1]}))[0]


def test_what_the_state_names_is_not_written_again_where_an_append_or_an_erasure_is_killed(tmp_path, monkeypatch):
    database = Database("duckdb", tmp_path)
    put(database, 0, 1)
    loaded = configure(tmp_path, database, people.CHOOSE.format(most=9), late="next")
    append(loaded, 1)
    (kept,) = (tmp_path / ".grown-out.zarr").glob("rows-*")
    before = kept.read_bytes()
    monkeypatch.setattr(growth_state, "write", lambda *_: pytest.fail("stop"))
    with pytest.raises(pytest.fail.Exception):
        append(loaded, 2)
    with pytest.raises(pytest.fail.Exception):
        erasing.erase(ingest_run.look(loaded, needed=False), [10**9], lambda *_: None, ReleaseLedgers())
    assert kept.read_bytes() == before

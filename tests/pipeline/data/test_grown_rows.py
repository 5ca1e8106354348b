"""Records in parts read like one array; who has opened them reads the same for ever, whatever is appended."""

from __future__ import annotations

import json
import operator
import pickle
import threading

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.gram import OtherRecordsError
from blockveil.engine.answers.sparse import EntrySource
from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import datasets, preview
from blockveil.pipeline.data import fingerprint as prints
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.fingerprint import fingerprint, prefixes
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

RELEASE = """
release = {{dataset = "people", name = "stays"}}
data = {{store = "out.zarr"}}
privacy = {{epsilon = 1, delta = 1e-9, neighbours = "{neighbours}", unit = "{unit}"{more}}}
mechanism = {{kind = "gaussian"}}
output = {{root = "out", ledger = "ledger.db", keys = "keys"}}
[query]
kind = "covariance"
rows_at_most = 5000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{{name = "person", lower = 0, upper = 40}}, {{name = "stay", lower = 0, upper = 9000}}]
"""


def release(folder, neighbours="add-remove", unit="one visit (one row)", more=""):
    (folder / "release.toml").write_text(RELEASE.format(neighbours=neighbours, unit=unit, more=more))
    return load_config(folder / "release.toml")


def night(folder, number, unit="rows", sparse=False):
    grown.put(folder, number)
    keys = {"layout": "entries"} if sparse else {"chunk_rows": 16}
    people.run(people.configure(folder, grown.COLUMNS, unit=grown.UNITS[unit], append=True, late="next", **keys))


@pytest.mark.parametrize("sparse", [False, True])
def test_any_slice_is_that_of_all_parts_one_after_the_other(tmp_path, sparse):
    for number in range(3):
        night(tmp_path, number, sparse=sparse)
    found, rng = grown.opened(tmp_path), np.random.default_rng(1)
    whole = np.concatenate([np.asarray(part[:, :]) for part in found.parts])
    assert found.shape == whole.shape == (180, 2)
    assert isinstance(found, EntrySource) == sparse
    for _ in range(60):
        start, stop = sorted(rng.integers(0, 200, 2).tolist())
        first, last = sorted(rng.integers(0, 3, 2).tolist())
        assert np.array_equal(found[start:stop], whole[start:stop])
        assert np.array_equal(found[start:stop, first:last], whole[start:stop, first:last])
    with pytest.raises(IndexError):
        operator.itemgetter(slice(0, 10, 2))(found)
    if sparse:
        blocks = list(found.entry_blocks(50, 130, 20))
        assert sum(len(borders) - 1 for _, _, borders in blocks) == 80
        assert np.array_equal(np.concatenate([values for _, values, _ in blocks]), whole[50:130][whole[50:130] != 0])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_release_that_began_before_an_append_reads_the_old_records_to_its_end(tmp_path, sparse):
    night(tmp_path, 0, sparse=sparse)
    dataset = open_records(release(tmp_path))
    old = np.asarray(dataset.array[:])
    night(tmp_path, 1, sparse=sparse)
    dataset.check_unchanged()
    assert np.array_equal(dataset.source[0 : dataset.rows], old)
    # Another process opens the parts for itself, after the append.
    worker = pickle.loads(pickle.dumps(dataset.source))
    datasets._identified.discard(worker._opening)
    assert np.array_equal(worker[0 : dataset.rows], old)
    later = open_records(release(tmp_path))
    assert (dataset.rows, later.rows) == (60, 120)
    assert np.array_equal(later.array[:60], old)
    assert later.fingerprint != dataset.fingerprint


def test_a_worker_that_finds_other_parts_refuses(tmp_path):
    night(tmp_path, 0)
    source = pickle.loads(pickle.dumps(open_records(release(tmp_path)).source))
    datasets._identified.discard(source._opening)
    (tmp_path / "out.zarr" / "records" / "part-000000").rename(tmp_path / "away")
    with pytest.raises(OtherRecordsError):
        source[0:1]


def test_readers_during_appends_see_whole_states_only(tmp_path):
    night(tmp_path, 0)
    release(tmp_path)
    seen, failed, done = [], [], threading.Event()

    def read():
        while not done.is_set():
            try:
                seen.append(grown.records(tmp_path))
            except BaseException as error:
                failed.append(error)
                raise

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 4):
        night(tmp_path, number)
    done.set()
    reader.join()
    final = grown.records(tmp_path)
    assert failed == []
    assert {len(records) % 60 for records in seen} == {0}
    assert all(np.array_equal(records, final[: len(records)]) for records in seen)


@pytest.mark.parametrize("limit", [10**9, 2000, 0])
def test_the_records_of_an_earlier_fingerprint_are_found_again(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(prints, "CONTENT_BYTES", limit)
    states = []
    for number in range(4):
        night(tmp_path, number)
        states.append(fingerprint(grown.opened(tmp_path), limit))
    assert len(set(states)) == 4
    assert prefixes(grown.opened(tmp_path)) == states


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [61, 2]},
        {"shape": [60, 3]},
        {"parts": [["part-000000", 59]], "shape": [59, 2]},
        {"parts": [["../records/part-000000", 60]]},
        {"parts": [["part-000000", 60], ["part-000000", 60]], "shape": [120, 2]},
        {"parts": [["part-000001", 60]]},
        {"parts": [["part-000000", -60]], "shape": [-60, 2]},
        {"dtype": "<f8"},
        {"dtype": "nonsense"},
        {"chunk_rows": 0},
        {"sparse": True},
        {"sparse": 1},
        {"encoding-version": "2"},
        {"encoding-type": "something else"},
        {"parts": None},
    ],
    ids=str,
)
def test_a_manifest_that_is_not_that_of_its_parts_is_refused(tmp_path, change):
    night(tmp_path, 0)
    file = tmp_path / "out.zarr" / "records" / "zarr.json"
    fields = json.loads(file.read_bytes())
    fields["attributes"].update(change)
    file.write_text(json.dumps(fields))
    with pytest.raises((DataError, StoreError)) as caught:
        open_records(release(tmp_path))
    assert len(str(caught.value)) < 400


def test_a_chunk_that_is_missing_in_any_part_is_noticed(tmp_path):
    for number in range(3):
        night(tmp_path, number)
    (tmp_path / "out.zarr" / "records" / "part-000001" / "c" / "1" / "0").unlink()
    with pytest.raises(DataError, match="a chunk is missing"):
        open_records(release(tmp_path))


@pytest.mark.parametrize(("sparse", "inner"), [(False, ""), (True, "/data"), (True, "/indices"), (True, "/indptr")])
@pytest.mark.parametrize("number", [0, 1])
def test_an_attribute_that_changes_values_of_one_part_is_refused_by_name(tmp_path, sparse, inner, number):
    for day in range(2):
        night(tmp_path, day, sparse=sparse)
    part = zarr.open_array(tmp_path / "out.zarr" / "records" / f"part-{number:06d}{inner}", mode="r+")
    part.attrs["scale_factor"] = 0.5
    for work in (lambda: open_records(release(tmp_path)), lambda: grown.opened(tmp_path)):
        with pytest.raises(DataError, match='"scale_factor"'):
            work()


def test_a_plan_looks_at_metadata_alone_and_says_what_was_ingested(tmp_path):
    night(tmp_path, 0)
    assert "took each row as one unit" in preview.look(release(tmp_path)).sentence


def test_units_that_may_come_again_are_refused_where_the_number_of_records_is_public(tmp_path):
    grown.put(tmp_path, 0)
    people.run(grown.configure(tmp_path, people.CHOOSE.format(most=1).replace('"drop"', '"refuse"')))
    assert open_records(release(tmp_path, unit="one person")).rows > 0
    with pytest.raises(DataError, match="to which others are appended"):
        open_records(release(tmp_path, "replace-one", "one person"))


def test_rows_that_are_units_of_their_own_may_be_replaced(tmp_path):
    night(tmp_path, 0)
    assert open_records(release(tmp_path, "replace-one")).rows == 60

"""Units are erased from a store that grows: their rows are gone from the disk, and nobody else's are touched."""

from __future__ import annotations

import shutil
import stat

import numpy as np
import pytest

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.data.ingest import erasing, readers, source_rows
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import store_writer as writing
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_append_kills import Killed, kill_at, states_of_kills

LAYOUTS = {"rows": {"chunk_rows": 16}, "entries": {"layout": "entries", "chunk_rows": None}}
GONE = [3, 17, 31]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Several batches and blocks."""
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 20)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)


def configure(folder, layout="rows", **keys):
    keys = {name: value for name, value in {**LAYOUTS[layout], **keys}.items() if value is not None}
    return people.configure(folder, grown.COLUMNS, unit=grown.UNITS["chosen"], append=True, late="next", **keys)


def append(folder, number, layout="rows", without=()):
    table = grown.day(number)
    grown.put(folder, number, table.filter(~np.isin(table["person"], without)))
    people.run(configure(folder, layout))


def erase(folder, units=tuple(GONE), layout="rows"):
    return erasing.erase(look(configure(folder, layout), needed=False), units, lambda *_: None, ReleaseLedgers())


def on_disk(folder):
    """Names of all parts, and of what lies beside the store."""
    return sorted(entry.name for entry in (folder / "out.zarr" / "records").iterdir() if entry.is_dir())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rows_of_erased_units_are_gone_and_all_others_are_as_they_were(tmp_path, layout):
    for night in range(3):
        append(tmp_path, night, layout)
    before = grown.records(tmp_path)
    found = erase(tmp_path, layout=layout)
    theirs = np.isin(before[:, 0], GONE)
    assert grown.records(tmp_path).tobytes() == before[~theirs].tobytes()
    assert (found.units, found.rows) == (np.unique(before[theirs, 0]).size, theirs.sum())
    assert repr(found) == "Erasure()"
    assert on_disk(tmp_path) == ["part-000003", "part-000004", "part-000005"]
    assert people.left(tmp_path) == [".grown-out.zarr"]
    kept = list((tmp_path / ".grown-out.zarr").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in kept} == {0o600}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_store_of_which_a_unit_was_erased_goes_on_as_if_it_had_never_been_there(tmp_path, layout):
    with_it, without = tmp_path / "with", tmp_path / "without"
    for folder, left_out in ((with_it, ()), (without, GONE)):
        folder.mkdir()
        for night in range(2):
            append(folder, night, layout, left_out)
        erase(folder, layout=layout)
        for night in (2, 3, 4):
            append(folder, night, layout, left_out)
        erase(folder, [5], layout=layout)
        append(folder, 5, layout, left_out)
    assert np.isin(grown.day(3)["person"], GONE).any()  # later rows of an erased unit are dropped
    assert grown.records(with_it).tobytes() == grown.records(without).tobytes()
    sizes = np.unique(grown.records(with_it)[:, 0], return_counts=True)[1]
    assert sizes.max() == 2


def test_parts_without_a_row_of_the_units_are_not_written_again(tmp_path):
    append(tmp_path, 0)
    append(tmp_path, 1, without=GONE)
    append(tmp_path, 2)
    untouched = tmp_path / "out.zarr" / "records" / "part-000001"
    before = {file: file.stat().st_ino for file in untouched.rglob("*")}
    erase(tmp_path)
    assert {file: file.stat().st_ino for file in untouched.rglob("*")} == before
    content = grown.content(tmp_path)
    assert (erase(tmp_path).units, erase(tmp_path).rows) == (0, 0)
    assert grown.content(tmp_path) == content  # there is nothing left to do


def test_a_unit_that_had_no_row_yet_stays_out_too(tmp_path):
    append(tmp_path, 0, without=GONE)
    assert erase(tmp_path).rows == 0
    append(tmp_path, 1)
    assert not np.isin(grown.records(tmp_path)[:, 0], GONE).any()


def test_files_that_the_store_holds_may_have_lost_the_units_and_are_known_as_they_are_now(tmp_path):
    for night in range(2):
        append(tmp_path, night)
    table = grown.day(0)
    grown.put(tmp_path, 0, table.filter(~np.isin(table["person"], GONE)))
    (tmp_path / "in" / "day-01.parquet").unlink()
    with pytest.raises(DataError, match="has changed since its records were stored"):
        people.run(configure(tmp_path))
    erase(tmp_path)
    assert "already" in people.run(configure(tmp_path)).message
    grown.put(tmp_path, 0, table.slice(1))
    with pytest.raises(DataError, match="has changed since its records were stored"):
        people.run(configure(tmp_path))
    shutil.rmtree(tmp_path / "in")
    assert erase(tmp_path, [4]).units == 1  # none of them need be there


def test_units_are_erased_by_any_spelling_that_an_ingest_takes(tmp_path):
    append(tmp_path, 0)
    before = grown.records(tmp_path)[:, 0]
    erase(tmp_path, [" 03.0", 17])
    assert not np.isin(grown.records(tmp_path)[:, 0], [3, 17]).any()
    assert np.isin(before, [3, 17]).any()
    named = tmp_path / "texts"
    named.mkdir()
    table = grown.day(0)
    who = [f"p-{number}" for number in table["person"].to_pylist()]
    columns = [grown.COLUMNS[1]]
    (named / "in").mkdir()
    people.arrow_parquet.write_table(table.set_column(0, "person", [who]), named / "in" / "day.parquet")
    unit = grown.UNITS["chosen"].replace("whole", "text")
    loaded = people.configure(named, columns, unit=unit, append=True, late="next")
    people.run(loaded)
    rows = len(grown.records(named))
    found = erasing.erase(look(loaded), ["p-3"], lambda *_: None, ReleaseLedgers())
    assert (found.units, rows - len(grown.records(named))) == (1, found.rows)
    with pytest.raises(DataError, match="Identifier 2 of those to erase is no unit of type"):
        erasing.erase(look(loaded), ["p-4", "p-5 "], lambda *_: None, ReleaseLedgers())


@pytest.mark.parametrize("wrong", ["7.5", "7e0", "seven", "7\u00a0", "٧", str(2**63), "9007199254740993.0", ""])
def test_an_identifier_of_another_kind_is_refused_and_not_shown(tmp_path, wrong):
    append(tmp_path, 0)
    before = grown.content(tmp_path)
    with pytest.raises(DataError, match="Identifier 2 of those to erase is no unit of type") as refused:
        erase(tmp_path, [3, wrong])
    assert not wrong.strip() or wrong not in str(refused.value).replace("Identifier 2", "")
    assert grown.content(tmp_path) == before
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_raw_records_of_an_unfinished_append_are_removed(tmp_path, monkeypatch):
    append(tmp_path, 0)
    grown.put(tmp_path, 1)
    monkeypatch.setattr(source_rows, "run_bytes", lambda config: 700)
    with monkeypatch.context() as patch:
        kill_at(patch, 40)
        with pytest.raises(Killed):
            people.run(configure(tmp_path))
    assert any((tmp_path / ".ingest-out.zarr").rglob("*run*"))
    erase(tmp_path)
    assert people.left(tmp_path) == [".grown-out.zarr"]
    people.run(configure(tmp_path))
    assert not np.isin(grown.records(tmp_path)[:, 0], GONE).any()


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kill_at_every_boundary_leaves_all_or_nothing_and_the_same_command_finishes(tmp_path, layout):
    origin, copies = tmp_path / "origin", tmp_path / "copies"
    origin.mkdir()
    for night in range(2):
        append(origin, night, layout)
    before = grown.records(origin)
    after = before[~np.isin(before[:, 0], GONE)]
    boundaries, states = states_of_kills(origin, copies, lambda: erase(origin, layout=layout))
    assert boundaries > 20
    finished = []
    for folder in states:
        assert grown.records(folder).tobytes() in (before.tobytes(), after.tobytes())
        erase(folder, layout=layout)
        assert grown.records(folder).tobytes() == after.tobytes()
        assert set(on_disk(folder)) == {"part-000002", "part-000003"}
        assert people.left(folder) == [".grown-out.zarr"]
        content = grown.content(folder)
        if content not in finished:  # what is the same goes on in the same way
            finished.append(content)
            append(folder, 2, layout)
            assert grown.records(folder)[: len(after)].tobytes() == after.tobytes()


@pytest.mark.parametrize("layout", ["rows", pytest.param("entries", marks=pytest.mark.slow)])
def test_an_interrupt_at_any_boundary_leaves_all_or_nothing_and_the_same_command_finishes(
    tmp_path, monkeypatch, layout
):
    origin = tmp_path / "origin"
    origin.mkdir()
    for night in range(2):
        append(origin, night, layout)
    before = grown.records(origin)
    after = before[~np.isin(before[:, 0], GONE)]
    boundary, ended = 1, False
    while not ended:
        folder = tmp_path / f"{boundary}"
        shutil.copytree(origin, folder)
        with monkeypatch.context() as patch:
            kill_at(patch, boundary)
            try:
                erase(folder, layout=layout)
                ended = True
            except Killed:
                pass
        assert grown.records(folder).tobytes() in (before.tobytes(), after.tobytes())
        erase(folder, layout=layout)
        assert grown.records(folder).tobytes() == after.tobytes()
        assert set(on_disk(folder)) == {"part-000002", "part-000003"}
        assert people.left(folder) == [".grown-out.zarr"]
        append(folder, 2, layout)
        assert grown.records(folder)[: len(after)].tobytes() == after.tobytes()
        boundary += 7
    assert boundary > 20


def test_what_an_erasure_needs_is_refused_in_words_where_it_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="is not there"):
        erase(tmp_path)
    append(tmp_path, 0)
    with scratch.locked(tmp_path / "out.zarr"), pytest.raises(StoreError, match="Another ingest writes this store"):
        erase(tmp_path)


def test_a_damaged_list_of_whose_rows_they_are_is_refused(tmp_path):
    append(tmp_path, 0)
    owners = tmp_path / ".grown-out.zarr" / "units-000000-1"
    owners.write_bytes(owners.read_bytes()[:-20])
    with pytest.raises(StoreError, match="missing, damaged"):
        erase(tmp_path)


@pytest.mark.parametrize("unit", [people.ROW, people.TOGETHER.format(by="sum")])
def test_a_store_that_does_not_keep_whose_its_rows_are_is_refused(tmp_path, unit):
    grown.put(tmp_path, 0)
    loaded = people.configure(tmp_path, grown.COLUMNS, unit=unit)
    people.run(loaded)
    with pytest.raises(BlockveilError, match="does not keep whose the stored rows are"):
        erasing.erase(look(loaded), [1], lambda *_: None, ReleaseLedgers())

"""A store grows by new files: old records stay a prefix, the bound holds over all appends, and ten nights cost ten."""

from __future__ import annotations

import os
import shutil
import stat

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import source_rows
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.store_contract import Contract
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

LAYOUTS = {"rows": {}, "entries": {"layout": "entries"}}


def sizes(records):
    """Rows of each person."""
    return np.unique(records[:, 0], return_counts=True)[1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("unit", grown.UNITS)
def test_the_records_of_a_night_are_the_first_of_every_later_night(tmp_path, unit, layout):
    said, before = [], np.empty((0, 2), np.float32)
    for night in range(4):
        grown.put(tmp_path, night)
        loaded = people.configure(
            tmp_path, grown.COLUMNS, unit=grown.UNITS[unit], append=True, late="next", **LAYOUTS[layout], memory_gib=1.0
        )
        said.append(people.run(loaded).message)
        now = grown.records(tmp_path)
        assert now[: len(before)].tobytes() == before.tobytes()
        before = now
    assert said == ["read the whole source", *3 * ["appended what was new in the source"]]
    if unit == "rows":
        every = pa.concat_tables([grown.day(night) for night in range(4)])
        assert np.array_equal(before, np.column_stack([every["person"], every["stay"]]))
    assert people.left(tmp_path) == [".grown-out.zarr"]


@pytest.mark.parametrize("unit", grown.UNITS)
def test_a_file_that_is_stored_is_passed_over_though_it_was_copied_anew(tmp_path, unit):
    grown.put(tmp_path, 0)
    loaded = grown.configure(tmp_path, unit)
    people.run(loaded)
    before = grown.content(tmp_path)
    assert "already" in people.run(loaded).message
    os.utime(tmp_path / "in" / "day-00.parquet")
    source = look(loaded)
    assert "already" in ingest(source, lambda stage, share: None).message
    assert (source.counts.new_files, source.counts.held_files, source.counts.read) == (0, 1, 0)
    assert grown.content(tmp_path) == before


def test_a_file_that_changed_and_a_copy_under_another_name_are_refused_and_the_store_stays(tmp_path):
    grown.put(tmp_path, 0)
    loaded = grown.configure(tmp_path)
    people.run(loaded)
    before = grown.content(tmp_path)
    grown.put(tmp_path, 0, grown.day(7))
    with pytest.raises(DataError, match=r'"day-00\.parquet" has changed since its records were stored'):
        people.run(loaded)
    grown.put(tmp_path, 0)
    shutil.copy(tmp_path / "in" / "day-00.parquet", tmp_path / "in" / "day-01.parquet")
    with pytest.raises(DataError, match="holds all or most rows of one of its files once more"):
        people.run(loaded)
    assert grown.content(tmp_path) == before
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_two_days_without_a_record_are_alike_and_no_copies(tmp_path):
    loaded = grown.configure(tmp_path)
    for night, rows in enumerate((60, 0, 0, 60)):
        grown.put(tmp_path, night, grown.day(night, rows))
        people.run(loaded)
    assert len(grown.opened(tmp_path).manifest.parts) == 4
    assert sizes(grown.records(tmp_path)).max() == 2


def test_a_file_that_is_listed_twice_is_stored_once(tmp_path):
    grown.put(tmp_path, 0)
    source = 'kind = "parquet"\nfiles = ["in", "in/*.parquet", "in/day-00.parquet"]'
    people.run(people.configure(tmp_path, grown.COLUMNS, source, append=True, late="next"))
    assert len(grown.records(tmp_path)) == 60


@pytest.mark.parametrize("memory", ["held", "on disk"])
def test_the_bound_on_the_rows_of_a_unit_holds_over_all_appends(tmp_path, monkeypatch, memory):
    if memory == "on disk":
        monkeypatch.setattr(source_rows, "run_bytes", lambda config: 700)
    loaded = grown.configure(tmp_path)
    for night in range(6):
        grown.put(tmp_path, night)
        people.run(loaded)
    kept, every = grown.records(tmp_path), pa.concat_tables([grown.day(night) for night in range(6)])
    rows_of = np.bincount(every["person"].to_numpy(), minlength=40)
    assert np.array_equal(np.bincount(kept[:, 0].astype(int), minlength=40), np.minimum(rows_of, 2))
    stored = {tuple(row) for row in kept}
    assert stored <= set(zip(every["person"].to_pylist(), every["stay"].to_pylist(), strict=True))
    assert [file.appends for file in grown.state(tmp_path).units] == [4, 1, 1]


def test_neither_memory_nor_the_size_of_runs_changes_a_bit(tmp_path, monkeypatch):
    found = []
    for size in (10**9, 500, 3000):
        monkeypatch.setattr(source_rows, "run_bytes", lambda config, size=size: size)
        folder = tmp_path / str(size)
        folder.mkdir()
        loaded = grown.configure(folder)
        for night in range(3):
            grown.put(folder, night)
            people.run(loaded)
        found.append(grown.records(folder).tobytes())
    assert len(set(found)) == 1


@settings(max_examples=8, deadline=None)
@given(
    days=st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=4),
    most=st.integers(1, 3),
    gone=st.integers(0, 4),
)
def test_a_unit_more_or_less_changes_its_own_rows_alone_and_at_most_k_of_them_in_all_appends(
    tmp_path_factory, days, most, gone
):
    stores = []
    for without in (None, gone):
        folder = tmp_path_factory.mktemp("days")
        loaded = grown.configure(folder, people.CHOOSE.format(most=most), chunk_rows=64)
        # Another person is there every day, so that there is a store in any case.
        for night, who in enumerate(days):
            rows = [(p, 100 * night + n) for n, p in enumerate([*who, 9]) if p != without]
            columns = np.array(rows, np.int64)
            grown.put(folder, night, pa.table({"person": columns[:, 0], "stay": columns[:, 1]}))
            people.run(loaded)
        stores.append(grown.records(folder))
    with_one, without_one = stores
    own = with_one[:, 0] == gone
    assert own.sum() <= most
    # The last column numbers rows by their place, which another's row before them moves: whose they are must agree.
    assert np.array_equal(with_one[~own][:, 0], without_one[:, 0])


def test_what_is_kept_beside_the_store_is_private_and_names_nobody(tmp_path):
    names = pa.array([f"canary-{number}" for number in range(60)])
    loaded = people.configure(
        tmp_path,
        grown.COLUMNS[1:],
        unit=people.CHOOSE.format(most=2).replace('"person"', '"name"').replace('"whole"', '"text"'),
        append=True,
        late="next",
    )
    for night in range(3):
        grown.put(tmp_path, night, grown.day(night).append_column("name", names))
        people.run(loaded)
    folder = tmp_path / ".grown-out.zarr"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "out.zarr").stat().st_mode) == 0o700
    content = grown.content(tmp_path)
    assert not any(b"canary" in bits for bits in content.values())
    # The readers of the records learn neither from which files they are, nor whose.
    assert not any(b"day-0" in bits for name, bits in content.items() if name.startswith("out.zarr"))


@pytest.mark.parametrize("harm", ["missing", "units", "state", "key", "older", "foreign"])
def test_a_state_that_is_lost_or_damaged_stops_all_appends(tmp_path, harm):
    loaded = grown.configure(tmp_path)
    for night in range(2):
        grown.put(tmp_path, night)
        people.run(loaded)
        if night == 0:
            shutil.copytree(tmp_path / ".grown-out.zarr", tmp_path / "older")
    folder = tmp_path / ".grown-out.zarr"
    if harm == "units":
        file = next(folder.glob("units-*"))
        file.write_bytes(file.read_bytes()[:-20])
    elif harm == "state":
        file = next(folder.glob("state-*"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "key":
        (folder / "identity").unlink()
    else:
        folder.rename(tmp_path / "away")
        if harm == "older":
            shutil.copytree(tmp_path / "older", folder)
        elif harm == "foreign":
            folder.symlink_to(tmp_path / "away")
    before = {name: bits for name, bits in grown.files(tmp_path).items() if name.startswith("out.zarr")}
    grown.put(tmp_path, 2)
    with pytest.raises(StoreError) as caught:
        people.run(loaded)
    assert len(str(caught.value)) < 400
    after = {name: bits for name, bits in grown.files(tmp_path).items() if name.startswith("out.zarr")}
    assert after == before


def test_an_append_by_other_rules_names_what_differs(tmp_path):
    grown.put(tmp_path, 0)
    people.run(grown.configure(tmp_path))
    grown.put(tmp_path, 1)
    for changed, named in (
        (grown.configure(tmp_path, people.CHOOSE.format(most=3)), "unit.rows_at_most"),
        (grown.configure(tmp_path, dtype="float64"), "ingest.dtype"),
        (
            people.configure(tmp_path, grown.COLUMNS[:1], unit=grown.UNITS["chosen"], append=True, late="next"),
            "columns",
        ),
    ):
        with pytest.raises(StoreError, match=named):
            people.run(changed)
    assert "appended" in people.run(grown.configure(tmp_path, memory_gib=0.7)).message


def test_a_store_that_was_made_without_append_does_not_grow(tmp_path):
    grown.put(tmp_path, 0)
    people.run(people.configure(tmp_path, grown.COLUMNS, unit=grown.UNITS["chosen"]))
    with pytest.raises(StoreError, match="is not a store that grows"):
        people.run(grown.configure(tmp_path))
    assert "append" not in people.bits(tmp_path)["records/zarr.json"].decode()
    assert "grows" not in people.bits(tmp_path)["records/zarr.json"].decode()


def test_one_record_of_all_rows_of_a_unit_cannot_grow(tmp_path):
    with pytest.raises(ConfigError, match=r"ingest\.append"):
        grown.configure(tmp_path, people.TOGETHER.format(by="sum"))


def test_the_contract_says_that_the_store_grows(tmp_path):
    grown.put(tmp_path, 0)
    people.run(grown.configure(tmp_path))
    contract = Contract.of(grown.opened(tmp_path))
    assert contract.grows
    assert contract.by == "choose"


@pytest.mark.parametrize("layout", ["names", "folders"])
def test_a_day_that_comes_late_is_refused_or_counts_from_the_next_release_on_as_the_config_says(tmp_path, layout):
    def put(number):
        grown.put(tmp_path, number)
        if layout == "folders":
            folder = tmp_path / "in" / f"day=2026-11-{10 + number}"
            folder.mkdir()
            (tmp_path / "in" / f"day-{number:02d}.parquet").rename(folder / "part.parquet")

    put(3)
    people.run(grown.configure(tmp_path, "rows", late="refuse"))
    put(4)
    people.run(grown.configure(tmp_path, "rows", late="refuse"))
    before, kept = grown.records(tmp_path), grown.content(tmp_path)
    put(1)
    with pytest.raises(DataError, match="is late: its name comes before") as caught:
        people.run(grown.configure(tmp_path, "rows", late="refuse"))
    assert len(str(caught.value)) < 400
    assert grown.content(tmp_path) == kept
    assert Contract.of(grown.opened(tmp_path)).late == "refuse"
    people.run(grown.configure(tmp_path, "rows", late="next"))
    now = grown.records(tmp_path)
    assert np.array_equal(now[: len(before)], before)
    assert np.array_equal(now[len(before) :, 1], np.arange(60) + 1000)
    assert Contract.of(grown.opened(tmp_path)).late == "next"


def test_what_becomes_of_late_files_has_no_default_and_no_meaning_without_append(tmp_path):
    for keys in ({"append": True}, {"late": "next"}, {"append": False, "late": "refuse"}):
        with pytest.raises(ConfigError, match=r"ingest\.late"):
            people.configure(tmp_path, grown.COLUMNS, **keys)


def written():
    """Bytes that this process has handed to the operating system to write."""
    with open("/proc/self/io") as file:
        return int(dict(line.split(": ") for line in file.read().splitlines())["wchar"])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the system does not count what a process writes")
@pytest.mark.parametrize("unit", grown.UNITS)
def test_ten_nights_cost_what_ten_parts_cost(tmp_path, unit):
    persons = 4000  # others every night: what is known of units grows too

    def table(night):
        rows = grown.day(night, 6000, persons)
        return rows.set_column(0, "person", pa.array(rows["person"].to_numpy() + persons * night))

    def cost(folder):
        source, start = look(grown.configure(folder, unit, chunk_rows=3000)), written()
        ingest(source, lambda stage, share: None)
        return written() - start, source.counts.read

    (tmp_path / "alone").mkdir()
    grown.put(tmp_path / "alone", 0, table(0))
    part, _ = cost(tmp_path / "alone")
    nights = []
    for night in range(10):
        grown.put(tmp_path, night, table(night))
        nights.append(cost(tmp_path))
    assert [read for _, read in nights] == 10 * [6000]
    # Of two narrow columns and of persons who are new every night, so that as much as possible is known of units.
    assert sum(cost for cost, _ in nights) < 15 * part, "and not 55 times as much"
    assert nights[9][0] < 1.5 * part  # a list of files and parts grows, by a line each


def test_an_append_touches_none_of_the_parts_before_it(tmp_path):
    loaded = grown.configure(tmp_path)
    for night in range(3):
        grown.put(tmp_path, night)
        people.run(loaded)
    folder = tmp_path / "out.zarr" / "records" / "part-000001"
    for name in ("c", "zarr.json"):
        (folder / name).rename(tmp_path / name)
    grown.put(tmp_path, 3)
    people.run(loaded)
    for name in ("c", "zarr.json"):
        (tmp_path / name).rename(folder / name)
    assert len(grown.opened(tmp_path).manifest.parts) == 4


def test_an_ingest_that_works_on_the_store_keeps_another_out(tmp_path):
    grown.put(tmp_path, 0)
    loaded = grown.configure(tmp_path)
    with scratch.locked(loaded.target), pytest.raises(StoreError, match="Another ingest"):
        people.run(loaded)
    assert "read the whole source" in people.run(loaded).message

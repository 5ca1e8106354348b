"""A store grows by what was appended to a Delta or Iceberg table, once, whatever compactions did to its files."""

import json
from datetime import date
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.data.ingest import appending
from blockveil.pipeline.data.ingest.erasing import erase
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.releases.renewing import ReleaseLedgers
from tests.pipeline.data.ingest import growing_support as growing
from tests.pipeline.data.ingest import ingest_support as people


class Delta:
    """A Delta table to which each day is appended."""

    def __init__(self, folder):
        self.place = str(folder / "clinic")
        self.source = 'kind = "delta"\ntable = "clinic"'

    def append(self, rows):
        deltalake.write_deltalake(self.place, rows, mode="append")

    def compact(self):
        deltalake.DeltaTable(self.place).optimize.compact()

    def delete(self, which):
        deltalake.DeltaTable(self.place).delete(which)

    def undo(self):
        table = deltalake.DeltaTable(self.place)
        table.restore(table.version() - 1)

    def forget(self):
        """Remove what the log says of the commits in between."""
        deltalake.DeltaTable(self.place).create_checkpoint()
        for file in sorted((Path(self.place) / "_delta_log").glob("*.json"))[:-1]:
            file.unlink()

    def remake(self, rows):
        for file in sorted(Path(self.place).rglob("*")):
            if file.is_file():
                file.unlink()
        self.append(rows)

    def close(self):
        pass


class Iceberg:
    """An Iceberg table to which each day is appended."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "lake").mkdir()
        self.catalog = SqlCatalog("clinic", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
        self.catalog.create_namespace("clinic")
        self.table = None

    @property
    def source(self):
        return f'kind = "iceberg"\ntable = "{self.metadata.relative_to(self.folder)}"'

    @property
    def metadata(self):
        return Path(self.table.refresh().metadata_location.removeprefix("file://"))

    def append(self, rows):
        if self.table is None:
            self.table = self.catalog.create_table("clinic.visits", schema=rows.schema)
        self.table.append(rows)

    def compact(self):
        """Write all rows anew, as the library cannot by itself, and say so as whoever compacts says it."""
        known = {each.snapshot_id for each in self.table.metadata.snapshots}
        self.table.overwrite(self.table.scan().to_arrow())
        content = json.loads(self.metadata.read_text())
        for each in content["snapshots"]:
            if each["snapshot-id"] not in known:
                each["summary"]["operation"] = "replace"
        self.metadata.write_text(json.dumps(content))

    def delete(self, which):
        self.table.delete(which)

    def undo(self):
        """Delete the rows of the last day, with their file."""
        self.table.delete(f"stay >= {max(self.table.scan().to_arrow()['stay'].to_pylist()) // 1000 * 1000}")

    def forget(self):
        old = self.table.metadata.snapshots[:-1]
        self.table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()

    def remake(self, rows):
        self.catalog.drop_table("clinic.visits")
        self.table = None
        self.append(rows)

    def close(self):
        self.catalog.engine.dispose()


@pytest.fixture(params=[Delta, Iceberg])
def lake(tmp_path, request):
    made = request.param(tmp_path)
    made.append(growing.day(0))
    yield made
    made.close()


def configure(folder, lake, unit="rows", columns=growing.COLUMNS, **keys):
    keys = {"append": True, "late": "next", "chunk_rows": 16, **keys}
    return people.configure(folder, columns, lake.source, unit=growing.UNITS[unit], **keys)


def night(folder, lake, unit="rows"):
    return people.run(configure(folder, lake, unit)).message


def rows_of(*days):
    return np.array([list(row.values()) for one in days for row in growing.day(one).to_pylist()], np.float32)


def test_each_night_takes_in_what_was_appended_to_the_table_behind_all_earlier_records(tmp_path, lake):
    night(tmp_path, lake)
    lake.append(growing.day(1))
    lake.append(growing.day(2))
    assert night(tmp_path, lake) == "appended what was new in the source"
    assert night(tmp_path, lake) == "the store holds every file of the source already; nothing was read"
    lake.append(growing.day(3))
    night(tmp_path, lake)
    assert np.array_equal(growing.records(tmp_path), rows_of(0, 1, 2, 3))


def test_a_compaction_adds_nothing_and_hides_nothing(tmp_path, lake):
    night(tmp_path, lake)
    lake.append(growing.day(1))
    lake.compact()  # of rows that are stored together with rows that are not
    night(tmp_path, lake)
    lake.compact()
    assert "nothing was read" in night(tmp_path, lake)
    lake.append(growing.day(2))
    night(tmp_path, lake)
    assert np.array_equal(growing.records(tmp_path), rows_of(0, 1, 2))


def test_rows_that_are_not_stored_yet_may_be_corrected_in_the_table(tmp_path, lake):
    night(tmp_path, lake)
    lake.append(growing.day(1))
    wrong = growing.day(2).to_pandas()
    wrong["person"] = [None, *wrong["person"][1:]]
    lake.append(pa.Table.from_pandas(wrong.astype({"person": "Int64"}), preserve_index=False))
    before = growing.content(tmp_path)
    with pytest.raises(DataError, match='column "person"'):
        night(tmp_path, lake)
    assert growing.content(tmp_path) == before
    lake.undo()
    lake.append(growing.day(3))
    lake.delete("stay = 3000")
    night(tmp_path, lake)
    assert np.array_equal(growing.records(tmp_path), np.delete(rows_of(0, 1, 3), 120, axis=0))


def test_the_bound_on_the_rows_of_a_unit_holds_over_all_appends(tmp_path, lake):
    night(tmp_path, lake, "chosen")
    for number in (1, 2):
        lake.append(growing.day(number))
        night(tmp_path, lake, "chosen")
    persons, rows = np.unique(growing.records(tmp_path)[:, 0], return_counts=True)
    seen, each = np.unique(rows_of(0, 1, 2)[:, 0], return_counts=True)
    assert persons.tolist() == seen.tolist()
    assert rows.tolist() == np.minimum(each, 2).tolist()


def test_a_commit_that_changes_rows_that_are_stored_is_refused_and_the_store_stays(tmp_path, lake):
    night(tmp_path, lake)
    before = growing.content(tmp_path)
    lake.append(growing.day(1))
    lake.delete("stay = 7")
    with pytest.raises(DataError, match="by a commit that deletes, updates or overwrites rows"):
        night(tmp_path, lake)
    assert growing.content(tmp_path) == before


def test_a_table_whose_history_is_gone_or_that_is_another_one_is_refused(tmp_path, lake):
    night(tmp_path, lake)
    lake.append(growing.day(1))
    lake.append(growing.day(2))
    lake.forget()
    with pytest.raises(DataError, match="does not lead from the version that the store holds"):
        night(tmp_path, lake)
    lake.remake(growing.day(0))
    with pytest.raises(DataError, match="is another table than the one that the store holds"):
        night(tmp_path, lake)
    assert np.array_equal(growing.records(tmp_path), rows_of(0))


def test_looking_at_a_table_night_after_night_outlives_its_history(tmp_path, lake):
    night(tmp_path, lake)
    lake.compact()
    assert "nothing was read" in night(tmp_path, lake)
    lake.forget()
    lake.append(growing.day(1))
    night(tmp_path, lake)
    assert np.array_equal(growing.records(tmp_path), rows_of(0, 1))


def test_a_column_that_takes_the_name_of_another_is_not_added_to_it(tmp_path):
    lake = Iceberg(tmp_path)
    lake.append(growing.day(0))
    night(tmp_path, lake)
    for old, new in (("stay", "before"), ("person", "stay"), ("before", "person")):
        with lake.table.update_schema() as update:
            update.rename_column(old, new)
    lake.append(growing.day(1))
    with pytest.raises(DataError, match="or has other columns now"):
        night(tmp_path, lake)
    lake.close()


def test_a_version_before_the_one_that_is_stored_is_refused(tmp_path):
    lake = Delta(tmp_path)
    for number in (0, 1):
        lake.append(growing.day(number))
    night(tmp_path, lake)
    lake.source += "\nversion = 0"
    with pytest.raises(DataError, match="Name a later version"):
        night(tmp_path, lake)


def test_an_erased_unit_is_gone_and_the_table_goes_on(tmp_path, lake):
    night(tmp_path, lake, "chosen")
    lake.append(growing.day(1))
    night(tmp_path, lake, "chosen")
    lake.delete("person = 7")
    source = look(configure(tmp_path, lake, "chosen"), needed=False)
    assert erase(source, ["7"], lambda *_: None, ReleaseLedgers()).units == 1
    assert 7 not in growing.records(tmp_path)[:, 0]
    others = growing.records(tmp_path)
    lake.append(growing.day(2))
    night(tmp_path, lake, "chosen")
    assert np.array_equal(growing.records(tmp_path)[: len(others)], others)
    assert 7 not in growing.records(tmp_path)[:, 0]
    lake.delete("person = 8")
    with pytest.raises(DataError, match="deletes, updates or overwrites rows"):
        night(tmp_path, lake, "chosen")


@pytest.mark.parametrize("lake", [Delta], indirect=True)
def test_a_kill_before_any_file_is_replaced_is_finished_by_the_next_run(tmp_path, lake, monkeypatch):
    night(tmp_path, lake)
    old = growing.content(tmp_path)
    lake.append(growing.day(1))
    replace_file, left = durable.replace_file, 0

    def killed(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return replace_file(*arguments)

    monkeypatch.setattr(appending.durable, "replace_file", killed)
    for kept in range(50):
        left = kept
        try:
            night(tmp_path, lake)
        except KeyboardInterrupt:
            assert growing.content(tmp_path).items() >= {k: v for k, v in old.items() if "out.zarr/" in k}.items()
        else:
            assert kept >= 2
            break
    assert np.array_equal(growing.records(tmp_path), rows_of(0, 1))


def test_values_of_partitions_of_every_night_are_spelled_alike(tmp_path):
    lake, keys = Delta(tmp_path), {"ward": ["a b/%"], "floor": [7], "day": [date(2026, 1, 2)], "urgent": [True]}
    for cost in (1.0, 2.0):
        rows = pa.table({"cost": [cost], **keys})
        deltalake.write_deltalake(lake.place, rows, mode="append", partition_by=["ward", "floor", "day", "urgent"])
        spelled = [
            {"name": "ward", "categories": ["a b/%"]},
            {"name": "floor", "categories": ["7"]},
            {"name": "day", "categories": ["2026-01-02"]},
            {"name": "urgent", "categories": ["True"]},
        ]
        policies = {"kind": "category", "unknown": "refuse", "missing": "refuse", "encode": "one-hot"}
        columns = [people.NUMBER, *({**one, **policies} for one in spelled)]
        people.run(configure(tmp_path, lake, columns=columns))
    assert growing.records(tmp_path).tolist() == [[1, 1, 1, 1, 1], [2, 1, 1, 1, 1]]


def test_a_file_that_was_appended_and_is_gone_is_refused(tmp_path):
    lake = Delta(tmp_path)
    lake.append(growing.day(0))
    night(tmp_path, lake)
    lake.append(growing.day(1))
    lake.compact()
    deltalake.DeltaTable(lake.place).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(StoreError, match="before the table's old files are removed"):
        night(tmp_path, lake)


@pytest.mark.parametrize("line", ["{", "[]", '{"add": {}}', '{"add": {"path": "x"}, "remove": {}}', '{"new": {}}'])
def test_a_commit_that_cannot_be_understood_is_refused(tmp_path, line):
    lake = Delta(tmp_path)
    lake.append(growing.day(0))
    night(tmp_path, lake)
    lake.append(growing.day(1))
    source = look(configure(tmp_path, lake))
    (Path(lake.place) / "_delta_log" / f"{1:020d}.json").write_text(line)
    with pytest.raises((DataError, StoreError)):
        source.table.since(appending.growth_state.TablePoint(source.table.name, "0"))


def test_that_records_of_a_table_come_late_cannot_be_refused(tmp_path):
    with pytest.raises(ConfigError, match=r'ingest\.late: "refuse" with source\.kind = "delta"'):
        configure(tmp_path, Delta(tmp_path), late="refuse")

"""An Iceberg table is ingested as the Parquet files that one of its snapshots names."""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.types import DoubleType, IntegerType
from pyiceberg.utils.config import Config

from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from tests.pipeline.data.ingest import ingest_support as people

COST = [people.NUMBER]


class Clinic:
    """A warehouse with one table."""

    def __init__(self, folder):
        self.folder, self.place = folder, folder / "a ware house"
        self.place.mkdir()
        self.address = f"sqlite:///{folder}/catalog.db"
        self.catalog = SqlCatalog("clinic", uri=self.address, warehouse=f"file://{self.place}")
        self.catalog.create_namespace("clinic")
        self.rows = people.visits()
        self.table = self.catalog.create_table("clinic.visits", schema=self.rows.schema)

    def source(self, more=""):
        """``[source]`` by the newest metadata file."""
        place = self.table.refresh().metadata_location.removeprefix("file://")
        return f'kind = "iceberg"\ntable = "{Path(place).relative_to(self.folder)}"\n{more}'


@pytest.fixture
def clinic(tmp_path):
    made = Clinic(tmp_path)
    made.table.append(made.rows.slice(0, 300))
    made.table.append(made.rows.slice(300))
    yield made
    made.catalog.engine.dispose()


def costs(folder):
    return sorted(people.stored(folder)[:, 0].tolist())


def expected(rows):
    return sorted(pa.array(rows["cost"].to_pylist(), pa.float32()).to_pylist())


def test_a_table_becomes_the_store_that_its_files_would_become(tmp_path, clinic):
    people.run(people.configure(tmp_path, people.COLUMNS, clinic.source()))
    found = people.stored(tmp_path).copy()
    shutil.rmtree(tmp_path / "out.zarr")
    people.write_parquet(tmp_path, clinic.rows)
    people.run(people.configure(tmp_path, people.COLUMNS))
    assert found.tobytes() == people.stored(tmp_path).tobytes()


def test_each_snapshot_has_its_own_rows_also_of_what_was_deleted_later(tmp_path, clinic):
    first, second = (snapshot.snapshot_id for snapshot in clinic.table.metadata.snapshots)
    clinic.table.delete("stay > 20")
    kept = clinic.rows.filter(pa.compute.less_equal(clinic.rows["stay"], 20))
    for number, rows in ((first, clinic.rows.slice(0, 300)), (second, clinic.rows), (None, kept)):
        more = "" if number is None else f"snapshot = {number}"
        people.run(people.configure(tmp_path, COST, clinic.source(more)))
        assert costs(tmp_path) == expected(rows)
        shutil.rmtree(tmp_path / "out.zarr")


def test_what_is_appended_while_it_is_read_is_not_read(tmp_path, clinic):
    source = look(people.configure(tmp_path, COST, clinic.source()))
    clinic.table.append(clinic.rows)
    ingest(source, lambda stage, share: None)
    assert costs(tmp_path) == expected(clinic.rows)


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, clinic):
    source = look(people.configure(tmp_path, COST, clinic.source()))
    file = min(clinic.place.rglob("*.parquet"))
    os.utime(file, ns=(1, 1))
    with pytest.raises(DataError, match="changed while it was read"):
        ingest(source, lambda stage, share: None)
    assert not (tmp_path / "out.zarr").exists()


def test_a_catalog_of_the_environment_names_the_table(tmp_path, clinic, monkeypatch):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_CATALOG__CLINIC__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__CLINIC__URI", clinic.address)
    source = 'kind = "iceberg"\ncatalog = "clinic"\ntable = "clinic.visits"'
    with pytest.raises(StoreError, match="cannot be read as an Iceberg table"):
        people.run(people.configure(tmp_path, COST, source))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read when a process starts
    people.run(people.configure(tmp_path, COST, source))
    assert costs(tmp_path) == expected(clinic.rows)


def test_settings_in_the_present_folder_are_refused_before_they_are_read(tmp_path, clinic, monkeypatch):
    loaded = people.configure(tmp_path, COST, clinic.source())
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  clinic:\n    py-catalog-impl: evil.Catalog\n")
    with pytest.raises(StoreError, match="which PyIceberg would obey"):
        people.run(loaded)
    monkeypatch.setenv("HOME", str(tmp_path))
    people.run(loaded)
    assert costs(tmp_path) == expected(clinic.rows)


def test_a_folder_that_says_itself_what_is_newest_is_read_and_another_is_refused(tmp_path, clinic):
    folder = clinic.place / "clinic" / "visits"
    source = f'kind = "iceberg"\ntable = "{folder.relative_to(tmp_path)}"'
    with pytest.raises(StoreError, match="its catalog alone knows"):
        people.run(people.configure(tmp_path, COST, source))
    newest = Path(clinic.table.metadata_location).name.removesuffix(".metadata.json")
    (folder / "metadata" / "version-hint.text").write_text(newest)
    people.run(people.configure(tmp_path, COST, source))
    assert costs(tmp_path) == expected(clinic.rows)


def renamed(clinic):
    with clinic.table.update_schema() as update:
        update.rename_column("cost", "price")
        update.rename_column("stay", "cost")


def replaced(clinic):
    with clinic.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("cost")
    with clinic.table.update_schema() as update:
        update.add_column("cost", DoubleType())


def dropped(clinic):
    with clinic.table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("cost")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (renamed, r'does not have column "cost" as the table has it now'),
        (replaced, r'does not have column "cost" as the table has it now'),
        (dropped, 'source.table ".*" does not have column "cost"'),
    ],
)
def test_no_other_column_is_read_under_a_name(tmp_path, clinic, change, said):
    change(clinic)
    with pytest.raises(DataError, match=said):
        people.run(people.configure(tmp_path, COST, clinic.source()))


def test_a_snapshot_of_before_has_its_own_columns(tmp_path, clinic):
    number = clinic.table.current_snapshot().snapshot_id
    dropped(clinic)
    clinic.table.append(clinic.rows.drop_columns(["cost"]))
    people.run(people.configure(tmp_path, COST, clinic.source(f"snapshot = {number}")))
    assert costs(tmp_path) == expected(clinic.rows)


def test_columns_that_nobody_reads_may_have_changed(tmp_path, clinic):
    with clinic.table.update_schema() as update:
        update.rename_column("urgent", "soon")
        update.add_column("day", IntegerType())
    people.run(people.configure(tmp_path, COST, clinic.source()))
    assert costs(tmp_path) == expected(clinic.rows)


def test_files_that_were_added_without_numbers_of_columns_are_refused(tmp_path, clinic):
    place = clinic.place / "clinic" / "visits" / "data" / "foreign.parquet"
    parquet.write_table(clinic.rows, place)
    clinic.table.add_files([f"file://{place}"])
    with pytest.raises(DataError, match="taken from other tables"):
        people.run(people.configure(tmp_path, COST, clinic.source()))


@pytest.mark.parametrize("kind", [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES])
def test_rows_that_are_deleted_beside_the_files_are_refused(tmp_path, clinic, monkeypatch, kind):
    monkeypatch.setattr("pyiceberg.manifest.DataFile.content", kind)
    with pytest.raises(DataError, match="deleted rows that are still in its files"):
        people.run(people.configure(tmp_path, COST, clinic.source()))


def test_what_was_copied_lacks_a_file_or_names_one_elsewhere_is_refused(tmp_path, clinic, monkeypatch):
    shutil.copytree(clinic.place, tmp_path / "copy")
    source = clinic.source().replace("a ware house", "copy")
    with pytest.raises(DataError, match="moved or copied"):
        people.run(people.configure(tmp_path, COST, source))
    file = min(clinic.place.rglob("*.parquet"))
    file.rename(tmp_path / "hidden.parquet")
    with pytest.raises(StoreError, match="a file that its snapshot names is not there"):
        people.run(people.configure(tmp_path, COST, clinic.source()))
    file.symlink_to(tmp_path / "hidden.parquet")
    with pytest.raises(DataError, match="names a file elsewhere"):
        people.run(people.configure(tmp_path, COST, clinic.source()))


@pytest.mark.parametrize("place", ["{}/hidden.avro", "s3://elsewhere/hidden.avro", "http://127.0.0.1:1/hidden.avro"])
def test_metadata_that_name_manifests_elsewhere_reach_nothing(tmp_path, clinic, place):
    file = Path(clinic.table.metadata_location.removeprefix("file://"))
    listed = clinic.table.current_snapshot().manifest_list
    shutil.copy(listed.removeprefix("file://"), tmp_path / "hidden.avro")
    file.write_text(file.read_text().replace(listed, place.format(tmp_path)))
    with pytest.raises(DataError, match=r"names a file elsewhere|a store of another kind"):
        people.run(people.configure(tmp_path, COST, clinic.source()))


@pytest.mark.parametrize("content", ["", "{}", '{"format-version": 9}', "[1, 2", people.CANARY])
def test_what_is_no_table_is_refused_without_its_content(tmp_path, content):
    (tmp_path / "x.metadata.json").write_text(str(content))
    with pytest.raises(StoreError, match="cannot be read as an Iceberg table") as caught:
        people.run(people.configure(tmp_path, COST, 'kind = "iceberg"\ntable = "x.metadata.json"'))
    assert str(people.CANARY) not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("keys", [{}, {"append": True, "late": "next"}])
def test_a_table_without_a_snapshot_holds_no_record(tmp_path, keys):
    clinic = Clinic(tmp_path)
    with pytest.raises(DataError, match="holds no record to store"):
        people.run(people.configure(tmp_path, COST, clinic.source(), **keys))
    clinic.catalog.engine.dispose()

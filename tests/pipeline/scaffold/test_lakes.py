"""Of a Delta or Iceberg table the names of its columns are read, and nothing else."""

import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import delta_files, iceberg_files
from blockveil.pipeline.data.ingest.files import SourceFile
from blockveil.pipeline.scaffold.column_names import read_columns
from blockveil.pipeline.scaffold.folder import BegunFolder, begin, compose
from blockveil.pipeline.scaffold.written_folder import write
from tests.pipeline.scaffold import scaffold_support as first

CANARY = "271828182845904"


def rows(*values):
    return pa.table({name: pa.array(values, pa.string()) for name in first.NAMES})


def iceberg(folder, *appends):
    """A table whose folder says which of its metadata files is the newest; its catalog."""
    catalog = SqlCatalog("clinic", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
    catalog.create_namespace("clinic")
    table = catalog.create_table("clinic.visits", rows().schema, location=f"file://{folder}/visits")
    for each in appends:
        table.append(each)
    newest = Path(table.refresh().metadata_location.removeprefix("file://"))
    newest.with_name("version-hint.text").write_text(newest.name.removesuffix(".metadata.json"))
    catalog.engine.dispose()
    return newest


def delta(folder, *appends):
    """A table whose log names its files."""
    for each in appends:
        deltalake.write_deltalake(str(folder / "visits"), each, mode="append", partition_by=["ward"])


ONE = [rows(CANARY, "a")]
OTHER = [rows("x"), rows(None, "y", "z"), rows(*map(str, range(9)))]


@pytest.fixture(params=[delta, iceberg])
def lake(request):
    return request.param


def folder(tmp_path, name):
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_two_lakes_with_the_same_names_give_the_same_configs(tmp_path, lake):
    found = []
    for name, appends in (("one", ONE), ("other", OTHER)):
        lake(folder(tmp_path, name), *appends)
        source = read_columns("visits", tmp_path / name)
        assert (source.kind, source.names) == (lake.__name__, first.NAMES)
        found.append(dict(first.made(tmp_path / name, source).files))
    assert found[0] == found[1]
    assert CANARY not in str(found)


def test_no_file_and_no_list_of_files_is_opened(tmp_path, lake, monkeypatch):
    lake(tmp_path, *OTHER)
    asked, plain = [], SourceFile.open
    monkeypatch.setattr(SourceFile, "open", lambda self: asked.append(self.location) or plain(self))
    monkeypatch.setattr(delta_files, "_added", None)
    monkeypatch.setattr(iceberg_files, "_listed", None)
    for path in (tmp_path / "visits").rglob("*"):
        if path.suffix in (".parquet", ".avro"):
            path.write_bytes(b"")
    assert read_columns("visits", tmp_path).names == first.NAMES
    assert [Path(place).suffix for place in asked] in ([], [".text", ".json"])


def test_the_folder_that_is_written_reads_the_lake(tmp_path, lake):
    lake(tmp_path, *ONE)
    begun = BegunFolder(first.given(), read_columns("visits", tmp_path), tmp_path / "begun", tmp_path)
    made = compose(begun, begun.given)
    write(made)
    source = load_ingest(made.folder / "ingest.toml").config.source
    assert (source.kind, (made.folder / source.table).resolve()) == (lake.__name__, tmp_path / "visits")


def test_a_metadata_file_and_a_catalog_name_a_table(tmp_path, monkeypatch):
    newest = iceberg(tmp_path, *ONE)
    place = str(newest.relative_to(tmp_path))
    assert read_columns(place, tmp_path).names == first.NAMES
    assert begin(place, {}, tmp_path, Path("o"), first.GIVEN["first"]).given.dataset == "o"
    monkeypatch.setenv("PYICEBERG_CATALOG__CLINIC__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__CLINIC__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    found = read_columns("catalog:clinic/clinic.visits", tmp_path)
    assert (found.kind, found.names) == ("iceberg", first.NAMES)
    text = first.made(tmp_path, found).files["ingest.toml"]
    assert 'kind = "iceberg"\ntable = "clinic.visits"\ncatalog = "clinic"\n' in text


def test_a_lake_that_could_not_be_read_is_refused_at_once(tmp_path):
    newest = iceberg(tmp_path, *ONE)
    shutil.copytree(tmp_path / "visits", tmp_path / "copied")
    with pytest.raises(DataError, match="moved or copied"):
        read_columns("copied", tmp_path)
    newest.with_name("version-hint.text").unlink()
    with pytest.raises(StoreError, match="name catalog:NAME/TABLE"):
        read_columns("visits", tmp_path)
    for name in ("catalog:clinic", "catalog:/visits", "catalog:a b/visits"):
        with pytest.raises(ConfigError, match="is not the name of a table in a catalog"):
            read_columns(name, tmp_path)

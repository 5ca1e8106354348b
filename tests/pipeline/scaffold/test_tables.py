"""Of a table in a database the names of its columns are read, and nothing else."""

import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.scaffold.column_names import read_columns
from blockveil.pipeline.scaffold.written_folder import write
from tests.pipeline.data.ingest.database_support import KINDS, Database
from tests.pipeline.scaffold import scaffold_support as first

CANARY = "271828182845904"


@pytest.fixture(params=KINDS)
def database(request, tmp_path, monkeypatch):
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    made = Database(request.param, tmp_path, server)
    if server is not None:
        monkeypatch.setenv("CLINIC", made.address)
    return made


def location(database, table="visits"):
    return f"env:CLINIC/{table}" if database.kind == "postgresql" else f"{database.file.name}/{table}"


def table(value, names=first.NAMES):
    return pa.table({name: pa.array([value], pa.string()) for name in names})


def test_two_tables_with_the_same_names_give_the_same_configs(tmp_path, database):
    database.put(table(CANARY))
    one = first.made(tmp_path, read_columns(location(database), tmp_path)).files
    database.execute("DROP TABLE visits")
    database.put(table(None))
    other = first.made(tmp_path, read_columns(location(database), tmp_path)).files
    assert dict(one) == dict(other)
    assert CANARY not in str(one)
    assert read_columns(location(database), tmp_path).names == first.NAMES


def test_the_folder_that_is_written_reads_the_table(tmp_path, database):
    database.put(table(None))
    made = first.made(tmp_path, read_columns(location(database), tmp_path))
    write(made)
    source = load_ingest(made.folder / "ingest.toml").config.source
    assert (source.kind, source.query) == (database.kind, "SELECT * FROM visits")
    if database.kind == "postgresql":
        assert source.address == "env:CLINIC"
    else:
        assert (made.folder / source.file).resolve() == database.file.resolve()


def test_a_table_with_a_name_that_needs_quotes_is_found(tmp_path, database):
    database.put(table(None), "Visits of 2026")
    found = read_columns(location(database, "Visits of 2026"), tmp_path)
    assert (found.names, found.query) == (first.NAMES, 'SELECT * FROM "Visits of 2026"')


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("other", DataError, "no (such )?table"),
        ("v", DataError, "not a table that"),
        ("pg_class", ConfigError, "not the name"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, database, name, kind, said):
    database.put(table(None))
    database.execute("CREATE VIEW v AS SELECT * FROM visits")
    with pytest.raises(kind, match=said):
        read_columns(location(database, name), tmp_path)


def test_a_database_without_a_table_asks_for_one(tmp_path, database):
    database.put(table(None))
    with pytest.raises(ConfigError, match=r"is a database. One table of it is the source"):
        read_columns(location(database).removesuffix("/visits"), tmp_path)


def test_files_in_a_folder_that_is_named_like_a_database_are_files(tmp_path):
    (tmp_path / "clinic.db").mkdir()
    (tmp_path / "clinic.db" / "visits.csv").write_text("a,b\n")
    assert read_columns("clinic.db/visits.csv", tmp_path).kind == "csv"
    with pytest.raises(StoreError, match="cannot be read"):
        read_columns("nowhere.db/visits", tmp_path)

"""A database is read in one snapshot by a session that can do nothing else, and no text of a driver is shown."""

import os
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing

import duckdb
import numpy as np
import psycopg
import pytest

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError, StoreError, StoreUnreachable
from blockveil.pipeline.config.query_reading import checked
from blockveil.pipeline.data.ingest.duckdb_session import DuckdbSession
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.postgres_session import PostgresSession
from blockveil.pipeline.data.ingest.sqlite_session import SqliteSession
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database

COST = [people.NUMBER]
CANARY = "271828.182845904"


def quiet(*_):
    """Tell nobody."""


def refused(kind, folder, source, columns=COST, **options):
    """The message with which an ingest is refused; it holds no value, and nothing is left."""
    with pytest.raises(kind) as caught:
        people.run(people.configure(folder, columns, source, **options))
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert not (folder / "out.zarr").exists()
    assert people.left(folder) == []
    return str(caught.value)


@pytest.fixture
def duck(tmp_path):
    made = Database("duckdb", tmp_path)
    made.put(people.visits(rows=60))
    return made


@pytest.fixture
def lite(tmp_path):
    made = Database("sqlite", tmp_path)
    made.put(people.visits(rows=60))
    return made


@pytest.fixture
def server(tmp_path, postgres, monkeypatch):
    made = Database("postgresql", tmp_path, postgres)
    made.put(people.visits(rows=60))
    monkeypatch.setenv("CLINIC", made.address)
    return made


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("duckdb", "SELECT cast(ward AS DOUBLE) AS cost FROM visits"),
        ("duckdb", "SELECT stay * 9223372036854775807 AS cost FROM visits"),
        ("postgresql", "SELECT cast(ward AS double precision) AS cost FROM visits"),
        ("postgresql", "SELECT cost / (stay - stay) AS cost FROM visits"),
    ],
)
def test_a_value_that_cannot_be_computed_is_not_quoted(request, tmp_path, kind, query):
    database = request.getfixturevalue({"duckdb": "duck", "postgresql": "server"}[kind])
    database.execute(f"UPDATE visits SET ward = 'x{CANARY}'")
    assert "holds a value with which source.query cannot compute" in refused(
        DataError, tmp_path, database.source(query)
    )


def test_values_of_several_types_in_a_column_of_sqlite_are_refused(tmp_path, lite):
    lite.execute(f"UPDATE visits SET cost = 'x{CANARY}' WHERE stay = 7")
    assert "values of several types" in refused(DataError, tmp_path, lite.source())
    lite.execute("UPDATE visits SET cost = x'00ff'")
    assert 'Table "visits", column "cost" is of type binary' in refused(DataError, tmp_path, lite.source())
    lite.execute(f"UPDATE visits SET cost = cast(x'ff{CANARY.encode().hex()}' AS TEXT)")
    assert "not UTF-8" in refused(DataError, tmp_path, lite.source())


@pytest.mark.parametrize("content", [b"", b"x" * 5000, CANARY.encode() * 100], ids=["empty", "text", "other"])
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_that_is_no_database_is_refused(tmp_path, kind, content):
    (tmp_path / f"clinic.{kind}").write_bytes(content)
    message = refused(BlockveilError, tmp_path, Database(kind, tmp_path).source())
    assert "clinic" in message or "no table" in message


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_database_that_is_not_there_is_not_made(tmp_path, kind):
    assert "cannot be read (No such file" in refused(StoreError, tmp_path, Database(kind, tmp_path).source())
    (tmp_path / f"clinic.{kind}").mkdir()
    assert "is not a file" in refused(StoreError, tmp_path, Database(kind, tmp_path).source())


def test_a_macro_of_the_file_is_not_called_in_place_of_a_function(tmp_path, duck):
    macros = ('"+"(a, b) AS 99', "abs(a) AS (SELECT max(cost) FROM visits)", '"||"(a, b) AS 99')
    duck.execute(*(f"CREATE MACRO {macro}" for macro in macros))
    with closing(duckdb.connect(str(duck.file))) as opened:
        assert opened.execute("SELECT DISTINCT stay + 1 FROM visits").fetchall() == [(99,)]
    people.run(people.configure(tmp_path, COST, duck.source("SELECT abs(stay + 1) AS cost FROM visits")))
    expected = [stay + 1 for stay in people.visits(rows=60)["stay"].to_pylist()]
    assert people.stored(tmp_path)[:, 0].tolist() == expected


def test_a_function_of_the_database_is_not_called_in_place_of_a_function(tmp_path, server):
    body = "'SELECT max(cost) FROM public.visits' LANGUAGE sql"
    server.execute(
        f"CREATE FUNCTION public.abs(int8) RETURNS float8 AS {body}",
        f"CREATE FUNCTION public.plus(int8, int8) RETURNS float8 AS {body}",
        "CREATE OPERATOR public.+ (LEFTARG = int8, RIGHTARG = int8, FUNCTION = public.plus)",
        f'ALTER DATABASE "{server.name}" SET search_path = public, pg_catalog',
    )
    people.run(people.configure(tmp_path, COST, server.source("SELECT abs(stay + stay) AS cost FROM visits")))
    expected = [2 * stay for stay in people.visits(rows=60)["stay"].to_pylist()]
    assert people.stored(tmp_path)[:, 0].tolist() == expected


def test_a_column_with_a_function_in_its_name_is_no_call(tmp_path, server):
    server.execute("CREATE FUNCTION public.cost2(visits) RETURNS float8 AS 'SELECT max(cost) FROM visits' LANGUAGE sql")
    message = refused(DataError, tmp_path, server.source("SELECT v.cost2 AS cost FROM visits v"))
    assert 'does not have column "cost2"' in message


@pytest.mark.parametrize(
    "statement",
    [
        "SET threads = 3",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/blockveil-never.csv'",
        "ATTACH '/tmp/blockveil-never.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE source.main.x (a INTEGER)",
        "DELETE FROM source.main.visits",
        "EXPORT DATABASE '/tmp/blockveil-never'",
    ],
)
def test_the_instance_of_duckdb_is_locked(duck, statement):
    session = DuckdbSession(duck.file)
    with pytest.raises(duckdb.Error):
        session._connection.execute(statement)
    session.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT random()",
        "SELECT max(cost) FROM visits",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM other",
        "SELECT load_extension('x')",
        "SELECT * FROM pragma_table_info('visits')",
        "PRAGMA query_only = OFF",
        "ATTACH ':memory:' AS x",
        "DELETE FROM visits",
        "CREATE TEMP TABLE x (a)",
        "WITH RECURSIVE x (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM x) SELECT a FROM x",
    ],
)
def test_sqlite_itself_refuses_what_the_query_did_not_name(lite, statement):
    lite.execute("CREATE TABLE other (a)")
    session = SqliteSession(lite.file, checked("SELECT cost FROM visits", "sqlite"))
    with pytest.raises(sqlite3.DatabaseError):
        list(session.batches(statement, 5))
    session.close()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM public.visits", "CREATE TABLE public.x (a int)", "SELECT 1; SELECT 2", "SELECT nextval('public.s')"],
)
def test_the_transaction_of_postgres_is_read_only(server, statement):
    server.execute("CREATE SEQUENCE s")
    session = PostgresSession(server.address, checked("SELECT cost FROM visits", "postgres"))
    with pytest.raises(Exception, match="SQLSTATE"):
        session._rows(statement)
    session.close()


@pytest.mark.parametrize("joined", [False, True])
def test_rows_of_postgres_come_as_they_lie_and_public_tables_are_looked_up_by_their_index(server, joined):
    server.execute(
        "INSERT INTO visits SELECT i, i, i, 'a', true FROM generate_series(100, 20000) AS numbers (i)",
        "CREATE INDEX i ON visits (stay)",
        "CREATE INDEX j ON visits (stay, cost) WHERE stay = 777",
        "CREATE TABLE wards (id text PRIMARY KEY, beds int8)",
        "INSERT INTO wards SELECT i, i FROM generate_series(1, 20000) AS numbers (i)",
        "ANALYZE",
    )
    join = " LEFT JOIN wards w ON visits.ward = w.id" if joined else ""
    text = f"SELECT cost, {'w.beds' if joined else '1'} AS beds FROM visits{join} WHERE stay = 777"
    query = checked(text, "postgres", (("wards", "id"),))
    session = PostgresSession(server.address, query)
    with closing(session):
        settings = session._rows("SELECT name, setting FROM pg_settings WHERE name LIKE 'enable%scan'")
    with psycopg.connect(server.address) as connection:
        for name, value in settings:
            connection.execute(f"SET {name} = {value}")
        plan = "\n".join(line for (line,) in connection.execute("EXPLAIN " + query.sql(("cost", "beds"), "public")))
    assert "Seq Scan on visits" in plan
    assert ("Index Scan using wards_pkey" in plan) == joined
    assert "using i" not in plan
    assert "using j" not in plan


def test_rows_that_others_write_meanwhile_are_not_read(tmp_path, server):
    source = look(people.configure(tmp_path, COST, server.source()))
    server.execute("INSERT INTO visits SELECT * FROM visits", "UPDATE visits SET cost = 0")
    ingest(source, quiet)
    assert np.array_equal(people.stored(tmp_path)[:, 0], people.visits(rows=60)["cost"].to_numpy().astype(np.float32))


@pytest.mark.parametrize("statement", ["TRUNCATE visits", "DROP TABLE visits", "ALTER TABLE visits RENAME TO other"])
def test_nobody_can_empty_or_replace_a_table_of_postgres_while_it_is_read(tmp_path, server, statement):
    source = look(people.configure(tmp_path, COST, server.source()))
    with pytest.raises(psycopg.errors.LockNotAvailable):
        server.execute("SET lock_timeout = '50ms'", statement)
    ingest(source, quiet)
    assert len(people.stored(tmp_path)) == 60
    server.execute(statement)


def test_a_log_of_sqlite_keeps_the_snapshot_while_others_write(tmp_path, lite):
    lite.execute("PRAGMA journal_mode = wal")
    source = look(people.configure(tmp_path, COST, lite.source()))
    lite.execute("DELETE FROM visits")
    ingest(source, quiet)
    assert len(people.stored(tmp_path)) == 60


def test_nobody_can_write_to_a_file_of_sqlite_without_a_log_while_it_is_read(tmp_path, lite):
    source = look(people.configure(tmp_path, COST, lite.source()))
    with closing(sqlite3.connect(lite.file, timeout=0)) as opened:
        opened.execute("DELETE FROM visits")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            opened.commit()
    ingest(source, quiet)
    assert len(people.stored(tmp_path)) == 60


def test_nobody_can_write_to_a_file_of_duckdb_while_it_is_read(tmp_path, duck):
    source = look(people.configure(tmp_path, COST, duck.source()))
    other = [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1])", str(duck.file)]
    shown = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "Could not set lock" in shown.stderr
    ingest(source, quiet)
    assert len(people.stored(tmp_path)) == 60
    assert subprocess.run(other, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("kind", ["duck", "lite"])
def test_a_file_that_is_overwritten_while_it_is_read_is_noticed(request, tmp_path, kind):
    database = request.getfixturevalue(kind)
    source = look(people.configure(tmp_path, COST, database.source()))
    state = database.file.stat()
    os.utime(database.file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(DataError, match="changed while it was read"):
        ingest(source, quiet)
    assert people.left(tmp_path) == []


@pytest.mark.parametrize("kind", ["duck", "lite"])
def test_reading_leaves_the_database_as_it_was(request, tmp_path, kind):
    database = request.getfixturevalue(kind)
    before, names = database.file.read_bytes(), sorted(tmp_path.iterdir())
    people.run(people.configure(tmp_path, COST, database.source(), name="x"))
    assert database.file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} - {path.name for path in names} == {"x.toml", "out.zarr"}


def test_row_level_security_is_refused_because_a_policy_may_look_at_other_rows(tmp_path, server, monkeypatch):
    server.execute(
        "DROP ROLE IF EXISTS sources_reader",
        "CREATE ROLE sources_reader LOGIN",
        "GRANT SELECT ON visits TO sources_reader",
    )
    monkeypatch.setenv("CLINIC", server.server.url(server.name, "sources_reader"))
    people.run(people.configure(tmp_path, COST, server.source(), store="before.zarr"))
    server.execute(
        "ALTER TABLE visits ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON visits USING (cost < (SELECT 1.0))",
    )
    assert "row-level security" in refused(StoreError, tmp_path, server.source())
    server.execute("REVOKE ALL ON visits FROM sources_reader")
    assert "may not be read by this role" in refused(StoreError, tmp_path, server.source())


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW v AS SELECT sum(cost) AS cost FROM visits",
        "CREATE VIEW v AS SELECT cost FROM visits",
    ],
)
def test_views_of_postgres_of_either_kind_are_refused(tmp_path, server, statement):
    server.execute(statement)
    message = refused(DataError, tmp_path, server.source("SELECT cost FROM v"))
    assert "not a table that the database itself stores" in message


def test_a_partitioned_table_is_read_with_all_its_parts(tmp_path, server):
    server.execute(
        "CREATE TABLE parts (cost float8, stay int8) PARTITION BY RANGE (stay)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (99)",
        "INSERT INTO parts SELECT cost, stay FROM visits",
    )
    people.run(people.configure(tmp_path, COST, server.source("SELECT cost FROM parts")))
    assert len(people.stored(tmp_path)) == 60


def test_a_virtual_table_of_sqlite_is_refused(tmp_path, lite):
    lite.execute("CREATE VIRTUAL TABLE words USING fts4 (cost)")
    message = refused(DataError, tmp_path, lite.source("SELECT cost FROM words"))
    assert "not a table that the database itself stores" in message


def test_decimals_of_any_length_are_numbers_and_units_as_far_as_a_float_holds_them(tmp_path, server):
    server.execute(
        "CREATE TABLE exact (cost numeric, person numeric, fee numeric(10, 2))",
        "INSERT INTO exact VALUES (1.5, 7, 2.25), ('NaN', 7.0, NULL), (12345678901234567890.5, 8, 3)",
    )
    columns = [{"name": name, "kind": "number", "missing": 0.0} for name in ("cost", "fee")]
    people.run(
        people.configure(tmp_path, columns, server.source("SELECT * FROM exact"), dtype="float64", store="x.zarr")
    )
    unit = people.CHOOSE.format(most=1)
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    people.run(people.configure(chosen, columns, server.source("SELECT * FROM exact"), unit=unit))
    assert len(people.stored(chosen)) == 2
    server.execute("INSERT INTO exact VALUES (0, 18014398509481985, 0)")
    message = refused(DataError, tmp_path, server.source("SELECT * FROM exact"), columns, unit=unit, store="y.zarr")
    assert "does not hold exactly" in message
    assert "180143985" not in message


MADE = {
    "duckdb": (
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE TABLE kinds (cost DECIMAL(20, 3), stay HUGEINT, day TIMESTAMP, ward mood, person INTEGER)",
    ),
    "postgresql": (
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE TABLE kinds (cost numeric(20, 3), stay int2, day timestamp, ward mood, person int4)",
    ),
    "other": ("CREATE TABLE kinds (cost float4, stay numeric, day date, ward char(1), person varchar(9))",),
}


@pytest.mark.parametrize("kind", MADE)
def test_the_types_of_the_page_are_read(request, tmp_path, kind):
    database = request.getfixturevalue("duck" if kind == "duckdb" else "server")
    database.execute(*MADE[kind], "INSERT INTO kinds VALUES (1.5, 7, '2026-11-20 23:59:59', 'b', 3)")
    columns = [
        *COST,
        {"name": "stay", "kind": "whole", "missing": "refuse"},
        {"name": "day", "kind": "date", "extract": "month", "encode": "code", "missing": "refuse"},
        {"name": "ward", "kind": "category", "categories": ["a", "b"], "encode": "code"},
    ]
    columns[-1] |= {"unknown": "refuse", "missing": "refuse"}
    unit = people.CHOOSE.format(most=1)
    people.run(people.configure(tmp_path, columns, database.source("SELECT * FROM kinds"), unit))
    assert people.stored(tmp_path).tolist() == [[1.5, 7, 10, 1]]


@pytest.mark.parametrize("kind", ["timestamptz", "uuid", "int[]", "jsonb", "interval", "bytea"])
def test_other_types_are_refused_by_their_name(tmp_path, server, kind):
    server.execute(f"ALTER TABLE visits ADD COLUMN odd {kind}")
    column = {"name": "odd", "kind": "date", "extract": "month", "encode": "code", "missing": "refuse"}
    message = refused(DataError, tmp_path, server.source("SELECT odd FROM visits"), [column])
    assert 'Table "visits", column "odd" is of type' in message


SECRET = "aSecretWord"


@pytest.mark.parametrize(
    ("address", "kind", "said"),
    [
        (f"postgresql://reader:{SECRET}@127.0.0.1:1/clinic", StoreUnreachable, "cannot be read (OperationalError"),
        (f"mysql://reader:{SECRET}@127.0.0.1/clinic", StoreError, "not the address of a PostgreSQL database"),
        (f"reader:{SECRET}", StoreError, "not the address of a PostgreSQL database"),
        ("", ConfigError, "the variable CLINIC is not set"),
    ],
)
def test_an_address_that_leads_nowhere_is_not_shown(tmp_path, monkeypatch, address, kind, said):
    monkeypatch.setenv("CLINIC", address)
    source = 'kind = "postgresql"\naddress = "env:CLINIC"\nquery = \'SELECT * FROM visits\''
    with pytest.raises(kind) as caught:
        people.run(people.configure(tmp_path, COST, source))
    assert said in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_address_in_clear_is_refused(tmp_path):
    source = f'kind = "postgresql"\naddress = "postgresql://a:{SECRET}@host/b"\nquery = \'SELECT * FROM visits\''
    with pytest.raises(ConfigError, match="not a reference") as caught:
        people.configure(tmp_path, COST, source)
    assert SECRET not in str(caught.value)


def test_a_server_that_ends_the_reading_leaves_nothing(tmp_path, server):
    source = look(people.configure(tmp_path, COST, server.source()))
    where = f"datname = '{server.name}' AND pid <> pg_backend_pid()"
    server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {where}")
    with pytest.raises(StoreUnreachable, match=r'Table "visits" cannot be read'):
        ingest(source, quiet)
    assert people.left(tmp_path) == []

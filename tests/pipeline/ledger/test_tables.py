"""Tables of a ledger: one schema, whose stamp tells a ledger of another version, and the triggers that guard it."""

import sqlite3

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.schema import SCHEMA, metadata
from blockveil.testing.ledger_support import grant, make, reserve


def changed(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return Ledger(f"sqlite:///{path}")


def uses(ledger, folder):
    """Everything that reads or writes a ledger begins alike."""
    return (
        ledger.history,
        ledger.verify,
        ledger.head,
        lambda: ledger.budget("people"),
        lambda: reserve(ledger, "2"),
        lambda: ledger.withdraw("people/covariance/1", "a reason"),
        lambda: make(folder),
    )


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE ledger_schema",),
        ("DROP TABLE ledger_schema", "CREATE TABLE alembic_version (version_num TEXT)"),
        ("DELETE FROM ledger_schema",),
        *((f"UPDATE ledger_schema SET version = {version}",) for version in (SCHEMA - 1, SCHEMA + 1, 9999)),
        ("DROP TABLE ledger_schema", "DROP TABLE entry", "CREATE TABLE entry (sequence INTEGER PRIMARY KEY, mu REAL)"),
    ],
)
def test_a_ledger_of_another_schema_is_refused_whoever_uses_it_and_stays_as_it_is(tmp_path, statements):
    make(tmp_path)
    path = tmp_path / "ledger.db"
    ledger, before = changed(path, *statements), path.read_bytes()
    for use in uses(ledger, tmp_path):
        with pytest.raises(LedgerError, match=r"has (no )?schema") as caught:
            use()
        assert "Finish its nights with the version that made it" in caught.value.remedy
    assert ledger.exists()
    assert path.read_bytes() == before


def test_the_command_line_says_which_schema_a_ledger_has_and_which_is_read(tmp_path):
    make(tmp_path)
    changed(tmp_path / "ledger.db", f"UPDATE ledger_schema SET version = {SCHEMA + 1}")
    refused = CliRunner().invoke(app, ["ledger", "show", "--ledger", str(tmp_path / "ledger.db")])
    assert f"schema {SCHEMA + 1}" in str(refused.exception)
    assert f"reads schema {SCHEMA}" in str(refused.exception)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_new_ledger_has_the_tables_that_the_queries_use_and_the_stamp_of_this_version(tmp_path, request, kind):
    if kind == "sqlite":
        url = address = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        postgres = request.getfixturevalue("postgres")
        url = postgres.url(postgres.new_database())
        address = url.replace("postgresql", "postgresql+psycopg", 1)
    grant(url)
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.connect() as connection:
        looked = sa.inspect(connection)
        assert set(looked.get_table_names()) == set(metadata.tables)
        for table in metadata.tables.values():
            assert [each["name"] for each in looked.get_columns(table.name)] == [each.name for each in table.columns]
        assert connection.execute(sa.text("SELECT version FROM ledger_schema")).scalar_one() == SCHEMA

"""Ledgers of earlier and later versions: an upgrade changes tables, never entries."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import blockveil.pipeline.ledger.migrations
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger, database
from blockveil.pipeline.ledger.database import REVISION
from blockveil.pipeline.ledger.schema import metadata
from blockveil.testing.ledger_support import grant, make, reserve
from tests import fresh_ledgers, support

OLD = (Path(__file__).parents[2] / "data" / "ledger_0001.sql").read_text()
HEAD = "bb4569be6358a9382e3c572c184bd88f25bd2a979898299e335e69f2692077b5"


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD)
    connection.close()
    return path


def rows(path):
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT * FROM entry ORDER BY sequence").fetchall()
    connection.close()
    return found


def test_an_old_ledger_is_refused_with_the_command_that_upgrades_it(old):
    ledger = Ledger(f"sqlite:///{old}")
    for use in (ledger.history, ledger.verify, lambda: ledger.budget("people"), lambda: reserve(ledger, "1")):
        with pytest.raises(LedgerError, match="blockveil ledger upgrade"):
            use()
    with pytest.raises(LedgerError, match="blockveil ledger upgrade"):
        make(old.parent)


def test_an_upgrade_keeps_every_entry_and_its_hash(old):
    before = rows(old)
    ledger = Ledger(f"sqlite:///{old}")
    assert ledger.upgrade() == ("0001", REVISION)
    assert [row[: len(before[0])] for row in rows(old)] == before
    assert {cell for row in rows(old) for cell in row[len(before[0]) :]} == {None}  # columns of later versions
    assert ledger.verify(HEAD).problems == []
    assert ledger.verify().head == HEAD
    budget = ledger.budget("people")
    assert (budget.charges, budget.epsilon) == (2, 3.0)
    assert budget.spent_mu == pytest.approx(0.2 * 2**0.5)
    assert ledger.commit(reserve(ledger, "2026-11-20").charge_id, "check").sequence == 10
    assert ledger.verify(HEAD).problems == []


def test_a_second_upgrade_changes_nothing(old):
    ledger = Ledger(f"sqlite:///{old}")
    ledger.upgrade()
    made = old.read_bytes()
    assert ledger.upgrade() == (REVISION, REVISION)
    assert old.read_bytes() == made


def test_an_upgraded_ledger_has_the_tables_and_guards_of_a_new_one(old, tmp_path):
    Ledger(f"sqlite:///{old}").upgrade()
    (tmp_path / "new").mkdir()
    make(tmp_path / "new")

    def tables(path):
        with sqlite3.connect(path) as connection:
            found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        connection.close()
        return {(kind, name): " ".join((sql or "").split()) for kind, name, sql in found}

    assert tables(old) == tables(tmp_path / "new" / "ledger.db")


def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(old):
    with sqlite3.connect(old) as connection:
        connection.execute("CREATE TRIGGER continues BEFORE INSERT ON entry BEGIN SELECT 1; END")  # in its way
    connection.close()
    ledger = Ledger(f"sqlite:///{old}")
    with pytest.raises(LedgerError):
        ledger.upgrade()
    with sqlite3.connect(old) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert names == {"entry"}


@pytest.mark.parametrize("version", ["0007", "9999"])
def test_a_ledger_of_a_later_version_is_refused(tmp_path, version):
    ledger = make(tmp_path)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute(f"UPDATE alembic_version SET version_num = '{version}'")
    connection.close()
    later = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    for use in (later.history, later.upgrade):
        with pytest.raises(LedgerError, match="later version"):
            use()
    assert ledger.exists()


def test_a_ledger_of_a_development_version_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE entry (sequence INTEGER PRIMARY KEY, mu REAL)")
    connection.close()
    with pytest.raises(LedgerError, match="development version"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").upgrade()


def test_there_is_nothing_to_upgrade_where_there_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError, match="There is no ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").upgrade()
    assert not list(tmp_path.iterdir())


def test_the_newest_migration_is_the_version_that_is_asked_for():
    script = ScriptDirectory(str(Path(blockveil.pipeline.ledger.migrations.__file__).parent))
    assert script.get_heads() == [REVISION]


@pytest.mark.parametrize("place", ["sqlite", "postgresql+psycopg"])
def test_the_migrations_make_the_table_that_the_queries_use(place, tmp_path, request):
    if place == "sqlite":
        url = address = f"sqlite:///{tmp_path / 'ledger.db'}"
    else:
        postgres = request.getfixturevalue("postgres")
        url = postgres.url(postgres.new_database())
        address = url.replace("postgresql", place, 1)
    grant(url)
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_new_ledgers_of_tests_have_what_the_migrations_make(tmp_path, request, monkeypatch, kind):
    server = request.getfixturevalue("postgres") if kind == "postgres" else None

    def made(name):
        url = server.url(server.new_database()) if server else f"sqlite:///{tmp_path / name}"
        Ledger(url).set_budget(
            dataset="people", epsilon=1.0, delta=1e-6, neighbours=Neighbours.ADD_REMOVE, privacy_unit=support.UNIT
        )
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
        with engine.connect() as connection:
            rules = (
                "SELECT sql FROM sqlite_master ORDER BY name"
                if kind == "sqlite"
                else (
                    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' UNION ALL "
                    "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
                    "WHERE connamespace = 'public'::regnamespace UNION ALL "
                    "SELECT pg_get_triggerdef(oid) FROM pg_trigger UNION ALL "
                    "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
                )
            )
            found = [tuple(row) for row in connection.execute(sa.text(rules))]
            columns = {
                table: [{**each, "type": str(each["type"])} for each in sa.inspect(connection).get_columns(table)]
                for table in sorted(sa.inspect(connection).get_table_names())
            }
            return found, columns, connection.execute(sa.text("SELECT * FROM alembic_version")).scalar_one()

    assert database._migrate is fresh_ledgers.migrate
    quick = [made("first.db"), made("second.db")]
    monkeypatch.setattr(database, "_migrate", fresh_ledgers.by_alembic)
    slow = made("third.db")
    assert quick == [slow, slow]
    assert len(slow[0]) > 3
    assert slow[2] == REVISION

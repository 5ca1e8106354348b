"""The ledger in a PostgreSQL database, and what only a server can suffer."""

import traceback

import psycopg
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.flows.cli.common import ledger_at
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger import postgres as backend
from blockveil.pipeline.ledger.postgres import LOCK, PostgresDatabase
from blockveil.testing.ledger import Administrator, LedgerContract
from blockveil.testing.ledger_support import UNIT, grant, reserve
from blockveil.testing.parts import PartsContract
from tests.house import support

PASSWORD = "s3cr3t-of-the-ledger"


@pytest.fixture
def database(postgres):
    return postgres.new_database()


@pytest.fixture
def url(postgres, database):
    return postgres.url(database)


@pytest.mark.slow
class TestPostgres(LedgerContract, PartsContract):
    """The contract, on PostgreSQL."""

    @pytest.fixture
    def administrator(self, url):
        names = ("never_changed", "continues", "may_follow")
        guards = [f"ALTER TABLE entry DISABLE TRIGGER {name}" for name in names]
        return Administrator(url.replace("postgresql://", "postgresql+psycopg://"), guards)


def role_of(postgres, database, *options):
    """Address of a role that has what ``blockveil ledger admin role`` prints."""
    name = f"nightly_{database}"
    printed = CliRunner().invoke(app, ["ledger", "admin", "role", name, *options])
    assert printed.exit_code == 0, printed.output
    for _ in range(2):  # it may be run again
        postgres.execute(printed.stdout, database)
    return postgres.url(database, role=name)


class TestRole:
    """A role with SELECT and INSERT on the ledger, and nothing else."""

    @pytest.fixture
    def nightly(self, postgres, database, url):
        grant(url, 5.0)
        return role_of(postgres, database)

    def test_it_releases_to_the_end(self, nightly):
        ledger = Ledger(nightly)
        charge = reserve(ledger, "1").charge_id
        ledger.commit(charge, "check")
        ledger.released(charge, "digest", "place")
        assert ledger.void_if_reserved(reserve(ledger, "2").charge_id, "reason")
        assert ledger.budget("people").charges == 1
        assert ledger.verify().problems == []

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE entry SET dataset = 'x'",
            "DELETE FROM entry",
            "TRUNCATE entry",
            "DROP TABLE entry",
            "ALTER TABLE entry DISABLE TRIGGER never_changed",
            "ALTER TABLE entry DISABLE ROW LEVEL SECURITY",
            "DROP TRIGGER continues ON entry",
            "UPDATE ledger_schema SET version = 0",
            "SET session_replication_role = replica",
        ],
    )
    def test_it_can_change_nothing(self, nightly, statement):
        with psycopg.connect(nightly) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)

    def test_it_grants_no_budget(self, nightly):
        with pytest.raises(StoreError, match="cannot be written"):
            Ledger(nightly).set_budget("people", 100.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)
        assert Ledger(nightly).budget("people").epsilon == 5.0

    def test_it_withdraws_no_release(self, nightly, url):
        ledger = Ledger(nightly)
        charge = reserve(ledger, "1")
        ledger.commit(charge.charge_id, "check")
        ledger.released(charge.charge_id, "digest", "place")
        with pytest.raises(StoreError, match="a role for runs may not do: budgets, withdrawals"):
            ledger.withdraw(charge.release_id, "a reason")
        forged = (
            "INSERT INTO entry SELECT 5, 'WITHDRAWN', dataset, release_id, charge_id, 0, 0, 0, 0, payload, time,"
            " 'nonce', hash, 'hash', NULL FROM entry WHERE sequence = 4"
        )
        with psycopg.connect(nightly) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(forged)
        assert ledger.find(charge.release_id).withdrawn is None
        assert Ledger(url).withdraw(charge.release_id, "a reason").withdrawn == "a reason", "its owner may"

    def test_it_makes_nothing_that_its_owner_could_call(self, postgres, database, url):
        grant(url)
        postgres.execute("GRANT CREATE ON SCHEMA public TO PUBLIC", database)  # as it is before version 15
        nightly = role_of(postgres, database)
        taken = "CREATE FUNCTION lower(character varying) RETURNS text LANGUAGE sql AS 'SELECT $1::text'"
        with psycopg.connect(nightly) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(taken)

    def test_it_closes_no_ledger(self, nightly, tmp_path):
        with pytest.raises(StoreError, match="cannot be written"):
            Ledger(nightly).close_for(f"sqlite:///{tmp_path / 'mine.db'}")
        assert reserve(Ledger(nightly), "1").is_new

    def test_it_gives_back_nothing_that_was_committed(self, nightly):
        ledger = Ledger(nightly)
        charge = reserve(ledger, "1")
        ledger.commit(charge.charge_id, "check")
        forged = (
            "INSERT INTO entry SELECT 4, 'VOID', dataset, release_id, charge_id, -loss_ticks, -sampler_ticks,"
            " -pure_ticks, -failure_ticks, payload, time, 'nonce', (SELECT hash FROM entry WHERE sequence = 3), 'hash'"
            " FROM entry WHERE sequence = 2"
        )
        with psycopg.connect(nightly) as connection, pytest.raises(psycopg.DatabaseError) as caught:
            connection.execute(forged)
        assert caught.value.sqlstate == "BV003"

    def test_it_grants_budgets_where_it_was_given_that(self, postgres, database, nightly):
        officer = role_of(postgres, database, "--budgets")
        assert Ledger(officer).set_budget("people", 9.0, 1e-6, Neighbours.ADD_REMOVE, UNIT).epsilon == 9.0
        charge = reserve(Ledger(nightly), "1")
        Ledger(nightly).commit(charge.charge_id, "check")
        Ledger(nightly).released(charge.charge_id, "digest", "place")
        assert Ledger(officer).withdraw(charge.release_id, "a reason").withdrawn == "a reason"
        role_of(postgres, database)
        with pytest.raises(StoreError):
            Ledger(officer).set_budget("people", 99.0, 1e-6, Neighbours.ADD_REMOVE, UNIT)

    def test_a_role_without_rights_is_refused_in_words(self, postgres, url):
        grant(url)
        name = f"stranger_{url.partition('?')[0].rpartition('_')[2]}"
        postgres.execute(f"CREATE ROLE {name} LOGIN")
        with pytest.raises(StoreError, match="needs SELECT and INSERT"):
            Ledger(url.replace("postgres@", f"{name}@")).budget("people")

    @pytest.mark.parametrize("name", ['x"; DROP TABLE entry; --', "Nightly", "", "a" * 57])
    def test_a_name_that_is_no_plain_name_is_refused(self, name):
        assert CliRunner().invoke(app, ["ledger", "admin", "role", "--", name]).exit_code != 0


def test_the_superuser_meets_the_guards_too(url):
    grant(url)
    for before in ("SELECT 1", "SET session_replication_role = replica"):
        for statement in ("TRUNCATE entry", "DELETE FROM entry", "INSERT INTO entry SELECT * FROM entry"):
            with psycopg.connect(url) as connection:
                connection.execute(before)
                with pytest.raises(psycopg.DatabaseError) as caught:
                    connection.execute(statement)
            assert caught.value.sqlstate in ("BV001", "BV002")


def test_a_table_of_the_session_cannot_stand_in_for_the_chain(url):
    grant(url)
    forged = (
        "INSERT INTO public.entry SELECT 1, kind, dataset, release_id, charge_id, 0, 0, 0, 0, payload, time, nonce,"
        " repeat('0', 64), 'new' FROM public.entry"
    )
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TEMP TABLE entry (sequence bigint, hash text)")
        with pytest.raises(psycopg.DatabaseError) as caught:
            connection.execute(forged)
    assert caught.value.sqlstate == "BV002"


def test_a_lock_that_is_held_too_long_is_an_error_in_words(url, monkeypatch):
    ledger = grant(url)
    quickly = backend.sa.func.set_config("lock_timeout", "50ms", True)
    monkeypatch.setattr(backend, "_SET", backend.sa.select(backend._SET.subquery(), quickly))
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        with pytest.raises(LedgerError, match="stayed locked"):
            reserve(ledger, "1")
        assert ledger.budget("people").charges == 0, "reading waits for nobody"
    assert reserve(ledger, "1").is_new


def test_a_writer_that_is_cut_off_loses_the_lock_before_others_give_up(url):
    with PostgresDatabase(url).session(writing=True) as connection:
        shown = [
            connection.execute(sa.text(f"SELECT setting::int FROM pg_settings WHERE name = '{name}'")).scalar_one()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout")
        ]
    assert 0 < shown[0] < shown[1]


def test_a_commit_is_on_the_disk_whatever_the_server_is_set_to(postgres, database, url):
    postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    with PostgresDatabase(url).session(writing=True) as connection:
        assert connection.execute(sa.text("SHOW synchronous_commit")).scalar_one() == "on"


def test_a_stricter_setting_of_the_server_is_kept(postgres, database, url):
    postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = remote_apply")
    with PostgresDatabase(url).session(writing=True) as connection:
        assert connection.execute(sa.text("SHOW synchronous_commit")).scalar_one() == "remote_apply"


def test_a_server_that_accepts_no_writes_is_an_error_in_words(postgres, database, url):
    ledger = grant(url)
    postgres.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert ledger.budget("people").charges == 0
    with PostgresDatabase(url).session(writing=True):
        pass  # a default of the session is no refusal; a standby is
    with pytest.raises(StoreError, match="primary server"), PostgresDatabase(url).session(writing=False) as connection:
        connection.execute(sa.text("CREATE TABLE x ()"))


@pytest.mark.parametrize(("state", "says"), [("53100", "disk is full"), ("58030", "disk is full"), ("XX001", "XX001")])
def test_a_full_disk_of_the_server_refuses_and_leaves_no_half_entry(url, state, says):
    ledger = grant(url)
    with psycopg.connect(url) as connection:  # what the server answers when it cannot write, at the same place
        connection.execute(
            f"CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION 'secret' USING ERRCODE = '{state}'; END $$"
        )
        connection.execute("CREATE TRIGGER z AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION full_disk()")
    with pytest.raises(BlockveilError, match=says) as caught:
        reserve(ledger, "1")
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert [entry.kind for entry in ledger.history()] == ["BUDGET"]
    with psycopg.connect(url) as connection:
        connection.execute("DROP TRIGGER z ON entry")
    assert reserve(ledger, "1").is_new
    assert ledger.verify().problems == []


def test_a_database_without_a_ledger_is_refused_and_not_made_by_looking(url):
    ledger = Ledger(url)
    assert not ledger.exists()
    for look in (ledger.history, ledger.verify, lambda: reserve(ledger, "1")):
        with pytest.raises(LedgerError, match="ledger grant"):
            look()
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("postgres@", f"nobody_here:{PASSWORD}@"), "refuses the role or its password"),
        (("/test_", "/absent_"), "has no such database"),
        (("?host=/", "?host=/nowhere/"), "cannot be reached"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_without_its_address(url, change, says):
    assert change[0] in url
    with pytest.raises(LedgerError, match=says) as caught:
        Ledger(url.replace(*change)).budget("people")
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{PASSWORD}@host:port/x",
        f"postgresql://me:{PASSWORD}@host",
        f"postgresql://me:{PASSWORD}@ledger.example.org/x",
        f"postgresql://me:{PASSWORD}@ledger.example.org/x?sslmode=require",
        f"postgresql://me:{PASSWORD}@/x?host=localhost,ledger.example.org",
        f"postgresql://me:{PASSWORD}@localhost/x?hostaddr=10.1.2.3",
    ],
)
def test_an_address_that_cannot_be_trusted_is_refused_and_never_shown(address, monkeypatch):
    monkeypatch.delenv("PGSSLMODE", raising=False)
    with pytest.raises(LedgerError) as caught:
        Ledger(address)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "name", "value"),
    [
        ("/x", "PGHOST", "ledger.example.org"),
        ("/x", "PGHOSTADDR", "10.1.2.3"),
        ("localhost/x", "PGHOSTADDR", "10.1.2.3"),
        ("/x", "PGSERVICE", "team"),
        ("/x?service=team", "PGUSER", "me"),
    ],
)
def test_another_machine_that_only_the_environment_names_must_prove_who_it_is(
    address, name, value, tmp_path, monkeypatch
):
    (tmp_path / "services").write_text("[team]\nhost=ledger.example.org\n")
    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    monkeypatch.setenv(name, value)
    with pytest.raises(LedgerError, match="on another machine"):
        Ledger(f"postgresql://{address}")
    Ledger(f"postgresql://{address}{'&' if '?' in address else '?'}sslmode=verify-full")


@pytest.mark.parametrize("address", ["ledger.example.org/x?sslmode=verify-full", "localhost/x", "[::1]:5433/x", "/x"])
def test_a_server_that_is_known_may_be_named(address):
    Ledger(f"postgresql://me@{address}")


class TestConfig:
    """A database is named by reference only."""

    @pytest.fixture
    def loaded(self, tmp_path, url, monkeypatch):
        monkeypatch.setenv("LEDGER_ADDRESS", url)
        support.write_records(tmp_path, support.records())
        path = support.write_config(tmp_path, cluster="threads")
        path.write_text(path.read_text().replace('ledger = "ledger.db"', 'ledger = "env:LEDGER_ADDRESS"'))
        return load_config(path)

    def test_a_whole_release_is_booked_there(self, loaded, tmp_path):
        support.set_budget(loaded)
        for _ in range(2):
            done = CliRunner().invoke(app, ["run", str(loaded.path), "--no-prefect", "--date", "2026-11-20"])
            assert done.exit_code == 0, done.output
        kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
        assert kinds == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
        assert not list(tmp_path.rglob("*.db"))

    def test_a_plan_before_any_budget_says_so(self, loaded):
        shown = CliRunner().invoke(app, ["plan", str(loaded.path)])
        assert shown.exit_code == 0
        assert "none granted" in shown.output

    def test_a_file_may_hold_the_address(self, loaded, url):
        support.write_private(loaded.base / "address", url + "\n")
        text = loaded.path.read_text().replace("env:LEDGER_ADDRESS", "file:address")
        loaded.path.write_text(text)
        assert load_config(loaded.path).ledger_url == url

    @pytest.mark.parametrize("value", [None, "", "sqlite:///x.db", "ledger.db", f"mysql://me:{PASSWORD}@host/x"])
    def test_a_variable_without_an_address_is_refused(self, loaded, monkeypatch, value):
        monkeypatch.delenv("LEDGER_ADDRESS")
        if value is not None:
            monkeypatch.setenv("LEDGER_ADDRESS", value)
        with pytest.raises(ConfigError, match=r"output\.ledger") as caught:
            _ = loaded.ledger_url
        assert PASSWORD not in str(caught.value)

    def test_an_address_in_clear_is_refused_and_not_repeated(self, loaded):
        text = loaded.path.read_text()
        loaded.path.write_text(text.replace("env:LEDGER_ADDRESS", f"postgresql://me:{PASSWORD}@localhost/x"))
        with pytest.raises(ConfigError, match="in clear") as caught:
            load_config(loaded.path)
        assert PASSWORD not in str(caught.value)

    def test_the_command_line_takes_a_reference_and_no_address(self, loaded, url):
        support.set_budget(loaded)
        assert ledger_at("env:LEDGER_ADDRESS").budget("people").charges == 0
        with pytest.raises(ConfigError, match="in clear"):
            ledger_at(url)
        shown = CliRunner().invoke(app, ["ledger", "show", "--ledger", "env:LEDGER_ADDRESS"])
        assert "budget of epsilon 3" in shown.output

"""The ledger in an SQLite file, and what only a file can suffer."""

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.ledger import Ledger
from blockveil.testing.ledger import Administrator, LedgerContract
from blockveil.testing.ledger_processes import STEPS, attempt, reserve_without_rights
from blockveil.testing.ledger_support import make, reserve
from blockveil.testing.parts import PartsContract
from tests.house import warm


class TestSqlite(LedgerContract, PartsContract):
    """The contract, on SQLite."""

    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'ledger.db'}"

    @pytest.fixture
    def administrator(self, url):
        guards = ("no_update", "no_delete", "continues", "may_follow")
        return Administrator(url, [f"DROP TRIGGER IF EXISTS {name}" for name in guards])


def test_a_missing_ledger_is_refused_and_not_made_by_looking(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'none.db'}")
    for look in (ledger.history, ledger.verify, lambda: ledger.budget("people"), lambda: reserve(ledger, "1")):
        with pytest.raises(LedgerError, match="ledger grant"):
            look()
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "ledger.db").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(LedgerError, match="damaged or is not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "ledger.db").touch()
    with pytest.raises(LedgerError, match="damaged or is not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people")


def test_a_size_that_is_no_whole_number_is_not_lost(tmp_path):
    """SQLite stores what it is given, and its sum over floats forgets their last digits."""
    ledger = make(tmp_path, 1000.0)
    charges = [reserve(ledger, night) for night in "12"]
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute(f"UPDATE entry SET loss_ticks = 1e19 WHERE charge_id = '{charges[0].charge_id}'")
    assert ledger.budget("people").spent.loss > 9e18
    assert any("hash" in problem for problem in ledger.verify().problems)


LEAVE_AND_WRITE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as leaving:
    leaving.execute("SELECT count(*) FROM entry").fetchone()
leaving.close()  # who believes to be the last one removes the journal
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_grant_keeps_the_lock_under_which_another_thread_books(tmp_path):
    """Without it two charges are booked at once, and one of them is lost."""
    ledger = make(tmp_path)
    with ledger._database.transaction() as connection:
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")._database.create_place()  # as `ledger grant` begins
        other = subprocess.run(
            [sys.executable, "-c", LEAVE_AND_WRITE, tmp_path / "ledger.db"], check=True, capture_output=True, text=True
        )
        assert other.stdout == "database is locked\n"
        ledger._append(connection, "RESERVED", "people", {"spec_digest": ""}, "people/x/1", "f" * 32)
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED"]


def test_ledgers_that_threads_of_one_process_make_at_once_are_each_whole(tmp_path):
    def made(name):
        (tmp_path / name).mkdir()
        ledger = make(tmp_path / name)
        reserve(ledger, "1")
        return [entry.kind for entry in ledger.history()]

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(made, "abcdef")) == [["BUDGET", "RESERVED"]] * 6


def test_other_databases_are_refused():
    with pytest.raises(LedgerError, match="not supported") as caught:
        Ledger("mysql://user:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["of%20people", "a?mode=memory", "a#b", "of people & all"])
def test_any_name_of_a_file_is_that_file(tmp_path, name):
    other = tmp_path / "of people"  # what the first name means in an address
    other.mkdir()
    make(other)
    (tmp_path / name).mkdir()
    ledger = make(tmp_path / name)
    reserve(ledger, "1")
    assert (tmp_path / name / "ledger.db").stat().st_size > 0
    assert Ledger(f"sqlite:///{other / 'ledger.db'}").budget("people").charges == 0


def test_the_ledgers_file_is_private(tmp_path):
    make(tmp_path)
    assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0


FULL = """
import resource, sys
from pathlib import Path
from blockveil.pipeline.base.errors import StoreError
from blockveil.testing.ledger_support import make, reserve
import signal
ledger = make(Path(sys.argv[1]), 1000.0)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    for night in range(500):
        reserve(ledger, str(night), mu=0.01, spec={"long": "x" * 2000})
except StoreError as error:
    print("refused", error)
"""


def test_a_full_disk_refuses_and_leaves_no_half_entry(tmp_path):
    found = warm.run(FULL, str(tmp_path))
    assert found.returncode == 0, found.stderr
    assert 'refused The ledger cannot be written: the disk of "ledger.db" is full' in found.stdout
    # Known where the disk is full before the commit; else the next attempt finds the entry, or that there is none.
    assert "this entry was not booked" in found.stdout or "found again and not booked twice" in found.stdout
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert ledger.verify().problems == []
    before = len(ledger.history())
    assert reserve(ledger, "after").is_new
    assert len(ledger.history()) == before + 1


def test_a_ledger_that_may_not_be_written_refuses():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = make(folder)
        (folder / "ledger.db").chmod(0o444)
        folder.chmod(0o555)
        said = reserve_without_rights(f"sqlite:///{folder / 'ledger.db'}")
        folder.chmod(0o755)
        assert said.startswith('StoreError: The ledger cannot be written: "ledger.db"')
        assert "this entry was not booked, and what was reserved before stands" in said
        assert [entry.kind for entry in ledger.history()] == ["BUDGET"]
        assert ledger.verify().problems == []


def test_a_statement_that_reads_waits_for_no_writer(tmp_path):
    ledger = make(tmp_path)
    with ledger._database.transaction():
        assert Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").budget("people").charges == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_kill_at_any_statement_that_makes_a_ledger_leaves_none_or_a_whole_one(tmp_path):
    boundary, ended = 0, False
    while not ended:
        boundary += 1
        url = f"sqlite:///{tmp_path / f'{boundary}.db'}"
        ended = attempt(url, "grant", "5", "none", boundary)
        if not ended:
            with contextlib.suppress(LedgerError):
                assert Ledger(url).verify().problems == []
        STEPS["grant"](Ledger(url), 5.0, "none")
        assert Ledger(url).verify().problems == []
        assert Ledger(url).budget("people").epsilon == 5.0
        assert reserve(Ledger(url), "1").is_new
    assert boundary > 30

"""Looking at a ledger with read permission alone: all that was committed is seen, and nothing is written."""

import os
import shutil
import sqlite3
import time
from datetime import date

import pytest

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.ledger import Ledger, read_only
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.testing.ledger_processes import as_nobody
from blockveil.testing.ledger_support import make, reserve
from tests.house import support


def unwritable(folder):
    """Let everybody read a tree and nobody write it."""
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def seen(folder):
    """Every file of a tree with its content and its times."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def quiet(path):
    """Let a file look as if it had been written long ago."""
    os.utime(path, (time.time() - 60,) * 2)


@pytest.fixture
def site(open_to_all):
    """A released night whose tree nobody may write."""
    loaded = support.prepare(open_to_all)
    run_release(make_plan(loaded, date(2026, 11, 20)), ThreadCompute(1), "test", lambda *_: None)
    quiet(loaded.ledger_path)
    return loaded


COMMANDS = [
    ["plan", "CONFIG", "--date", "2026-11-21"],
    ["ledger", "budget", "CONFIG"],
    ["ledger", "forecast", "CONFIG"],
    ["ledger", "show", "CONFIG"],
    ["ledger", "verify", "CONFIG"],
    ["ledger", "head", "CONFIG"],
    ["report", "people/covariance/2026-11-20", "--config", "CONFIG", "--json"],
]


def test_all_that_only_looks_works_with_read_permission_alone_and_writes_nothing(site):
    commands = [[str(site.path) if word == "CONFIG" else word for word in command] for command in COMMANDS]
    as_owner = as_nobody(commands, drop=False)
    assert [code for code, _ in as_owner] == [0] * len(COMMANDS), as_owner
    quiet(site.ledger_path)
    unwritable(site.path.parent)
    before = seen(site.path.parent)
    assert as_nobody(commands) == as_owner
    assert seen(site.path.parent) == before


def test_a_report_is_shown_where_its_page_cannot_be_kept(site):
    named = ["report", "people/covariance/2026-11-20", "--config", str(site.path)]
    ((_, kept),) = as_nobody([named], drop=False)
    quiet(site.ledger_path)
    unwritable(site.path.parent)
    ((code, told),) = as_nobody([named])
    assert code == 0
    assert told.splitlines()[:-1] == [text for text in kept.splitlines() if not text.startswith(("Report ", "JSON "))]
    assert told.splitlines()[-1].startswith("No page was written: this account may not write to")


def test_what_would_write_is_refused_and_writes_nothing(site):
    unwritable(site.path.parent)
    before = seen(site.path.parent)
    commands = [
        ["ledger", "grant", str(site.path), "--epsilon", "9", "--delta", "1e-5"],
        ["ledger", "admin", "void", str(site.path), "people/covariance/2026-11-20"],
    ]
    for code, told in as_nobody(commands):
        assert code != 0
        assert "cannot be written" in told
    assert seen(site.path.parent) == before


def test_entries_in_the_journal_of_a_writer_that_lives_are_seen(open_to_all):
    ledger = make(open_to_all)
    keeper = sqlite3.connect(open_to_all / "ledger.db")
    keeper.execute("SELECT * FROM entry").fetchall()  # keeps the journal from being played into the file
    reserve(ledger, "1")
    for file in open_to_all.iterdir():
        file.chmod(0o644)
    assert (open_to_all / "ledger.db-wal").stat().st_size > 0
    ((code, told),) = as_nobody([["ledger", "show", "--ledger", str(open_to_all / "ledger.db")]])
    assert (code, "people/covariance/1" in told) == (0, True)
    keeper.close()


def crashed(open_to_all):
    """What a machine that stopped has left: an entry in the journal alone."""
    ledger = make(open_to_all)
    keeper = sqlite3.connect(open_to_all / "ledger.db")
    keeper.execute("SELECT * FROM entry").fetchall()
    reserve(ledger, "1")
    (open_to_all / "after").mkdir()
    for ending in ("", "-wal", "-shm"):
        shutil.copy(open_to_all / f"ledger.db{ending}", open_to_all / "after" / f"ledger.db{ending}")
        quiet(open_to_all / "after" / f"ledger.db{ending}")
    keeper.close()
    return open_to_all / "after"


def test_entries_in_the_journal_of_a_machine_that_stopped_are_seen(open_to_all):
    after = crashed(open_to_all)
    unwritable(after)
    ((code, told),) = as_nobody([["ledger", "show", "--ledger", str(after / "ledger.db")]])
    assert (code, "people/covariance/1" in told) == (0, True)


def test_a_journal_that_cannot_be_read_is_said_and_never_passed_over(open_to_all, monkeypatch):
    after = crashed(open_to_all)
    (after / "ledger.db-shm").unlink()
    unwritable(after)
    monkeypatch.setattr(read_only, "_TRIES", 2)
    ((code, told),) = as_nobody([["ledger", "show", "--ledger", str(after / "ledger.db")]], tries=2)
    assert code != 0
    assert "may lie in the journal" in told
    assert [entry.kind for entry in Ledger(f"sqlite:///{after / 'ledger.db'}").history()] == ["BUDGET", "RESERVED"]


def test_what_is_written_while_the_file_is_copied_is_not_missed(open_to_all, monkeypatch):
    ledger = make(open_to_all)
    quiet(open_to_all / "ledger.db")
    opened, times = read_only._opened, []

    def meanwhile(path, how):
        found = opened(path, how)
        if not times:
            times.append(reserve(ledger, "1"))  # its journal is played into the file, and gone, at the end
        return found

    monkeypatch.setattr(read_only, "_opened", meanwhile)
    found = read_only.connect(open_to_all / "ledger.db").execute("SELECT kind FROM entry").fetchall()
    assert found == [("BUDGET",), ("RESERVED",)]


def test_a_file_that_was_written_just_now_is_not_copied(open_to_all):
    """A second write might leave the same time behind."""
    make(open_to_all)
    os.utime(open_to_all / "ledger.db")
    assert read_only._state(open_to_all / "ledger.db") is None
    quiet(open_to_all / "ledger.db")
    assert read_only._state(open_to_all / "ledger.db") is not None
    (open_to_all / "ledger.db-wal").touch()
    assert read_only._state(open_to_all / "ledger.db") is None


def test_a_copy_cannot_be_written(open_to_all):
    make(open_to_all)
    quiet(open_to_all / "ledger.db")
    copy = read_only.connect(open_to_all / "ledger.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        copy.execute("INSERT INTO entry (sequence) VALUES (2)")


def test_a_file_that_is_written_all_the_time_is_refused_in_words(open_to_all, monkeypatch):
    make(open_to_all)
    monkeypatch.setattr(read_only, "_TRIES", 2)
    monkeypatch.setattr(read_only, "_QUIET_SECONDS", 1e9)
    with pytest.raises(StoreError, match="without write permission now"):
        read_only.connect(open_to_all / "ledger.db")


def test_a_ledger_that_may_not_be_read_is_refused_in_words(open_to_all):
    make(open_to_all)
    ((code, told),) = as_nobody([["ledger", "show", "--ledger", str(open_to_all / "ledger.db")]])
    assert code != 0
    assert "The ledger cannot be read" in told
    open_to_all.chmod(0o700)
    ((code, told),) = as_nobody([["ledger", "show", "--ledger", str(open_to_all / "ledger.db")]])
    assert code != 0
    assert "The ledger cannot be read" in told

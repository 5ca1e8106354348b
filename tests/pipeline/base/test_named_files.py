"""Files at places that a person names: whole or not at all, over no ledger, through no link of another account."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from blockveil.pipeline.base import durable, named_files, staging
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, LedgerError, StoreError
from tests.end_to_end.test_full_disk import files_of_at_most
from tests.house.strangers import STRANGER


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_whoever_looks_while_a_file_is_written_sees_the_one_before_it(tmp_path):
    place = tmp_path / "head.json"
    named_files.write(place, b"old", "The head")
    with named_files.writing(place, "The head") as file:
        file.write(b"new")
        file.flush()
        assert place.read_bytes() == b"old"
    assert place.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["head.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, LedgerError("a", "b", "c"), OSError(28, "No space left")])
def test_what_is_not_written_to_its_end_leaves_the_file_before_it_and_nothing_else(tmp_path, error):
    place = tmp_path / "head.json"
    place.write_bytes(b"old")

    def write():
        with named_files.writing(place, "The head") as file:
            file.write(b"half")
            raise error

    with pytest.raises((KeyboardInterrupt, BlockveilError)):
        write()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"head.json": b"old"}


def test_a_disk_that_is_full_is_said_in_words_and_leaves_the_file_before_it(tmp_path):
    place = tmp_path / "head.json"
    place.write_bytes(b"old")
    with files_of_at_most(10) as fill:
        fill()
        with pytest.raises(StoreError, match="The head cannot be written: the disk") as caught:
            named_files.write(place, bytes(2**20), "The head")
    assert 'the folder of "head.json"' in str(caught.value)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"head.json": b"old"}


def test_a_new_file_is_there_whole_or_not_at_all(tmp_path):
    place = tmp_path / "matrix.npy"
    with files_of_at_most(10) as fill:
        fill()
        with pytest.raises(StoreError, match="The matrix cannot be written: the disk"):
            durable.write_new(place, bytes(2**20), "The matrix", "It stays")
    assert os.listdir(tmp_path) == []
    durable.write_new(place, b"first", "The matrix", "It stays")
    (tmp_path / "link.npy").symlink_to("nowhere")
    for there in (place, tmp_path / "link.npy"):
        with pytest.raises(StoreError, match="exists"):
            durable.write_new(there, b"second", "The matrix", "It stays")
    assert place.read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["link.npy", "matrix.npy"]


def test_a_file_system_without_hard_links_gets_new_files_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    place = tmp_path / "matrix.npy"
    durable.write_new(place, b"first", "The matrix", "It stays")
    with pytest.raises(StoreError, match="exists"):
        durable.write_new(place, b"second", "The matrix", "It stays")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"matrix.npy": b"first"}


def test_links_of_this_account_are_followed_and_stay(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "head.json").symlink_to("latest.json")
    (tmp_path / "latest.json").symlink_to(tmp_path / "kept" / "head.json")
    for content in (b"first", b"second"):
        named_files.write(tmp_path / "head.json", content, "The head")
        assert (tmp_path / "kept" / "head.json").read_bytes() == content
    assert (tmp_path / "head.json").is_symlink()
    assert (tmp_path / "latest.json").is_symlink()
    assert not (tmp_path / "kept" / "head.json").is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a link of another account")
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_of_another_account_is_refused_and_leads_nowhere(tmp_path, exists):
    target = tmp_path / "private"
    if exists:
        target.write_bytes(b"mine")
    (tmp_path / "theirs").symlink_to(target)
    os.lchown(tmp_path / "theirs", STRANGER, STRANGER)
    (tmp_path / "mine").symlink_to("theirs")
    for name in ("theirs", "mine"):
        with pytest.raises(ConfigError, match="of another account"):
            named_files.write(tmp_path / name, b"written", "The head")
    assert target.exists() == exists
    assert not exists or target.read_bytes() == b"mine"
    assert (tmp_path / "theirs").is_symlink()


def test_what_is_no_file_is_refused_and_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "circle").symlink_to("circle")
    for name in ("folder", "pipe", "link", "circle"):
        before = (tmp_path / name).lstat()
        with pytest.raises(ConfigError, match=f'"{"pipe" if name == "link" else name}" is '):
            named_files.write(tmp_path / name, b"written", "The head")
        after = (tmp_path / name).lstat()
        assert (after.st_ino, after.st_mode, after.st_mtime) == (before.st_ino, before.st_mode, before.st_mtime)
    with pytest.raises(ConfigError, match='"null" is no file'):
        named_files.check(type(tmp_path)("/dev/null"))


@pytest.mark.parametrize("name", ["ledger.db", "ledger.db-wal", "ledger.db-journal", "link"])
def test_neither_a_database_nor_its_journal_is_written_over(tmp_path, name):
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("CREATE TABLE entries (number INTEGER)")
    database.close()
    (tmp_path / "link").symlink_to("ledger.db")
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(LedgerError, match="is a database or belongs to one"):
        named_files.write(tmp_path / name, b"written", "The head")
    assert (tmp_path / "ledger.db").read_bytes() == before
    named_files.write(tmp_path / "other-wal", b"written", "The head")


@pytest.mark.parametrize(
    ("private", "before", "after"),
    [
        (True, None, 0o600),
        (True, 0o644, 0o600),
        (True, 0o666, 0o600),
        (False, None, 0o644),
        (False, 0o666, 0o644),
        (False, 0o600, 0o600),
        (False, 0o640, 0o640),
    ],
)
def test_a_file_is_open_to_no_more_accounts_than_it_shall_be_or_than_the_one_before_it(
    tmp_path, usual_umask, private, before, after
):
    place = tmp_path / "file"
    if before is not None:
        place.write_bytes(b"old")
        place.chmod(before)
    with named_files.writing(place, "The export", private=private) as file:
        (scratch,) = [each for each in tmp_path.iterdir() if each != place]
        assert mode(scratch) == after  # from its first byte on
        file.write(b"new")
    assert (mode(place), place.read_bytes()) == (after, b"new")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_another_account_has_put_there_is_replaced_and_not_theirs_afterwards(tmp_path, usual_umask):
    place = tmp_path / "export.jsonl"
    place.write_bytes(b"theirs")
    os.chown(place, STRANGER, STRANGER)
    with place.open("rb") as opened:
        named_files.write(place, b"mine", "The export", private=True)
        assert opened.read() == b"theirs"
    assert (place.stat().st_uid, mode(place), place.read_bytes()) == (os.geteuid(), 0o600, b"mine")


def test_a_folder_that_is_missing_is_said_in_words(tmp_path):
    with pytest.raises(StoreError, match="The head cannot be written: a folder is missing"):
        named_files.write(tmp_path / "nowhere" / "head.json", b"new", "The head")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        named_files.write(tmp_path / "file" / "head.json", b"new", "The head")


KILLED = """
import os, sys
from pathlib import Path
from blockveil.pipeline.base import named_files
with named_files.writing(Path(sys.argv[1]), "The head") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_leaves_is_removed_by_the_next_one(tmp_path):
    place = tmp_path / "head.json"
    named_files.write(place, b"old", "The head")
    done = subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert place.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    named_files.write(place, b"new", "The head")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"head.json": b"new"}


def test_links_named_as_unfinished_work_stop_nobody_and_lead_nowhere(tmp_path):
    (tmp_path / "kept").write_bytes(b"mine")
    for number, target in enumerate(("kept", "nowhere", ".")):
        (tmp_path / f".staging-a-{number:012x}").symlink_to(target)
        (tmp_path / f".staging-b-{number:012x}.lock").symlink_to(target)
    named_files.write(tmp_path / "head.json", b"new", "The head")
    staging.Held(tmp_path, "site").discard()
    staging.sweep(tmp_path)
    assert (tmp_path / "kept").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_nobody_else_can_hold_the_lock_of_unfinished_work(tmp_path, usual_umask):
    held = staging.Held(tmp_path, "site")
    try:
        assert {mode(each) & 0o077 for each in tmp_path.iterdir()} == {0}
    finally:
        held.discard()

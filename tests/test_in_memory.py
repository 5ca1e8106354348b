"""Folders of tests are in memory where it has room for them, and none stays there after the process that made it."""

import os

import pytest

from tests.house import in_memory
from tests.house.in_memory import ENOUGH, new_folder


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """What stands for the memory: with so many free bytes, and files that may be executed or not."""

    def _shared(free, flags=0):
        found = os.statvfs(tmp_path)
        as_told = os.statvfs_result([*found[:2], 0, 0, free // found.f_frsize, *found[5:8], flags, found[9]])
        monkeypatch.setattr(in_memory.os, "statvfs", lambda path: as_told)
        monkeypatch.setattr(in_memory.Path, "read_text", lambda path: f"MemFree: 1 kB\nMemAvailable: {2**33} kB\n")
        return tmp_path

    return _shared


def test_a_folder_is_made_where_there_is_room_and_is_private(shared):
    folder = new_folder(shared(ENOUGH + 2**20))
    assert folder.name == f"blockveil-tests-{os.getpid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_name_that_another_account_has_taken_is_not_used(shared):
    place = shared(2 * ENOUGH)
    (place / f"blockveil-tests-{os.getpid()}").symlink_to(place / "of-others")
    (place / f"blockveil-tests-{2**22 + 1}").symlink_to(place / "nowhere")
    assert new_folder(place) is None
    assert not (place / "of-others").exists()


def test_no_folder_is_made_on_a_machine_that_has_no_such_place(tmp_path):
    assert new_folder(tmp_path / "nowhere") is None


def test_no_folder_is_made_where_there_is_no_room_no_memory_or_nothing_can_be_executed(shared):
    assert new_folder(shared(ENOUGH - 2**20)) is None
    assert new_folder(shared(2 * ENOUGH, os.ST_NOEXEC)) is None
    assert new_folder(shared(2**40), enough=2**39) is not None
    assert new_folder(shared(2**45), enough=2**44) is None


def test_what_a_process_that_is_gone_has_left_is_removed_and_nothing_else(shared):
    place = shared(0)
    for name in (f"blockveil-tests-{2**22 + 1}", f"blockveil-tests-{os.getpid()}", "blockveil-tests", "of-others"):
        (place / name / "below").mkdir(parents=True)
    assert new_folder(place) is None
    assert sorted(each.name for each in place.iterdir()) == [
        "blockveil-tests",
        f"blockveil-tests-{os.getpid()}",
        "of-others",
    ]

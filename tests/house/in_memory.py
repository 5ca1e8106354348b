"""Folders of tests in memory: what they write is synced thousands of times, for which a disk lets all of them wait.

A release syncs each file and folder that it writes. On a disk, the tests of releases spend more than half of their time
waiting for that.
"""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

SHARED = Path("/dev/shm")
ENOUGH = 6 * 2**30
"""Bytes: three times what the tests that are not slow leave there, so that memory stays for what they compute."""

_NAME = re.compile(r"blockveil-tests-(\d+)")


def new_folder(shared=SHARED, enough=ENOUGH):
    """A new folder in memory; None where there is not room enough, or what is there cannot be executed."""
    try:
        found = os.statvfs(shared)
        memory = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    tidy(shared)
    available = 1024 * int(re.search(r"^MemAvailable: +(\d+) kB$", memory, re.MULTILINE)[1])
    if found.f_flag & os.ST_NOEXEC or min(found.f_bavail * found.f_frsize, available) < enough:
        return None
    folder = shared / f"blockveil-tests-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:  # another account can make any name there
        return None
    return folder


def tidy(shared):
    """Remove what processes that are gone have left, be it for somebody to look into."""
    for each in shared.iterdir():
        name = _NAME.fullmatch(each.name)
        if name and not Path("/proc", name[1]).exists():
            with suppress(OSError):  # it is gone, or it is another account's
                shutil.rmtree(each)

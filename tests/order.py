"""In which order tests begin, and which share a process: none that takes minutes is waited for at the end."""

from collections import Counter
from pathlib import Path

from xdist.scheduler.loadfile import LoadFileScheduling

LONG = {
    line: place
    for place, line in enumerate(Path(__file__).with_name("long.txt").read_text().splitlines())
    if line and not line.startswith("#")
}
"""Files, tests and single cases of tests that take long, with their places: the longest are first."""


def file_of(test):
    """File of a test, as a path below the project."""
    return test.partition("::")[0]


def names_of(test):
    """What a line may call a test: itself, all its cases, or its file."""
    return test, test.partition("[")[0], file_of(test)


def place_of(test):
    """Place of a test in the list; behind all of them where it is in none."""
    return min((LONG[name] for name in names_of(test) if name in LONG), default=len(LONG) + 1_000)


def longest_first(items):
    """Sort what pytest has collected: the list, then files of many tests before those of few."""
    tests_in = Counter(file_of(item.nodeid) for item in items)
    items.sort(key=lambda item: (place_of(item.nodeid), -tests_in[file_of(item.nodeid)]))


def shares_with(test):
    """Name that tests of one process have in common: their file, or their own where the list names them."""
    return test if any(name in LONG for name in names_of(test)[:2]) else file_of(test)


class ByFile(LoadFileScheduling):
    """A file's tests share a process and what they start; a test that is in the list goes to whoever is free."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # they are in order

    def _split_scope(self, nodeid):
        return shares_with(nodeid)

"""Which tests run on each push, in which order they begin, and which share a process."""

import hashlib
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LONG = {
    line: place
    for place, line in enumerate((ROOT / "tests" / "long.txt").read_text().splitlines())
    if line and not line.startswith("#")
}
"""Files, tests and single cases of tests that take long, with their places: the longest are first."""

_LINES = (ROOT / "tests" / "costs.txt").read_text().splitlines()
COSTS = {test: float(seconds) for seconds, test in map(str.split, _LINES)}
"""Seconds of a processor that tests took, with all of their cases, and fixtures that tests of a file share."""

COSTLY = 0.7
"""Seconds from which on a test is not among those of ``make test``."""

SAMPLE = 1.0
"""Seconds that the cases of one test may take on each push; the others are among the slow."""

DEAR = 5.0
"""Seconds from which on a single case is slow too, unless a claim of the documents rests on its test."""

CLAIMED = frozenset(re.findall(r'"(tests/[^"]+::[^"]+)"', (ROOT / "docs" / "evidence.toml").read_text()))
"""Tests on which claims rest."""

OF_OTHERS = re.compile(r"^[^#]*\w\.test_\w+[,)]?$", re.MULTILINE)
"""How a file takes tests of another one for its own."""


def may_be_slow(path):
    """Whether a file can hold slow tests: it has the word, or tests of other files. No other is imported for them."""
    if not path.match("test_*.py"):
        return True
    text = path.read_text()
    return path in files_of_costly_tests() or "slow" in text.lower() or OF_OTHERS.search(text) is not None


def is_costly(test, fixtures=()):
    """Whether a test, as pytest names it, or a fixture that its file shares took many seconds of a processor."""
    name = test.partition("[")[0]
    shared = (f"{part}::{fixture}" for part in (file_of(name), name.rpartition("::")[0]) for fixture in fixtures)
    return any(COSTS.get(each, 0.0) >= COSTLY for each in (name, *shared))


def beyond_samples(tests):
    """Cases of tests beyond a sample that takes :data:`SAMPLE` seconds; digests of names choose.

    At least one is in it, but for tests whose cases are :data:`DEAR` and on which no claim rests.

    Parameters
    ----------
    tests
        As pytest names them, none of them slow already.
    """
    cases_of = defaultdict(list)
    for test in tests:
        cases_of[test.partition("[")[0]].append(test)
    beyond = set()
    for name, cases in cases_of.items():
        if (cost := COSTS.get(name, 0.0)) > SAMPLE:
            by_digest = sorted(cases, key=lambda test: hashlib.sha256(test.encode()).digest())
            least = int(name in CLAIMED or cost < DEAR * len(cases))
            beyond.update(by_digest[max(least, int(len(cases) * SAMPLE / cost)) :])
    return beyond


@cache
def files_of_costly_tests():
    """Files that hold costly tests."""
    return {ROOT / file_of(test) for test in COSTS if is_costly(test)}


def may_be_costly(path):
    """Whether a file holds costly tests, or none that pytest collects."""
    return not path.match("test_*.py") or path in files_of_costly_tests()


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
    """Sort what pytest has collected: the list, what shares a server, then files of many tests before those of few."""
    tests_in = Counter(file_of(item.nodeid) for item in items)

    def place(item):
        file = file_of(item.nodeid)
        return place_of(item.nodeid), not asks_for_a_server(file), -tests_in[file]

    items.sort(key=place)


def share_of(items, share):
    """The items of one of several equal shares, such as ``1/3``: files in turn, and in turn what the list names.

    Parameters
    ----------
    items
        All, in order.
    share
        Number of the share, and how many there are.
    """
    number, _, of = share.partition("/")
    together = [test if (test := item.nodeid.partition("[")[0]) in LONG else file_of(test) for item in items]
    turns = {name: turn for turn, name in enumerate(dict.fromkeys(together))}
    return [item for item, name in zip(items, together, strict=True) if turns[name] % int(of) == int(number) - 1]


ASKS_FOR_A_SERVER = re.compile(
    r'^def \w+\([^)]*\bprefect\b[^)]*\):|(usefixtures|getfixturevalue)\(.*"prefect"', re.MULTILINE
)


@cache
def asks_for_a_server(path):
    """Whether tests of a file take the fixture ``prefect``, whose server costs each process many seconds of a core."""
    file = ROOT / path
    return file.is_file() and ASKS_FOR_A_SERVER.search(file.read_text()) is not None


def shares_with(test):
    """Name that tests of one process have in common: their file, a server, or their own where the list names them."""
    if any(name in LONG for name in names_of(test)[:2]):
        return test
    if not asks_for_a_server(file_of(test)):
        return file_of(test)
    # Two servers, since tests that share one run one after the other: what starts services takes as long as the rest.
    return f"the server of Prefect, {'services' if '/service/' in file_of(test) else 'runs'}"

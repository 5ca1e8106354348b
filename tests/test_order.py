"""The list of long tests names tests that are there, and the longest begin first."""

from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.order import LONG, file_of, longest_first, names_of, shares_with

ROOT = Path(__file__).resolve().parents[1]
FIRST = next(iter(LONG))


@pytest.mark.parametrize("line", LONG)
def test_what_the_list_names_is_there(line):
    _, test, path = names_of(line)
    assert (ROOT / path).is_file()
    assert line == path or f"def {test.rpartition('::')[2]}(" in (ROOT / path).read_text()


def in_order(*tests):
    items = [SimpleNamespace(nodeid=test) for test in tests]
    longest_first(items)
    return [item.nodeid for item in items]


def test_long_tests_are_first_and_then_files_of_many_tests():
    short = ["tests/a.py::test_1", "tests/b.py::test_1", "tests/b.py::test_2"]
    assert in_order(*short, f"{FIRST}[x]", f"{FIRST}[y]") == [f"{FIRST}[x]", f"{FIRST}[y]", *short[1:], short[0]]


def test_the_tests_of_a_file_stay_together_but_for_those_of_the_list(request):
    collected = [item.nodeid for item in request.session.items]
    rest = [test for test in collected if shares_with(test) == file_of(test)]
    assert len(list(groupby(rest, file_of))) == len(set(map(file_of, rest)))
    assert shares_with(f"{FIRST}[x]") != shares_with(f"{FIRST}[y]")

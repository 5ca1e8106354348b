"""The list of long tests names tests that are there, and the longest begin first."""

import re
from functools import cache, partial
from itertools import chain, groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from _pytest.mark.expression import Expression

from tests.house.order import (
    CLAIMED,
    COSTLY,
    COSTS,
    DEAR,
    LONG,
    SAMPLE,
    asks_for_a_server,
    beyond_samples,
    file_of,
    is_costly,
    longest_first,
    may_be_slow,
    names_of,
    share_of,
    shares_with,
)

ROOT = Path(__file__).resolve().parents[1]
FIRST = next(iter(LONG))


@pytest.mark.parametrize("line", LONG)
def test_what_the_list_names_is_there(line):
    _, test, path = names_of(line)
    assert (ROOT / path).is_file()
    assert line == path or f"def {test.rpartition('::')[2]}(" in (ROOT / path).read_text()


def test_costs_are_of_tests_that_are_there_each_once_and_the_dearest_first():
    seconds = list(COSTS.values())
    assert seconds == sorted(seconds, reverse=True)
    gone = [test for test in COSTS if not is_there(test)]
    assert gone == []


def is_there(test):
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name.partition("::")[0] in words_of(path)


@cache
def words_of(path):
    return set(re.findall(r"\w+", (ROOT / path).read_text()))


def test_a_test_is_costly_with_all_of_its_cases(monkeypatch):
    monkeypatch.setitem(COSTS, "tests/a.py::test_1", 1.1 * COSTLY)
    monkeypatch.setitem(COSTS, "tests/a.py::test_2", 0.9 * COSTLY)
    names = ("tests/a.py::test_1", "tests/a.py::test_1[x::y]", "tests/a.py::test_2", "tests/a.py::test_3")
    assert [is_costly(name) for name in names] == [True, True, False, False]


def test_a_test_is_costly_too_where_what_it_shares_with_its_file_or_its_class_is(monkeypatch):
    monkeypatch.setitem(COSTS, "tests/a.py::site", 1.1 * COSTLY)
    monkeypatch.setitem(COSTS, "tests/a.py::TestA::night", 1.1 * COSTLY)
    assert is_costly("tests/a.py::test_1[x]", ["tmp_path", "site"])
    assert is_costly("tests/a.py::TestA::test_1", ["night"])
    assert not is_costly("tests/a.py::TestB::test_1", ["night"])
    assert not is_costly("tests/b.py::test_1", ["site"])


def test_of_a_costly_test_a_sample_runs_on_each_push_unless_one_case_is_dear_and_no_claim_rests_on_it(monkeypatch):
    claimed = min(CLAIMED)
    costs = {"tests/a.py::test_1": 5 * SAMPLE, "tests/a.py::test_2": 19 * DEAR, "tests/a.py::test_3": SAMPLE}
    single = {"tests/a.py::test_4": 0.9 * DEAR, "tests/a.py::test_5": 1.1 * DEAR, claimed: 1.1 * DEAR}
    for name, seconds in (costs | single).items():
        monkeypatch.setitem(COSTS, name, seconds)
    many, few, cheap = ([f"{name}[{case}]" for case in range(20)] for name in costs)
    tests = {*many, *few, *cheap, *single}
    beyond = beyond_samples(tests)
    assert [len(beyond & set(each)) for each in (many, few, cheap)] == [16, 19, 0]
    assert beyond & single.keys() == {"tests/a.py::test_5"}
    assert beyond == beyond_samples(sorted(tests, reverse=True))


def test_each_case_is_run_by_one_of_the_three_commands():
    makefile = (ROOT / "Makefile").read_text()
    marks_of = re.findall(r"^test(?:-\w+|):.*\n(?:\t@#.*\n)*\t\$\(tests\) -m (\w+|\"[^\"]+\")", makefile, re.MULTILINE)
    commands = [Expression.compile(marks.strip('"')) for marks in marks_of]
    assert len(commands) == 3
    # A case of a costly test that is beyond its sample has both marks.
    for marks in ([], ["costly"], ["slow"], ["costly", "slow"]):
        assert sum(command.evaluate(partial(is_among, marks)) for command in commands) == 1


def is_among(marks, name, **_):
    return name in marks


def in_order(*tests):
    items = [SimpleNamespace(nodeid=test) for test in tests]
    longest_first(items)
    return [item.nodeid for item in items]


def test_long_tests_are_first_and_then_files_of_many_tests():
    short = ["tests/a.py::test_1", "tests/b.py::test_1", "tests/b.py::test_2"]
    assert in_order(*short, f"{FIRST}[x]", f"{FIRST}[y]") == [f"{FIRST}[x]", f"{FIRST}[y]", *short[1:], short[0]]


def test_shares_have_every_test_once_and_files_as_a_whole():
    tests = [f"{FIRST}[x]", f"{FIRST}[y]", *(f"tests/{file}.py::test_{n}" for file in "abcde" for n in range(3))]
    items = [SimpleNamespace(nodeid=test) for test in tests]
    shares = [[item.nodeid for item in share_of(items, f"{number}/3")] for number in (1, 2, 3)]
    assert sorted(chain(*shares)) == sorted(tests)
    files = [{test.partition("[")[0] if test in tests[:2] else file_of(test) for test in share} for share in shares]
    assert [len(each) for each in files] == [2, 2, 2]
    assert not files[0] & files[1] | files[1] & files[2] | files[0] & files[2]
    assert share_of(items, "1/1") == items


def test_the_tests_of_a_file_stay_together_but_for_those_of_the_list(request):
    collected = [item.nodeid for item in request.session.items]
    rest = [test for test in collected if shares_with(test) == file_of(test)]
    assert len(list(groupby(rest, file_of))) == len(set(map(file_of, rest)))
    assert shares_with(f"{FIRST}[x]") != shares_with(f"{FIRST}[y]")


def test_tests_that_ask_for_a_server_share_two(request):
    asking = {file_of(item.nodeid) for item in request.session.items if "prefect" in item.fixturenames}
    assert all(map(asks_for_a_server, asking))
    assert not asks_for_a_server("tests/test_order.py")
    assert len({shares_with(f"{file}::test_a") for file in asking}) <= 2
    assert shares_with("tests/flows/cli/test_cli.py::test_a") == shares_with(
        "tests/flows/runs/test_conductor.py::test_b"
    )


def test_no_file_with_slow_tests_is_left_out_where_they_are_run(slow_files):
    assert sorted(path for path in slow_files if not may_be_slow(path)) == []


def test_a_file_may_be_slow_for_a_word_or_for_tests_of_others(tmp_path):
    file = tmp_path / "test_it.py"
    for text, wanted in {
        "def test_a(): ...": False,
        "@pytest.mark.slow\ndef test_a(): ...": True,
        "SAME = (\n    others.test_a,\n)": True,
        "test_a = others.test_a": True,
    }.items():
        file.write_text(text)
        assert may_be_slow(file) is wanted

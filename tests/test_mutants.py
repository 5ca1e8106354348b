"""Each test that guards a promise can fail: it finds a mistake that is planted for it."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import MEASURED, MUTANTS, unguarded
from tests.planted.mutant import Mutant
from tests.test_evidence import CLAIMS, PROMISES, functions_of, why_not

ROOT = Path(__file__).resolve().parents[1]
KNOWN = {mutant.test for mutant in MUTANTS}
OF_THEIR_OWN = {
    "tests/simulation/test_schedules.py::test_no_invariant_is_broken_by_some_schedules",
    "tests/simulation/test_schedules.py::test_no_invariant_is_broken_by_two_thousand_schedules",
    "tests/end_to_end/test_non_interference.py::test_a_planted_leak_is_found",
    "tests/end_to_end/test_non_interference.py::test_a_release_by_prefect_and_dask_depends_on_nothing_but_the_noise",
    "tests/engine/answers/test_gram.py::test_a_killed_worker_changes_no_bit",
}
"""Their mistakes are elsewhere: those of the simulator, a leak that is planted beside them, and a kill."""


def test_every_test_that_shows_a_promise_has_a_mistake_that_it_finds():
    shown = {test for promise in PROMISES for test in promise["shown_by"]}
    assert shown - KNOWN == OF_THEIR_OWN


def test_every_test_of_frozen_outputs_has_a_mistake_that_it_finds():
    path = "tests/pipeline/study/test_frozen_outputs.py"
    tests = {f"{path}::{name}" for name in functions_of(path) if name.startswith("test_")}
    assert len(tests) > 5
    assert tests - KNOWN == set()


def test_claims_without_a_mistake_of_their_own_are_told():
    guarded = [claim for claim in CLAIMS if KNOWN & set(claim.get("shown_by", ()))]
    assert len(unguarded()) + len(guarded) == len(CLAIMS)
    assert not {each["id"] for each in guarded} & unguarded().keys()
    assert list(unguarded().values()).count(MEASURED) == sum("shown_by" not in claim for claim in CLAIMS)


def test_every_mistake_is_one_of_what_the_product_says_now_for_a_test_that_is_there():
    assert [why for why in map(why_not, sorted(KNOWN)) if why] == []
    for mutant in MUTANTS:
        place, _ = mutant.source()
        before = as_it_is(mutant, place)
        with mutant.planted():
            assert as_it_is(mutant, place) != before, mutant
        assert as_it_is(mutant, place) == before, mutant


def as_it_is(mutant, place):
    """What a mistake changes: the code of a function, or a number of a module."""
    if inspect.ismodule(place):
        return getattr(place, mutant.where.partition(":")[2])
    return place.__code__.co_code, place.__code__.co_consts, place.__code__.co_names


def test_a_mistake_in_text_that_is_gone_is_an_error():
    for where in ("blockveil.pipeline.base.durable:sync", "blockveil.engine.answers.eight_bit:PIECE"):
        gone = Mutant("tests/test_mutants.py::test", where, "no such text", "")
        with pytest.raises(LookupError, match="has 0 times"), gone.planted():
            pass


@pytest.mark.parametrize(
    ("now", "with_the_mistake"),
    [
        ("half = width / 2\nreturn low + half * 3", "half = width / 2\nreturn low - half * 3"),
        ("h = w / 2\nreturn base + h * 3", "h = w / 2\nreturn base - h * 3"),
        ("half = width / 2\nreturn (\n    low\n    + half * 3\n)", "half = width / 2\nreturn (\n    low - half * 3\n)"),
    ],
)
def test_a_mistake_is_planted_whatever_local_variables_and_lines_are(now, with_the_mistake):
    mutant = Mutant("tests/test_mutants.py::test", "blockveil:anything", "low + half", "low - half")
    assert mutant.changed(now, {"half", "low", "h", "base", "w"}) == with_the_mistake


@pytest.mark.parametrize(
    "now", ["return low + low", "return LOW + half", "return low + half + low + half", "return f(low)"]
)
def test_a_mistake_is_not_planted_where_its_text_is_another_or_twice(now):
    mutant = Mutant("tests/test_mutants.py::test", "blockveil:anything", "low + half", "low - half")
    with pytest.raises(LookupError, match="times"):
        mutant.changed(now, {"half", "low"})


TRIED = """
import sys
from tests.mutants import Mutant, main

file, where = "tests/engine/answers/test_column_bins.py", "blockveil.engine.answers.column_bins:EdgeBins.places"
test = f"{file}::test_each_value_is_in_the_one_bin_that_its_borders_name"
right, none, crash = '"right"', '"left", sorter=None', "unheard_of"
sys.exit(main([], [Mutant(test, where, '"left"', each) for each in (right, none, crash)]))
"""


def run(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, *words]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_mistake_is_found_by_the_test_that_fails_and_none_is_that_does_nothing_or_only_crashes():
    done = run("-c", TRIED)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[:3]] == ["found", "NOT FOUND", "NOT FOUND"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_planted_mistake_is_found_by_the_test_that_guards_against_it():
    done = run("-m", "tests.mutants")
    assert done.returncode == 0, done.stdout
    # Of lines, for what was planted may hold the word itself.
    assert sum(line.startswith("found: ") for line in done.stdout.splitlines()) == len(MUTANTS)

"""Each test that guards a promise can fail: it finds a mistake that is planted for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import MUTANTS, Mutant, unguarded
from tests.test_evidence import CLAIMS, PROMISES, functions_of

ROOT = Path(__file__).resolve().parents[1]
OF_THEIR_OWN = {
    "tests/simulation/test_schedules.py::test_no_invariant_is_broken_by_ten_thousand_schedules",
    "tests/end_to_end/test_non_interference.py::test_a_planted_leak_is_found",
    "tests/end_to_end/test_non_interference.py::test_a_release_by_prefect_and_dask_depends_on_nothing_but_the_noise",
    "tests/engine/answers/test_gram.py::test_a_killed_worker_changes_no_bit",
    "tests/pipeline/releases/test_release.py::"
    "test_records_that_change_before_a_lost_part_is_read_again_are_never_released",
}
"""Their mistakes are elsewhere: those of the simulator, a leak that is planted beside them, and a kill."""


def test_every_test_that_shows_a_promise_has_a_mistake_that_it_finds():
    shown = {test for promise in PROMISES for test in promise["shown_by"]}
    assert shown - {mutant.test for mutant in MUTANTS} == OF_THEIR_OWN


def test_every_test_of_frozen_outputs_has_a_mistake_that_it_finds():
    path = "tests/pipeline/study/test_frozen_outputs.py"
    tests = {f"{path}::{name}" for name in functions_of(path) if name.startswith("test_")}
    assert len(tests) > 5
    assert tests - {mutant.test for mutant in MUTANTS} == set()


def test_claims_without_a_mistake_of_their_own_are_told():
    told, known = unguarded(), {mutant.test for mutant in MUTANTS}
    guarded = [claim for claim in CLAIMS if known & set(claim.get("shown_by", ()))]
    assert len(told) + len(guarded) == len(CLAIMS)
    assert not {f"{each['page']}: {each['says']}" for each in guarded} & set(told)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.test.partition("::")[2])
def test_a_mistake_can_be_planted_into_what_the_product_says_now(mutant):
    function, _ = mutant.source()
    before = function.__code__
    with mutant.planted():
        assert function.__code__.co_code != before.co_code or function.__code__.co_consts != before.co_consts
    assert function.__code__ is before


def test_a_mistake_in_text_that_is_gone_is_an_error():
    gone = Mutant("tests/test_mutants.py::test", "blockveil.pipeline.base.durable:sync", "no such text", "")
    with pytest.raises(LookupError, match="has 0 times"), gone.planted():
        pass


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_planted_mistake_is_found_by_the_test_that_guards_against_it():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tests.mutants"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    # Of lines, for what was planted may hold the word itself.
    assert sum(line.startswith("found: ") for line in done.stdout.splitlines()) == len(MUTANTS)

"""A night whose release leaves for an object store, as a run of Prefect: whatever fails costs one charge and no bit."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from blockveil.flows.runs import release_flow
from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.pipeline.base.errors import StoreUnreachable
from blockveil.pipeline.releases import destination
from blockveil.pipeline.releases.keys import KeyStore
from tests.house import support
from tests.pipeline.data.test_objects import SECRET
from tests.pipeline.releases.test_uploading import bucket, door, kinds, names, pointers, sent_to

__all__ = ["bucket", "door"]  # fixtures

NIGHT = date(2026, 11, 20)
POINTER = "people/covariance/2026-11-20.json"


@pytest.fixture
def people(tmp_path, bucket, monkeypatch, prefect):
    """A release that is sent, and its budget."""
    monkeypatch.setenv(CONFIG_ROOT, str(tmp_path))
    return sent_to(support.prepare(tmp_path), f"{bucket}/out")


def run():
    return release_flow.release(release="people", mode="release", logical_date=NIGHT, return_state=True)


def chunks(folder):
    """What a release says in numbers, by name."""
    files = [file for file in folder.rglob("*") if file.is_file() and "c" in file.parts]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@pytest.mark.parametrize(
    ("fault", "where", "words"),
    [
        ("denied", ".zarr/", "no permission"),
        ("skewed", ".zarr/", "clock"),
        ("denied", POINTER, "no permission"),
        ("busy", POINTER, "does not answer"),
    ],
)
def test_an_upload_that_fails_at_any_object_ends_the_run_in_words_and_the_next_one_finishes_it(
    people, bucket, door, fault, where, words
):
    door.fault = lambda method, path, number: fault if method == "PUT" and where in path else "pass"
    state = run()
    assert state.name == "StoreProblem", state.message
    assert words in state.message
    assert "stands" in state.message
    for secret in (SECRET, "never-to-be-quoted"):
        assert secret not in state.message
    assert pointers(f"{bucket}/out") == []
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED"]
    (before,) = people.output_root.rglob("*.zarr")
    bits = chunks(before)
    door.reset()
    again = run()
    assert again.is_completed(), again.message
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert POINTER in pointers(f"{bucket}/out")
    assert bits
    assert chunks(before) == bits
    assert KeyStore(people.keys_root).list() == []


@pytest.mark.parametrize("fault", ["busy", "lost"])
def test_a_store_that_fails_once_at_every_third_object_is_tried_again_within_the_run(people, bucket, door, fault):
    tries = Counter()  # by number alone, all tries of one request could be third ones

    def first_try_of_every_third(method, path, number):
        tries[method, path] += 1
        return fault if tries[method, path] == 1 and len(tries) % 3 == 0 else "pass"

    door.fault = first_try_of_every_third
    state = run()
    door.reset()
    assert state.is_completed(), state.message
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert POINTER in pointers(f"{bucket}/out")


def test_a_store_that_is_away_for_one_attempt_of_the_step_ends_with_the_release(people, bucket, monkeypatch):
    send, tries = destination.send, []

    def away_once(*args):
        tries.append(1)
        if len(tries) == 1:
            raise StoreUnreachable("the store", "is away", "Wait.")
        return send(*args)

    monkeypatch.setattr(destination, "send", away_once)
    state = run()
    assert state.is_completed(), state.message
    assert len(tries) == 2
    assert kinds(people) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


def test_a_store_that_refuses_beforehand_ends_the_run_before_anything_is_charged(people, bucket, door):
    door.fault = lambda method, path, number: "denied"
    state = run()
    assert state.name == "StoreProblem"
    assert state.message.endswith("Nothing was spent.")
    assert "COMMITTED" not in kinds(people)
    door.reset()
    assert names(bucket) == []
    assert run().is_completed()

"""Parts are looked at side by side and taken in order."""

import threading
import time

import pytest

from blockveil.pipeline.report.in_order import in_order


def test_results_are_taken_in_order_by_the_caller_whichever_is_ready_first():
    taken, here = [], threading.get_ident()

    def look(number):
        time.sleep(0.02 if number % 3 == 0 else 0.0)
        return number

    def take(number):
        taken.append((number, threading.get_ident() == here))

    in_order(range(20), look, take)
    assert taken == [(number, True) for number in range(20)]


def test_only_a_few_parts_wait_at_once():
    begun, most = [], []

    def parts():
        for number in range(50):
            most.append(number - len(begun))
            yield number

    in_order(parts(), lambda number: number, begun.append)
    assert max(most) <= 6


@pytest.mark.parametrize("stage", ["look", "take"])
def test_a_failure_reaches_the_caller(stage):
    def fail(number):
        if number == 3:
            raise ValueError("three")
        return number

    steps = (fail, lambda number: None) if stage == "look" else (lambda number: number, fail)
    with pytest.raises(ValueError, match="three"):
        in_order(range(10), *steps)

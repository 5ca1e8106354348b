"""Steps as data: what is tried again, and how often."""

import pytest

from blockveil.pipeline.base.errors import ComputeError, DataError, StoreUnreachable
from blockveil.pipeline.releases.order import may_pass, once, plainly


class Derived(ComputeError):
    """A failure that only looks like one that may pass."""


def failing(error, times):
    tries = []

    def work():
        tries.append(1)
        if len(tries) <= times:
            raise error
        return "done"

    return work, tries


@pytest.mark.parametrize("error", [ComputeError("Lost", "0"), StoreUnreachable("a", "b", "c")])
def test_a_step_is_tried_again_after_a_failure_that_may_pass(error):
    work, tries = failing(error, 2)
    assert plainly("step", work, 2) == "done"
    assert len(tries) == 3


def test_the_last_failure_is_raised_once_the_tries_are_used_up():
    work, tries = failing(ComputeError("Lost", "0"), 3)
    with pytest.raises(ComputeError):
        plainly("step", work, 2)
    assert len(tries) == 3


@pytest.mark.parametrize("error", [Derived("Lost", "0"), DataError("a", "b", "c"), KeyboardInterrupt(), OSError()])
def test_what_cannot_pass_is_raised_at_once(error):
    work, tries = failing(error, 1)
    with pytest.raises(type(error)):
        plainly("step", work, 2)
    assert len(tries) == 1
    assert not may_pass(error)


def test_a_step_that_runs_once_is_not_tried_again():
    work, tries = failing(ComputeError("Lost", "0"), 1)
    with pytest.raises(ComputeError):
        once("step", work, 2)
    assert len(tries) == 1

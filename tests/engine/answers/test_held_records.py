"""Records of a training that stay in memory: until their key is forgotten, and for the attempt that runs."""

import numpy as np
import pytest

from blockveil.engine.answers import held_records
from blockveil.engine.answers.held_records import Holding
from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.noise import keyring
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from tests.engine.answers.test_gradients import make, records

QUERY = make()
VALUES = records(QUERY)
MANY = 10**9
"""Records for which there is room packed alone."""


def summed(holding):
    return GradientsAtStep(QUERY, 0, None, holding).total(VALUES, 0, len(VALUES), 100)


@pytest.fixture
def training():
    """Handle of a training whose key is installed here."""
    keyring.install("held", NoiseKey(bytes(32)))
    yield "held"
    forget("held")
    assert (held_records._kept, held_records._taken) == ({}, 0)


def forget(handle):
    """As whoever runs the tasks does, in this order."""
    keyring.forget(handle)
    held_records.forget(handle)


def test_a_task_that_ends_after_its_key_is_forgotten_keeps_no_record(training, monkeypatch):
    held, ended = type(QUERY)._held, []

    def while_it_is_given_up(*args, **kwargs):
        if not ended:
            forget(training)
        ended.append(1)
        return held(*args, **kwargs)

    wanted = summed(None)
    monkeypatch.setattr(type(QUERY), "_held", while_it_is_given_up)
    assert np.array_equal(summed(Holding(training, "first", 10**8, len(VALUES))), wanted)
    assert len(ended) == 3, "the test means nothing where no range was to be kept"
    assert (held_records._kept, held_records._taken) == ({}, 0)


def test_what_a_killed_attempt_left_makes_room_for_the_next(training):
    wanted = summed(Holding(training, "killed", 10**8, len(VALUES)))
    size = held_records._taken
    assert size > 0
    room = int(1.2 * size)
    assert np.array_equal(summed(Holding(training, "next", room, len(VALUES))), wanted)
    assert {name for name, *_ in held_records._kept[training]} == {"next"}
    assert held_records._taken == size, "each range is kept, once"


def test_no_more_is_kept_than_there_is_room_for(training):
    summed(Holding(training, "all", 10**8, MANY))
    size = held_records._taken
    forget(training)
    keyring.install(training, NoiseKey(bytes(32)))
    wanted = summed(None)
    assert np.array_equal(summed(Holding(training, "some", size - 1, MANY)), wanted)
    assert held_records._taken == 2 * size // 3, "two of three ranges"


@pytest.mark.parametrize(("rows", "size"), [(1, 16), (MANY, 6)], ids=["as they are multiplied", "packed"])
def test_integers_are_packed_where_those_of_all_records_have_no_room_otherwise(training, rows, size):
    holding, wanted = Holding(training, "all", 10**8, rows), summed(None)
    for _ in range(2):
        assert np.array_equal(summed(holding), wanted)
    assert held_records._taken == len(VALUES) * (size * QUERY.features.width + 17)

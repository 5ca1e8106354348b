"""Runs that lost their process are ended, by who starts processes; runs that wait for a person are not."""

import asyncio
import os
import signal
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import StateType
from prefect.states import AwaitingRetry, Crashed, Pending, Running, Suspended

from blockveil.flows.runs.deployed import DATASET
from blockveil.flows.service import runner, silence


class Server:
    """Runs and workers, and what was set."""

    def __init__(self, *states, worker=None):
        labels = {} if worker is None else {silence.LABEL: worker}
        self.runs = {(number := UUID(int=each)): self.run(number, state, labels) for each, state in enumerate(states)}
        self.beats, self.away = {}, False

    @staticmethod
    def run(number, state, labels):
        return SimpleNamespace(id=number, name=f"run-{number.int}", state=state, labels=labels)

    @contextmanager
    def client(self, **_):
        yield self

    def pages(self, _, runs, pool=None):
        if self.away:
            raise ConnectionError
        return [run for run in self.runs.values() if run.state.type in runs.state.type.any_]

    def read_workers_for_work_pool(self, pool, offset, limit):
        beats = [SimpleNamespace(name=name, last_heartbeat_time=beat) for name, beat in self.beats.items()]
        return beats[offset : offset + limit]

    def read_flow_run(self, number):
        return self.runs[number]

    def set_flow_run_state(self, number, state, force):
        self.runs[number].state = state


@pytest.fixture
def judged(monkeypatch):
    """Let a watch look at a server for so many seconds, ten seconds apart; the clock goes on between calls."""
    clock = [1000.0]
    monkeypatch.setattr(silence, "monotonic", lambda: clock[0])

    def look(watch, server, seconds, mine=(), meanwhile=lambda second: None):
        monkeypatch.setattr(silence, "get_client", server.client)
        monkeypatch.setattr(silence, "pages", server.pages)
        for second in range(0, seconds, 10):
            meanwhile(second)
            watch.look(mine)
            clock[0] += 10
        return [run.state.type for run in server.runs.values()]

    return look


@pytest.mark.parametrize(
    "state", [Suspended(timeout_seconds=9999), AwaitingRetry()], ids=["for a person", "to be tried"]
)
def test_a_run_that_waits_is_never_taken_for_dead(judged, state):
    server = Server(state)
    assert judged(silence.Watch(), server, 3600) == [state.type]


def test_a_run_that_comes_to_wait_while_it_is_looked_at_stays_waiting(judged, monkeypatch):
    server, watch = Server(Running()), silence.Watch()
    judged(watch, server, 80)
    settle = watch._settle

    def suspended_before(client, run):
        server.runs[run.id] = Server.run(run.id, Suspended(timeout_seconds=9999), {})
        settle(client, run)

    monkeypatch.setattr(watch, "_settle", suspended_before)
    assert judged(watch, server, 120) == [StateType.PAUSED]


def test_a_run_that_lost_its_process_is_ended_after_a_while_and_one_that_has_it_goes_on(judged):
    server, watch = Server(Running(), Running(), Pending()), silence.Watch()
    assert judged(watch, server, 90, mine={UUID(int=1)}) == ["RUNNING", "RUNNING", "PENDING"]
    assert judged(watch, server, 20, mine={UUID(int=1)}) == ["CRASHED", "RUNNING", "CRASHED"]
    assert "No sign of life" in server.runs[UUID(int=0)].state.message


def test_a_run_whose_state_changes_or_that_a_server_cannot_show_for_a_moment_is_not_silent(judged):
    server, watch = Server(Running()), silence.Watch()

    def again(second):
        if second % 60 == 0:
            server.runs[UUID(int=0)].state = Running()

    assert judged(watch, server, 600, meanwhile=again) == ["RUNNING"]

    def away(second):
        server.away = second % 60 == 0

    assert judged(watch, server, 600, meanwhile=away) == ["RUNNING"]


def test_a_run_of_a_team_lives_as_long_as_its_worker_beats_and_whoever_comes_ends_it_then(judged):
    server, watch = Server(Running(), worker="another"), silence.Watch(pool="team", worker="me")

    def beats(second):
        server.beats = {"another": datetime.now(UTC) + timedelta(seconds=second), "me": datetime.now(UTC)}

    assert judged(watch, server, 600, meanwhile=beats) == ["RUNNING"]
    assert judged(watch, server, 120) == ["CRASHED"]


@pytest.mark.parametrize("worker", ["me", "one that was never heard of"])
def test_a_run_that_no_process_of_its_worker_has_is_ended_although_that_worker_may_beat(judged, worker):
    server, watch = Server(Running(), worker=worker), silence.Watch(pool="team", worker="me")

    def beats(second):
        server.beats = {"me": second}

    assert judged(watch, server, 120, meanwhile=beats) == ["CRASHED"]


def test_what_a_person_cancelled_is_cancelled_and_a_night_is_tried_again(judged):
    cancelling = Crashed().model_copy(update={"type": StateType.CANCELLING, "name": "Cancelling"})
    server, asked = Server(cancelling, Running()), []

    def died(number):
        asked.append(number)
        server.runs[number].state = AwaitingRetry()
        return server.runs[number].state

    assert judged(silence.Watch(died=died), server, 200) == ["CANCELLED", "SCHEDULED"]
    assert asked == [UUID(int=1)]


@pytest.mark.parametrize("state", [Suspended(timeout_seconds=9999), Running()], ids=["waits", "worked"])
def test_how_its_process_ended_is_nothing_to_a_run_that_waits_for_a_person(tmp_path, state):
    run = SimpleNamespace(id=uuid4(), state=state)

    class Client:
        async def read_flow_run(self, number):
            return run

    async def crash():
        run.state = Crashed()

    looks = runner.Runner(None, tmp_path, 10, 9, silence.Watch(died=lambda _: None))
    asyncio.run(looks._after_death(Client(), run, "Process exited with status code: -9", crash))
    assert run.state.type is (StateType.CRASHED if state.is_running() else StateType.PAUSED)


def due(dataset, number=None):
    tags = [] if dataset is None else ["blockveil", f"{DATASET}{dataset}"]
    return SimpleNamespace(id=number or uuid4(), tags=tags, next_scheduled_start_time=None)


def test_at_most_two_late_nights_of_a_data_set_start_at_once_and_runs_of_others_are_not_held_back(tmp_path):
    runs = [due("visits") for _ in range(6)] + [due("people"), due(None), due(None), due(None)]
    started, most, done = [], [], asyncio.Event()

    async def find(client, before):
        return [run for run in runs if run.id not in started]

    looks = runner.Runner(find, tmp_path, 10, 9, silence.Watch())

    async def start(client, run):
        started.append(run.id)
        await done.wait()
        del looks._at_work[run.id]

    async def look():
        looks._start = start
        for _ in range(4):
            await looks._look(None)
            await asyncio.sleep(0)
            most.append(sum(run.id in started for run in runs[:6]))
            if len(most) == 2:
                assert {run.id for run in runs[6:]} <= set(started)
                done.set()
                await asyncio.gather(*looks._tasks)

    asyncio.run(look())
    assert most[:3] == [2, 2, 4]


def test_a_stop_does_not_wait_for_a_server_that_is_slow_to_answer(tmp_path, monkeypatch):
    answers, asked = threading.Event(), threading.Event()

    async def find(client, before):
        asked.set()
        await runner.in_background(answers.wait)
        raise AssertionError("the stop came first")

    class Client:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

    monkeypatch.setattr(runner, "get_client", Client)

    def stop():
        asked.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    stopping = threading.Thread(target=stop)
    stopping.start()
    asyncio.run(runner.Runner(find, tmp_path, 10, 5, silence.Watch()).until_stopped(lambda: False))
    stopping.join()
    assert not answers.is_set()
    answers.set()


def test_what_is_done_in_the_background_gives_its_result_and_its_failure():
    def fails():
        raise ValueError("words")

    async def both():
        assert await runner.in_background(lambda one, two: one + two, 1, 2) == 3
        with pytest.raises(ValueError, match="words"):
            await runner.in_background(fails)

    asyncio.run(both())

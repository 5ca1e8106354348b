"""A month of nights in a row: data that grow, restarts, a late day, a missed one, and a store that goes away.

Thirty dates are released one after the other through the Prefect server, each with the ingest of what arrived, by two
configs of one service: one has its ledger in SQLite, the other in PostgreSQL. The service is killed in the middle of a
night of each, stopped, and killed between two nights; one date has no run; one file comes a day late; and for one night
the object store that readers fetch from does not answer.
"""

import os
import shutil
import signal
import time
from datetime import date, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.analysis.opening import open_
from blockveil.pipeline.budget.filter import NOTHING
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.keys import KeyStore
from tests.end_to_end import forked
from tests.end_to_end.served import kill_all, serve
from tests.house.faulty_store import Door
from tests.house.postgres_server import CannotStart, PostgresServer
from tests.pipeline.data.test_objects import made_bucket, started_server

FIRST, NIGHTS, ROWS, COLUMNS = date(2026, 11, 1), 30, 10_000, 20
KILLED, STOPPED, MISSED, LATE, AWAY, KILLED_BETWEEN = {"sqlite": 6, "postgres": 8}, 10, 13, 17, 22, 26
UNIT = "one visit (one row)"
NAMES = [f"value{number:02d}" for number in range(COLUMNS)]

INGEST = f"""
columns = [{", ".join(f'{{ name = "{name}", kind = "whole", missing = "refuse" }}' for name in NAMES)}]

[ingest]
store = "@name@.zarr"
append = true
late = "next"
dtype = "int8"

[source]
kind = "parquet"
files = ["arrived/*.parquet"]

[unit]
kind = "row"
name = "{UNIT}"
"""

RELEASE = f"""
[release]
dataset = "@name@"
name = "so-far"

[data]
store = "@name@.zarr"

[query]
kind = "covariance"
rows_at_most = 1_000_000
missing = "refuse"

[query.geometry]
kind = "box"
origin = "midpoint"
features = [{", ".join(f'{{ name = "{name}", lower = 0, upper = 100 }}' for name in NAMES)}]

[privacy]
epsilon = 1.0
delta = 1e-9
neighbours = "add-remove"
unit = "{UNIT}"

[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"

[continual]
nights = {NIGHTS}
first = {FIRST}
windows = [7]

[cluster]
kind = "threads"

[output]
root = "releases"
ledger = "@ledger@"
keys = "keys-of-@name@"
upload = "@bucket@"
"""

DEPLOYMENT = """
[[night]]
config = "@name@"
ingest = "arrivals-of-@name@"
cron = "0 3 1 1 *"
timezone = "UTC"
mode = "release"
missed_nights = "skip"
"""


def arrivals(number):
    """What a day brings: whole numbers from 0 to 100, so that nothing is rounded."""
    return np.random.default_rng(number).integers(0, 101, (ROWS, COLUMNS)).astype(np.int8)


def arrive(folder, number):
    """Let the file of a day appear, unless it is there."""
    place = folder / "arrived" / f"day-{number:02d}.parquet"
    if not place.exists():
        arrow_parquet.write_table(pa.table(dict(zip(NAMES, arrivals(number).T, strict=True))), f"{place}.part")
        place.with_name(f"{place.name}.part").rename(place)


def on(number):
    return FIRST + timedelta(days=number - 1)


@pytest.fixture
def outside(monkeypatch, request):
    """A bucket behind a door that can fail."""
    running = started_server()
    host, port = running.get_host_and_port()
    door = Door(f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
    yield door, made_bucket(door.address, monkeypatch, request.node.nodeid)
    door.close()
    running.stop()


@pytest.fixture
def places(monkeypatch):
    """Where each ledger is kept, as its config says it, and why there is none in PostgreSQL."""
    found = {"sqlite": "private/ledger.db"}
    try:
        server = PostgresServer()
    except CannotStart as reason:
        if os.environ.get("BLOCKVEIL_REQUIRE_POSTGRES"):
            raise
        yield found, f"PostgreSQL cannot be started here: {reason}"
        return
    monkeypatch.setenv("MONTH_LEDGER", server.url(server.new_database()))
    yield {**found, "postgres": "env:MONTH_LEDGER"}, ""
    server.stop()


def site(folder, bucket, places):
    """Configs by their name, and the budget of each."""
    (folder / "arrived").mkdir()
    (folder / "private").mkdir(mode=0o700)
    configs, deployments = {}, ""
    for name, place in places.items():
        (folder / f"arrivals-of-{name}.toml").write_text(INGEST.replace("@name@", name))
        text = RELEASE.replace("@name@", name).replace("@bucket@", bucket).replace("@ledger@", place)
        (folder / f"{name}.toml").write_text(text)
        configs[name] = load_config(folder / f"{name}.toml")
        Ledger(configs[name].ledger_url).set_budget(name, 1.0, 1e-8, Neighbours.ADD_REMOVE, UNIT)
        deployments += DEPLOYMENT.replace("@name@", name)
    (folder / "deployments.toml").write_text(deployments)
    return configs


def started(served, configs, number):
    """A run of each config for a date."""
    day = on(number).isoformat()
    return [served.run(f"release/{name}", release=name, mode="release", logical_date=day) for name in configs]


def one_night(served, configs, number):
    """Name and message of the state in which each run of a date ends."""
    found = [served.state(run) for run in started(served, configs, number)]
    return [(state["name"], state["message"]) for state in found]


def states(ledger):
    """Newest entry of each date's charge."""
    return {entry.release_id[-10:]: entry.kind for entry in ledger.history() if entry.release_id is not None}


def begun(config, number):
    """Whether a date has been charged, or is about to be."""
    return on(number).isoformat() in states(Ledger(config.ledger_url))


def live(folder, served, door, configs, number, took):
    """Release dates from one on until the service is ended; the date to go on with."""
    while number <= NIGHTS:
        if number != LATE:
            arrive(folder, number)
        if number == LATE + 1:
            arrive(folder, LATE)
        if number == MISSED:
            number += 1
            continue
        killed = [config for name, config in configs.items() if number == KILLED[name] and not begun(config, number)]
        if killed:
            started(served, configs, number)
            served.wait(partial(begun, *killed, number), "the night does not begin")
            kill_all(served.process)
            return number
        if number == AWAY:
            door.fault = lambda method, path, count: "busy"
            ends = one_night(served, configs, number)
            door.reset()
            assert not [end for end in ends if end[0] in ("Completed", "Skipped")], ends
        began = time.monotonic()
        ends = one_night(served, configs, number)
        assert [name for name, _ in ends] == ["Completed"] * len(configs), (number, ends)
        took[number] = time.monotonic() - began
        number += 1
        if number - 1 in (STOPPED, KILLED_BETWEEN):
            served.process.send_signal(signal.SIGTERM if number - 1 == STOPPED else signal.SIGKILL)
            served.process.wait(120)
            return number
    return number


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_month_of_nights_is_released_as_configured_through_restarts_and_outages(tmp_path, places, outside):
    (door, bucket), (kept, why_not) = outside, places
    configs, took, number = site(tmp_path, bucket, kept), {}, 1
    while number <= NIGHTS:
        with serve(tmp_path, tmp_path / "home", forked.command(), PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
            number = live(tmp_path, served, door, configs, number, took)
    print("\n" + ", ".join(f"{night}: {seconds:.1f} s" for night, seconds in took.items()))

    for name, loaded in configs.items():
        check(name, loaded, bucket)
    assert not list(tmp_path.rglob(".staging*"))
    if why_not:
        pytest.skip(f"with SQLite all is well; {why_not}")


def check(name, loaded, bucket):
    """Every night is released as configured and charged once, holds what had arrived, and is found elsewhere."""
    ledger = Ledger(loaded.ledger_url)
    wanted = {on(night).isoformat() for night in range(1, NIGHTS + 1) if night != MISSED}
    assert {day for day, kind in states(ledger).items() if kind == "RELEASED"} == wanted
    committed = [entry.release_id for entry in ledger.history() if entry.kind == "COMMITTED"]
    assert len(committed) == len(set(committed)) == NIGHTS - 1
    status = ledger.budget(name)
    assert status.spent == status.cap.book(make_plan(loaded, FIRST).charge, NOTHING)
    assert ledger.verify().problems == []
    assert KeyStore(loaded.keys_root).list() == []
    # Each night holds what had arrived, within its noise; the late day counts from the night after.
    for night in (1, KILLED[name], MISSED + 1, LATE, LATE + 1, AWAY, NIGHTS):
        days = [day for day in range(1, night + 1) if not (day == LATE == night)]
        true = np.concatenate([arrivals(day) for day in days]).astype(float)
        found = read_release(loaded.output_root / name / "so-far" / f"{on(night)}.json").arrays
        for part, value in (("count", float(len(true))), ("mean", true.mean(axis=0))):
            assert np.all(np.abs(found[part] - value) < 8 * found[f"{part}_standard_deviation"] + 1e-6), (night, part)
    last = read_release(loaded.output_root / name / "so-far" / f"{on(NIGHTS)}.json").arrays
    week = float(ROWS * 7)
    assert abs(float(last["last_7_count"]) - week) < 8 * float(last["last_7_count_standard_deviation"])
    # Readers elsewhere find every night.
    shutil.rmtree(loaded.output_root / name)
    for day in wanted:
        assert open_(f"{bucket}/{name}/so-far/{day}.json").release_id == f"{name}/so-far/{day}"

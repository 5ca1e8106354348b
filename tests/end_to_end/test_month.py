"""A month of nights in a row: data that grow, restarts, a late day, a missed one, and a store that goes away.

Thirty dates are released one after the other through the Prefect server, each with the ingest of what arrived. The
service is killed in the middle of a night, stopped, and killed between two nights; one date has no run; one file comes
a day late; and for one night the object store that readers fetch from does not answer.
"""

import shutil
import signal
import time
from datetime import date, timedelta

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
from tests.end_to_end.served import kill_all, serve
from tests.faulty_store import Door
from tests.pipeline.data.test_objects import made_bucket, started_server

FIRST, NIGHTS, ROWS, COLUMNS = date(2026, 11, 1), 30, 10_000, 20
KILLED, STOPPED, MISSED, LATE, AWAY, KILLED_BETWEEN = 6, 10, 13, 17, 22, 26
UNIT = "one visit (one row)"
NAMES = [f"value{number:02d}" for number in range(COLUMNS)]

INGEST = f"""
columns = [{", ".join(f'{{ name = "{name}", kind = "whole", missing = "refuse" }}' for name in NAMES)}]

[ingest]
store = "visits.zarr"
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
dataset = "visits"
name = "so-far"

[data]
store = "visits.zarr"

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
keys = "keys"
upload = "@bucket@"
"""

DEPLOYMENT = """
[[night]]
config = "so-far"
ingest = "arrivals"
cron = "0 3 1 1 *"
timezone = "UTC"
mode = "release"
missed = "skip"
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


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, monkeypatch):
    """Where the ledger is kept, as a config says it."""
    if request.param == "sqlite":
        return "private/ledger.db"
    server = request.getfixturevalue("postgres")
    monkeypatch.setenv("MONTH_LEDGER", server.url(server.new_database()))
    return "env:MONTH_LEDGER"


def site(folder, bucket, place):
    (folder / "arrived").mkdir()
    (folder / "private").mkdir(mode=0o700)
    (folder / "arrivals.toml").write_text(INGEST)
    (folder / "so-far.toml").write_text(RELEASE.replace("@bucket@", bucket).replace("@ledger@", place))
    (folder / "deployments.toml").write_text(DEPLOYMENT)
    loaded = load_config(folder / "so-far.toml")
    Ledger(loaded.ledger_url).set_budget("visits", 1.0, 1e-8, Neighbours.ADD_REMOVE, UNIT)
    return loaded


def start(served, number):
    return served.run("release/so-far", release="so-far", mode="release", logical_date=on(number).isoformat())


def one_night(served, number):
    state = served.state(start(served, number))
    return state["name"], state["message"]


def states(ledger):
    """Newest entry of each date's charge."""
    return {entry.release_id[-10:]: entry.kind for entry in ledger.history() if entry.release_id is not None}


def live(folder, served, door, ledger, number, took):
    """Release dates from one on until the service is ended; the date to go on with."""
    while number <= NIGHTS:
        if number != LATE:
            arrive(folder, number)
        if number == LATE + 1:
            arrive(folder, LATE)
        if number == MISSED:
            number += 1
            continue
        if number == KILLED and on(KILLED).isoformat() not in states(ledger):
            start(served, number)
            served.wait(lambda: on(KILLED).isoformat() in states(ledger), "the night does not begin")
            kill_all(served.process)
            return number
        if number == AWAY:
            door.fault = lambda method, path, count: "busy"
            name, message = one_night(served, number)
            door.reset()
            assert name not in ("Completed", "Skipped"), message
        began = time.monotonic()
        name, message = one_night(served, number)
        assert name == "Completed", (number, message)
        took[number] = time.monotonic() - began
        number += 1
        if number - 1 in (STOPPED, KILLED_BETWEEN):
            served.process.send_signal(signal.SIGTERM if number - 1 == STOPPED else signal.SIGKILL)
            served.process.wait(120)
            return number
    return number


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_month_of_nights_is_released_as_configured_through_restarts_and_outages(tmp_path, place, outside):
    door, bucket = outside
    loaded, took, number = site(tmp_path, bucket, place), {}, 1
    ledger = Ledger(loaded.ledger_url)
    while number <= NIGHTS:
        with serve(tmp_path, tmp_path / "home") as served:
            number = live(tmp_path, served, door, ledger, number, took)
    print("\n" + ", ".join(f"{night}: {seconds:.1f} s" for night, seconds in took.items()))

    wanted = {on(night).isoformat() for night in range(1, NIGHTS + 1) if night != MISSED}
    assert {day for day, kind in states(ledger).items() if kind == "RELEASED"} == wanted
    committed = [entry.release_id for entry in ledger.history() if entry.kind == "COMMITTED"]
    assert len(committed) == len(set(committed)) == NIGHTS - 1
    status = ledger.budget("visits")
    assert status.spent == status.cap.book(make_plan(loaded, FIRST).charge, NOTHING)
    assert ledger.verify().problems == []
    assert KeyStore(loaded.keys_root).list() == []
    assert not list(tmp_path.rglob(".staging*"))
    # Each night holds what had arrived, within its noise; the late day counts from the night after.
    for night in (1, KILLED, MISSED + 1, LATE, LATE + 1, AWAY, NIGHTS):
        days = [day for day in range(1, night + 1) if not (day == LATE == night)]
        true = np.concatenate([arrivals(day) for day in days]).astype(float)
        found = read_release(loaded.output_root / "visits" / "so-far" / f"{on(night)}.json").arrays
        for name, value in (("count", float(len(true))), ("mean", true.mean(axis=0))):
            assert np.all(np.abs(found[name] - value) < 8 * found[f"{name}_standard_deviation"] + 1e-6), (night, name)
    last = read_release(loaded.output_root / "visits" / "so-far" / f"{on(NIGHTS)}.json").arrays
    week = float(ROWS * 7)
    assert abs(float(last["last_7_count"]) - week) < 8 * float(last["last_7_count_standard_deviation"])
    # Readers elsewhere find every night.
    shutil.rmtree(loaded.output_root)
    for day in wanted:
        assert open_(f"{bucket}/visits/so-far/{day}.json").release_id == f"visits/so-far/{day}"

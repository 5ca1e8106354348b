"""Nights under kills: twelve nights, one a minute, while the service is killed three times and stopped once."""

import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from blockveil.flows.runs.steps import FAILURES
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests import support
from tests.end_to_end.served import kill_all, serve
from tests.postgres_server import CannotStart, PostgresServer

NIGHTS = 12
POLICIES = ("all", "latest", "skip")
# When the service is stopped, in minutes after the first night, how, and for how many seconds it stays away.
STOPS = ((1.2, "kill", 0), (3.2, "kill", 100), (6.2, "stop", 0), (8.2, "kill", 0))
SETTLED_SECONDS = 900

NIGHT = """
[[night]]
config = "{config}"
cron = "{at.minute} {at.hour} * * *"
timezone = "UTC"
mode = "release"
missed = "{missed}"
grace_minutes = 1
"""


def site(folder, first):
    """Twelve configs of one data set and one budget, whose nights follow one another by a minute."""
    loaded = support.prepare(folder, budget=6.0)
    text, configs, deployments = loaded.path.read_text(), {}, ""
    for number in range(NIGHTS):
        path = folder / f"night{number}.toml"
        path.write_text(text.replace('name = "covariance"', f'name = "night{number}"'))
        configs[path.stem] = load_config(path)
        at = first + timedelta(minutes=number)
        deployments += NIGHT.format(config=path.stem, at=at, missed=POLICIES[number % len(POLICIES)])
    loaded.path.unlink()
    (folder / "deployments.toml").write_text(deployments)
    return configs


def runs(served):
    found = served.ask("/flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 200})
    return [run for run in found if run["parameters"].get("mode") == "release"]


def at_work(served):
    """Runs that a stop would meet, once one of them works."""
    found = [run for run in runs(served) if run["state_type"] in ("RUNNING", "PENDING")]
    return found if any(run["state_type"] == "RUNNING" for run in found) else []


def alarms(served):
    """Numbers of runs of which an event says that they failed or died, which is what alarms are made of."""
    names = [f"prefect.flow-run.{name}" for name in FAILURES]
    answer = served.ask("/events/filter", {"filter": {"event": {"name": names}, "order": "ASC"}, "limit": 50})
    return {event["resource"]["prefect.resource.id"].removeprefix("prefect.flow-run.") for event in answer["events"]}


def released(ledger):
    return [entry.release_id for entry in ledger.history() if entry.kind == "RELEASED"]


def settled(served, ledger, configs):
    """Which nights are released and which are skipped, once that is all of them."""
    skipped = {run["parameters"]["release"] for run in runs(served) if run["state_name"] == "Skipped"}
    done = {name.split("/")[1] for name in released(ledger)} | skipped
    busy = [run for run in runs(served) if run["state_type"] in ("RUNNING", "PENDING", "CANCELLING")]
    return (done, skipped) if done >= configs.keys() and not busy else None


@pytest.fixture
def prefect_in_postgres():
    """Environment of a Prefect server whose database lies in PostgreSQL, with the extension that it needs."""
    try:
        server = PostgresServer(of_machine=True)
    except CannotStart as reason:
        pytest.skip(f"PostgreSQL cannot be started here: {reason}")
    try:
        if not server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'"):
            pytest.skip("Prefect needs the extension pg_trgm, which this PostgreSQL does not bring")
        url = server.url(server.new_database()).replace("postgresql://", "postgresql+asyncpg://")
        yield {"PREFECT_SERVER_DATABASE_CONNECTION_URL": url}
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_of_twelve_nights_none_is_lost_or_doubled_by_three_kills_and_a_stop(tmp_path, request, database):
    environment = request.getfixturevalue("prefect_in_postgres") if database == "postgres" else {}
    first = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=5)
    configs = site(tmp_path, first)
    ledger = Ledger(configs["night0"].ledger_url)
    met = set()
    for minutes, how, away in STOPS:
        with serve(tmp_path, tmp_path / "home", **environment) as served:
            wait = (first + timedelta(minutes=minutes) - datetime.now(UTC)).total_seconds()
            time.sleep(max(0.0, wait))
            met |= {run["id"] for run in served.wait(lambda: at_work(served), "no night is at work")}
            if how == "kill":
                kill_all(served.process)
            else:
                served.process.send_signal(signal.SIGTERM)
                served.process.wait(120)
        time.sleep(away)
    with serve(tmp_path, tmp_path / "home", **environment) as served:
        served.patience = SETTLED_SECONDS
        wait = (first + timedelta(minutes=NIGHTS - 1) - datetime.now(UTC)).total_seconds()
        time.sleep(max(0.0, wait))
        done, skipped = served.wait(lambda: settled(served, ledger, configs), "a night is lost")
        false = alarms(served) - met
        states = {
            run["parameters"]["release"]: run["state_name"] for run in runs(served) if run["state_type"] != "SCHEDULED"
        }
    committed = [entry.release_id for entry in ledger.history() if entry.kind == "COMMITTED"]
    doubled = len(committed) - len(set(committed))
    print(
        f"\n{database}: {len(set(released(ledger)))} released, {len(skipped)} skipped as configured, "
        f"{doubled} doubled, {len(configs.keys() - done)} lost, {len(false)} false alarms\n{states}"
    )
    assert doubled == 0
    assert sorted(released(ledger)) == sorted(set(committed)), "each charge ended in a release"
    assert all(POLICIES[int(name.removeprefix("night")) % len(POLICIES)] == "skip" for name in skipped)
    assert set(states.values()) <= {"Completed", "Skipped"}
    assert false == set(), "only a process that died may be told of"
    assert ledger.verify().problems == []
    assert not list(tmp_path.rglob(".staging*"))

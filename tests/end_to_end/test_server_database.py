"""Prefect's own database: an older one is upgraded at the start of the server, and old runs are removed."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import reduce
from operator import or_

import pytest

from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import serve, server_alone
from tests.house import support
from tests.nights import database as nights

NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"
"""


def asked(database, question):
    with closing(sqlite3.connect(database)) as opened, opened:
        return opened.execute(question).fetchall()


def others_may(database):
    """Permissions of everybody else on the database and the files beside it."""
    return reduce(or_, (file.stat().st_mode & 0o077 for file in database.parent.glob("prefect.db*")))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_older_database_is_upgraded_with_all_that_it_holds_and_runs_beyond_the_retention_are_removed(tmp_path):
    loaded, home = support.prepare(tmp_path), tmp_path / "home"
    (tmp_path / "deployments.toml").write_text(NIGHT)
    database, backup = home / "prefect.db", tmp_path / "prefect-backup.db"

    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        assert others_may(database) == 0
        night = {"release": "people", "mode": "release", "logical_date": "2026-11-20"}
        released = served.run("release/people", **night)
        assert served.state(released)["type"] == "COMPLETED"
        flow = served.ask(f"/flow_runs/{released}")["flow_id"]
        tried = served.ask("/flow_runs/", {"flow_id": flow})["id"]  # as of one whose end was long ago
        for state in ("RUNNING", "COMPLETED"):
            served.ask(f"/flow_runs/{tried}/set_state", {"state": {"type": state}, "force": True})
        served.post(f"/deployments/{served.deployment('release/people')}/pause_deployment")
        kept = served.deployment("release/people")
        with closing(sqlite3.connect(database)) as live, closing(sqlite3.connect(backup)) as copy:
            live.backup(copy)

    newest = asked(database, "select version_num from alembic_version")
    command = [sys.executable, "-m", "prefect", "server", "database", "downgrade", "--yes", "--revision=-3"]
    environment = {**os.environ, "PREFECT_HOME": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)
    assert asked(database, "select version_num from alembic_version") != newest
    database.chmod(0o644)  # as Prefect itself leaves it
    asked(database, f"update flow_run set end_time = datetime(end_time, '-100 days') where id = '{tried}'")

    with serve(tmp_path, home) as served:
        assert others_may(database) == 0
        assert asked(database, "select version_num from alembic_version") == newest
        assert served.deployment("release/people") == kept
        assert served.ask("/deployments/name/release/people")["paused"]
        served.wait(lambda: not asked(database, f"select 1 from flow_run where id = '{tried}'"), "it was not removed")
        assert served.ask(f"/flow_runs/{released}")["state"]["type"] == "COMPLETED"
        found = served.ask("/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [released]}}})
        assert "what-is-promised" in {each["key"] for each in found}

    asked(database, "vacuum")
    assert asked(backup, "pragma integrity_check") == [("ok",)]
    for extra in ("", "-wal", "-shm"):
        database.with_name(database.name + extra).unlink(missing_ok=True)
    database.write_bytes(backup.read_bytes())
    with server_alone(home) as served:
        assert served.ask(f"/flow_runs/{tried}")["state"]["type"] == "COMPLETED", "as in the backup"
    kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
    assert kinds == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"], "no charge was added by any of it"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_a_server_keeps_of_many_nights_has_a_bound(tmp_path):
    """Nights beyond the retention go as fast as new ones come, with logs, tasks, artifacts and events."""
    days, events_days = 8, 2
    kept = {
        f"{nights.PREFIX}RETENTION_PERIOD": str(days * 86_400),
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"P{events_days}D",
    }
    with nights.Kept(tmp_path, **nights.SOON, **kept) as server:
        one = server.live(1)
        full, later = server.live(days + 6), server.live(12)
    assert later["flow_run"] == full["flow_run"] <= 2 * (days + 1), "a release and a check each night"
    grown = {name: (full[name], count) for name, count in later.items() if count > full.get(name, 0)}
    assert set(grown) <= {"worker"}, f"a row for each start of a worker, and nothing else: {grown}"
    assert later["events"] <= (events_days + 1) * one["events"]
    assert {"log", "task_run_state", "artifact", "event_resources"} <= {*later}

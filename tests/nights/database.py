"""What a Prefect server keeps of many nights: ``python -m tests.nights.database [NIGHTS] [--without]``.

A night is a run of a release and one of a ledger check, real flow runs of deployments on a real server. The first few
are real; all others are a copy of the last of them under new numbers, with all states, tasks, logs, artifacts and
events. Each week all is deployed again, and a worker with another name asks for runs. After each night all that the
server keeps is a day older, and the server looks for what is too old every 5 s in place of every hour. Prints the rows
of each table and the size of the file; ``--without`` keeps all for ever, for comparison.
"""

import argparse
import re
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.client.orchestration import get_client

from blockveil.flows.runs.reviewed import CONFIG_ROOT
from blockveil.flows.service import child
from tests.end_to_end.served import deploy, server_alone, spoken_to
from tests.house import support

DEPLOYMENTS = """
[[night]]
config = "people"
cron = "30 2 29 2 *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "latest"

[[verify]]
config = "people"
cron = "0 6 29 2 *"
timezone = "Europe/Berlin"
"""

FIRST, WEEK = date(2026, 1, 1), 7
DATES = ("DATETIME", "TIMESTAMP")
PREFIX = "PREFECT_SERVER_SERVICES_DB_VACUUM_"
WRITTEN_SECONDS = 12.0
"""Logs and events are written in batches, and looked at every 5 s."""

SOON = {f"{PREFIX}LOOP_SECONDS": "5", f"{PREFIX}ORPHAN_CLEANUP_LOOP_SECONDS": "5"}
REAL = 3
"""Nights that are real."""

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OF_A_RUN = """
flow_run: id in (select id from runs)
flow_run_state: flow_run_id in (select id from runs)
task_run: flow_run_id in (select id from runs)
task_run_state: task_run_id in (select id from task_run where flow_run_id in (select id from runs))
log: flow_run_id in (select id from runs)
artifact: flow_run_id in (select id from runs)
events: id in (select event_id from of_runs)
event_resources: event_id in (select event_id from of_runs)
"""
"""Rows of a table that belong to runs."""

FOR_EVER = {f"{PREFIX}ENABLED": "orphans"}


class Kept:
    """A server and its database, through nights of which each is a day after the one before.

    Parameters
    ----------
    folder
        Of the site.
    environment
        Settings of the server.
    """

    def __init__(self, folder, **environment):
        self.folder, self.home, self._night = folder, folder / "home", 0
        self._server = server_alone(self.home, **environment)

    def __enter__(self):
        self._loaded = support.prepare(self.folder, budget=1000.0)
        (self.folder / "deployments.toml").write_text(DEPLOYMENTS)
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv(CONFIG_ROOT, str(self.folder))
        self.served = self._server.__enter__()
        return self

    def __exit__(self, *error):
        self._patch.undo()
        self._server.__exit__(*error)

    def live(self, nights):
        """Live through some more; the number of rows of each table after them."""
        for _ in range(nights):
            self._one_more()
            self._a_day_later()
        time.sleep(WRITTEN_SECONDS)
        return self._rows_now()

    def _one_more(self):
        if self._night % WEEK == 0:
            assert deploy(self.folder, self.served.url, self.served.login).exit_code == 0
        with spoken_to(self.served.url, self.served.login), get_client(sync_client=True) as client:
            client.send_worker_heartbeat("blockveil", f"worker of week {self._night // WEEK}")
            if self._night < REAL:
                self._run(client)
        if self._night == REAL - 1:
            time.sleep(WRITTEN_SECONDS)
            self._rows = self._of_runs()
        if self._night >= REAL:
            self._copy()
        self._night += 1

    def _run(self, client):
        day = (FIRST + timedelta(days=self._night)).isoformat()
        self._runs = [self.served.run("release/people", logical_date=day), self.served.run("verify-ledger/people")]
        for run in self._runs:
            assert child.obey(client.read_flow_run(run).id, self.folder, self.folder / "scratch").is_completed()

    def _of_runs(self):
        """Rows of the last real night, by table, and the numbers that are its own."""
        with self._opened() as opened:
            opened.execute("create temp table runs (id)")
            opened.executemany("insert into runs values (?)", [(run,) for run in self._runs])
            opened.execute(
                "create temp table of_runs as select event_id from event_resources "
                "where resource_id in (select 'prefect.flow-run.' || id from runs)"
            )
            found = {}
            for line in OF_A_RUN.strip().splitlines():
                table, _, which = line.partition(": ")
                rows = opened.execute(f"select * from {table} where {which}")
                found[table] = [name for name, *_ in rows.description], rows.fetchall()
        assert all(rows for _, rows in found.values()), "each table has some"
        return found

    def _copy(self):
        """A night like the last real one, at the time at which that was."""
        new = {}
        for names, rows in self._rows.values():
            new.update({row[names.index("id")]: str(uuid4()) for row in rows})

        def renamed(value):
            return UUID.sub(lambda old: new.get(old[0], old[0]), value) if isinstance(value, str) else value

        with self._opened() as opened, opened:
            for table, (names, rows) in self._rows.items():
                places = ", ".join("?" for _ in names)
                columns = ", ".join(f'"{name}"' for name in names)
                copies = [[renamed(value) for value in row] for row in rows]
                opened.executemany(f"insert into {table} ({columns}) values ({places})", copies)

    def _a_day_later(self):
        with self._opened() as opened, opened:
            for table in self._tables(opened):
                dates = [name for _, name, kind, *_ in opened.execute(f"pragma table_info({table})") if kind in DATES]
                earlier = (f"\"{name}\" = strftime('%Y-%m-%d %H:%M:%f000', \"{name}\", '-1 day')" for name in dates)
                if dates:
                    opened.execute(f"update {table} set {', '.join(earlier)}")
        self.served._token = None  # a token lives for an hour

    def _opened(self):
        return closing(sqlite3.connect(self.home / "prefect.db", timeout=60))

    def _tables(self, opened):
        return sorted(name for (name,) in opened.execute("select name from sqlite_master where type = 'table'"))

    def _rows_now(self):
        with self._opened() as opened:
            counts = {
                name: opened.execute(f"select count(*) from {name}").fetchone()[0] for name in self._tables(opened)
            }
        return {name: count for name, count in counts.items() if count}

    def size(self):
        """Bytes of the database, without its log, which the server cuts off from time to time."""
        with self._opened() as opened:
            return opened.execute(
                "select page_count * page_size from pragma_page_count(), pragma_page_size()"
            ).fetchone()[0]


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.nights.database", description="what a server keeps of nights"
    )
    parser.add_argument("nights", nargs="?", type=int, default=300)
    parser.add_argument("--without", action="store_true", help="remove nothing")
    asked = parser.parse_args()
    told = {}
    with tempfile.TemporaryDirectory() as place, Kept(Path(place), **(FOR_EVER if asked.without else SOON)) as kept:
        for night in sorted({1, *range(100, asked.nights + 1, 100), asked.nights}):
            told[night] = kept.live(night - max(told, default=0)) | {"MiB": round(kept.size() / 2**20, 1)}
            print(f"# night {night}: {told[night]['MiB']} MiB", file=sys.stderr, flush=True)
    print(f"| table, after nights | {' | '.join(map(str, told))} |\n|---|{'---:|' * len(told)}")
    for name in sorted({each for rows in told.values() for each in rows}):
        print(f"| {name} | {' | '.join(str(rows.get(name, 0)) for rows in told.values())} |")


if __name__ == "__main__":
    main()

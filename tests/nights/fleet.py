"""One service under a clock that is turned, the outages around it, and what became of each of its nights."""

import contextlib
import json
import logging
import mmap
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import obstore
import pytest

from blockveil.flows.runs import turns
from blockveil.flows.runs.steps import TRIED_AGAIN
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import objects
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from tests.end_to_end import forked, test_worker_faults
from tests.end_to_end.served import deploy, kill_all, serve, server_alone, spoken_to, worker_of
from tests.house import support
from tests.house.faulty_store import Door
from tests.house.listening import listening
from tests.house.postgres_proxy import CuttingProxy
from tests.house.postgres_server import PostgresServer
from tests.nights import planted
from tests.pipeline.data.test_objects import made_bucket, started_server, upload

OUTAGES = (
    "ledger away",
    "connection cut in COMMIT",
    "store of releases fails",
    "store of records fails",
    "disk full",
    "EIO on read",
    "EIO on fsync",
)
STOPS = ("service killed", "service stopped")
FAULTS = (*OUTAGES, *planted.FAULTS, *STOPS)
"""What goes wrong, one of them in a night."""

ON_WORKERS = (*(each for each in planted.FAULTS if "worker" in each or "scheduler" in each), *STOPS)
"""Nights whose work is done by processes of their own, however small it is; the others need no cluster to fail."""

FAILS = (*OUTAGES, "scheduler lost", "turn not come")
"""Faults that may end a try as failed, which is told; of all others nothing is."""

ROOT = Path(__file__).parents[2]
HOUR, PATIENCE = 3, 300.0
SETTLE_SECONDS = 1.5
"""A clock that is turned at once would be ahead of events that a server has not looked at yet."""

NIGHT = f"""
[[night]]
config = "people"
cron = "0 {HOUR} * * *"
timezone = "UTC"
mode = "release"
missed_nights = "latest"
grace_minutes = 30

[alerts]
notify = ["webhook/on-call"]
"""

# The service looks after its nights more often: what it waits for is the clock that is turned.
_SOON = """
import sys, threading, time
def soon(name="blockveil.flows.service.recovery"):
    while not hasattr(sys.modules.get(name), "TEND_SECONDS"):
        time.sleep(0.05)
    sys.modules[name].TEND_SECONDS = 2.0
threading.Thread(target=soon, daemon=True).start()
"""


@dataclass
class Lived:
    """What became of a night."""

    fault: str
    day: date
    alone: bool = False
    tries: int = 1
    waits: list[float] = field(default_factory=list)
    charges: int = 0
    same_bits: bool = False
    keys: int = 0
    hits: int = 0
    sent: bool = False
    failed: int = 0
    alarms: int = 0
    false_alarms: list[str] = field(default_factory=list)

    @property
    def false(self):
        return len(self.false_alarms)

    def problems(self):
        """What is not as it must be."""
        wrong = {
            "not released by itself": not self.alone,
            f"charged {self.charges} times": self.charges != 1,
            "other bits than an undisturbed night": not self.same_bits,
            f"{self.keys} keys are left": self.keys > 0,
            "not sent to the object store": not self.sent,
            "the fault did not happen": not self.hits,
            f"false alarms: {self.false_alarms}": bool(self.false_alarms),
            f"waits that do not grow: {self.waits}": self.waits != sorted(self.waits),
        }
        return [text for text, holds in wrong.items() if holds]


class Orders:
    """What the shim is told: how far the clock is ahead, and which files fail."""

    FORM = "=qii512s"
    FULL, READ, SYNC = 1, 2, 3

    def __init__(self, path):
        path.write_bytes(bytes(struct.calcsize(self.FORM)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    @property
    def ahead(self):
        return struct.unpack_from("=q", self._map)[0]

    @ahead.setter
    def ahead(self, seconds):
        struct.pack_into("=q", self._map, 0, seconds)

    @property
    def hits(self):
        return struct.unpack_from("=i", self._map, 12)[0]

    def fail(self, fault=0, place=""):
        struct.pack_into("=i", self._map, 8, 0)
        struct.pack_into("=512s", self._map, 16, place.encode())
        if fault:
            struct.pack_into("=ii", self._map, 8, fault, 0)


class Fleet:
    """Everything around the nights: ledger, stores, shim, alarms, and the service itself.

    Parameters
    ----------
    folder
        Of the site.
    database
        Where the ledger is: sqlite or postgres.
    team
        Whether a worker of a team's server runs the nights, which stays there when the worker is stopped.
    """

    def __init__(self, folder, database, team=False):
        self.team = team
        self.folder, self.database, self._stack, self._service = folder, database, contextlib.ExitStack(), None
        self.fault, self.hit = folder / "fault.json", folder / "hit"

    def __enter__(self):
        try:
            return self._begun()
        except BaseException:
            self._stack.close()
            raise

    def _begun(self):
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        patch = pytest.MonkeyPatch()
        self._stack.callback(patch.undo)
        self._ledger(patch)
        running = started_server()
        self._stack.callback(running.stop)
        host, port = running.get_host_and_port()
        self.door = Door(f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}")
        self._stack.callback(self.door.close)
        self.bucket, self.records = (made_bucket(self.door.address, patch, f"{self.folder} {of}") for of in (1, 2))
        self._site()
        self._undisturbed()
        self._preload(patch)
        home = self.folder / "home"
        address, self.alarms = self._stack.enter_context(listening())
        with contextlib.ExitStack() as beginning:
            self.server_of_team = (self._stack if self.team else beginning).enter_context(server_alone(home))
            with spoken_to(self.server_of_team.url, self.server_of_team.login):
                from prefect.blocks.webhook import Webhook

                Webhook(url=address).save("on-call")
            if self.team:
                deploy(self.folder, self.server_of_team.url, self.server_of_team.login)
        self.start()
        return self

    def __exit__(self, *error):
        try:
            if self._service is not None:
                self._service.__exit__(*error)
        finally:
            self._stack.close()

    # ---- what is around the service ----------------------------------------------------------------------------

    def _ledger(self, patch):
        self.address = "private/ledger.db"
        (self.folder / "private").mkdir(mode=0o700)
        if self.database == "postgres":
            self.server = PostgresServer()
            self._stack.callback(self.server.stop)
            between = Path(tempfile.mkdtemp(prefix="blockveil-cut-"))
            self.proxy = CuttingProxy(between, self.server.folder, "before", 0)
            self._stack.callback(self.proxy.close)
            patch.setenv("NIGHTS_LEDGER", self.server.url(self.server.new_database(), folder=between))
            self.address = "env:NIGHTS_LEDGER"

    def _site(self):
        support.write_records(self.folder, support.records())
        upload(self.records, self.folder / "records.zarr", "records.zarr")
        path = support.write_config(self.folder, kind="second-moment", cluster="local")
        text = path.read_text().replace('"records.zarr"', f'"{self.records}/records.zarr"')
        text = text.replace('"ledger.db"', f'"{self.address}"').replace(
            "always_start_workers = true", "always_start_workers = false\nworkers = 1"
        )
        path.write_text(f'{text}upload = "{self.bucket}"\n')
        (self.folder / "deployments.toml").write_text(NIGHT)
        self.loaded = load_config(path)
        support.set_budget(self.loaded, 1000.0, 1e-2)

    def _undisturbed(self):
        alone = self.folder / "alone"
        alone.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            test_worker_faults.in_small_blocks(patch)
            plan = make_plan(support.prepare(alone, kind="second-moment"), date(2026, 11, 20))
            self.bits = support.values_of(run_release(plan, ThreadCompute(2), "alone", lambda *_: None).path)

    def _preload(self, patch):
        shim, orders = self.folder / "shim.so", self.folder / "orders"
        source = Path(__file__).with_name("shim.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
        self.orders = Orders(orders)
        self._order("none", 0)
        for name, value in {
            "NIGHTS_ORDERS": orders,
            "LD_PRELOAD": shim,
            planted.PLACE: self.fault,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }.items():
            patch.setenv(name, str(value))
        self.command = forked.command.__wrapped__(
            "tests.nights.planted", _SOON
        )  # of this fleet alone: it obeys its orders

    def start(self):
        """Start the service, or the worker."""
        home = self.folder / "home"
        if self.team:
            self._service = worker_of(self.server_of_team, self.folder, home, self.command)
        else:
            self._service = serve(self.folder, home, self.command)
        self.served = self._service.__enter__()
        self.deployment = self.served.deployment("release/people")

    def _order(self, fault, left):
        self.hit.unlink(missing_ok=True)
        self.fault.write_text(json.dumps({"fault": fault, "left": left}))

    # ---- the clock ---------------------------------------------------------------------------------------------

    @property
    def now(self):
        return datetime.now(UTC) + timedelta(seconds=self.orders.ahead)

    def turn(self, to):
        """Turn the clock to a time that is to come."""
        seconds = round((to - self.now).total_seconds() + 1)
        if seconds > 0:
            self.orders.ahead += seconds
            self.served._token = None  # a token lives for an hour

    # ---- faults ------------------------------------------------------------------------------------------------

    def begin(self, fault, chance, day, left):
        """Let a fault begin; what ends it, and what says how often it happened."""
        if fault in planted.FAULTS:
            self._order(fault, left)
            return self._held_turn() if fault == "turn not come" else lambda: None
        if fault == "ledger away":
            return self._away()
        if fault == "connection cut in COMMIT":
            if self.database == "postgres":
                self.proxy.how, self.proxy.left, self.proxy.cut = chance.choice(["before", "after", "late"]), 100, 0
                return lambda: setattr(self.proxy, "left", 0)
            self.orders.fail(Orders.SYNC, "private/ledger.db")
        elif fault in ("store of releases fails", "store of records fails"):
            kind = chance.choice(["busy", "lost", "slow"])
            releases = fault == "store of releases fails"
            method_of, part = ("PUT", "/people/") if releases else ("GET", "/records.zarr/")
            self.fails = 0

            def fails(method, path, number):
                wrong = method == method_of and part in path
                self.fails += wrong
                return kind if wrong else "pass"

            self.door.fault = fails
            return self.door.reset
        elif fault == "disk full":
            self.orders.fail(Orders.FULL, self._of_a_night(chance))
        elif fault == "EIO on read":
            self.orders.fail(Orders.READ, self._of_a_night(chance))
        elif fault == "EIO on fsync":
            self.orders.fail(Orders.SYNC, self._of_a_night(chance))
        return self.orders.fail

    def _of_a_night(self, chance):
        """Where a night writes and reads; a part of a path alone would be one of the product's own code too."""
        return f"{chance.choice([self.loaded.output_root, self.loaded.keys_root])}/"

    def happened(self, fault):
        """How often a fault has happened."""
        if fault in planted.FAULTS:
            return len(self.hit.read_text().splitlines()) if self.hit.exists() else 0
        if fault.startswith("store of"):
            return self.fails
        if fault == "connection cut in COMMIT" and self.database == "postgres":
            return self.proxy.cut
        return self.orders.hits if fault in OUTAGES and fault != "ledger away" else 1

    def _away(self):
        if self.database == "postgres":
            self.server.pause()
            return self.server.resume
        locked = sqlite3.connect(self.folder / "private" / "ledger.db", isolation_level=None, check_same_thread=False)
        locked.execute("BEGIN EXCLUSIVE")
        return locked.close

    def _held_turn(self):
        told = {"names": [turns.limit_name("people")], "slots": 1, "mode": "concurrency"}
        self.served.ask("/v2/concurrency_limits/increment", told)
        return lambda: self.served.ask("/v2/concurrency_limits/decrement", told)

    # ---- nights ------------------------------------------------------------------------------------------------

    def night(self, fault, chance):
        """Live through one night; what became of it."""
        at = self.now.replace(hour=HOUR, minute=0, second=0, microsecond=0)
        at += timedelta(days=1 if at <= self.now + timedelta(minutes=1) else 0)
        lived = Lived(fault, at.date())
        path, on_workers = self.loaded.path, str(fault in ON_WORKERS).lower()
        path.write_text(
            re.sub("always_start_workers = (true|false)", f"always_start_workers = {on_workers}", path.read_text())
        )
        run = self.served.wait(lambda: self._run(at), f"no run is planned for {at}")
        left = chance.choice([1, 1, 2])
        self.turn(at - timedelta(seconds=2))
        end = self.begin(fault, chance, at.date(), left)
        try:
            if fault in STOPS:
                self._stop(fault, run, chance)
            self._follow(run, lived, 1 if fault == "ledger away" else left, end)
        finally:
            with contextlib.suppress(Exception):
                end()
        lived.hits = self.happened(fault)
        self._order("none", 0)
        self._look(lived)
        states = self._states(run)
        lived.failed = sum(each["type"] == "FAILED" for each in states) if fault in FAILS else 0
        if lived.problems():
            print(f"# {[(each['name'], each['message']) for each in states]}", file=sys.stderr)
        return lived

    def judge(self, nights):
        """Say of each night which alarms of it are false, once the last of them have come."""
        time.sleep(10.0)
        # Where the clock is turned, a server of its own hears of no worker for a day.
        alarms = [each for each in self.alarms if not (self.team and "nobody has started the runs" in each)]
        for lived in nights:
            of_night = [each for each in alarms if str(lived.day) in each]
            true = [each for each in of_night if TRIED_AGAIN in each][: lived.failed]
            lived.alarms, lived.false_alarms = len(true), [each for each in of_night if each not in true]
        of_none = [each for each in alarms if not any(str(lived.day) in each for lived in nights)]
        nights[-1].false_alarms += of_none

    def _run(self, at):
        span = {"after_": (at - timedelta(seconds=1)).isoformat(), "before_": (at + timedelta(seconds=1)).isoformat()}
        wanted = {"deployment_id": {"any_": [self.deployment]}, "expected_start_time": span}
        runs = self.served.ask("/flow_runs/filter", {"flow_runs": wanted})
        return runs[0]["id"] if runs else None

    def _states(self, run):
        return sorted(self.served.ask(f"/flow_run_states/?flow_run_id={run}"), key=lambda each: each["timestamp"])

    def _stop(self, fault, run, chance):
        self.served.wait(
            lambda: any(each["type"] == "RUNNING" for each in self._states(run)), "the night does not begin"
        )
        time.sleep(chance.uniform(0.0, 4.0))
        if fault == "service killed":
            kill_all(self.served.process)
        else:
            self.served.process.send_signal(signal.SIGTERM)
            self.served.process.wait(120)
        self._service.__exit__(None, None, None)
        self.turn(self.now + timedelta(minutes=chance.choice([0, 1, 90])))
        self.start()

    def _follow(self, run, lived, left, end):
        """Turn the clock to each try until the night has ended; the fault ends when it has met some tries."""
        patience, seen = time.monotonic() + PATIENCE, 0
        while time.monotonic() < patience:
            with contextlib.suppress(OSError, KeyError):
                states = self._states(run)
                ended = [each for each in states if each["type"] in ("FAILED", "CRASHED")]
                retries = [each for each in states if each["name"] == "AwaitingRetry"]
                tried = max(len(ended), len(retries))
                if tried >= left and end is not None:
                    end()
                    end = None
                if len(states) > seen:
                    seen, patience = len(states), time.monotonic() + PATIENCE
                last = states[-1]
                if last["type"] == "COMPLETED":
                    lived.tries = 1 + tried
                    lived.alone = last["name"] == "Completed"
                    lived.waits = [round(_wait(each)) for each in retries if _wait(each) > 1]
                    return
                if last["name"] == "AwaitingRetry":
                    time.sleep(SETTLE_SECONDS)
                    self.turn(datetime.fromisoformat(last["state_details"]["scheduled_time"]))
            time.sleep(0.5)

    def _look(self, lived):
        """Look at ledger, release, keys and store."""
        release_id = f"people/covariance/{lived.day.isoformat()}"
        kinds = [entry.kind for entry in Ledger(self.loaded.ledger_url).history(release_id=release_id)]
        lived.charges = kinds.count("COMMITTED")
        lived.alone = lived.alone and kinds.count("RELEASED") == 1
        lived.keys = len(KeyStore(self.loaded.keys_root).list())
        found = find_published(self.loaded.output_root, release_id)
        lived.same_bits = found is not None and support.values_of(found.path) == self.bits
        with contextlib.suppress(FileNotFoundError):
            lived.sent = bool(obstore.head(objects.client(self.bucket), f"{release_id}.json"))

    def problems(self):
        """What is wrong with the whole, after all nights."""
        left = [path.name for path in self.folder.rglob(".staging*")]
        return [*Ledger(self.loaded.ledger_url).verify().problems, *(f"{name} is left" for name in left)]


def _wait(state):
    asked = datetime.fromisoformat(state["state_details"]["scheduled_time"])
    return (asked - datetime.fromisoformat(state["timestamp"])).total_seconds()

"""A site that ``blockveil serve`` runs, as a process tree of its own, and requests to its server."""

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from blockveil.flows.service import login

PATIENCE = 300.0
"""Seconds to wait for a step. It takes a few; a machine may be busy, and a broken one never does it."""

COMMAND = [sys.executable, "-c", "from blockveil.flows.cli import main; main()"]


PORTS = range(20_000, 30_000)
"""Below those that the system gives to outgoing connections, which could take one before a server listens."""


def free_port():
    """A port that nobody listens at, and that no other test process gets while this one lives."""
    place = Path(tempfile.gettempdir()) / f"blockveil-ports-{os.getuid()}"
    place.mkdir(exist_ok=True)
    for _ in PORTS:
        port = random.choice(PORTS)
        lock = os.open(place / str(port), os.O_RDWR | os.O_CREAT)  # open, and so locked, until the process ends
        with socket.socket() as tried, contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            tried.bind(("127.0.0.1", port))
            return port
        os.close(lock)
    raise RuntimeError("no port is free")


MIGRATE = (
    "import asyncio; from prefect.server.database import provide_database_interface as database; "
    "asyncio.run(database().create_db())"
)


@cache
def tables():
    """Database of a Prefect server that has just been made: its migrations take ten seconds of a core."""
    kept = Path(tempfile.gettempdir()) / f"blockveil-tables-{os.getuid()}" / f"prefect-{version('prefect')}.db"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    with (kept.parent / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=kept.parent) as home:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            subprocess.run([sys.executable, "-c", MIGRATE], env={**os.environ, "PREFECT_HOME": home}, check=True)
            assert not Path(home, "prefect.db-wal").exists()
            Path(home, "prefect.db").replace(kept)
    return kept


def with_tables(home):
    """A Prefect home in which a server finds its tables made."""
    home.mkdir(exist_ok=True)
    if not (home / "prefect.db").exists():
        shutil.copyfile(tables(), home / "prefect.db")
        (home / "prefect.db").chmod(0o600)
    return home


class Served:
    """A running ``blockveil serve``, and the login of its server."""

    def __init__(self, process, url, log, login=None):
        self.process, self.url, self.log, self.login, self.patience = process, url, log, login, PATIENCE
        self._token = None

    def known(self):
        """Headers of somebody who has the login, and the token that the server wants with each change."""
        found = {} if self.login is None else {"authorization": f"Basic {b64encode(self.login.encode()).decode()}"}
        if self._token is None and self.login is not None:
            request = urllib.request.Request(f"{self.url}/api/csrf-token?client=test", headers=found)
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=30) as answer:
                self._token = json.load(answer)["token"]
        return {**found, **({"prefect-csrf-client": "test", "prefect-csrf-token": self._token} if self._token else {})}

    def ask(self, path, body=None, method=None):
        """One request to the API; a dictionary is posted as JSON, or sent by another method."""
        data = None if body is None else json.dumps(body).encode()
        wanted = {"content-type": "application/json", **self.known()}
        request = urllib.request.Request(f"{self.url}/api{path}", data, wanted, method=method)
        end = time.monotonic() + self.patience
        while True:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > end:  # its database was busy and nothing was done
                    raise
                error.close()
            time.sleep(0.3)

    @property
    def client(self):
        """Environment of another command, which is told the address and the login."""
        return {**os.environ, "PREFECT_API_URL": f"{self.url}/api", "PREFECT_API_AUTH_STRING": self.login}

    def post(self, path):
        """A request whose answer is empty; again while the server's database is busy."""

        def sent():
            request = urllib.request.Request(f"{self.url}/api{path}", headers=self.known(), method="POST")
            with urllib.request.urlopen(request, timeout=30):
                return True

        self.wait(sent, path)

    def wait(self, done, what):
        """First true value of a function."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                found = done()
                if found:
                    return found
            time.sleep(0.3)
        return pytest.fail(f"{what}; exit code {self.process.poll()}\n{self.log.read_text()[-4000:]}")

    def deployment(self, name):
        """Id of a deployment."""
        return self.ask(f"/deployments/name/{name}")["id"]

    def run(self, name, **parameters):
        """Ask for a run of a deployment; its id."""
        return self.ask(f"/deployments/{self.deployment(name)}/create_flow_run", {"parameters": parameters})["id"]

    def state(self, run, *names):
        """State of a run once it is one of these, or has ended where none is named."""

        def reached():
            state = self.ask(f"/flow_runs/{run}")["state"]
            ended = state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
            return state if (state["name"] in names or (ended and not names)) else None

        return self.wait(reached, f"run {run} did not reach {names or 'its end'}")


@contextmanager
def serve(folder, home, command=COMMAND, **environment):
    """Start it, wait until it serves, and stop it as a service manager does."""
    port, log = free_port(), with_tables(home) / "serve.log"
    with (
        log.open("ab") as file,
        subprocess.Popen(
            [*command, "serve", str(folder), "--port", str(port), "--site-port", str(free_port())],
            env={**os.environ, "PREFECT_HOME": str(home), **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        served = Served(process, f"http://127.0.0.1:{port}", log)
        started = log.stat().st_size
        try:
            served.wait(lambda: "Serving." in log.read_text()[started:], "it does not serve")
            served.login = environment.get("PREFECT_SERVER_API_AUTH_STRING") or login.kept(home)
            yield served
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def kill_all(process):
    """As when the power goes: nobody says good-bye."""
    tree, found = [process.pid], True
    while found:  # those that have been stopped start no more
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        found = [pid for pid, parent in parents() if parent in tree and pid not in tree]
        tree += found
    for pid in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(30)


def parents():
    """Every process with its parent."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])

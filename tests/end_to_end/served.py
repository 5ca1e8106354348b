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
from pathlib import Path

import pytest

from blockveil.flows.service import login
from tests.house.prefect_tables import tables

PATIENCE = 600.0
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
            with contextlib.suppress(urllib.error.HTTPError):  # a stranger gets none
                self._token = self._answered(request)["token"]
        return {**found, **({"prefect-csrf-client": "test", "prefect-csrf-token": self._token} if self._token else {})}

    def ask(self, path, body=None, method=None):
        """One request to the API; a dictionary is posted as JSON, or sent by another method."""
        data = None if body is None else json.dumps(body).encode()
        wanted = {"content-type": "application/json", **self.known()}
        request = urllib.request.Request(f"{self.url}/api{path}", data, wanted, method=method)
        return self._answered(request)

    def _answered(self, request):
        """Answer to a request, which is sent again while the server's database is busy: then nothing was done."""
        end = time.monotonic() + self.patience
        while True:
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > end:
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
            asked = time.monotonic()
            with contextlib.suppress(OSError):
                found = done()
                if found:
                    return found
            # A question that a busy server is long about is asked less often, or the server does nothing else.
            time.sleep(min(3.0, max(0.3, 4 * (time.monotonic() - asked))))
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
def _started(words, home, port, log, environment):
    """A process that serves at a port, which is stopped as a service manager stops it; its log is one of its home."""
    with (
        log.open("ab") as file,
        subprocess.Popen(
            words,
            env={**os.environ, "PREFECT_HOME": str(home), **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Served(process, f"http://127.0.0.1:{port}", log)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def serve(folder, home, command=COMMAND, **environment):
    """Start it, wait until it serves, and stop it as a service manager does."""
    port, log = free_port(), with_tables(home) / "serve.log"
    said = log.stat().st_size if log.exists() else 0
    words = [*command, "serve", str(folder), "--port", str(port), "--site-port", str(free_port())]
    with _started(words, home, port, log, environment) as served:
        served.wait(lambda: "Serving." in log.read_text()[said:], "it does not serve")
        served.login = environment.get("PREFECT_SERVER_API_AUTH_STRING") or login.kept(home)
        yield served


ALONE = """
import signal, sys, time
from pathlib import Path
import blockveil.flows.base.settings
from blockveil.flows.service import login, server
home, port = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
wanted = login.configured() or login.kept(home)
with server.running("127.0.0.1", port, home / "blockveil-server.log", wanted) as own:
    login.record(home, own.address)
    time.sleep(3600)
"""


@contextmanager
def server_alone(home, **environment):
    """A server as ``blockveil serve`` starts it, and nobody who starts its runs: a third as much to start."""
    port, log = free_port(), with_tables(home) / "serve.log"
    words = [sys.executable, "-P", "-c", ALONE, str(home), str(port)]
    with _started(words, home, port, log, environment) as served:
        served.wait(lambda: served.ask("/health"), "the server does not answer")
        served.login = environment.get("PREFECT_SERVER_API_AUTH_STRING") or login.kept(home)
        yield served


@contextmanager
def worker_of(team, folder, home, command=COMMAND, **environment):
    """A worker beside a server that runs; what is asked of it is asked of that server."""
    log = home / "worker.log"
    said = log.stat().st_size if log.exists() else 0
    told = {"PREFECT_API_URL": f"{team.url}/api", "PREFECT_API_AUTH_STRING": team.login, **environment}
    with _started(
        [*command, "service", "worker", str(folder)], home, int(team.url.rpartition(":")[2]), log, told
    ) as served:
        served.login = team.login
        served.wait(lambda: "Starting the runs" in log.read_text()[said:], "the worker does not start")
        yield served


@contextmanager
def spoken_to(address, known, **more):
    """Let Prefect in this process speak to a server, as a command of another one would."""
    from prefect import settings

    told = {"PREFECT_API_URL": f"{address}/api", "PREFECT_API_AUTH_STRING": known, **more}
    with settings.temporary_settings({getattr(settings, name): value for name, value in told.items()}):
        yield


def deploy(folder, address, known, **more):
    """Call ``blockveil service deploy`` in this process; its errors are raised as they are."""
    from typer.testing import CliRunner

    from blockveil.flows.cli import app

    with spoken_to(address, known, **more):
        return CliRunner().invoke(app, ["service", "deploy", str(folder)], catch_exceptions=False)


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

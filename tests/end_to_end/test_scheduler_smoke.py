"""The installed versions really schedule a night: with some dependencies the server starts and never does."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

ZONE = "Europe/Berlin"
PATIENCE = 120.0
"""Seconds to wait for each step. It takes a few; a machine may be busy, and a broken scheduler never does it."""


class Server:
    """A ``prefect server start`` of its own: ephemeral servers and Prefect's test harness run no scheduler."""

    def __init__(self, process, port, log):
        self.process, self.base, self.log = process, f"http://127.0.0.1:{port}/api", log

    def ask(self, path, body=None):
        """One request; a dictionary is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def wait_for(self, path, body=None, enough=bool):
        """First answer that is enough. Right after the start the server may be silent or its database busy."""
        end, said = time.monotonic() + PATIENCE, "no answer"
        while time.monotonic() < end and self.process.poll() is None:
            try:
                found = self.ask(path, body)
                if enough(found):
                    return found
                said = repr(found)
            except urllib.error.HTTPError as error:
                said = f"{error}: {error.read()[:500]!r}"
                if error.code < 500:
                    break
            except OSError as error:
                said = repr(error)
            time.sleep(0.5)
        return pytest.fail(f"{path}: {said}\nServer, exit code {self.process.poll()}:\n{self.log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PREFECT_HOME": str(home), "PREFECT_UI_ENABLED": "false"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    log = home / "server.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        ) as process,
    ):
        try:
            started = Server(process, port, log)
            started.wait_for("/health")
            yield started
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_a_real_server_schedules_a_nightly_run_at_its_hour(server):
    flow = server.wait_for("/flows/", {"name": "nightly"})["id"]
    schedule = {"active": True, "schedule": {"cron": "0 4 * * *", "timezone": ZONE}}
    deployment = {"name": "nightly", "flow_id": flow, "schedules": [schedule]}
    server.wait_for("/deployments/", deployment)
    runs = server.wait_for("/flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 50})
    assert {run["state_type"] for run in runs} == {"SCHEDULED"}
    planned = [datetime.fromisoformat(run["expected_start_time"]).astimezone(ZoneInfo(ZONE)) for run in runs]
    assert {(at.hour, at.minute) for at in planned} == {(4, 0)}
    assert len({at.date() for at in planned}) == len(planned)


def test_a_real_server_accepts_the_requests_of_the_command_line(server):
    # The command line sends an explicit null; with some releases of FastAPI the server refuses it.
    assert server.wait_for("/work_pools/filter", {"limit": None}, lambda found: found == []) == []

"""The resolved environment really schedules: some releases of Prefect's dependencies start a server that never does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest


def request(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return json.load(answer)


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = what()
            if found:
                return found
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.5)
    return pytest.fail(f"nothing within {seconds} s")


def test_a_real_server_schedules_a_nightly_run(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}/api"
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_UI_ENABLED": "false"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            wait_for(lambda: request(f"{base}/health"), 120)
            flow = wait_for(lambda: request(f"{base}/flows/", {"name": "nightly"}), 120)["id"]
            schedule = {"active": True, "schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}}
            # Right after the start the database may still be busy (503), so that this too is tried until it works.
            nightly = {"name": "nightly", "flow_id": flow, "schedules": [schedule]}
            wait_for(lambda: request(f"{base}/deployments/", nightly), 120)
            assert wait_for(lambda: request(f"{base}/flow_runs/count", {}), 120) >= 1
            # A body with an explicit null must be accepted too; the command line of Prefect sends such.
            assert request(f"{base}/work_pools/filter", {"limit": None}) is not None
        finally:
            os.killpg(server.pid, signal.SIGKILL)

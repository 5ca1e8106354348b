"""What importing the package sets for this process and its children."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from tests.house import support

LOOPBACK = ["localhost", "127.0.0.1", "::1"]
SCRIPT = """
import json, os, urllib.request
import blockveil.flows
import httpx
told = {name: os.environ.get(name) for name in ("no_proxy", "NO_PROXY")}
names = ("localhost", "127.0.0.1", "::1", "intranet", "example.org")
told["past"] = [name for name in names if urllib.request.proxy_bypass(name)]
with httpx.Client() as client:
    chosen = {host: client._transport_for_url(httpx.URL(f"http://{host}:4200/api"))
              for host in ("localhost", "127.0.0.1", "[::1]", "example.org")}
told["direct"] = [host for host, each in chosen.items() if each is client._transport]
print(json.dumps(told))
"""


def told(**variables):
    """What a process that imports the package has in its environment, and which hosts it reaches directly."""
    left = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=left | variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"])
def test_this_machine_is_never_reached_through_a_proxy(name):
    found = told(**{name: "http://127.0.0.1:9"})
    assert found["no_proxy"].split(",") == LOOPBACK
    assert found["NO_PROXY"] == found["no_proxy"]
    assert found["past"] == LOOPBACK
    assert found["direct"][:3] == ["localhost", "127.0.0.1", "[::1]"]
    assert ("example.org" in found["direct"]) == (name == "https_proxy")  # which is for other addresses


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_hosts_that_are_excepted_already_stay_so(name):
    found = told(http_proxy="http://127.0.0.1:9", **{name: "intranet,127.0.0.1"})
    assert found["no_proxy"].split(",") == ["intranet", "127.0.0.1", "localhost", "::1"]
    assert found["past"] == ["localhost", "127.0.0.1", "::1", "intranet"]


def test_where_no_host_is_reached_through_a_proxy_that_stays_so():
    found = told(http_proxy="http://127.0.0.1:9", no_proxy="*")
    assert found["no_proxy"] == "*"
    assert "example.org" in found["direct"]


@pytest.mark.slow
def test_a_run_by_prefect_asks_no_proxy_for_its_own_server(tmp_path):
    """All that the run, its server and its workers send to a proxy is kept, and is nothing."""
    loaded, asked = support.prepare(tmp_path, cluster="local"), []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def listen():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = proxy.accept()
                    asked.append(connection.recv(200))
                    connection.close()

        threading.Thread(target=listen, daemon=True).start()
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        variables = {
            name: address for each in ("http_proxy", "https_proxy", "all_proxy") for name in (each, each.upper())
        }
        environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
        done = subprocess.run(
            [sys.executable, "-m", "blockveil", "run", str(loaded.path), "--date", "2026-11-20"],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Released" in done.stdout
    assert asked == []

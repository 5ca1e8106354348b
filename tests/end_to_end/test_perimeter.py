"""A served site plans its nights and lets nobody else in: what it shows without a login, and what one does not buy."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from blockveil.flows.service import login
from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import deploy, parents, serve, server_alone
from tests.house import support

BIN = Path(sys.executable).parent
NOBODY = 65534
NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "skip"
"""

OPEN = {("get", "/api/health"), ("get", "/api/ready")}
"""What answers without a login: that the server lives."""

PAGES = ("/", "/ui-settings", "/docs", "/openapi.json", "/robots.txt", "/v2/")
"""Files of Prefect's own pages and their description; they hold nothing of a site."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    loaded = support.prepare(folder)
    (folder / "deployments.toml").write_text(NIGHT)
    with serve(folder, folder / "home", PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        served.ledger, served.home, served.folder = Ledger(loaded.ledger_url), folder / "home", folder
        yield served


@pytest.mark.slow
def test_the_installed_versions_plan_a_nightly_run_at_its_hour(site):
    """With some dependencies the server starts and never does."""
    asked = {"sort": "EXPECTED_START_TIME_ASC", "limit": 50}
    runs = site.wait(lambda: site.ask("/flow_runs/filter", asked), "no run is planned")
    assert {run["state_type"] for run in runs} == {"SCHEDULED"}
    zone = ZoneInfo("Europe/Berlin")
    planned = [datetime.fromisoformat(run["expected_start_time"]).astimezone(zone) for run in runs]
    assert {(at.hour, at.minute) for at in planned} == {(2, 30)}
    assert len({at.date() for at in planned}) == len(planned)


@pytest.mark.slow
def test_the_installed_versions_accept_the_requests_of_the_command_line(site):
    """It sends an explicit null; with some releases of FastAPI the server refuses it."""
    pools = site.ask("/work_pools/filter", {"limit": None})
    assert pools == site.ask("/work_pools/filter", {})


def answer(site, path, method="GET", body=None, **headers):
    """Status, headers and text of one request, sent as it is."""
    request = urllib.request.Request(f"{site.url}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as found:
            return found.status, found.headers, found.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode(errors="replace")


def basic(text):
    return {"authorization": f"Basic {b64encode(text.encode()).decode()}"}


def tree(process):
    """A process and all that it started."""
    found, more = [process.pid], True
    while more:
        more = [pid for pid, parent in parents() if parent in found and pid not in found]
        found += more
    return found


def operations(site):
    """Every route of the API, as the server itself describes them to who has the login."""
    for path, methods in site.ask("/openapi.json")["paths"].items():
        for method in methods:
            yield method, "/api" + path.replace("{", "").replace("}", "")


def test_no_route_of_the_api_answers_without_the_login_but_that_the_server_lives(site):
    found = list(operations(site))
    assert len(found) > 150
    for headers in ({}, basic("blockveil:guessed"), basic(":"), {"authorization": "Bearer x"}):
        opened = {
            (method, path)
            for method, path in found
            if answer(site, path, method.upper(), b"{}", **{"content-type": "application/json", **headers})[0]
            not in (401, 403)
        }
        assert opened <= OPEN
    assert {("get", "/api/health"), ("get", "/api/ready")} <= set(found)


def test_the_site_of_releases_wants_the_same_login_and_changes_nothing(site):
    address = re.search(r"Releases and budgets: http://([^/]+)/", site.log.read_text())[1]
    other = SimpleNamespace(url=f"http://{address}")
    before = site.ledger.head()
    for path in ("/", "/index.html", "/pages.json", "/../ledger.db", "/anything"):
        for headers in ({}, basic("blockveil:guessed"), basic(":"), {"authorization": f"Bearer {site.login}"}):
            status, _, text = answer(other, path, **headers)
            assert (status, text) == (401, "Unauthorized\n")
    end = time.monotonic() + site.patience
    while (found := answer(other, "/", **basic(site.login)))[0] == 503:
        assert time.monotonic() < end
    assert found[0] == 200
    assert "Releases and budgets" in found[2]
    assert site.login.partition(":")[2] not in found[2]
    for path in ("/../ledger.db", "/pages.json", "/%2e%2e/blockveil-login", "/people/..", "//etc/passwd"):
        assert answer(other, path, **basic(site.login))[0] == 404
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert answer(other, "/", method, b"{}", **basic(site.login))[0] == 405
    assert site.ledger.head() == before


@pytest.mark.parametrize("path", PAGES)
def test_what_is_shown_without_the_login_names_nothing_of_the_site(site, path):
    _, _, text = answer(site, path, accept="text/html")
    password = site.login.partition(":")[2]
    assert not [word for word in ("by-hand", "covariance", password, str(site.home)) if word in text]


SOCKETS = (
    "/api/events/in",
    "/api/events/out",
    "/api/logs/out",
    "/api/task_runs/subscriptions/scheduled",
    "/api/work_pools/blockveil/workers/connect",
)


@pytest.mark.parametrize("path", SOCKETS)
def test_no_socket_of_the_api_takes_or_tells_anything_without_the_login(site, path):
    address = f"ws{site.url.removeprefix('http')}{path}"

    def heard(first, **more):
        with connect(address, open_timeout=60, **more) as socket:
            socket.send(json.dumps(first))
            return socket.recv(timeout=60)

    for token in ("", "blockveil:guessed", "é"):
        for more in ({}, {"subprotocols": ["prefect"]}):
            with pytest.raises((ConnectionClosed, InvalidStatus)):
                heard({"type": "auth", "token": token}, **more)
    right = {"type": "auth", "token": site.login}
    assert json.loads(heard(right, subprotocols=["prefect"])) == {"type": "auth_success"}


def test_pages_of_other_addresses_may_ask_for_nothing(site):
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        asked = {"origin": origin, "access-control-request-method": "PATCH"}
        status, headers, _ = answer(site, "/api/deployments/x", "OPTIONS", **asked)
        assert status == 400
        assert "access-control-allow-origin" not in headers
        _, headers, _ = answer(site, "/api/admin/version", origin=origin, **basic(site.login))
        assert "access-control-allow-origin" not in headers
    _, headers, _ = answer(site, "/api/admin/version", origin=site.url, **basic(site.login))
    assert headers["access-control-allow-origin"] == site.url


@pytest.mark.parametrize("path", SOCKETS)
def test_pages_of_other_addresses_may_open_no_socket(site, path):
    address = f"ws{site.url.removeprefix('http')}{path}"
    for origin in ("http://evil.example", "null", "http://localhost:1"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, open_timeout=60, subprotocols=["prefect"], origin=origin)
    with connect(address, open_timeout=60, subprotocols=["prefect"], origin=site.url) as socket:
        socket.send(json.dumps({"type": "auth", "token": site.login}))
        assert json.loads(socket.recv(timeout=60)) == {"type": "auth_success"}


FLOODING = r"""
import asyncio, encodings.idna, os, socket, sys
import websockets.asyncio.client as client
from websockets.exceptions import WebSocketException
user, kind, port, number = (int(word) if word.isdigit() else word for word in sys.argv[1:])
if os.getuid() == 0:
    os.setgroups([]); os.setgid(user); os.setuid(user)

async def opened(origin=None):
    try:
        address = f"ws://127.0.0.1:{port}/api/events/in"
        async with client.connect(address, subprotocols=["prefect"], origin=origin, open_timeout=60) as there:
            await there.send('{"type":"auth","token":"\u00e9"}')
            await there.recv()
    except (OSError, EOFError, WebSocketException):
        pass

async def sent(words):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        await reader.read()
        writer.close()
    except OSError:
        pass

async def main():
    words = {
        "login": b"GET /api/admin/version HTTP/1.0\r\nAuthorization: Basic w6k=\r\n\r\n",
        "garbage": b"\x00\x01\xff\r\n\r\n",
        "description": b"GET /openapi.json HTTP/1.0\r\n\r\n",
    }
    for _ in range(number // 50):
        if kind in words:
            await asyncio.gather(*(sent(words[kind]) for _ in range(50)))
        else:
            await asyncio.gather(*(opened("http://evil.example" if kind == "page" else None) for _ in range(50)))

if kind == "silent":
    held = []
    for _ in range(number):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=60))
    print("held", flush=True)
    sys.stdin.read()
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["token", "page", "login", "garbage", "description", "silent"])
@pytest.mark.parametrize("at", ["server", "site"])
def test_a_stranger_fills_no_log_and_keeps_the_owner_out_of_nothing(site, kind, at):
    releases = re.search(r"Releases and budgets: (http://[^/]+)/", site.log.read_text())[1]
    asked, path = (site, "/api/admin/version") if at == "server" else (SimpleNamespace(url=releases), "/index.html")
    logs = [site.log, site.home / "blockveil-server.log"]
    before = sum(log.stat().st_size for log in logs)
    number, waits = 600, []
    words = [sys.executable, "-c", FLOODING, str(NOBODY), kind, asked.url.rpartition(":")[2], str(number)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        if kind == "silent":
            assert stranger.stdout.readline() == "held\n"
        while stranger.poll() is None and len(waits) < 200:
            began = time.monotonic()
            assert answer(asked, path, **basic(site.login))[0] in (200, 404)
            waits.append(time.monotonic() - began)
            if kind == "silent" and len(waits) == 20:
                stranger.stdin.close()
            time.sleep(0.05)
        stranger.stdin.close()
        assert stranger.wait(60) == 0
    grown = sum(log.stat().st_size for log in logs) - before
    print(f"{at}, {kind}: {grown / number:.1f} bytes of log a try, the owner waited {max(waits):.2f} s at most")
    assert grown < number, "less than a byte for each"


def test_what_changes_something_needs_a_token_beside_the_login(site):
    sent = {"content-type": "application/json", **basic(site.login)}
    assert answer(site, "/api/flows/", "POST", b'{"name": "x"}', **sent)[0] == 403
    wrong = {**sent, "prefect-csrf-client": "test", "prefect-csrf-token": "guessed"}
    assert answer(site, "/api/flows/", "POST", b'{"name": "x"}', **wrong)[0] == 403
    assert site.ask("/flows/", {"name": "x"})["name"] == "x"


def test_the_login_is_in_no_argument_list_and_no_log(site):
    password = site.login.partition(":")[2]
    processes = tree(site.process)
    assert len(processes) > 1
    for pid in processes:
        with contextlib.suppress(FileNotFoundError):
            assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert password in login.kept(site.home)
    for log in site.home.glob("*.log"):
        assert password not in log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process of another user")
def test_another_user_of_the_machine_finds_no_login_and_is_let_in_nowhere(site):
    look = f"""
import encodings.idna, http.client, os, sys, urllib.error, urllib.request
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
for path in [{str(site.home / login.FILE_NAME)!r}, *(f"/proc/{{pid}}/environ" for pid in {tree(site.process)!r})]:
    try:
        open(path).read()
        sys.exit(f"read {{path}}")
    except (PermissionError, FileNotFoundError):
        pass
try:
    urllib.request.urlopen({site.url + "/api/deployments/name/release/people"!r})
    sys.exit("let in")
except urllib.error.HTTPError as error:
    assert error.code == 401
"""
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_steps_that_somebody_with_the_login_put_into_a_deployment_are_not_run(site):
    deployment, pwned = site.deployment("release/people"), site.folder / "PWNED"
    script = {"prefect.deployments.steps.run_shell_script": {"script": f"id > {pwned}"}}
    site.ask(f"/deployments/{deployment}", {"pull_steps": [script]}, "PATCH")
    try:
        run = site.run("release/people")
        state = site.state(run)
        assert state["name"] == "NotReviewed"
        assert "differs from the reviewed folder: pull_steps" in state["message"]
        logs = site.wait(
            lambda: site.ask("/logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}}), "there is no log"
        )
        assert any("pull_steps" in line["message"] for line in logs)
        assert not pwned.exists()
        assert [entry.kind for entry in site.ledger.history()] == ["BUDGET"]
    finally:
        site.ask(f"/deployments/{deployment}", {"pull_steps": None}, "PATCH")
    assert site.state(site.run("release/people", mode="dry-run"))["type"] == "COMPLETED"


HOSTILE = 'import pathlib\npathlib.Path({pwned!r}).write_text("{name}")\nraise SystemExit("a stranger\'s file")\n'


def hostile(folder):
    """A folder that somebody else has prepared for whoever stands in it; what is there once its code has run."""
    folder.mkdir()
    pwned = folder / "PWNED"
    for name in ("flows", "pipeline", "engine", "prefect", "uvicorn", "numpy", "zarr", "dask"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(HOSTILE.format(pwned=str(pwned), name=name))
    for name in ("sitecustomize", "usercustomize", "httpx", "secrets", "multiprocessing", "logging", "distributed"):
        (folder / f"{name}.py").write_text(HOSTILE.format(pwned=str(pwned), name=name))
    (folder / ".env").write_text("PREFECT_API_URL=http://127.0.0.1:9/api\nPREFECT_API_AUTH_STRING=of:another\n")
    (folder / "prefect.toml").write_text(
        '[server.api]\nauth_string = "of:another"\n[api]\nurl = "http://127.0.0.1:9"\n'
    )
    (folder / "pyproject.toml").write_text('[tool.prefect.api]\nurl = "http://127.0.0.1:9/api"\n')
    (folder / "matplotlibrc").write_text("text.usetex: True\n")  # LaTeX would run; it would not be there
    return pwned


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_in_the_folder_where_a_command_is_called_is_imported_or_obeyed(tmp_path, monkeypatch):
    """Of a service and a worker the same is seen with the installed package, in test_wheel.py."""
    loaded = support.prepare(tmp_path, budget=9.0, cluster="local")  # Dask starts processes of its own
    pwned = hostile(tmp_path / "strange")
    monkeypatch.chdir(tmp_path / "strange")
    blockveil, home = str(BIN / "blockveil"), tmp_path / "home"

    def run(*words):
        environment = {**os.environ, "PREFECT_HOME": str(home)}
        done = subprocess.run(
            [blockveil, *words], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "Released" in run("run", str(loaded.path), "--date", "2026-11-20")
    assert "Released" in run("run", str(loaded.path), "--date", "2026-11-19", "--no-prefect")
    assert len(list(loaded.output_root.glob("*/*/*.html"))) == 2, "reports were written without LaTeX"
    assert not pwned.exists(), pwned.read_text()


@pytest.mark.slow
def test_a_temporary_server_wants_a_login_too_and_ends_with_a_killed_owner(tmp_path):
    loaded = support.prepare(tmp_path)
    script = """
import time
from blockveil.flows.service import server
with server.at_hand():
    import os
    print(os.environ["PREFECT_API_URL"], flush=True)
    time.sleep(3600)
"""
    environment = {**os.environ, "PREFECT_HOME": str(loaded.path.parent / "home")}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as owner:
        url = owner.stdout.readline().strip()
        (child,) = [pid for pid in tree(owner) if pid != owner.pid]
        for path in ("/deployments/filter", "/flows/filter"):
            request = urllib.request.Request(f"{url}{path}", b"{}", {"content-type": "application/json"})
            with pytest.raises(urllib.error.HTTPError, match=r"40[13]"):
                urllib.request.urlopen(request, timeout=30)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/admin/settings", timeout=30)
        assert b"AUTH" not in Path(f"/proc/{child}/cmdline").read_bytes()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    end = time.monotonic() + 300
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < end, "it outlived its owner"
        time.sleep(0.2)


@contextlib.contextmanager
def worker(folder, home, url, log, called_in, blockveil=BIN / "blockveil"):
    """A worker of Blockveil, called in some folder, which finds the login of its home by itself."""
    environment = {**os.environ, "PREFECT_HOME": str(home), "PREFECT_API_URL": f"{url}/api"}
    with (
        log.open("wb") as said,
        subprocess.Popen(
            [str(blockveil), "service", "worker", str(folder)],
            cwd=called_in,
            env={**environment, "PREFECT_WORKER_QUERY_SECONDS": "1"},
            stdout=said,
            stderr=said,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(300)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_of_a_team_obeys_its_own_folder_whatever_pool_deployment_or_run_say(tmp_path):
    loaded, home, pwned = support.prepare(tmp_path, budget=9.0), tmp_path / "home", tmp_path / "PWNED"
    (tmp_path / "deployments.toml").write_text(NIGHT)
    ledger, strange = Ledger(loaded.ledger_url), tmp_path / "strange"
    imported = hostile(strange)

    def kinds():
        return [entry.kind for entry in ledger.history()]

    with server_alone(home) as team:
        deploy(tmp_path, team.url, team.login)
        assert team.ask("/work_pools/blockveil")["type"] == "blockveil", "no worker of Prefect takes its runs"
        command = {"command": f"sh -c 'id > {pwned}'", "env": {"PYTHONPATH": str(tmp_path)}, "working_dir": "/tmp"}
        template = {"job_configuration": command, "variables": {"type": "object", "properties": {}}}
        team.ask("/work_pools/blockveil", {"base_job_template": template}, "PATCH")
        with worker(tmp_path, home, team.url, tmp_path / "worker.log", called_in=strange):
            deployment = team.deployment("release/people")
            asked = {"parameters": {}, "job_variables": command}
            made = team.ask(f"/deployments/{deployment}/create_flow_run", asked)["id"]
            assert "job_variables of its own" in team.state(made)["message"]
            team.ask(f"/deployments/{deployment}", {"job_variables": command}, "PATCH")
            assert (
                "differs from the reviewed folder: job_variables" in team.state(team.run("release/people"))["message"]
            )
            assert kinds() == ["BUDGET"]

            # A run that is cancelled ends its own process, and no other that the server names.
            victim = subprocess.Popen(["sleep", "600"])
            team.ask(f"/flow_runs/{made}", {"infrastructure_pid": str(victim.pid)}, "PATCH")
            team.ask(f"/flow_runs/{made}/set_state", {"state": {"type": "CANCELLING"}, "force": True})
            deploy(tmp_path, team.url, team.login)
            state = team.state(team.run("release/people", logical_date="2026-11-20"))
            assert state["type"] == "COMPLETED", state
            assert victim.poll() is None
            victim.kill()
            victim.wait()
    assert kinds() == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert not pwned.exists()
    assert "covariance/2026-11-20" in (tmp_path / "worker.log").read_text(), "the worker made the run, and nobody else"
    assert not imported.exists(), imported.read_text()

"""First use on a terminal, in an empty home, with nothing set: no process looks up another host."""

import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from blockveil.flows import settings
from blockveil.flows.service import login
from tests.end_to_end.served import Served, deploy, free_port, server_alone
from tests.end_to_end.test_sockets import site
from tests.house import support, watched

ROOT = Path(__file__).parents[2]
DEFAULTS = settings._DEFAULTS
BLOCKVEIL = str(watched.BIN / "blockveil")


@pytest.fixture
def first_day(tmp_path, monkeypatch):
    """Environment of somebody's first day, and what was seen of it; this process is of the same account."""
    environment = watched.clean(tmp_path, DEFAULTS)
    monkeypatch.setenv("XDG_STATE_HOME", str(Path(environment["HOME"]) / ".local" / "state"))
    assert not [name for name in environment if name.startswith(("DASK_", "DO_NOT"))]
    return environment, watched.Watched(Path(environment["BLOCKVEIL_WATCHED"]))


def assert_private(seen, *imported):
    """Nothing was looked up elsewhere, and all settings were made before the first import of these packages."""
    assert seen.lines("host") == []
    assert {line["imported"] for line in seen.lines("imported")} >= set(imported)
    for line in seen.lines("imported"):
        found = {name: str(value).lower() for name, value in line["settings"].items()}  # Prefect writes False
        assert found == {name: value.lower() for name, value in DEFAULTS.items()}, line["process"]


def test_a_program_that_imports_prefect_first_is_seen_to_look_up_its_makers(tmp_path, first_day):
    """Else the other tests could not fail."""
    environment, seen = first_day
    watched.to_its_end([sys.executable, "-c", "import prefect, time; time.sleep(3)"], environment, tmp_path)
    assert seen.lines("host") != []


class TellsOfItsUse(BaseHTTPRequestHandler):
    """Prefect's server of somebody else, whose owner lets it and its clients report to the makers."""

    def do_GET(self):
        body = b'{"server": {"analytics_enabled": true}}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        """Nothing is printed."""


@pytest.mark.slow
def test_not_even_a_server_that_reports_its_use_makes_a_client_do_so(tmp_path, first_day):
    """The server's own setting says nothing there, as of a team's server: only the client's does."""
    environment, seen = first_day
    with ThreadingHTTPServer(("127.0.0.1", 0), TellsOfItsUse) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        environment["PREFECT_API_URL"] = f"http://127.0.0.1:{other.server_port}/api"
        asks = "from prefect._internal.analytics.service import AnalyticsService as Asks; "
        asks += "Asks.instance().wait_for_analytics_check(60) if Asks._instance else None; time.sleep(3)"
        for ours in ("blockveil.flows, ", ""):
            before = seen.lines("host")
            words = [sys.executable, "-c", f"import {ours}prefect, time; {asks}"]
            watched.to_its_end(words, {**environment, "PREFECT_HOME": str(tmp_path / f"home of {ours}x")}, tmp_path)
            assert (seen.lines("host") == before) == bool(ours), "without our settings it does, so this can fail"
        other.shutdown()


@pytest.mark.slow
def test_a_first_run_looks_up_nobody(tmp_path, first_day):
    environment, seen = first_day
    loaded = support.prepare(tmp_path, cluster="local")
    words = [BLOCKVEIL, "run", str(loaded.path), "--date", "2026-11-20", "--no-prefect"]
    assert "Released people/covariance/2026-11-20" in watched.to_its_end(words, environment, tmp_path)
    assert_private(seen, "distributed")


@pytest.mark.slow
def test_a_first_demo_looks_up_nobody(tmp_path, first_day):
    environment, seen = first_day
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    assert "Released" in watched.to_its_end([BLOCKVEIL, "demo"], environment, tmp_path)
    assert_private(seen, "prefect", "distributed")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_first_service_and_a_run_of_it_look_up_nobody(tmp_path, first_day):
    environment, seen = first_day
    loaded, port = site(tmp_path), free_port()
    words = [BLOCKVEIL, "serve", str(tmp_path), "--port", str(port)]
    with watched.on_a_terminal(words, environment, tmp_path) as (process, read):
        watched.until(lambda shown: b"Serving." in shown, process, read, "it does not serve")
        kept = login.kept(Path(environment["PREFECT_HOME"]))
        served = Served(process, f"http://127.0.0.1:{port}", tmp_path / "none.log", kept)
        served.run("release/people", logical_date="2026-11-20")
        watched.until(lambda _: any(loaded.output_root.glob("*/*/*.html")), process, read, "it releases nothing")
    assert_private(seen, "prefect", "distributed")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_first_worker_and_a_run_of_it_look_up_nobody(tmp_path, first_day):
    environment, seen = first_day
    loaded = site(tmp_path)
    with server_alone(tmp_path / "served") as served:
        deploy(tmp_path, served.url, served.login)
        known = {name: served.client[name] for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING")}
        words = [BLOCKVEIL, "service", "worker", str(tmp_path)]
        with watched.on_a_terminal(words, {**environment, **known}, tmp_path) as (process, read):
            served.run("release/people", logical_date="2026-11-20")
            watched.until(lambda _: any(loaded.output_root.glob("*/*/*.html")), process, read, "it releases nothing")
    assert_private(seen, "prefect", "distributed")


@pytest.mark.slow
def test_settings_are_made_by_whatever_part_of_the_package_is_imported_first():
    """The package itself makes them, so no module of it can import Prefect before; and no other layer imports it."""
    script = (
        "import sys, flows\n"
        "early = int('prefect' in sys.modules or 'dask' in sys.modules)\n"
        "print(early, int('blockveil.flows.base.settings' in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["0", "1"]
    everything = (
        "import sys, pkgutil, importlib, engine, pipeline\n"
        "for package in (engine, pipeline):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print(int('prefect' in sys.modules or 'distributed' in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", everything], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["0"]


def test_a_program_that_has_imported_prefect_before_gets_the_settings_too(tmp_path):
    script = (
        "import prefect, flows\n"
        "from prefect.settings import get_current_settings\n"
        "now = get_current_settings()\n"
        "started = now.server.ephemeral.startup_timeout_seconds\n"
        "print(now.server.analytics_enabled, now.runner.poll_frequency, started)\n"
    )
    environment = {**watched.clean(tmp_path, DEFAULTS), "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ["False", "5", "120"]

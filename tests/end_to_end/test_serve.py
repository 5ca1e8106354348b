"""``blockveil serve`` as a service: first night, stops and kills, a password, logs for machines, the runbook itself."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from signal import SIGKILL

import pytest

from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan.planning import make_plan
from tests.end_to_end.served import COMMAND, Served, free_port, serve, server_alone
from tests.end_to_end.test_killed_flow import KILLED
from tests.house import support, warm

ROOT = Path(__file__).resolve().parents[2]

NIGHT = """
[[night]]
config = "people"
cron = "{cron}"
timezone = "UTC"
mode = "release"
missed_nights = "{missed}"
"""


def site(folder, cron="30 2 * * *", missed="latest", more=""):
    loaded = support.prepare(folder)
    (folder / "deployments.toml").write_text(NIGHT.format(cron=cron, missed=missed) + more)
    return loaded


def entries(loaded):
    return [entry.kind for entry in Ledger(loaded.ledger_url).history()]


@pytest.fixture(scope="module")
def first_start(tmp_path_factory):
    """A service with a password and logs for machines, a night that is due soon, and the time of that."""
    folder = tmp_path_factory.mktemp("first")
    soon = datetime.now(UTC) + timedelta(seconds=240)  # a busy machine takes minutes to start
    loaded = site(folder, cron=f"{soon.minute} {soon.hour} * * *")
    settings = {
        "PREFECT_SERVER_API_AUTH_STRING": "ops:secret",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER": "json",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    with serve(folder, folder / "home", **settings) as served:
        yield served, loaded, soon


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_scheduled_night_is_released_soon_after_the_first_start(first_start):
    served, loaded, soon = first_start
    served.patience = 480.0
    deployment = served.deployment("release/people")
    of_it = {"flow_runs": {"deployment_id": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}

    def scheduled():
        return [run for run in served.ask("/flow_runs/filter", of_it) if run["auto_scheduled"]]

    first = served.wait(scheduled, "nothing was scheduled")[0]
    assert served.wait(lambda: served.ask(f"/flow_runs/{first['id']}")["end_time"], "the night did not run")
    night = f"people/covariance/{soon.date()}"
    found = [entry.kind for entry in Ledger(loaded.ledger_url).history() if entry.release_id == night]
    assert found == ["RESERVED", "COMMITTED", "RELEASED"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_password_keeps_strangers_out_runs_go_on_and_logs_for_machines_are_one_json_object_a_line(first_start):
    served, loaded, _ = first_start
    stranger = Served(served.process, served.url, served.log)
    with pytest.raises(urllib.error.HTTPError, match=r"40[13]"):
        stranger.ask("/deployments/filter", {})
    run = served.run("release/people", release="people", mode="release", logical_date="2026-11-20")
    assert served.state(run)["type"] == "COMPLETED"
    night = Ledger(loaded.ledger_url).find("people/covariance/2026-11-20")
    assert night is not None
    assert night.state is State.RELEASED
    assert "secret" not in served.log.read_text()

    def said():
        lines = served.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    served.wait(lambda: any("Finished in state" in str(line) for line in said()), "it is not said")
    assert all({"name", "levelname"} <= line.keys() for line in said())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_kill_no_server_is_left_and_the_next_start_ends_what_ran_and_finishes_a_night_with_one_charge(tmp_path):
    loaded = site(tmp_path, missed="skip")
    home = tmp_path / "home"
    with serve(tmp_path, home, PREFECT_RUNNER_POLL_FREQUENCY="1") as served:
        path = f"/deployments/{served.deployment('release/by-hand')}/create_flow_run"
        form = {"release": "people", "mode": "dry-run"}
        run = served.ask(path, {"parameters": form, "state": {"type": "RUNNING"}})["id"]  # its process has died
        served.process.send_signal(SIGKILL)
        served.process.wait(300)
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                served.ask("/health")
            except OSError:
                break
            time.sleep(0.3)
        else:
            pytest.fail("the server outlived its owner")
    assert warm.run(KILLED.replace('"--date"', '"--no-prefect", "--date"'), str(loaded.path)).returncode == -SIGKILL
    assert entries(loaded) == ["BUDGET", "RESERVED", "COMMITTED"]
    with serve(tmp_path, home) as served:
        ended = served.ask(f"/flow_runs/{run}")
        assert f"{ended['name']}: No sign of life: its process is gone." in served.log.read_text()
        assert "Caught up: people 2026-11-20" in served.log.read_text()
        assert ended["state"]["name"] == "Crashed"
        served.wait(lambda: entries(loaded)[-1] == "RELEASED", "the night was not finished")
    assert entries(loaded) == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]


NOTEBOOK = """
import asyncio, os
import blockveil as bv

async def cell(day):
    try:
        print(bv.run("people.toml", date=f"2026-11-{{day}}", prefect=True).release_id)
    except bv.BlockveilError as error:
        print("refused:", type(error).__name__)

asyncio.run(cell(10))
os.environ["PREFECT_API_URL"] = "{url}/api"
asyncio.run(cell(11))
asyncio.run(cell(12))
"""


@pytest.mark.slow
def test_a_notebook_beside_it_records_its_runs_on_a_server_of_its_own_or_on_this_one(tmp_path):
    """Its cells run in an event loop; one names the server after Prefect was used without, one has no budget left."""
    loaded = site(tmp_path)
    with server_alone(tmp_path / "home") as served:
        (tmp_path / "notebook.py").write_text(NOTEBOOK.format(url=served.url))
        ledger = Ledger(loaded.ledger_url)
        budget, charge = ledger.budget("people"), make_plan(loaded, date(2026, 11, 10)).charge
        while budget.nights_left(charge) > 2:
            budget = support.set_budget(loaded, 0.9 * budget.epsilon).budget("people")
        known = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", tmp_path / "notebook.py"],
            cwd=tmp_path,
            env={**known, "PREFECT_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    shown = [line for line in done.stdout.splitlines() if line.startswith(("people/", "refused"))]
    released = [f"people/covariance/2026-11-{day}" for day in (10, 11)]
    assert shown == [*released, "refused: BudgetExhausted"], done.stderr[-3000:]
    pages = re.findall(r"View at (http://[^/]+)/", done.stdout + done.stderr)
    assert [page == served.url for page in pages] == [False, True, True], pages


def test_two_services_with_one_home_or_one_port_are_refused_in_words(tmp_path):
    import fcntl
    import socket

    site(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "PREFECT_HOME": str(home)}

    def refused(*words):
        found = subprocess.run(
            [*COMMAND, "serve", str(tmp_path), *words], env=environment, capture_output=True, text=True, timeout=120
        )
        assert found.returncode != 0
        assert "Traceback" not in found.stderr
        return found.stderr

    assert "would travel there without encryption" in refused("--host", "0.0.0.0")
    with (home / "blockveil-serve.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "One process serves from one home" in refused()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be listened at" in refused("--port", str(taken.getsockname()[1]))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_commands_of_the_runbook_run_as_they_are_written(tmp_path):
    """Word for word, but for the port and the folder."""
    port = free_port()
    text = (ROOT / "docs" / "operations.md").read_text().replace("4200", str(port))
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert len(commands) > 5
    folder = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True, capture_output=True)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    words = {
        "blockveil": "from blockveil.flows.cli import main; main()",
        "prefect": "from prefect.cli import app; app()",
    }
    for name, code in words.items():
        (bin_folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
        (bin_folder / name).chmod(0o755)
    (bin_folder / "python").symlink_to(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "PREFECT_HOME": str(tmp_path / "home"),
    }
    exports, service = [], None
    try:
        for command in commands:
            if command.startswith("export "):
                exports.append(command)
            elif command.startswith("blockveil serve"):
                with (tmp_path / "serve.log").open("wb") as log:
                    service = subprocess.Popen(
                        ["bash", "-c", f"exec {command} --port {port}"],
                        cwd=folder,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                end = time.monotonic() + 600
                while b"Serving." not in (tmp_path / "serve.log").read_bytes():
                    alive = service.poll() is None and time.monotonic() < end
                    assert alive, (tmp_path / "serve.log").read_text()
                    time.sleep(0.3)
            else:
                script = "; ".join([*exports, command])
                done = subprocess.run(
                    ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    finally:
        if service is not None:
            service.send_signal(signal.SIGTERM)
            service.wait(300)
    assert list(folder.rglob(f"covariance/{datetime.now(UTC).year}-*.json")), "the demo's release is there"

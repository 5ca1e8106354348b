"""Turns of a data set outlive a restart of the server, end with a killed run, and are never held by two."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.end_to_end.served import PATIENCE, Served, free_port, kill_all

LOGIN = "ops:who takes turns"

HOLD = """
import sys, time
from pathlib import Path
import blockveil.flows
from prefect import flow
from blockveil.flows.runs import turns
from blockveil.flows.runs.steps import Steps

name, folder = sys.argv[1], Path(sys.argv[2])

@flow(name="hold")
def hold():
    (folder / f"{name}.waits").touch()
    with turns.of_dataset(Steps(), "people"):
        with (folder / "order").open("a") as order:
            order.write(f"{name} in\\n")
        while not (folder / f"{name}.done").exists():
            time.sleep(0.1)
        with (folder / "order").open("a") as order:
            order.write(f"{name} out\\n")

hold()
"""


@contextmanager
def server(home, port):
    """A permanent server, killed without a warning at the end."""
    script = "import sys, time\nfrom pathlib import Path\n"
    script += "import blockveil.flows.base.settings\nfrom blockveil.flows.service import server\n"
    script += f"with server.running('127.0.0.1', {port}, Path({str(home / 'server.log')!r}), {LOGIN!r}):\n"
    script += "    time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PREFECT_HOME": str(home)}) as owner:
        served = Served(owner, f"http://127.0.0.1:{port}", home / "server.log", LOGIN)
        try:
            served.wait(lambda: served.ask("/health"), "the server does not answer")
            yield served
        finally:
            kill_all(owner)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_turn_outlives_a_restart_of_the_server_and_a_killed_run_keeps_it_for_a_bounded_time(tmp_path):
    port, home = free_port(), tmp_path / "home"
    home.mkdir()
    order, runs = tmp_path / "order", []

    def start(name):
        address = f"http://127.0.0.1:{port}/api"
        environment = {**os.environ, "PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": LOGIN}
        with (tmp_path / f"{name}.log").open("wb") as log:
            runs.append(
                subprocess.Popen(
                    [sys.executable, "-c", HOLD, name, str(tmp_path)], env=environment, stdout=log, stderr=log
                )
            )
        return runs[-1]

    def said(served, *lines, patience=PATIENCE):
        served.patience = patience
        served.wait(lambda: order.exists() and order.read_text().splitlines() == list(lines), f"not {lines}")

    try:
        with server(home, port) as served:
            first = start("first")
            said(served, "first in")
        with server(home, port) as served:
            second = start("second")
            served.wait((tmp_path / "second.waits").exists, "the second run did not start")
            time.sleep(40)  # the server looks for turns that have ended every 15 s; waiting runs ask within 30 s
            assert order.read_text() == "first in\n", "two runs hold the turn of one data set"
            (tmp_path / "first.done").touch()
            assert first.wait(300) == 0
            said(served, "first in", "first out", "second in")
            second.kill()
            second.wait()
        with server(home, port) as served:
            start("third")
            # Within the 60 s of the lease, 15 s until the server looks, and 30 s until the run asks again.
            said(served, "first in", "first out", "second in", "third in", patience=400.0)
    finally:
        for run in runs:
            run.kill()
            run.wait()

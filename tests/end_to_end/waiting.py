"""Nights that wait for a person on a machine that is busy, and what becomes of them when the service stops.

``python -m tests.end_to_end.waiting --approvals 30 --busy 2 --hold 240`` prints the figures.
"""

import argparse
import json
import multiprocessing
import signal
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import serve, server_alone, spoken_to
from tests.house import support
from tests.house.listening import listening

CONFIGS = 3
NIGHT = """
[[night]]
config = "night{number}"
cron = "{at.minute} {at.hour} * * *"
timezone = "UTC"
mode = "release"
missed_nights = "all"
"""
APPROVAL = "\n[approval]\nthreshold_share = 0.0001\n"
APPROVED = {"decision": "approve", "name": "the director"}


def site(folder, at):
    """Configs of one data set, each with a night that needs a person."""
    loaded = support.prepare(folder, budget=6.0)
    text, deployments = loaded.path.read_text() + APPROVAL, '[alerts]\nnotify = ["webhook/on-call"]\n'
    for number in range(CONFIGS):
        path = folder / f"night{number}.toml"
        path.write_text(text.replace('name = "covariance"', f'name = "night{number}"'))
        deployments += NIGHT.format(number=number, at=at)
    loaded.path.unlink()
    (folder / "deployments.toml").write_text(deployments)
    return load_config(folder / "night0.toml")


def _spin():
    while True:
        pass


@contextmanager
def busy(number):
    """Keep so many cores busy."""
    loops = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(number)]
    for each in loops:
        each.start()
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.join()


def asked_for(served, number, at):
    """Nights of as many dates, half of them made by hand and half by the schedule; their runs."""
    made = []
    for each in range(number):
        deployment = served.deployment(f"release/night{each % CONFIGS}")
        if each % 2:
            form = {"release": f"night{each % CONFIGS}", "mode": "release"}
            form["logical_date"] = (date(2027, 1, 1) + timedelta(days=each)).isoformat()
            made.append(served.ask(f"/deployments/{deployment}/create_flow_run", {"parameters": form})["id"])
            continue
        when = at - timedelta(days=each + 2)
        span = {"start_time": when - timedelta(minutes=1), "end_time": when + timedelta(minutes=1)}
        body = {**{key: value.isoformat() for key, value in span.items()}, "min_runs": 1}
        served.ask(f"/deployments/{deployment}/schedule", body)
        wanted = {
            "deployments": {"id": {"any_": [deployment]}},
            "flow_runs": {"expected_start_time": {"after_": body["start_time"], "before_": body["end_time"]}},
        }
        (run,) = served.ask("/flow_runs/filter", wanted)
        made.append(run["id"])
    return made


def states(served, runs):
    """Every state that runs have been in, by run."""
    return {run: [each["name"] for each in served.ask(f"/flow_run_states/?flow_run_id={run}")] for run in runs}


def tracebacks(home):
    """Tracebacks in what the service and its runs, and its server, have printed."""
    logs = [home / "serve.log", *home.glob("blockveil-server.log*")]
    return {file.name: file.read_text(errors="replace").count("Traceback (most recent") for file in logs}


def trial(folder, approvals, loops, hold, approved=4):
    """Let nights wait for a person, approve some, stop the service at work, and start it again; figures of it all."""
    home, found = folder / "home", {"of": approvals}
    at = (datetime.now(UTC) - timedelta(hours=2)).replace(second=0, microsecond=0)
    config = site(folder, at)
    with listening() as (address, messages), busy(loops):
        with server_alone(home) as served, spoken_to(served.url, served.login):
            from prefect.blocks.webhook import Webhook

            Webhook(url=address).save("on-call")
        with serve(folder, home) as served:
            began = time.monotonic()
            runs = asked_for(served, approvals, at)

            def waiting():
                types = served.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": runs}}, "limit": 200})
                return sum(run["state_type"] == "PAUSED" for run in types)

            served.patience = 1800.0
            served.wait(lambda: waiting() == approvals, "they do not all wait")
            found["seconds until all wait"] = round(time.monotonic() - began)
            time.sleep(hold)
            found["still wait"] = waiting()
            seen = states(served, runs)
            found["ever Crashed"] = sum("Crashed" in names for names in seen.values())
            told = {run for run in runs if any(run in text and "Suspended" in text for text in messages)}
            found["alarms of them sent"] = len(told)
            for run in runs[:approved]:
                served.ask(f"/flow_runs/{run}/resume", {"run_input": APPROVED})
            served.wait(
                lambda: any(served.ask(f"/flow_runs/{run}")["state"]["type"] == "RUNNING" for run in runs[:approved]),
                "no approved run works",
            )
            time.sleep(3)
            found["at work when stopped"] = sum(
                served.ask(f"/flow_runs/{run}")["state"]["type"] == "RUNNING" for run in runs[:approved]
            )
            asked = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            served.process.wait(300)
            found["seconds to stop"] = round(time.monotonic() - asked, 1)
        found["tracebacks of the first service"] = tracebacks(home)
        with serve(folder, home) as served:
            served.patience = 1800.0
            for run in runs[:approved]:
                served.state(run, "Completed")
            found["wait after the restart"] = waiting()
            found["ever Crashed, after the restart"] = sum("Crashed" in each for each in states(served, runs).values())
        found["tracebacks of both"] = tracebacks(home)
    ledger = Ledger(config.ledger_url)
    found["released of those approved"] = sum(entry.kind == "RELEASED" for entry in ledger.history())
    found["charges"] = sum(entry.kind == "RESERVED" for entry in ledger.history())
    found["dlq"] = len(list((home / "dlq").glob("*"))) if (home / "dlq").exists() else 0
    return found


def main():
    """Print the figures."""
    words = argparse.ArgumentParser()
    words.add_argument("--approvals", type=int, default=30)
    words.add_argument("--busy", type=int, default=2)
    words.add_argument("--hold", type=int, default=240)
    words.add_argument("--folder", type=Path)
    asked = words.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="blockveil-waiting-"))
    print(json.dumps(trial(folder, asked.approvals, asked.busy, asked.hold), indent=1))


if __name__ == "__main__":
    main()

"""From nothing to the first scheduled night: ``python -m benchmarks.serve [TRIES]`` (3), Linux.

Each try has a fresh Prefect home and a fresh copy of the quickstart with its 30,000 records and a budget. It starts
``blockveil serve`` and tells how long until the server has planned the night, and how long after its time the release
is sealed. The night is due at a full minute that the start cannot miss; the wait for it is left out of the sum, which
is what a night takes that is due at once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import machine
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.data import quickstart
from blockveil.pipeline.ledger import Ledger

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
AHEAD = timedelta(seconds=60)
"""The night is due at the first full minute after this."""

PATIENCE = 300.0
NIGHT = """
[[night]]
config = "quickstart"
mode = "release"
cron = "{minute} {hour} * * *"
timezone = "UTC"
missed_nights = "skip"
"""


def prepare(folder: Path) -> LoadedConfig:
    """A copy of the quickstart with records and a budget, as ``blockveil demo`` makes them, and no release."""
    shutil.copytree(CONFIGS, folder / "configs")
    loaded = load_config(folder / "configs" / "quickstart.toml")
    quickstart.write_records(loaded.path.parent / quickstart.SOURCE, loaded.store_path)
    privacy = loaded.config.privacy
    Ledger(loaded.ledger_url).set_budget(loaded.config.release.account, 3.0, 1e-5, privacy.neighbours, privacy.unit)
    return loaded


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    """One request to the server, or None while it does not answer."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, {"content-type": "application/json"}), timeout=5
        ) as answer:
            return json.load(answer)
    except OSError:
        return None


def until(done: Any, process: subprocess.Popen[bytes], log: Path) -> float:
    """Wait for a true value; the clock then."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if done():
            return time.time()
        time.sleep(0.1)
    raise SystemExit(f"The night was not released:\n{log.read_text()[-4000:]}")


def once() -> tuple[float, float]:
    """Seconds until the night is planned, and from its time until it is sealed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        loaded, log = prepare(folder), folder / "serve.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        due = (datetime.now(UTC) + AHEAD).replace(second=0, microsecond=0) + timedelta(minutes=1)
        (loaded.path.parent / "deployments.toml").write_text(NIGHT.format(minute=due.minute, hour=due.hour))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
        ledger, api = Ledger(loaded.ledger_url), f"http://127.0.0.1:{port}/api"
        started = time.time()
        command = [sys.executable, "-c", "from blockveil.flows.cli import main; main()"]
        with (
            log.open("wb") as file,
            subprocess.Popen(
                [*command, "serve", str(loaded.path.parent), "--port", str(port)],
                env={**environment, "PREFECT_HOME": str(folder / "home")},
                stdout=file,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                wanted = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
                planned = until(
                    lambda: b"Serving." in log.read_bytes() and ask(f"{api}/flow_runs/count", wanted), process, log
                )
                sealed = until(lambda: ledger.history()[-1].kind == "RELEASED", process, log)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
    return planned - started, sealed - due.timestamp()


def main(tries: int) -> None:
    """Print each try and the medians."""
    found = []
    for number in range(tries):
        planned, sealed = once()
        found.append((planned, sealed, planned + sealed))
        print(
            f"{number + 1}: planned {planned:.1f} s after the start, sealed {sealed:.1f} s after its time", flush=True
        )
    planned, sealed, both = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"median of {tries}: {planned:.1f} s + {sealed:.1f} s; from nothing to a sealed night {both:.1f} s")


if __name__ == "__main__":
    machine.begin()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)

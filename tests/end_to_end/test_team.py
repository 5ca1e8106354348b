"""A team's set-up: units and the compose file are sound, and the units' own commands make a working topology."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests.end_to_end.served import COMMAND, Served, free_port
from tests.house import support

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
BIN = Path(sys.executable).parent
PASSWORD = "ops:a password of the team"
NIGHT = """
[[night]]
config = "people"
cron = "30 2 * * *"
timezone = "Europe/Berlin"
mode = "release"
missed_nights = "all"
"""


def unit(path):
    """Settings of a unit: each key with all its values; continued lines are one."""
    found = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_run_unprivileged_write_privately_and_dump_no_core(path):
    found = unit(path)
    assert found["User"][0] != "root"
    assert found["UMask"] == ["0077"]
    assert found["NoNewPrivileges"] == found["PrivateTmp"] == found["ProtectHome"] == ["true"]
    assert found["ProtectSystem"] == ["strict"]
    assert not re.search(
        r"password|auth_string\s*=|://[^ ]*:[^ ]*@", " ".join(found.get("Environment", [])), re.IGNORECASE
    )
    if path.stem != "blockveil-server":  # all others may hold un-noised values
        assert found["LimitCORE"] == found["MemorySwapMax"] == ["0"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_finds_no_fault_in_a_unit(path, tmp_path):
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze here")
    here = tmp_path / path.name
    here.write_text(path.read_text().replace("/opt/blockveil/bin/", f"{BIN}/"))
    (tmp_path / "broken.service").write_text("[Service]\nExecStart=relative\nUmask=x\n")
    broken = subprocess.run([tool, "verify", tmp_path / "broken.service"], capture_output=True, text=True, check=False)
    if "relative" not in broken.stderr:
        pytest.skip("systemd-analyze does not work here")
    done = subprocess.run([tool, "verify", here], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert path.name not in done.stderr, done.stderr


def test_the_compose_file_says_the_same_as_the_units():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"database", "server", "scheduler", "dask-worker", "runner"}
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= set(services), name
        named = {volume.split(":")[0] for volume in service.get("volumes", []) if not volume.startswith(("/", "."))}
        assert named <= set(compose["volumes"])
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
        assert not any("PASSWORD" in key and not key.endswith("_FILE") for key in service.get("environment", {}))
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "what is reached from elsewhere goes through a proxy with TLS"
    assert [name for name, service in services.items() if {"ports", "network_mode"} & set(service)] == ["server"]
    for name in ("server", "scheduler", "dask-worker", "runner"):
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["user"] == "1000:1000"
        assert service["ulimits"] == {"core": 0}
    for name, stem in (
        ("server", "server"),
        ("scheduler", "dask-scheduler"),
        ("dask-worker", "dask-worker"),
        ("runner", "worker"),
    ):
        told = dict(
            word.split("=", 1)
            for line in unit(DEPLOY / f"blockveil-{stem}.service")["Environment"]
            for word in line.split()
        )
        told.pop("PREFECT_HOME", None)
        if told.pop("XDG_STATE_HOME", None):  # a folder of its own in a container, and one that outlives it
            kept = {volume.split(":")[1] for volume in services[name]["volumes"] if not volume.endswith(":ro")}
            assert any(Path(services[name]["environment"]["XDG_STATE_HOME"]).is_relative_to(each) for each in kept)
        assert told.items() <= services[name]["environment"].items(), name
        options = {word.split("=")[0] for word in services[name]["command"] if word.startswith("--")}
        (line,) = unit(DEPLOY / f"blockveil-{stem}.service")["ExecStart"]
        assert options >= {word for word in line.split() if word.startswith("--")} - {"--memory-limit"}, name


def test_the_image_is_made_from_the_lock_with_hashes():
    text = (DEPLOY / "Containerfile").read_text()
    assert "--require-hashes" in text
    for name in re.findall(r"COPY ([^\n]+) \S+\n", text):
        assert all((ROOT / word).exists() for word in name.split())


class Topology:
    """Processes that units describe, with places of this test in place of those of a server room."""

    def __init__(self, places, environment):
        self._places, self._environment, self._started = places, environment, []

    def start(self, stem, log, **more):
        found = unit(DEPLOY / f"blockveil-{stem}.service")
        (line,) = found["ExecStart"]
        told = dict(word.split("=", 1) for words in found.get("Environment", []) for word in words.split())
        environment = {**self._environment, **{key: self._here(value) for key, value in told.items()}, **more}
        words = [
            re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], self._here(word)) for word in shlex.split(line)
        ]
        with log.open("wb") as said:
            process = subprocess.Popen(
                words,
                env=environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self._started.append(process)
        return process

    def _here(self, word):
        for there, here in self._places.items():
            word = word.replace(there, here)
        return word

    def stop(self):
        for process in reversed(self._started):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()


@pytest.mark.slow
def test_the_commands_of_the_units_release_a_night_on_an_encrypted_cluster_with_the_ledger_in_postgresql(
    tmp_path, postgres, monkeypatch
):
    from distributed.security import Security

    port, scheduler = free_port(), free_port()
    state, configs, tls = tmp_path / "state", tmp_path / "configs", tmp_path / "tls"
    for folder in (state, configs, tls):
        folder.mkdir()
    made = Security.temporary()
    for name, text in (("ca", made.tls_ca_file), ("cert", made.tls_client_cert), ("key", made.tls_client_key)):
        support.write_private(tls / f"{name}.pem", text)

    support.write_records(configs, support.records())
    path = support.write_config(configs)
    cluster = f'kind = "address"\naddress = "tls://127.0.0.1:{scheduler}"\n' + "".join(
        f'tls_{key} = "file:{tls}/{name}.pem"\n'
        for key, name in (("ca_file", "ca"), ("client_cert", "cert"), ("client_key", "key"))
    )
    text = path.read_text().replace('kind = "threads"', cluster).replace('"ledger.db"', '"env:LEDGER_ADDRESS"')
    path.write_text(text.replace("[compute]", "[compute]\nmemory_gib = 1"))  # what the workers below have
    ledger_url = postgres.url(postgres.new_database())
    monkeypatch.setenv("LEDGER_ADDRESS", ledger_url)
    loaded = load_config(path)
    support.set_budget(loaded)
    (configs / "deployments.toml").write_text(NIGHT)

    places = {
        "/opt/blockveil/bin": str(BIN),
        "/etc/blockveil/configs": str(configs),
        "/etc/blockveil/tls": str(tls),
        "/var/lib/prefect": str(state / "server"),
        "/var/lib/blockveil": str(state),
        "--port 4200": f"--port {port}",
        "4200": str(port),
        "8786": str(scheduler),
        "127.0.0.1:8787": "127.0.0.1:0",
        "8GiB": "1GiB",
    }
    address = f"http://127.0.0.1:{port}/api"
    environment = {**os.environ, "LEDGER_ADDRESS": ledger_url, "PREFECT_HOME": str(state / "home")}
    # Prefect needs an extension that not every PostgreSQL brings; its own database is then SQLite.
    search = postgres.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
    database = postgres.url(postgres.new_database()).replace("postgresql://", "postgresql+asyncpg://")
    own = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database} if search else {}
    client = {"PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": PASSWORD}
    topology = Topology(places, environment)
    try:
        server = topology.start("server", tmp_path / "server.log", PREFECT_SERVER_API_AUTH_STRING=PASSWORD, **own)
        topology.start("dask-scheduler", tmp_path / "scheduler.log")
        topology.start("dask-worker", tmp_path / "dask.log", SCHEDULER=f"tls://127.0.0.1:{scheduler}")
        team = Served(server, f"http://127.0.0.1:{port}", tmp_path / "server.log")
        team.wait(lambda: team.ask("/health"), "the server does not answer")

        def tool(*words, **more):
            return subprocess.run(
                words,
                env={**environment, **client, **more},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )

        deployed = tool(*COMMAND, "service", "deploy", str(configs))
        assert deployed.returncode == 0, deployed.stderr
        assert "release/people: 30 2 * * * Europe/Berlin" in deployed.stdout
        again = tool(*COMMAND, "service", "deploy", str(configs))
        assert again.returncode == 0, again.stderr
        topology.start("worker", tmp_path / "worker.log", **client)
        night = (
            str(BIN / "prefect"),
            "deployment",
            "run",
            "release/people",
            "-p",
            "logical_date=2026-11-20",
            "--watch",
        )
        refused = tool(*night)  # the worker's account has not seen the ledger, in which a budget was set from another
        assert refused.returncode == 1
        assert "finished in state 'LedgerProblem'" in refused.stdout
        known = {"XDG_STATE_HOME": str(state / "state")}
        attested = tool(
            *COMMAND, "ledger", "admin", "attest", str(path), "--by", "J. Doe", "--why", "a new worker", **known
        )
        assert attested.returncode == 0, attested.stderr
        done = tool(*night)
        assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "worker.log").read_text()[-3000:]
        kinds = [entry.kind for entry in Ledger(loaded.ledger_url).history()]
        assert kinds == ["BUDGET", "ATTESTED", "RESERVED", "COMMITTED", "RELEASED"]
        for log in tmp_path.glob("*.log"):
            assert str(support.CANARY) not in log.read_text()
            assert "a password of the team" not in log.read_text()
    finally:
        topology.stop()

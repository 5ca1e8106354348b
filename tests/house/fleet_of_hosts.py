"""A fleet on hosts of their own: a Dask scheduler and three workers over TLS, PostgreSQL, an object store, a runner."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np

from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from tests.house import certificates, support
from tests.house.hosts import Network
from tests.house.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
WORKERS = ("one", "two", "three")
HOSTS = ("runner", "scheduler", *WORKERS, "database", "objects")
PATIENCE = 300.0
"""Seconds to wait for a step; it takes a few."""

CONFIG = """
[release]
dataset = "people"
name = "covariance"

[data]
store = "{store}"

[query]
kind = "covariance"
rows_at_most = 20_000
missing = "refuse"

[query.geometry]
kind = "box"
origin = "midpoint"
features = [
{features}
]

[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "add-remove"
unit = "one person (one row)"

[mechanism]
kind = "shaped-gaussian"
optimise_for = "relative-error"

[compute]
memory_gib = 1
block_rows = 500

[cluster]
{cluster}

[output]
root = "releases"
ledger = "{ledger}"
keys = "keys"
"""

READ = """
import sys, blockveil as bv
from blockveil.pipeline.data.content import Labelled, array_digest
arrays = bv.open(sys.argv[1]).opened.arrays
print({name: array_digest(name, Labelled.of(array)) for name, array in sorted(arrays.items())})
"""

ROWS, FEATURES, CHUNK = 20_000, 60, 500


def records():
    """Records of ten megabytes, shape (rows, features)."""
    return np.random.default_rng(19).random((ROWS, FEATURES))


def write_config(folder, store="records.zarr", cluster='kind = "threads"', ledger="ledger.db", upload=""):
    """Write ``people.toml``; the records may lie elsewhere."""
    features = "\n".join(f'  {{ name = "f{number}", lower = 0, upper = 1 }},' for number in range(FEATURES))
    text = CONFIG.format(store=store, features=features, cluster=cluster, ledger=ledger)
    path = folder / "people.toml"
    path.write_text(text + (f'upload = "{upload}"\n' if upload else ""))
    return path


class Process:
    """A process on a host, with its log."""

    def __init__(self, host, words, log, environment):
        self._log = log
        with log.open("ab") as said, host.inside():
            self.process = subprocess.Popen(
                [str(word) for word in words], cwd=ROOT, env=environment, stdout=said, stderr=said,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def wait(self):
        """Its exit status."""
        return self.process.wait(PATIENCE)

    @property
    def said(self):
        """All that it wrote."""
        return self._log.read_text(errors="replace")

    def kill(self):
        """End it at once, and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait(60)


class Release:
    """One night, as the command line makes it on the runner's host."""

    def __init__(self, fleet, stage=""):
        self._folder = fleet.folder / f"attempt-{time.monotonic_ns()}"
        self._folder.mkdir()
        command = ("run", fleet.config, "--no-prefect", "--date", "2026-11-20")
        words = (sys.executable, "-m", "tests.house.paused_run", self._folder, stage, *command)
        self.process = Process(fleet.network["runner"], words, self._folder / "log", fleet.environment)

    @contextlib.contextmanager
    def stopped(self):
        """While it stands at its stage."""
        until(lambda: (self._folder / "reached").exists() or self.process.process.poll() is not None)
        assert (self._folder / "reached").exists(), self.process.said
        try:
            yield
        finally:
            (self._folder / "go").touch()

    def done(self):
        """Exit status and all that it said."""
        status = self.process.wait()
        return status, self.process.said


def until(what):
    """Wait for something."""
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


class Fleet:
    """The hosts with all their services.

    Parameters
    ----------
    folder
        For certificates, logs, and what the runner keeps.
    commands
        The runbook's lines that make certificates and start scheduler and worker, and the environment of both.
    """

    def __init__(self, folder, commands):
        self.network, self.folder = Network(HOSTS), folder
        self._certificates, self._scheduler, self._worker, self._routes = commands
        self.processes = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.network)
            self._tls = self.folder / "tls"
            self._tls.mkdir()
            subprocess.run(["bash", "-euc", self._certificates], cwd=self._tls, check=True, capture_output=True)
            self._start_database(stack)
            self._start_store(stack)
            stack.callback(self.stop_cluster)
            self._made = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._made.close()

    def _start_database(self, stack):
        host = self.network["database"]
        made = certificates.make(self.folder / "database-tls", host.address)
        with host.inside():
            self._server = PostgresServer(address=host.address, certificates=made)
        stack.callback(self._server.stop)
        self._authority = made / "authority.pem"

    def _start_store(self, stack):
        from moto.server import ThreadedMotoServer

        host = self.network["objects"]
        with host.inside():
            server = ThreadedMotoServer(ip_address=host.address, port=9000, verbose=False)
            server.start()
        stack.callback(server.stop)
        self._store = f"http://{host.address}:9000"
        self.put("records", None)
        self.put("releases", None)

    def put(self, name, content):
        """Make a bucket, or write an object."""
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        kind = {"Content-Type": "application/octet-stream"}
        wanted = urllib.request.Request(f"{self._store}/{name}", data=content, method="PUT", headers=kind)
        with self.network["runner"].inside():
            ask.open(wanted, timeout=60).close()

    @property
    def environment(self):
        """Of workers and runs: what reaches store and ledger, and no proxy."""
        own = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {
            **own,
            **self._routes,
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": self._store,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "never-to-be-seen-31415926",
            "LEDGER": self._ledger if hasattr(self, "_ledger") else "",
        }

    def new_release(self):
        """Let the next runs be of a release, with a ledger and a place in the store of its own."""
        database = self._server.new_database()
        address = self.network["database"].address
        self._ledger = f"postgresql://postgres@{address}/{database}?sslmode=verify-full&sslrootcert={self._authority}"
        self._url = self._server.url(database)
        folder = self.folder / database
        folder.mkdir()
        files = "".join(
            f'tls_{key} = "file:{self._tls}/{name}.pem"\n'
            for key, name in (("ca_file", "ca"), ("client_cert", "cert"), ("client_key", "key"))
        )
        cluster = f'kind = "address"\naddress = "tls://{self.network["scheduler"].address}:8786"\n{files}'
        self.upload = f"s3://releases/{database}"
        self.config = write_config(folder, "s3://records/records.zarr", cluster, "env:LEDGER", self.upload)
        os.environ["LEDGER"] = self._url  # for this process, which has no network: the socket is a file
        try:
            support.set_budget(load_config(self.config))
        finally:
            del os.environ["LEDGER"]

    def start_scheduler(self):
        """Start it, or start it again."""
        self._start("scheduler", self._scheduler)

    def start_worker(self, name):
        """Start a worker on its host, or start it again."""
        line = self._worker.replace("scheduler.example.org", self.network["scheduler"].address)
        for old, new in (("--nworkers 2", "--nworkers 1"), ("--nthreads 2", "--nthreads 1"), ("8GiB", "1GiB")):
            assert old in line
            line = line.replace(old, new)
        self._start(name, line)

    def _start(self, name, line):
        if name in self.processes:
            self.processes[name].kill()
        for file in ("ca.pem", "cert.pem", "key.pem"):
            line = line.replace(file, str(self._tls / file))
        program, *options = line.replace("\\\n", " ").split()
        words = (BIN / program, *options)
        self.processes[name] = Process(self.network[name], words, self.folder / f"{name}.log", self.environment)

    def start_cluster(self):
        """Scheduler and workers, new ones."""
        self.start_scheduler()
        for name in WORKERS:
            self.start_worker(name)

    def stop_cluster(self):
        """End scheduler and workers."""
        for process in self.processes.values():
            process.kill()
        self.processes.clear()

    def kinds(self):
        """Entries of the ledger."""
        ledger = Ledger(self._url)
        assert ledger.verify().problems == []
        return [entry.kind for entry in ledger.history()]

    def digest(self):
        """Digests of the bits that a reader gets from the store, who compares all of them with it."""
        log = self.folder / f"read-{time.monotonic_ns()}"
        words = (sys.executable, "-c", READ, f"{self.upload}/people/covariance/2026-11-20.json")
        reader = Process(self.network["runner"], words, log, self.environment)
        assert reader.wait() == 0, reader.said
        return reader.said.strip().splitlines()[-1]

"""Nights that the previous version began are finished here: the rule of decision 27, with that version itself.

``tests/previous-version`` names its commit. Each night is killed there, and its folder copied: the copy is finished by
that version and the original by this one, so that what it would have released is known.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import blockveil as bv
from tests.house import support

ROOT = Path(__file__).resolve().parents[2]
NAMED = ROOT / "tests" / "previous-version"

STEPS = """
import json, os, signal, sqlite3, sys
import sqlalchemy as sa

def die_where_it_was_told(*_):
    if not os.path.exists("ledger.db"):
        return
    ledger = sqlite3.connect("file:ledger.db?mode=ro", uri=True)
    last = ledger.execute("SELECT kind, release_id FROM entry ORDER BY sequence DESC LIMIT 1").fetchone()
    ledger.close()
    if last is not None and list(last) == killed:
        os.kill(os.getpid(), signal.SIGKILL)

steps, killed = json.loads(sys.argv[1])
sa.event.listen(sa.pool.Pool, "checkin", die_where_it_was_told)
import blockveil as bv
for step, config, date in steps:
    if step == "grant":
        bv.budget(config).grant(epsilon=3.0, delta=1e-5)
    elif step == "ingest":
        bv.ingest(config)
    else:
        bv.run(config, date=date)
print(json.dumps([bv.__file__]))
"""
"""A program for any version: steps by public names alone, and a kill once the ledger's last entry is a given one."""

INGEST = """
columns = [{name = "person", kind = "whole", missing = "refuse"}, {name = "stay", kind = "whole", missing = "refuse"}]
ingest = {store = "stays.zarr", append = true, late = "next", chunk_rows = 16}
source = {kind = "parquet", files = ["in"]}
unit = {kind = "row", name = "one visit (one row)"}
"""

SERIES = """
release = {dataset = "stays", name = "covariance"}
data = {store = "stays.zarr"}
privacy = {epsilon = 1, delta = 1e-9, neighbours = "add-remove", unit = "one visit (one row)"}
mechanism = {kind = "gaussian"}
continual = {nights = 4, first = 2026-11-01}
cluster = {kind = "threads"}
output = {root = "releases", ledger = "ledger.db", keys = "keys"}
[query]
kind = "covariance"
rows_at_most = 5_000_000
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [
  {name = "person", lower = 0, upper = 40, step = 1},
  {name = "stay", lower = 0, upper = 9000, step = 1},
]
"""


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)


@pytest.fixture(scope="module")
def previous(tmp_path_factory):
    """Folder with the previous version, installed beside the libraries of this environment."""
    commit = NAMED.read_text().strip()
    archived = git("archive", "--format=tar", commit)
    if archived.returncode != 0:
        missing = f"The previous version is commit {commit[:12]}, which is not in this clone: run git fetch --unshallow"
        if os.environ.get("BLOCKVEIL_REQUIRE_HISTORY"):
            pytest.fail(missing)
        pytest.skip(missing)
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "previous"))
    with tarfile.open(fileobj=BytesIO(archived.stdout)) as files:
        files.extractall(source, filter="tar")
    words = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, str(target), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@dataclass(frozen=True)
class Nights:
    """A folder of nights, of which the previous version makes some steps and this one others."""

    folder: Path
    installed: Path

    def there(self, *steps, killed=None):
        """Make steps with the previous version, which dies after the given entry of the ledger."""
        done = subprocess.run(
            [sys.executable, "-c", STEPS, json.dumps([steps, killed])],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.installed), "XDG_STATE_HOME": str(self.folder / "state")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == (0 if killed is None else -signal.SIGKILL), done.stderr
        if killed is None:
            (used,) = json.loads(done.stdout.splitlines()[-1])
            assert Path(used).is_relative_to(self.installed), "another version made these steps"
        return self

    def copy(self, name):
        """The same in another folder, as though nobody had copied it."""
        there = self.folder.parent / name
        shutil.copytree(self.folder, there)
        return Nights(there, self.installed)

    def here(self, monkeypatch, config, date):
        """Run a night with this version."""
        monkeypatch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
        return bv.run(self.folder / config, date=date)

    def entries(self):
        """What the ledger says of each charge, but for its secrets, times and hashes."""
        columns = "kind, dataset, release_id, loss_ticks, sampler_ticks, pure_ticks, failure_ticks, part"
        with closing(sqlite3.connect(self.folder / "ledger.db")) as ledger:
            return ledger.execute(f"SELECT {columns} FROM entry ORDER BY sequence").fetchall()

    def stated(self, config, date):
        """What a published night says that it is and was charged, and digests of its arrays."""
        found = bv.open(self.folder / "releases" / config / f"{date}.json")
        said = {name: found.attributes[name] for name in ("plan_digest", "guarantee", "mechanism", "query")}
        return said, support.values_of(found.opened.path)

    def spent(self, config):
        budget = bv.budget(self.folder / config)
        return budget.spent_epsilon, budget.nights_left


@pytest.fixture
def nights(tmp_path, previous):
    (tmp_path / "there").mkdir()
    return Nights(tmp_path / "there", previous)


NIGHT = ("run", "people.toml", "2026-11-20")


def people(nights, killed):
    """A night of plain records, which the previous version granted, began, and left at a state."""
    support.write_records(nights.folder, support.records(80))
    support.write_config(nights.folder)
    return nights.there(("grant", "people.toml", None), NIGHT, killed=[killed, "people/covariance/2026-11-20"])


def test_a_night_that_the_previous_version_reserved_is_finished_at_its_charge(nights, monkeypatch):
    budget, reserved = people(nights, "RESERVED").entries()
    nights.here(monkeypatch, *NIGHT[1:])
    found = nights.entries()
    assert found[:2] == [budget, reserved]
    assert [kind for kind, *_ in found] == ["BUDGET", "RESERVED", "COMMITTED", "RELEASED"]
    assert nights.spent("people.toml")[0] < 1.0, "the night of epsilon 1 at its own, smaller delta is charged once"


def test_a_night_that_the_previous_version_committed_is_finished_as_that_version_would_have(nights, monkeypatch):
    as_before = people(nights, "COMMITTED").copy("copy").there(NIGHT)
    nights.here(monkeypatch, *NIGHT[1:])
    assert nights.entries() == as_before.entries()
    assert nights.spent("people.toml") == as_before.spent("people.toml")
    assert nights.stated("people/covariance", NIGHT[2]) == as_before.stated("people/covariance", NIGHT[2])


def put(folder, number):
    """A day's file of the source."""
    rng, name = np.random.default_rng(number), folder / "in" / f"day-{number}.parquet"
    name.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table({"person": rng.integers(0, 40, 60), "stay": np.arange(60) + 1000 * number}), name)


@pytest.mark.filterwarnings("ignore::blockveil.flows.python.running.PromiseWarning")  # 120 records in wide bounds
def test_a_series_of_the_previous_version_goes_on_here_and_its_records_grow_here(nights, monkeypatch):
    first, second, third = (("run", "series.toml", f"2026-11-0{day}") for day in (1, 2, 3))
    grant, add = ("grant", "series.toml", None), ("ingest", "ingest.toml", None)
    (nights.folder / "ingest.toml").write_text(INGEST)
    (nights.folder / "series.toml").write_text(SERIES)
    put(nights.folder, 1)
    nights.there(grant, add, first, second, killed=["COMMITTED", "stays/covariance/2026-11-02"])
    as_before = nights.copy("copy")
    put(as_before.folder, 2)
    as_before.there(second, add, third)
    nights.here(monkeypatch, *second[1:])
    put(nights.folder, 2)
    bv.ingest(nights.folder / "ingest.toml")
    nights.here(monkeypatch, *third[1:])
    assert nights.entries() == as_before.entries()
    assert nights.spent("series.toml") == as_before.spent("series.toml")
    assert nights.stated("stays/covariance", second[2]) == as_before.stated("stays/covariance", second[2])
    assert nights.stated("stays/covariance", third[2])[0] == as_before.stated("stays/covariance", third[2])[0]

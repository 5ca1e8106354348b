"""A disk that is full at any point of a run: a typed error, one charge at most, and the next run ends it."""

import contextlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import blockveil.engine.answers.layout
import blockveil.engine.answers.work
import blockveil.pipeline.data.zarr_arrays
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT, no_trace, run

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def files_of_at_most(size):
    """Writes beyond a size fail as they do on a full disk; yields what brings that about."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("stage", "size"),
    [("drawing the noise and writing the release", 20), ("closing the release", 600)],
    ids=["blocks", "attributes"],
)
def test_a_disk_that_fills_after_some_blocks_are_written_costs_one_charge_and_no_bit(
    tmp_path, monkeypatch, stage, size
):
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(bytes(32)))
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 4)
    monkeypatch.setattr(blockveil.pipeline.data.zarr_arrays, "CHUNK_SIDE", 2)
    monkeypatch.setattr(blockveil.engine.answers.layout.grid, "__defaults__", (0, 2))
    alone, people = tmp_path / "alone", tmp_path / "people"
    alone.mkdir()
    people.mkdir()
    expected = support.values_of(run(support.prepare(alone, kind="second-moment")).path)
    loaded, told = support.prepare(people, kind="second-moment"), []
    with files_of_at_most(size) as fill:

        def tell(now, share):
            told.append(now)
            if now == stage:
                fill()

        with pytest.raises(StoreError, match="disk or quota is full"):
            run_release(make_plan(loaded, NIGHT), ThreadCompute(1), "test", tell)
    assert told[-1] == stage
    assert not list(loaded.output_root.rglob("*.zarr"))
    assert not [path for path in loaded.output_root.rglob("*") if ".staging" in path.name]
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET", "RESERVED", "COMMITTED"]
    assert support.values_of(run(loaded).path) == expected
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()].count("COMMITTED") == 1
    no_trace(loaded)


FILLED = """
import subprocess, sys
from pathlib import Path
from blockveil.pipeline.releases import night
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support
from tests.pipeline.releases.test_release import NIGHT, no_trace

NoiseKey.derive = lambda *_: NoiseKey(bytes(32))
place, loaded = Path(sys.argv[1]), load_config(Path(sys.argv[2]))

def sized(kibibytes):
    subprocess.run(["mount", "-o", f"remount,size={kibibytes}k", str(place)], check=True)

def kinds():
    return [entry.kind for entry in Ledger(loaded.ledger_url).history()]

support.set_budget(loaded)
used = sum(file.stat().st_blocks for file in place.rglob("*")) // 2
for more in range(0, 4000, 24):
    sized(used + more)
    try:
        outcome = night.run_release(make_plan(loaded, NIGHT), ThreadCompute(1), "test", lambda *_: None)
        break
    except BlockveilError as error:
        print(type(error).__name__, str(error).splitlines()[0], sep=": ")
    sized(used + 4000)
    assert not list(loaded.output_root.rglob("*.zarr")) or "COMMITTED" in kinds()
    assert kinds().count("COMMITTED") <= 1
    assert kinds().count("RESERVED") - kinds().count("VOID") in (0, 1)
assert kinds()[-2:] == ["COMMITTED", "RELEASED"]
assert kinds().count("COMMITTED") == 1
assert Ledger(loaded.ledger_url).verify().problems == []
no_trace(loaded)
print("digest", support.values_of(outcome.path))
"""


@pytest.fixture
def unshared():
    """Command that runs another where it may mount file systems; needs no privilege where the kernel allows that."""
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this system does not let a user mount a file system of their own")
    return command


def test_a_file_system_that_is_full_at_any_point_costs_one_charge_and_no_bit(tmp_path, monkeypatch, unshared):
    alone, people, place = (tmp_path / name for name in ("alone", "people", "people/small"))
    for folder in (alone, people, place):
        folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *_: NoiseKey(bytes(32)))
        expected = support.values_of(run(support.prepare(alone)).path)
    support.write_records(people, support.records())
    path = support.write_config(people)
    text = path.read_text()
    for name in ("releases", "ledger.db", "keys"):
        text = text.replace(f'"{name}"', f'"small/{name}"')
    path.write_text(text)
    script = f'mount -t tmpfs -o size=8m,mode=755 none "{place}" && exec "{sys.executable}" -c "$0" "{place}" "{path}"'
    done = subprocess.run(
        [*unshared, "sh", "-c", script, FILLED], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *refusals, digest = done.stdout.splitlines()
    assert digest == f"digest {expected}"
    assert any(line.startswith("DiskFull: release people/covariance/2026-11-20 cannot be written") for line in refusals)
    assert all("full" in line or "No space left" in line for line in refusals), refusals

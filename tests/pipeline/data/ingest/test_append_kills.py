"""An append that is killed at any point leaves the old store or the new one, and the next run finishes it."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from blockveil.pipeline.base import durable
from blockveil.pipeline.data.ingest import appending, growth_state, readers, source_rows, unit_bound
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import store_writer as writing
from blockveil.pipeline.data.ingest.store_contract import Contract
from tests.house import warm
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

STEPS = (
    (durable, "sync"),
    (durable, "replace_file"),
    (scratch.Staging, "save"),
    (scratch, "remove"),
    (growth_state, "write"),
    (growth_state, "tidy"),
    (unit_bound.UnitBound, "keep"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
)
"""What changes anything on the disk, or makes sure of it."""


class Killed(BaseException):
    """Not an error: nothing handles it."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Several batches, blocks, runs and ranges of units."""
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 2 * 20)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    monkeypatch.setattr(source_rows, "run_bytes", lambda config: 700)


def kill_at(patch, boundary):
    """Stop before or after the step of that number, of all steps; returns what counts them."""
    count = [0]

    def step():
        count[0] += 1
        if count[0] == boundary:
            raise Killed

    around_steps(patch, step)
    return count


def around_steps(patch, step):
    """Call something before and after each step."""

    def patched(owner, name):
        do = getattr(owner, name)

        def killed(*args, **keys):
            step()
            found = do(*args, **keys)
            step()
            return found

        patch.setattr(owner, name, killed)

    for owner, name in STEPS:
        patched(owner, name)


def state_of(folder):
    return frozenset(
        (str(file), file.stat().st_mode, file.read_bytes() if file.is_file() else b"") for file in folder.rglob("*")
    )


def states_of_kills(folder, copies, work):
    """Do some work, and copy each state that a kill before or after any of its steps leaves, in order.

    A process that is killed does nothing on its way out, so a copy at that moment is what it leaves. Where nothing has
    changed since the step before there is no other state to go on from.

    Returns
    -------
    Number of steps, twice; and the copies, the last of what the work leaves at its end.
    """
    count, seen, found, turn = 0, set(), [], threading.Lock()

    def look():
        nonlocal count
        with turn:  # several threads write
            count += 1
            for _ in range(1000):
                copy = copies / f"{len(found)}"
                with contextlib.suppress(OSError):  # a file went before it was read
                    state = state_of(folder)
                    if state in seen:
                        return
                    shutil.copytree(folder, copy)
                    if state_of(folder) == state:
                        found.append(copy)
                        seen.add(state)
                        return
                shutil.rmtree(copy, ignore_errors=True)  # another thread is in the middle of its step
        raise RuntimeError("no state of the folder lasts for as long as its copy takes")

    with pytest.MonkeyPatch.context() as patch:
        around_steps(patch, look)
        work()
    look()
    return count - 1, found


def prepared(folder, unit, layout):
    """A store of two nights, and the file of a third; where its config is."""
    loaded = people.configure(folder, grown.COLUMNS, unit=grown.UNITS[unit], append=True, late="next", **layout)
    for night in range(2):
        grown.put(folder, night, grown.day(night, 45))
        people.run(loaded)
    grown.put(folder, 2, grown.day(2, 45))
    return loaded


KINDS = pytest.mark.parametrize(
    ("unit", "layout"),
    [("rows", {"chunk_rows": 16}), ("chosen", {"chunk_rows": 16}), ("chosen", {"layout": "entries"})],
    ids=["rows", "chosen", "entries"],
)


@pytest.mark.slow
@KINDS
def test_a_kill_at_every_boundary_leaves_the_old_records_or_the_new_and_the_next_run_finishes(tmp_path, unit, layout):
    folder, copies = tmp_path / "store", tmp_path / "copies"
    folder.mkdir()
    whole = prepared(folder, unit, layout)
    old = grown.records(folder)
    boundaries, states = states_of_kills(folder, copies, lambda: people.run(whole))
    new, wanted = grown.records(folder), grown.content(folder)
    assert len(old) < len(new)
    assert boundaries > 60
    seen = set()
    for state in states:
        shutil.rmtree(folder)
        state.rename(folder)  # in the same place, so that sources are the same
        found = grown.records(folder)
        assert np.array_equal(found, old if len(found) == len(old) else new)
        seen.add(len(found))
        people.run(whole)
        assert grown.content(folder) == wanted
        assert people.left(folder) == [".grown-out.zarr"]
    assert seen == {len(old), len(new)}


@KINDS
def test_an_interrupt_at_any_boundary_leaves_the_old_records_or_the_new_and_the_next_run_finishes(
    tmp_path, monkeypatch, unit, layout
):
    (tmp_path / "never").mkdir()
    whole = prepared(tmp_path / "never", unit, layout)
    old, state = grown.records(tmp_path / "never"), grown.files(tmp_path / "never")
    with monkeypatch.context() as patch:
        boundaries = kill_at(patch, 0)
        people.run(whole)
    new, wanted = grown.records(tmp_path / "never"), grown.content(tmp_path / "never")
    shutil.rmtree(tmp_path / "never" / "out.zarr")
    shutil.rmtree(tmp_path / "never" / ".grown-out.zarr")
    assert len(old) < len(new)
    assert boundaries[0] > 60
    seen = set()
    last = boundaries[0] - 14  # from here on each, because the order of the last steps counts
    for boundary in [*range(1, last, 31), *range(last, boundaries[0] + 1)]:
        # In the same place, so that sources are the same: only what ingests make is put back.
        for name, bits in state.items():
            (tmp_path / "never" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "never" / name).write_bytes(bits)
        with monkeypatch.context() as patch:
            kill_at(patch, boundary)
            with pytest.raises(Killed):
                people.run(whole)
        found = grown.records(tmp_path / "never")
        assert np.array_equal(found, old if len(found) == len(old) else new)
        seen.add(len(found))
        people.run(whole)
        assert grown.content(tmp_path / "never") == wanted
        assert people.left(tmp_path / "never") == [".grown-out.zarr"]
        shutil.rmtree(tmp_path / "never" / "out.zarr")
        shutil.rmtree(tmp_path / "never" / ".grown-out.zarr")
    assert seen == {len(old), len(new)}


def test_a_first_append_that_is_killed_again_and_again_is_finished_with_the_same_bits(tmp_path, monkeypatch):
    loaded = grown.configure(tmp_path)
    grown.put(tmp_path, 0, grown.day(0, 45))
    people.run(loaded)
    wanted = grown.content(tmp_path)
    shutil.rmtree(tmp_path / "out.zarr")
    shutil.rmtree(tmp_path / ".grown-out.zarr")
    kills = 0
    while not (tmp_path / "out.zarr").exists():
        with monkeypatch.context() as patch:
            kill_at(patch, 7 + 11 * kills)
            try:
                people.run(loaded)
            except Killed:
                kills += 1
    people.run(loaded)
    assert kills > 3
    assert grown.content(tmp_path) == wanted
    assert people.left(tmp_path) == [".grown-out.zarr"]


KILL = """
import os, signal, sys
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import appending
from tests.pipeline.data.ingest import ingest_support as people
replace, where = appending.durable.replace_file, sys.argv[2]
def killed(target, content, scratch):
    if where == "after":
        replace(target, content, scratch)
    if target.name == "zarr.json" and "staging" not in str(target) and ".ingest" not in str(target):
        os.kill(os.getpid(), signal.SIGKILL)
    if where == "before":
        replace(target, content, scratch)
appending.durable.replace_file = killed
people.run(load_ingest(sys.argv[1]))
"""


@pytest.mark.parametrize(("where", "nights"), [("before", 2), ("after", 3)])
def test_a_process_that_is_killed_around_the_one_step_that_counts_leaves_one_state_whole(tmp_path, where, nights):
    loaded = prepared(tmp_path, "chosen", {"chunk_rows": 16})
    assert warm.run(KILL, str(loaded.path), where).returncode == -signal.SIGKILL
    assert len(grown.opened(tmp_path).manifest.parts) == nights
    people.run(loaded)
    assert len(grown.opened(tmp_path).manifest.parts) == 3
    assert people.left(tmp_path) == [".grown-out.zarr"]


FULL = """
import resource, signal, sys
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import source_rows
from tests.pipeline.data.ingest import ingest_support as people
source_rows.run_bytes = lambda config: 700
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    people.run(load_ingest(sys.argv[1]))
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("room", [100, 300, 700])
def test_a_full_disk_leaves_the_old_store_and_the_next_run_goes_on(tmp_path, room):
    loaded = prepared(tmp_path, "chosen", {"chunk_rows": 16})
    before = grown.records(tmp_path)
    shown = warm.run(FULL, str(loaded.path), str(room))
    assert "the disk or quota is full" in shown.stdout, shown.stderr
    assert np.array_equal(grown.records(tmp_path), before)
    people.run(loaded)
    assert len(grown.records(tmp_path)) > len(before)
    assert people.left(tmp_path) == [".grown-out.zarr"]


def test_what_a_killed_append_left_can_be_discarded_and_the_store_stays(tmp_path, monkeypatch):
    loaded = prepared(tmp_path, "chosen", {"chunk_rows": 16})
    before = grown.content(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(appending.durable, "replace_file", _unless_metadata(durable.replace_file))
        with pytest.raises(Killed):
            people.run(loaded)
    assert (tmp_path / "out.zarr" / "records" / "part-000002").exists()
    (tmp_path / "out.zarr" / "records" / ".nfs-open").write_bytes(b"of the file system")
    before["out.zarr/records/.nfs-open"] = b"of the file system"
    assert appending.discard(loaded.target, "records")
    assert grown.content(tmp_path) == before
    assert people.left(tmp_path) == [".grown-out.zarr"]
    assert not appending.discard(loaded.target, "records")
    assert Contract.of(grown.opened(tmp_path)).grows


def _unless_metadata(replace):
    def killed(target, content, unfinished):
        if target.parent.name == "records" and target.parent.parent.name == "out.zarr":
            raise Killed
        replace(target, content, unfinished)

    return killed

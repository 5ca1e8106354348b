"""A killed ingest goes on where it stopped, and gives the bits of one that was never killed."""

from __future__ import annotations

import signal
import stat

import pytest

from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest import source_rows as module
from blockveil.pipeline.data.ingest import store_writer as writing
from tests.house import warm
from tests.pipeline.data.ingest import ingest_support as people

UNITS = {
    "rows": people.ROW,
    "chosen": people.CHOOSE.format(most=2),
    "together": people.TOGETHER.format(by="mean"),
}
SOURCES = {"parquet": people.SOURCE, "csv": 'kind = "csv"\nfiles = ["csv"]'}


class Killed(BaseException):
    """Not an error: nothing handles it."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many batches, blocks and runs."""
    monkeypatch.setattr(readers, "BATCH_BYTES", 8 * 5 * 40)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    monkeypatch.setattr(module, "run_bytes", lambda config: 4000)


def prepare(folder, unit, source):
    people.write_parquet(folder, people.visits(), files=3, row_group_size=60)
    for number in range(2):
        people.write_csv(folder / "csv" / f"{number}.csv", people.visits().slice(250 * number, 250))
    return people.configure(folder, people.COLUMNS, SOURCES[source], UNITS[unit], chunk_rows=30)


def kill_after(monkeypatch, saves):
    """Stop a run after it has recorded its progress so many times."""
    save, count = scratch.Staging.save, [0]

    def counted(self, **changes):
        save(self, **changes)
        count[0] += 1
        if count[0] == saves:
            raise Killed

    monkeypatch.setattr(scratch.Staging, "save", counted)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("unit", UNITS)
def test_an_ingest_that_is_killed_again_and_again_gives_the_same_bits(tmp_path, monkeypatch, unit, source):
    loaded = prepare(tmp_path, unit, source)
    people.run(loaded)
    wanted = people.bits(tmp_path)
    (tmp_path / "out.zarr").rename(tmp_path / "first.zarr")
    kills = 0
    while not (tmp_path / "out.zarr").exists():
        with monkeypatch.context() as patch:
            kill_after(patch, 1 + kills % 3)
            try:
                outcome = people.run(loaded)
            except Killed:
                kills += 1
    assert kills > 3
    assert "went on" in outcome.message
    assert people.bits(tmp_path) == wanted
    assert people.left(tmp_path) == []


def test_a_killed_ingest_leaves_a_private_folder_that_can_be_discarded(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, "chosen", "parquet")
    with monkeypatch.context() as patch:
        kill_after(patch, 2)
        with pytest.raises(Killed):
            people.run(loaded)
    staging = scratch.staging_path(loaded.target)
    assert stat.S_IMODE(staging.stat().st_mode) == 0o700
    assert list((staging / "runs").iterdir())
    assert scratch.discard(loaded.target)
    assert people.left(tmp_path) == []
    assert not scratch.discard(loaded.target)


@pytest.mark.parametrize("change", ["config", "source"])
def test_a_changed_config_or_source_starts_from_the_beginning(tmp_path, monkeypatch, change):
    loaded = prepare(tmp_path, "rows", "parquet")
    with monkeypatch.context() as patch:
        kill_after(patch, 3)
        with pytest.raises(Killed):
            people.run(loaded)
    if change == "source":
        people.write_parquet(tmp_path, people.visits(470), files=3, row_group_size=60)
    else:
        loaded = people.configure(tmp_path, people.COLUMNS[:1], chunk_rows=30)
    assert people.run(loaded).message == "read the whole source"
    rows = people.visits(470) if change == "source" else people.visits()
    assert (people.stored(tmp_path) == people.expected(rows)[:, : len(people.stored(tmp_path)[0])]).all()


def test_a_damaged_record_of_progress_starts_from_the_beginning(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, "rows", "parquet")
    with monkeypatch.context() as patch:
        kill_after(patch, 3)
        with pytest.raises(Killed):
            people.run(loaded)
    (scratch.staging_path(loaded.target) / "progress.json").write_text('{"spec"')
    assert people.run(loaded).message == "read the whole source"
    assert (people.stored(tmp_path) == people.expected(people.visits())).all()


def test_what_a_kill_after_the_rename_leaves_is_removed_by_the_next_run(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, "chosen", "parquet")
    remove = scratch.remove

    def kill(root):
        if root.name.startswith(".ingest"):
            raise Killed
        remove(root)

    with monkeypatch.context() as patch:
        patch.setattr(scratch, "remove", kill)
        with pytest.raises(Killed):
            people.run(loaded)
    assert (tmp_path / "out.zarr").exists()
    assert people.left(tmp_path) != []
    assert "already" in people.run(loaded).message
    assert people.left(tmp_path) == []


KILL = """
import os, signal, sys
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import ingest_staging, store_writer
from tests.pipeline.data.ingest import ingest_support as people
store_writer.BLOCK_BYTES = 1
save, count = ingest_staging.Staging.save, [0]
def counted(self, **changes):
    save(self, **changes)
    count[0] += 1
    if count[0] == 4:
        os.kill(os.getpid(), signal.SIGKILL)
ingest_staging.Staging.save = counted
people.run(load_ingest(sys.argv[1]))
"""


def test_a_process_that_is_killed_for_good_gives_way_to_the_next(tmp_path):
    loaded = prepare(tmp_path, "rows", "parquet")
    assert warm.run(KILL, str(loaded.path)).returncode == -signal.SIGKILL
    assert people.run(loaded).message == "went on where an earlier run had stopped"
    assert (people.stored(tmp_path) == people.expected(people.visits())).all()


def test_no_record_is_read_twice_from_files_that_are_finished(tmp_path, monkeypatch):
    loaded = prepare(tmp_path, "rows", "parquet")
    with monkeypatch.context() as patch:
        kill_after(patch, 12)
        with pytest.raises(Killed):
            people.run(loaded)
    opened, read = [], readers.Reader.read

    def noted(self, file, start):
        opened.append((file.name, start))
        return read(self, file, start)

    monkeypatch.setattr(readers.Reader, "read", noted)
    people.run(loaded)
    assert opened[0][0] != "part-0.parquet"
    assert opened[0][1] > 0

"""A release is hashed once where nothing has changed since, and again where anything has."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import numpy as np
import pytest
import zarr

from blockveil.pipeline.data import known_content
from blockveil.pipeline.data.known_content import known_digests


@pytest.fixture
def counted(monkeypatch):
    """How often content was hashed; nothing is remembered of other tests, and files need no time to settle."""
    calls = []

    digests = known_content._digests

    def hashed(arrays):
        calls.append(sorted(arrays))
        return digests(arrays)

    monkeypatch.setattr(known_content, "_digests", hashed)
    monkeypatch.setattr(known_content, "_known", {})
    monkeypatch.setattr(known_content, "_TICK", 0)
    return calls


def released(folder):
    group = zarr.create_group(folder / "release.zarr", overwrite=True)
    group.create_array("a", data=np.arange(12.0).reshape(3, 4), chunks=(1, 4))
    return folder / "release.zarr"


def digest(path):
    return known_digests(path, dict(zarr.open_group(path, mode="r").arrays()))


def test_what_has_not_changed_is_hashed_once_also_under_another_name(tmp_path, counted):
    path = released(tmp_path)
    first = digest(path)
    path.rename(tmp_path / "renamed.zarr")
    zarr.open_group(tmp_path / "renamed.zarr", mode="a").attrs["title"] = "it is in no array"
    assert digest(tmp_path / "renamed.zarr") == first
    assert len(counted) == 1


def written(path):
    chunk = path / "a" / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[::-1])


def written_with_its_old_time(path):
    chunk = path / "a" / "c" / "1" / "0"
    before = chunk.stat()
    chunk.write_bytes(chunk.read_bytes()[::-1])
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path):
    chunk = path / "a" / "c" / "1" / "0"
    shutil.copy2(chunk, path / "other")
    (path / "other").replace(chunk)


def lost(path):
    (path / "a" / "c" / "1" / "0").unlink()


def grown(path):
    zarr.open_group(path, mode="a").create_array("b", data=np.zeros(2))


@pytest.mark.parametrize("change", [written, written_with_its_old_time, replaced, lost, grown])
def test_whatever_changes_is_hashed_again(tmp_path, counted, change):
    path = released(tmp_path)
    digest(path)
    change(path)
    with suppress(Exception):  # a chunk that was written over cannot be decoded
        digest(path)
    assert len(counted) == 2


def test_nothing_is_remembered_of_files_that_were_just_written(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(known_content, "_TICK", 3_600_000_000_000)
    path = released(tmp_path)
    assert digest(path) == digest(path)
    assert len(counted) == 2


def test_a_large_release_waits_until_its_files_have_settled_and_is_hashed_once(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(known_content, "_TICK", 300_000_000)
    monkeypatch.setattr(known_content, "_WORTH_WAITING", 1)
    path = released(tmp_path)
    assert digest(path) == digest(path)
    assert len(counted) == 1


def test_what_changes_while_it_is_hashed_is_not_remembered(tmp_path, counted, monkeypatch):
    path, hashed = released(tmp_path), known_content._digests

    def changed_meanwhile(arrays):
        found = hashed(arrays)
        grown(path)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(known_content, "_digests", changed_meanwhile)
        digest(path)
    shutil.rmtree(path / "b")
    digest(path)
    assert len(counted) == 2


def test_only_so_many_releases_are_remembered(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(known_content, "_MOST", 2)
    paths = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        paths.append(released(tmp_path / str(number)))
        digest(paths[-1])
    digest(paths[2])
    assert len(counted) == 3
    digest(paths[0])
    assert len(counted) == 4

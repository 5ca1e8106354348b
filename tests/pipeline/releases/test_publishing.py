"""A release appears whole or not at all, once, and readers can check it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.content import Labelled, content_digest
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.releases.publishing import (
    Published,
    Staged,
    find_published,
    publish,
    read_release,
    require_place,
    stage_release,
    sweep_staging,
)
from tests.house import warm

RELEASE = "people/moments/2026-11-20"
ATTRIBUTES = {
    "title": "Moments of people",
    "release_id": RELEASE,
    "guarantee": {"epsilon": 1.0, "delta": 1e-9},
    "ledger": {"charge_id": "c0ffee", "sequence": 3},
    "logical_date": "2026-11-20",
    "features": ["age", "größe"],
}


def released(shift: float = 0.0) -> ReleaseArrays:
    pair = ("feature", "feature_")
    return {
        "feature": (np.array(["age", "größe"]), ("feature",)),
        "count": (41.5 + shift, ()),
        "mean": (np.array([1.0, 2.0]), ("feature",)),
        "covariance": (np.array([[2.0, 0.5], [0.5, 1.0]]), pair),
        "covariance_psd": (np.zeros((2, 2)), pair),
    }


def stage(root: Path, attempt: str = "first", shift: float = 0.0) -> Staged:
    return stage_release(root, RELEASE, attempt, released(shift), ATTRIBUTES)


def release(root: Path, shift: float = 0.0) -> Published:
    return publish(root, RELEASE, stage(root, shift=shift))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "people" / "moments").iterdir())


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class TestPublishing:
    """From staged to visible."""

    def test_a_release_and_its_pointer_are_all_that_is_left(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        assert names(tmp_path) == [f"2026-11-20-{published.output_digest[:16]}.zarr", "2026-11-20.json"]
        assert published.path.is_dir()
        assert published.pointer.is_file()

    def test_the_pointer_says_what_was_promised_and_names_no_private_path(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        assert json.loads(published.pointer.read_text()) == {
            "release_id": RELEASE,
            "path": published.path.name,
            "output_digest": published.output_digest,
            "title": ATTRIBUTES["title"],
            "guarantee": ATTRIBUTES["guarantee"],
            "ledger": ATTRIBUTES["ledger"],
        }
        everything = b"".join(content(tmp_path).values())
        assert str(tmp_path).encode() not in everything

    def test_nothing_is_visible_before_publishing(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        assert names(tmp_path) == [staged.path.name, f"{staged.path.name}.lock"]
        assert staged.path.name.startswith(".staging-first-")
        assert find_published(tmp_path, RELEASE) is None

    def test_every_attempt_stages_the_same_bytes(self, tmp_path: Path) -> None:
        shuffled = dict(reversed(list(ATTRIBUTES.items())))
        first = stage(tmp_path)
        second = stage_release(tmp_path, RELEASE, "b", dict(reversed(list(released().items()))), shuffled)
        assert content(first.path) == content(second.path)

    def test_nobody_else_can_read_a_release_before_it_is_published(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        assert staged.path.stat().st_mode & 0o777 == 0o700
        staged.path.parent.chmod(0o755)
        published = publish(tmp_path, RELEASE, staged)
        assert published.path.stat().st_mode & 0o777 == 0o755

    @pytest.mark.parametrize(("around", "found"), [(0o777, 0o775), (0o1777, 0o775), (0o2770, 0o2770)])
    def test_a_release_is_never_for_all_the_world_to_change(self, tmp_path: Path, around: int, found: int) -> None:
        staged = stage(tmp_path)
        staged.path.parent.chmod(around)
        assert publish(tmp_path, RELEASE, staged).path.stat().st_mode & 0o7777 == found

    def test_publishing_the_same_bits_again_changes_nothing(self, tmp_path: Path) -> None:
        first = release(tmp_path)
        before = content(tmp_path)
        assert release(tmp_path) == first
        assert content(tmp_path) == before

    def test_publishing_the_same_staged_release_twice_is_harmless(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        assert publish(tmp_path, RELEASE, staged) == publish(tmp_path, RELEASE, staged)

    def test_other_bits_under_the_same_id_are_refused(self, tmp_path: Path) -> None:
        release(tmp_path)
        before = content(tmp_path)
        with pytest.raises(StoreError, match="published already, with other values"):
            release(tmp_path, shift=1.0)
        assert content(tmp_path) == before

    def test_another_night_is_another_release(self, tmp_path: Path) -> None:
        release(tmp_path)
        night = "people/moments/2026-11-21"
        publish(tmp_path, night, stage_release(tmp_path, night, "a", released(1.0), ATTRIBUTES))
        assert len(names(tmp_path)) == 4

    def test_racing_attempts_publish_one_release(self, tmp_path: Path) -> None:
        staged = [stage(tmp_path, f"attempt{i}") for i in range(8)]
        with ThreadPoolExecutor(8) as pool:
            published = list(pool.map(lambda one: publish(tmp_path, RELEASE, one), staged))
        assert len(set(published)) == 1
        assert len(names(tmp_path)) == 2

    def test_a_rename_without_its_pointer_is_finished_by_the_next_attempt(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(durable, "replace_file", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                release(tmp_path)
        assert find_published(tmp_path, RELEASE) is None
        published = release(tmp_path)
        assert find_published(tmp_path, RELEASE) == published
        assert len(names(tmp_path)) == 2

    def test_damage_between_staging_and_publishing_is_noticed(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        shutil.rmtree(staged.path / "mean" / "c")
        with pytest.raises(StoreError, match="missing"):
            publish(tmp_path, RELEASE, staged)
        assert find_published(tmp_path, RELEASE) is None

    def test_a_staged_release_that_was_swept_away_is_refused(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        shutil.rmtree(staged.path)
        with pytest.raises(StoreError, match="is not there"):
            publish(tmp_path, RELEASE, staged)

    def test_a_damaged_release_in_the_place_is_not_accepted(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        shutil.rmtree(published.path / "mean")
        with pytest.raises(StoreError, match="does not match its digest"):
            release(tmp_path)

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"path": 3}'])
    def test_an_unreadable_pointer_is_replaced(self, tmp_path: Path, text: str) -> None:
        published = release(tmp_path)
        published.pointer.write_text(text)
        with pytest.raises(StoreError):
            find_published(tmp_path, RELEASE)
        if text != '{"path": 3}':
            assert release(tmp_path) == find_published(tmp_path, RELEASE)


class TestRefusedInput:
    """Mistakes of a caller are errors, not odd files."""

    @pytest.mark.parametrize(
        "attributes",
        [{"a": float("nan")}, {"a": np.float32(1)}, {"a": {1: 2}}, {"at": "2026-11-20T02:00:00Z"}, {"a": object()}],
    )
    def test_attributes_are_plain_json_without_times_of_day(self, tmp_path: Path, attributes: dict[str, Any]) -> None:
        with pytest.raises((ValueError, TypeError)):
            stage_release(tmp_path, RELEASE, "a", released(), attributes)
        assert names(tmp_path) == []

    @pytest.mark.parametrize(
        "release_id",
        [
            "people/moments",
            "people/moments/today",
            "../moments/2026-11-20",
            "people/../2026-11-20",
            "P/m/2026-11-20",
            "people/moments/2026-11-20/x",
            "people/moments/2026-11-20\n",
        ],
    )
    def test_a_release_id_cannot_leave_the_folder(self, tmp_path: Path, release_id: str) -> None:
        with pytest.raises(ValueError, match="release id"):
            stage_release(tmp_path, release_id, "a", released(), ATTRIBUTES)
        assert list(tmp_path.iterdir()) == []

    def test_a_date_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="day"):
            stage_release(tmp_path, "people/moments/2026-02-30", "a", released(), ATTRIBUTES)

    def test_axes_must_fit(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="axes"):
            stage_release(tmp_path, RELEASE, "a", {"mean": (np.ones(2), ())}, ATTRIBUTES)
        assert names(tmp_path) == []


class TestFinding:
    """Only a release that is whole counts as published."""

    def test_a_published_release_is_found(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        assert find_published(tmp_path, RELEASE) == published
        assert find_published(tmp_path, RELEASE, "c0ffee") == published
        assert find_published(tmp_path, "people/moments/2026-11-21") is None
        assert find_published(tmp_path / "absent", RELEASE) is None

    def test_a_release_that_another_charge_paid_for_is_refused(self, tmp_path: Path) -> None:
        release(tmp_path)
        with pytest.raises(StoreError, match="another charge"):
            find_published(tmp_path, RELEASE, "deadbeef")

    @pytest.mark.parametrize(
        "damage",
        [
            shutil.rmtree,
            lambda path: (path / "zarr.json").unlink(),
            lambda path: (path / "covariance" / "c" / "0" / "0").unlink(),
            lambda path: shutil.rmtree(path / "count"),
            lambda path: (path / "mean" / "c" / "0").write_bytes(b"\0" * 40),
            lambda path: zarr.open_array(path / "mean", mode="r+").__setitem__(0, 7.0),
            lambda path: zarr.open_group(path, mode="r+").create_array("extra", shape=(1,), dtype="f8"),
            lambda path: (path / "mean" / "zarr.json").write_text("{"),
        ],
    )
    def test_damage_is_noticed(self, tmp_path: Path, damage: Callable[[Path], None]) -> None:
        published = release(tmp_path)
        damage(published.path)
        for find in (partial(find_published, tmp_path, RELEASE), partial(read_release, published.path)):
            with pytest.raises(StoreError) as caught:
                find()
            assert caught.value.__context__ is None

    def test_a_pointer_cannot_lead_elsewhere(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        pointer = json.loads(published.pointer.read_text())
        shutil.copytree(published.path, tmp_path / "x.zarr")
        published.pointer.write_text(json.dumps({**pointer, "path": "../../x.zarr"}))
        with pytest.raises(StoreError, match="does not name a release"):
            find_published(tmp_path, RELEASE)

    def test_a_pointer_must_agree_with_its_release(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        pointer = json.loads(published.pointer.read_text())
        published.pointer.write_text(json.dumps({**pointer, "output_digest": "0" * 64}))
        with pytest.raises(StoreError, match="does not match its pointer"):
            find_published(tmp_path, RELEASE)


class TestReading:
    """What readers get, with this package and with others."""

    @pytest.mark.parametrize("through", ["path", "pointer"])
    def test_values_axes_and_attributes_come_back(self, tmp_path: Path, through: str) -> None:
        published = release(tmp_path)
        found = read_release(getattr(published, through))
        for name, (expected, dimensions) in released().items():
            assert np.array_equal(found.arrays[name].astype(np.asarray(expected).dtype), expected)
            assert found.dimensions[name] == dimensions
        arrays = {name: Labelled(np.asarray(values), axes) for name, (values, axes) in released().items()}
        assert found.attributes == {**ATTRIBUTES, "output_digest": published.output_digest}
        assert found.output_digest == content_digest(arrays, ATTRIBUTES)
        assert found.path == published.path

    def test_zarr_and_xarray_read_it_without_warnings(self, tmp_path: Path) -> None:
        path = release(tmp_path).path
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            group = zarr.open(path, mode="r")
            dataset = xarray.open_zarr(path, consolidated=False).load()
        assert isinstance(group, zarr.Group)
        assert sorted(group.array_keys()) == sorted(released())
        assert float(dataset["covariance"].sel(feature="größe").isel(feature_=0)) == 0.5
        assert float(dataset["count"]) == 41.5
        assert dataset["covariance_psd"].to_numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert dataset.attrs["guarantee"] == ATTRIBUTES["guarantee"]
        dataset.close()

    def test_an_absent_release_is_refused(self, tmp_path: Path) -> None:
        for name in ("absent.json", "absent.zarr"):
            with pytest.raises(StoreError, match=r"is not there|is missing"):
                read_release(tmp_path / name)


HOLD = """
import sys, time
from pathlib import Path
from blockveil.pipeline.base import staging
held = staging.Held(Path(sys.argv[1]), "elsewhere")
print(held.path.name, flush=True)
time.sleep(600)
"""


class TestSweeping:
    """What dead attempts left is removed; what living ones write is not."""

    @staticmethod
    @contextmanager
    def alive(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
        """Return the unfinished folder of another process, and that process."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", HOLD, str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            try:
                yield folder / process.stdout.readline().strip(), process
            finally:
                process.kill()

    def test_the_folder_of_a_living_process_is_left_alone_until_it_is_killed(self, tmp_path: Path) -> None:
        with self.alive(tmp_path / "people" / "moments") as (path, process):
            assert sweep_staging(tmp_path, RELEASE) == []
            assert path.is_dir()
            process.kill()
            process.wait()
            assert sweep_staging(tmp_path, RELEASE) == [path]
        assert names(tmp_path) == []

    def test_an_attempt_of_this_process_is_left_alone_until_nobody_refers_to_it(self, tmp_path: Path) -> None:
        staged = stage(tmp_path)
        path = staged.path
        assert sweep_staging(tmp_path, RELEASE) == []
        assert path.is_dir()
        del staged
        assert sweep_staging(tmp_path, RELEASE) == [path]
        assert names(tmp_path) == []

    def test_a_file_that_is_being_written_is_left_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "people" / "moments"
        folder.mkdir(parents=True)
        path = staging.scratch_path(folder, "pointer")
        descriptor = staging.claim(path)
        assert sweep_staging(tmp_path, RELEASE) == []
        os.close(descriptor)
        assert sweep_staging(tmp_path, RELEASE) == [path]

    def test_a_lock_that_was_swept_before_it_was_taken_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flock, sweeps = fcntl.flock, iter([True, False, False])

        def late(descriptor: int, how: int) -> None:
            if next(sweeps):
                path.unlink()
            flock(descriptor, how)

        path = tmp_path / "lock"
        monkeypatch.setattr(staging.fcntl, "flock", late)
        descriptor = staging.claim(path)
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        os.close(descriptor)

    def test_a_folder_whose_lock_was_swept_and_is_made_again_meanwhile_is_left_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def early(path: Path, *how: int) -> int:
            if next(looks):
                raise FileNotFoundError(path)
            return opened(path, *how)

        folder, opened = tmp_path / "people" / "moments", os.open
        folder.mkdir(parents=True)
        held = staging.Held(folder, "0")
        looks = iter([True, False])
        with monkeypatch.context() as patch:
            patch.setattr(staging.os, "open", early)
            assert sweep_staging(tmp_path, RELEASE) == []
        assert held.path.is_dir()
        held.discard()
        assert names(tmp_path) == []

    def test_many_attempts_that_sweep_at_once_never_take_each_other_s_folder(self, tmp_path: Path) -> None:
        def attempt(number: int) -> None:
            for _ in range(20):
                sweep_staging(tmp_path, RELEASE)
                held = staging.Held(tmp_path / "people" / "moments", str(number))
                (held.path / "noise").write_bytes(b"1")
                sweep_staging(tmp_path, RELEASE)
                assert (held.path / "noise").read_bytes() == b"1"
                held.discard()

        (tmp_path / "people" / "moments").mkdir(parents=True)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, range(8)))
        assert names(tmp_path) == []

    def test_releases_and_foreign_files_are_never_swept(self, tmp_path: Path) -> None:
        published = release(tmp_path)
        (published.pointer.parent / ".staging-by-hand").mkdir()
        before = names(tmp_path)
        assert sweep_staging(tmp_path, RELEASE) == []
        assert names(tmp_path) == before

    def test_there_may_be_nothing_to_sweep(self, tmp_path: Path) -> None:
        assert sweep_staging(tmp_path / "absent", RELEASE) == []

    @pytest.mark.parametrize("number", ["ENOLCK", "ENOTSUP", "ENOSYS"])
    def test_a_file_system_without_locks_is_refused_in_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str
    ) -> None:
        def refuse(*_: Any) -> None:
            raise OSError(getattr(errno, number), "as the system says")

        path = stage(tmp_path).path
        monkeypatch.setattr(staging.fcntl, "flock", refuse)
        for act in (lambda: stage(tmp_path), lambda: require_place(tmp_path, RELEASE)):
            with pytest.raises(StoreError, match="the file system has no locks"):
                act()
        (path.parent / f"{path.name}.lock").touch()
        with pytest.raises(StoreError, match="the file system has no locks"):
            sweep_staging(tmp_path, RELEASE)
        assert path.is_dir(), "an attempt that may live is left alone"


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.releases.publishing import stage_release
arrays = {"noise": (np.random.default_rng(0).normal(size=(300, 300)), ("a", "b"))}
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    stage_release(Path(sys.argv[1]), "people/moments/2026-11-20", "a", arrays, {})
except StoreError as error:
    print(error)
"""


class TestFileSystem:
    """A file system that refuses is explained, and nothing half-written stays."""

    def test_a_full_disk_is_explained_and_leaves_nothing(self, tmp_path: Path) -> None:
        found = warm.run(FILL_THE_DISK, str(tmp_path))
        assert "the disk or quota is full" in found.stdout
        assert "Free some space" in found.stdout
        assert names(tmp_path) == []

    @pytest.mark.parametrize("place", ["people", "people/moments"])
    def test_a_file_in_the_way_is_explained(self, tmp_path: Path, place: str) -> None:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("in the way")
        with pytest.raises(StoreError, match="a file is where a folder is needed"):
            stage(tmp_path)

    @pytest.mark.parametrize(
        ("number", "text"),
        [
            ("EACCES", "no permission"),
            ("EROFS", "the file system is read-only"),
            ("EDQUOT", "quota is full"),
            ("EIO", "Input/output error"),
            ("ENOSPC", "disk or quota is full"),
        ],
    )
    def test_each_refusal_of_the_system_has_its_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, text: str
    ) -> None:
        def refuse(*_: Any) -> None:
            raise OSError(getattr(errno, number), "as the system says")

        staged = stage(tmp_path)
        monkeypatch.setattr(durable, "sync_tree", refuse)
        monkeypatch.setattr(durable, "sync", refuse)
        with pytest.raises(StoreError, match=text):
            stage(tmp_path)
        with pytest.raises(StoreError, match=text):
            publish(tmp_path, RELEASE, staged)
        assert not [name for name in names(tmp_path) if name.startswith(".staging")]

    def test_files_are_on_the_disk_before_the_release_gets_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        events: list[str] = []
        fsync, rename = os.fsync, Path.rename

        def seen(descriptor: int) -> None:
            events.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        def renamed(path: Path, target: Path) -> Path:
            events.append("rename")
            return rename(path, target)

        monkeypatch.setattr(os, "fsync", seen)
        monkeypatch.setattr(Path, "rename", renamed)
        staged = stage(tmp_path)
        written = {str(path) for path in staged.path.rglob("*")} | {str(staged.path)}
        publish(tmp_path, RELEASE, staged)
        before, after = events[: events.index("rename")], events[events.index("rename") + 1 :]
        assert written <= set(before)
        assert str(staged.path.parent) in after


def test_what_an_earlier_attempt_published_is_brought_to_the_disk_before_it_counts_as_published(tmp_path, monkeypatch):
    staged = stage_release(tmp_path, RELEASE, "first", released(0.0), ATTRIBUTES)
    published = publish(tmp_path, RELEASE, staged)
    synced = []
    monkeypatch.setattr(durable, "sync", lambda path: synced.append(path))
    assert find_published(tmp_path, RELEASE) == published
    assert published.pointer.parent in synced  # the names of the pointer and of the release
    assert tmp_path in synced

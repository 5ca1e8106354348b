"""What a schedule does not need in full: records, the sums and the noise, and Zarr. Each stand-in does as little.

The sums are numbers that name the state of the records. The noise is a hash of the key that the product derived. Arrays
are written as Zarr writes them, each file under another name that is then replaced, and nothing of it synced.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from blockveil.engine.answers.layout import Tile
from blockveil.pipeline.base.errors import DataError, StoreUnreachable
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.contribution import Contribution

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Records:
    """The records of a night: a number says which state of them is there.

    Attributes
    ----------
    source
        The schedule, whose ``version`` is the present state.
    version
        State that was opened.
    """

    source: Schedule
    version: int
    rows: int = 8
    chunk_rows: int = 8
    part: None = None
    maps: tuple[()] = ()
    store_id: str | None = None
    stated: ClassVar[dict[str, str]] = {}
    contribution: ClassVar = Contribution("one person", 1, 1, "declared", False)

    @property
    def fingerprint(self) -> str:
        """Name of the state."""
        return f"state {self.version}"

    def as_of(self, fingerprint: str, key: ContentKey) -> Records:
        """The same; these records do not grow."""
        del fingerprint, key
        return self

    def check_unchanged(self, *, committed: bool = False) -> None:
        """Refuse another state than was opened."""
        self.source.world.step("look at the records", committed)
        if self.source.version != self.version:
            raise DataError("The records changed", "A release is of one state", "Run again")


def history_of(dataset: Any, key: ContentKey, earlier: Any = (), own: str | None = None) -> Any:
    """In place of :func:`.history.history_of`: records in another state do not begin with those of earlier nights."""
    before, digest = [*earlier, *([] if own is None else [own])], key.fingerprint(dataset.fingerprint)
    if any(each != digest for each in before):
        raise DataError("The records do not begin with those of earlier nights", "They must", "Put them back")
    return SimpleNamespace(digest=digest, ends=(dataset.rows,) * len(before))


LAYOUT = SimpleNamespace(tiles=(Tile((0, 1), (0, 1)),))
"""Layout of an answer of one number."""


class Compute:
    """What runs the sums of one attempt.

    Parameters
    ----------
    schedule
        World and watcher of it.
    """

    workers = threads = 1

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._keys = schedule, dict[str, Any]()

    def __enter__(self) -> Compute:
        return self

    def __exit__(self, *_: object) -> None:
        self._keys.clear()

    def hold(self, graph: Any, progress: Callable[[float], None]) -> list[int]:
        """Read the records in two parts."""
        del graph
        found = []
        for share in (0.5, 1.0):
            self._schedule.world.step("read records")
            self._lose_workers()
            found.append(self._schedule.version)
            progress(share)
        return found

    def _lose_workers(self) -> None:
        if self._schedule.world.chance() < self._schedule.world.faults.bucket / 4:
            raise StoreUnreachable("The store of the records did not answer", "It must", "Run again")

    def install(self, handle: str, key: Any) -> None:
        """Make a key known."""
        self._schedule.world.step("install the key")
        self._keys[handle] = key

    def forget(self, handle: str) -> None:
        """Forget it."""
        self._keys.pop(handle, None)

    def draw(self, handle: str, held: list[int]) -> dict[str, Any]:
        """Noised arrays; what a lost worker held is read again."""
        self._schedule.world.step("draw")
        if self._schedule.world.chance() < 0.5:
            held = [held[0], self._schedule.version]
        secret = self._keys[handle]._secret
        noise = int.from_bytes(hashlib.sha256(b"noise" + secret).digest()[:6], "little")
        self._schedule.watcher.drew(handle, secret, tuple(held))
        return {
            "sum": (np.array([[float(noise + sum(held))]]), ("row", "column")),
            "count": (np.array(float(noise % 1000 + 1000)), ()),
            "count_standard_deviation": (np.array(1.0), ()),
        }


def write_tiles(measurement: Any, draft: Any) -> dict[str, Any]:
    """In place of closing a measurement: draw all at once and write it; of nights of one charge also what is read."""
    handle, held = measurement._noisy
    arrays: dict[str, Any] = measurement._compute.draw(handle, held)
    measurement._read(0, arrays["sum"][0].astype(np.int64))
    arrays[measurement.plan.answer.matrix] = arrays["sum"]
    draft.write(arrays)
    return arrays


class Array:
    """An array of a stand-in for a Zarr group."""

    def __init__(self, values: Any, dimensions: tuple[str, ...], kept: Callable[[Any], None] | None = None) -> None:
        self._values, self._kept = values, kept
        self.shape, self.dtype, self.chunks = values.shape, values.dtype, values.shape
        self.metadata = SimpleNamespace(dimension_names=dimensions)

    def __getitem__(self, key: Any) -> Any:
        return self._values[key]

    def __setitem__(self, key: Any, values: Any) -> None:
        self._values[key] = values
        if self._kept is not None:
            self._kept(self._values)


class Group:
    """A folder with attributes and arrays, one chunk each.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self.attrs = SimpleNamespace(put=self._put)

    def _put(self, attributes: Mapping[str, Any]) -> None:
        write(f"{self._path}/zarr.json", json.dumps({"node_type": "group", "attributes": attributes}).encode())

    def add(self, name: str, values: Any, dimensions: tuple[str, ...]) -> None:
        """Write an array."""
        data = np.asarray(values, "<f8")
        said = {"shape": data.shape, "dimensions": dimensions}
        write(f"{self._path}/{name}/zarr.json", json.dumps(said).encode())
        content = data.tobytes()
        write(f"{self._path}/{name}/c", content + zlib.crc32(content).to_bytes(4, "little"))

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Arrays by name; a chunk that is gone reads as NaN, as Zarr's fill value, and a damaged one raises."""
        for name in sorted(os.listdir(self._path)):
            folder = f"{self._path}/{name}"
            if os.path.isdir(folder):
                yield name, _array(folder)


def _array(folder: str) -> Array:
    said = json.loads(_content(f"{folder}/zarr.json"))
    return Array(_chunk(f"{folder}/c", tuple(said["shape"])), tuple(said["dimensions"]))


def _content(file: str) -> bytes:
    with open(file, "rb") as found:
        return bytes(found.read())


def _chunk(file: str, shape: tuple[int, ...]) -> Any:
    if not os.path.exists(file):
        return np.full(shape, np.nan)
    content = _content(file)
    if len(content) < 4 or zlib.crc32(content[:-4]).to_bytes(4, "little") != content[-4:]:
        raise ValueError("a chunk is damaged")
    return np.frombuffer(content[:-4], "<f8").reshape(shape)


def write(path: str, content: bytes) -> None:
    """Write a file as Zarr's local store does: under another name, then renamed, with nothing synced."""
    _make(os.path.dirname(path))
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        file.write(content)
    os.replace(partial, path)


def _make(folder: str) -> None:
    """Make a folder and those above it, as ``Path.mkdir`` does; paths would take most of a schedule's time here."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        _make(os.path.dirname(folder))
        _make(folder)
    except OSError:
        if not os.path.isdir(folder):
            raise


def create_group(path: Path, attributes: Mapping[str, Any]) -> Group:
    """In place of :func:`.zarr_arrays.create_group`."""
    found = Group(path)
    found.attrs.put(dict(attributes))
    return found


def create_array(
    group: Group, name: str, shape: tuple[int, ...], dtype: Any, dimensions: Any, *_: Any, **__: Any
) -> Any:
    """In place of :func:`.zarr_arrays.create_array`: all of it is written with each block."""
    return Array(np.full(shape, np.nan, dtype), dimensions, lambda values: group.add(name, values, dimensions))


class Opened:
    """What ``zarr.open_group`` returns: attributes, and arrays that are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.attrs = json.loads(_content(f"{path}/zarr.json"))["attributes"]
        self.arrays = Group(path).arrays
        self._path = path

    def __getitem__(self, name: str) -> Array:
        return _array(f"{self._path}/{name}")


def open_group(path: Path, **_: Any) -> Any:
    """In place of ``zarr.open_group``."""
    return Opened(path)


def opened_release(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """In place of :func:`.release_files.opened_release`."""
    found = Opened(path)
    return dict(found.arrays()), found.attrs


class InlineThread:
    """A thread that does its work when it is started."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._target = target

    def start(self) -> None:
        """Do it."""
        self._target()

    def join(self, timeout: float | None = None) -> None:
        """It is done."""


class InlinePool:
    """A pool that does one thing after the other."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[[Any], Any], items: Any) -> Iterator[Any]:
        """Results in order."""
        return map(work, items)

"""Content that this process has hashed before: a large release is read once, and not at every step that checks it.

What is remembered is which files there were: device, number, size, and times of change, of every file below a release
but for its attributes. A file that was written, replaced or lost since makes another list. Two changes within one tick
of the file system's clock look alike, so nothing is remembered of files that were just written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from blockveil.pipeline.data.content import Labelled, array_digest
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.data.zarr_arrays import ArrayLikeOnDisk

_TICK = 2_500_000_000
"""Nanoseconds, more than a tick of any file system."""

_WORTH_WAITING = 2**31
"""Bytes of a release that take longer to hash again than files take to settle."""

_State = tuple[tuple[str, int, int, int, int, int], ...]

_known: dict[_State, dict[str, str]] = {}
_lock = Lock()
_MOST = 64
"""Releases that are remembered."""


def known_digests(location: Location, arrays: Mapping[str, ArrayLikeOnDisk]) -> dict[str, str]:
    """:func:`.content.array_digest` of each array of a release, which are read only if they may have changed.

    Parameters
    ----------
    location
        Zarr group; of an address in an object store nothing is remembered.
    arrays
        All arrays of the group, on the disk.
    """
    if not isinstance(location, Path):
        return _digests(arrays)
    state = _state(location)
    with _lock:
        digests = _known.get(state)
    if digests is None:
        wait = _newest(state) + _TICK - time.time_ns()
        if wait >= 0 and sum(size for _, _, _, size, _, _ in state) >= _WORTH_WAITING:
            time.sleep((min(wait, _TICK) + 1) / 1e9)
        settled = _newest(state) + _TICK < time.time_ns()
        digests = _digests(arrays)
        if settled and _state(location) == state:
            with _lock:
                while len(_known) >= _MOST:
                    _known.pop(next(iter(_known)))
                _known[state] = digests
    return digests


def _digests(arrays: Mapping[str, ArrayLikeOnDisk]) -> dict[str, str]:
    return {name: array_digest(name, Labelled.of(array)) for name, array in arrays.items()}


def _state(root: Path) -> _State:
    """Every file below a group but for its own metadata, whose attributes no array has."""
    files = []
    start = len(os.path.join(root, ""))
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            below = path[start:]
            if below != "zarr.json":
                of = os.stat(path, follow_symlinks=False)
                files.append((below, of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns))
    return tuple(sorted(files))


def _newest(state: _State) -> int:
    return max((max(mtime, ctime) for *_, mtime, ctime in state), default=0)

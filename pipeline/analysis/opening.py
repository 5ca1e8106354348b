"""Finds a published release where a person points: at its folder, its pointer, the folder of its nights, or its id.

A place is a path, or an address in an object store, whose credentials are taken from the environment.
"""

from __future__ import annotations

import os
from pathlib import Path

from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.objects import is_remote
from blockveil.pipeline.data.pointers import POINTER, find_release, require_own_place, split_release_id
from blockveil.pipeline.data.released import open_release


def open_(where: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Release:
    """Open a published release after checking its values against its digest.

    Parameters
    ----------
    where
        Its Zarr folder, its pointer (``.json``), or the folder ``root/dataset/name``, whose last night is opened, as a
        path or as an address such as ``s3://bucket/folder``; with ``root`` a release id, ``dataset/name/date``.
    root
        Folder of releases that an id is looked up in, a path or an address.

    Raises
    ------
    ConfigError
        It is no path, or no release id.
    StoreError
        There is no release, or it is damaged, or an object store does not give it.
    """
    if not isinstance(where, str | os.PathLike):
        raise ConfigError(
            f"A release cannot be opened from a {type(where).__name__}", "It is named by a path", "Give its folder"
        )
    if root is not None:
        place = _by_id(str(where), root)
        release = open_release(place)
        require_own_place(place, release.attributes, str(where))
        return Release(release)
    if is_remote(os.fspath(where)):
        return Release(open_release(_last_sent(os.fspath(where).rstrip("/"))))
    path = absolute(os.fspath(where), "The release")
    nights = sorted(each.name for each in path.glob("*.json") if POINTER.fullmatch(each.name)) if path.is_dir() else []
    return Release(open_release(path / nights[-1] if nights else path))


def _last_sent(address: str) -> str:
    """Pointer of the last night in a folder of an object store; the address itself where it is no such folder."""
    if address.endswith((".json", ".zarr")):
        return address
    nights = list(filter(POINTER.fullmatch, objects.names_at(address)))
    return f"{address}/{max(nights)}" if nights else address


def _by_id(release_id: str, root: str | os.PathLike[str]) -> Path | str:
    try:
        dataset, name, day = split_release_id(release_id)
    except ValueError:
        problem = ConfigError(
            f"{release_id[:60]!r} is not a release id", "With root, it is dataset/name/YYYY-MM-DD", "Correct it"
        )
    else:
        if is_remote(os.fspath(root)):
            return f"{os.fspath(root).rstrip('/')}/{dataset}/{name}/{day}.json"
        return find_release(absolute(os.fspath(root), "root"), release_id)
    raise problem

"""Finds a published release where a person points: at its folder, its pointer, the folder of its nights, or its id."""

from __future__ import annotations

import os
import re
from pathlib import Path

from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.data.released import open_release, split_release_id

_POINTER = re.compile(r"\d{4}-\d{2}-\d{2}\.json")


def open_(where: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Release:
    """Open a published release after checking its values against its digest.

    Parameters
    ----------
    where
        Its Zarr folder, its pointer (``.json``), or the folder ``root/dataset/name``, whose last night is opened; with
        ``root`` a release id, ``dataset/name/date``.
    root
        Folder of releases that an id is looked up in.

    Raises
    ------
    ConfigError
        It is no path, or no release id.
    StoreError
        There is no release, or it is damaged.
    """
    if not isinstance(where, str | os.PathLike):
        raise ConfigError(
            f"A release cannot be opened from a {type(where).__name__}", "It is named by a path", "Give its folder"
        )
    if root is not None:
        return Release(open_release(_by_id(str(where), root)))
    path = absolute(os.fspath(where), "The release")
    nights = sorted(each.name for each in path.glob("*.json") if _POINTER.fullmatch(each.name)) if path.is_dir() else []
    return Release(open_release(path / nights[-1] if nights else path))


def _by_id(release_id: str, root: str | os.PathLike[str]) -> Path:
    try:
        dataset, name, day = split_release_id(release_id)
    except ValueError:
        problem = ConfigError(
            f"{release_id[:60]!r} is not a release id", "With root, it is dataset/name/YYYY-MM-DD", "Correct it"
        )
    else:
        return absolute(os.fspath(root), "root") / dataset / name / f"{day}.json"
    raise problem

"""Reading a release: nothing is returned whose content does not match its digest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, NotPermitted, StoreError
from blockveil.pipeline.base.printable import printable
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.answering_store import read_only_store
from blockveil.pipeline.data.content import content_digest
from blockveil.pipeline.data.derived_noise import derived
from blockveil.pipeline.data.known_content import known_digest
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.data.zarr_arrays import ArrayLikeOnDisk

_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
_RELEASE_ID = re.compile(rf"({_NAME})/({_NAME})/(\d{{4}}-\d{{2}}-\d{{2}})")
RELEASE_FOLDER = re.compile(r"\d{4}-\d{2}-\d{2}-[0-9a-f]{16}\.zarr")
"""Name of the group of a release."""

POINTER = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
"""Name of the pointer of a release."""


@dataclass(frozen=True)
class Withdrawal:
    """That a release was withdrawn.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    day
        When, UTC.
    reason
        Why, as its curator says.
    """

    release_id: str
    day: str
    reason: str

    @property
    def words(self) -> str:
        """The same in one sentence."""
        return f"{self.release_id} was withdrawn on {self.day}: {self.reason}"


@dataclass(frozen=True, eq=False)
class ReleaseInMemory:
    """A release in memory.

    Attributes
    ----------
    path
        Zarr group it was read from: a folder, or an address in an object store.
    arrays
        Values by name: float64, and text for names of features.
    dimensions
        Name of each axis, by array.
    attributes
        Guarantee, parameters and provenance.
    """

    path: Location
    arrays: dict[str, NDArray[Any]]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]

    @property
    def output_digest(self) -> str:
        """SHA-256 of the arrays by content."""
        return str(self.attributes["output_digest"])


@dataclass(frozen=True, eq=False)
class OpenRelease:
    """A checked release whose values stay on the disk: its arrays may be larger than memory.

    Attributes
    ----------
    path
        Zarr group: a folder, or an address in an object store.
    arrays
        Arrays by name: of Zarr, or computed from these as they are read. Read parts of them by slices.
    dimensions
        Name of each axis, by array.
    attributes
        Guarantee, parameters and provenance.
    """

    path: Location
    arrays: dict[str, ArrayLikeOnDisk]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the group: date and digest."""
        return name_of(self.path)


def split_release_id(release_id: str) -> tuple[str, str, str]:
    """Return data set, name and ISO date of ``dataset/name/date``; ValueError where it is something else.

    >>> split_release_id("people/covariance/2026-11-20")
    ('people', 'covariance', '2026-11-20')
    """
    parts = _RELEASE_ID.fullmatch(release_id)
    if parts is None:
        raise ValueError(f"{release_id!r} is not a release id; write dataset/name/YYYY-MM-DD")
    date.fromisoformat(parts[3])
    return parts[1], parts[2], parts[3]


def read_release(path: Location) -> ReleaseInMemory:
    """Read a release and check it.

    Parameters
    ----------
    path
        The pointer (``.json``) or the Zarr group, as a path or as an address in an object store.

    Raises
    ------
    StoreError
        There is no release, or it is damaged, or the store of an address does not give it.
    """
    target, expected = _follow(path)
    members, attributes = _open(target)
    arrays = _values(members, target)
    _check(content_digest, arrays, attributes, target)
    if expected is not None and attributes["output_digest"] != expected:
        raise damaged(path, "does not match its pointer")
    arrays |= {name: found[...] for name, found in derived(arrays, attributes).items()}
    return ReleaseInMemory(target, arrays, _dimensions(members, attributes), attributes)


def open_release(path: Location) -> OpenRelease:
    """Check a release, a slab at a time, and leave its values on the disk; raises as :func:`read_release`."""
    target, expected = _follow(path)
    members, attributes = _open(target)
    _check(partial(known_digest, target), members, attributes, target)
    if expected is not None and attributes["output_digest"] != expected:
        raise damaged(path, "does not match its pointer")
    arrays: dict[str, ArrayLikeOnDisk] = {**members, **derived(members, attributes)}
    return OpenRelease(target, arrays, _dimensions(members, attributes), attributes)


def name_of(location: Location) -> str:
    """Last part of a path or an address."""
    return location.name if isinstance(location, Path) else location.rstrip("/").rpartition("/")[2]


def withdrawal_of(location: Location) -> Withdrawal | None:
    """Withdrawal that the pointer of a release states, or None; the pointer or the Zarr group may be named.

    A copy of a group that was taken elsewhere has no pointer beside it, and shows nothing.

    Raises
    ------
    StoreError
        Nobody knows: the pointer may not be read, or its store does not answer.
    """
    name = name_of(location)
    if name.endswith(".json"):
        pointer = location
    elif RELEASE_FOLDER.fullmatch(name):
        pointer = _beside(location, f"{name[:10]}.json")
    else:
        return None
    found = stated(pointer)
    notice = None if found is None else found.get("withdrawn")
    if found is None or notice is None:
        return None
    of = notice if isinstance(notice, dict) else {}
    day, reason = (printable(str(of.get(key, "not stated")), kept="") for key in ("date", "reason"))
    return Withdrawal(printable(str(found.get("release_id", name)), kept=""), day, reason)


def _refuse_withdrawn(location: Location) -> None:
    found = withdrawal_of(location)
    if found is not None:
        raise StoreError(
            found.words, "A release that was withdrawn is not to be used", "Use a release of another date or name"
        )


def _beside(location: Location, name: str) -> Location:
    if isinstance(location, Path):
        return location.parent / name
    return f"{location.rstrip('/').rpartition('/')[0]}/{name}"


def _follow(location: Location) -> tuple[Location, str | None]:
    """Zarr group that a location leads to, and the digest that it must have where a pointer says so."""
    _refuse_withdrawn(location)
    if not name_of(location).endswith(".json"):
        return location, None
    pointer = read_json(location)
    name, expected = str(pointer.get("path")), pointer.get("output_digest")
    if not RELEASE_FOLDER.fullmatch(name):
        raise damaged(location, "does not name a release")
    return _beside(location, name), expected


def _dimensions(members: dict[str, zarr.Array[Any]], attributes: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    found = {name: tuple(getattr(array.metadata, "dimension_names", ()) or ()) for name, array in members.items()}
    return found | {name: found[str(attributes["matrix"])] for name in derived(members, attributes)}


def verified_attributes(path: Path) -> dict[str, Any]:
    """Return a release's attributes after checking its values, a slab at a time; raises as :func:`read_release`."""
    members, attributes = _open(path)
    _check(partial(known_digest, path), members, attributes, path)
    return attributes


def read_json(location: Location) -> dict[str, Any]:
    """Read a pointer; StoreError where it is unreadable."""
    found = stated(location)
    if found is None:
        raise damaged(location, "is missing or unreadable")
    return found


def stated(location: Location) -> dict[str, Any] | None:
    """What a pointer states; None where there is none, or what is there is no pointer.

    Raises
    ------
    StoreError
        Nobody knows: this account may not look, or the store of an address does not answer.
    """
    try:
        content = json.loads(_content(location) or b"")
    except PermissionError:
        failure = _not_permitted(location)
    except (OSError, ValueError):
        return None
    else:
        return content if isinstance(content, dict) else None
    raise failure


def _content(location: Location) -> bytes | None:
    if isinstance(location, Path):
        return location.read_bytes()
    folder, _, name = location.rpartition("/")
    place = objects.client(folder)
    try:
        found = objects.content_of(place, name)
    except Exception as error:  # noqa: BLE001 - an object store may raise anything, and its text may hold keys
        failure = objects.unreachable(name, error)
    else:
        return None if found is None else found[0]
    raise failure


def require_there(location: Location, named: str) -> None:
    """Refuse a name that nothing has: there is no release, and so none that is wrong.

    Parameters
    ----------
    location
        A pointer or a group. Of a group in an object store nothing is known before it is opened.
    named
        How a person called it.

    Raises
    ------
    StoreError
        Nothing is there, or nobody knows: this account may not look, or the store of an address does not answer.
    """
    there = True
    try:
        if isinstance(location, Path):
            location.stat()
        elif location.endswith(".json"):
            there = _content(location) is not None
    except PermissionError:
        raise _not_permitted(location) from None
    except (FileNotFoundError, NotADirectoryError):
        there = False
    if not there:
        raise StoreError(
            f"There is no release {named}",
            "A release is named by its id together with its config, or by its pointer, its folder or its address",
            "Check its date and name, and the config or path; `blockveil ledger show` lists which nights were released."
            " If it was there, restore it from a backup",
        )


def damaged(location: Location, problem: str) -> StoreError:
    """Error for a release that cannot be trusted."""
    return StoreError(
        f"{name_of(location)} {problem}",
        "A release is used only if its content matches its digest",
        "Restore it from a backup, or move it away and run the release again",
    )


def _absent(location: Location) -> StoreError:
    return StoreError(
        f"{name_of(location)} is not there",
        "A release is named by its folder or its pointer, and by its id only together with the folder of all releases",
        "Correct the path; if it was there, restore it from a backup",
    )


@contextmanager
def stating(location: Location) -> Iterator[None]:
    """Read what a release states of itself, which no digest covers, for as long as the block runs.

    Parameters
    ----------
    location
        The release.

    Raises
    ------
    StoreError
        Somebody has changed its attributes, so that a number, text or table is not where a release has it.
    """
    try:
        yield
    except BlockveilError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Nothing that is published is private, so that what was met may be kept for whoever looks into it.
        raise damaged(location, f"states of itself what this version cannot read ({type(error).__name__})") from error


def _open(location: Location) -> tuple[dict[str, zarr.Array[Any]], dict[str, Any]]:
    try:
        store = location if isinstance(location, Path) else read_only_store(location)
        group = zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)
        # By name: a folder lists them in an order that depends on when they were written.
        return dict(sorted(group.arrays())), dict(group.attrs)
    except BlockveilError:
        raise
    except PermissionError:
        failure = _not_permitted(location)
    except Exception:  # noqa: BLE001 - a reader of foreign files may raise anything
        absent = isinstance(location, Path) and not location.exists()
        failure = _absent(location) if absent else damaged(location, "is missing or is not a release")
    raise failure


def _values(members: dict[str, zarr.Array[Any]], location: Location) -> dict[str, NDArray[Any]]:
    try:
        return {name: np.asarray(array[...]) for name, array in members.items()}
    except BlockveilError:
        raise
    except PermissionError:
        failure = _not_permitted(location)
    except Exception:  # noqa: BLE001 - a reader of foreign files may raise anything
        failure = damaged(location, "cannot be read: a chunk is damaged")
    raise failure


def _check(
    digest: Callable[[dict[str, Any]], str], arrays: dict[str, Any], attributes: dict[str, Any], location: Location
) -> None:
    failure = damaged(location, "is damaged: its values do not match its digest")
    try:
        found = digest(arrays)
    except BlockveilError:
        raise
    except PermissionError:
        found, failure = "", _not_permitted(location)
    except Exception:  # noqa: BLE001 - a reader of foreign files may raise anything
        found = ""
    if not found or found != attributes.get("output_digest"):
        raise failure


def _not_permitted(location: Location) -> StoreError:
    """Error for a release that this account may not look at; nothing is known to be wrong with it."""
    return NotPermitted(
        f"{name_of(location)} cannot be read: no permission",
        "Whether a release is whole, and not withdrawn, is seen in all of its files",
        "Let their owner give this account permission to read them and to look into their folders",
    )

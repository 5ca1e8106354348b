"""Names and pointers of releases, and what a pointer says: which group it names, and whether it was withdrawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from blockveil.pipeline.base.errors import NotPermitted, StoreError, guard
from blockveil.pipeline.base.foreign_files import MOST_METADATA, parse_json, read_regular
from blockveil.pipeline.base.nearest import among
from blockveil.pipeline.base.printable import printable
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.stores import Location

_NAME = r"[a-z0-9][a-z0-9-]{0,62}"
_RELEASE_ID = re.compile(rf"({_NAME})/({_NAME})/(\d{{4}}-\d{{2}}-\d{{2}})")
RELEASE_FOLDER = re.compile(r"\d{4}-\d{2}-\d{2}-[0-9a-f]{16}\.zarr")
"""Name of the group of a release."""

POINTER = re.compile(r"\d{4}-\d{2}-\d{2}\.json")
"""Name of the pointer of a release."""

COPIED = ("release_id", "title", "guarantee", "ledger")
"""Attributes of a release that its pointer repeats, for readers who do not open it."""


class OutOfPlace(StoreError):
    """A release stands under another date or name than its own."""


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


def find_release(root: Path, release_id: str) -> Path:
    """Pointer of a release in a folder of releases.

    Raises
    ------
    StoreError
        There is none; the names of those that are there follow, the nearest first.
    """
    dataset, name, day = split_release_id(release_id)
    pointer = root / dataset / name / f"{day}.json"
    if pointer.exists() or pointer.is_symlink():
        return pointer
    nights = sorted(root.glob("*/*/*.json"), reverse=True) if root.is_dir() else []
    there = ["/".join((*each.parts[-3:-1], each.stem)) for each in nights if POINTER.fullmatch(each.name)]
    raise StoreError(
        f"There is no release {release_id}",
        "A release is found by its id in the folder of all releases",
        f"Choose {among(release_id, there)}" if there else "Correct the folder; there is no release in it",
    )


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
    content = stated(pointer)
    notice = None if content is None else content.get("withdrawn")
    if content is None or notice is None:
        return None
    of = notice if isinstance(notice, dict) else {}
    day, reason = (printable(str(of.get(key, "not stated")), kept="") for key in ("date", "reason"))
    return Withdrawal(printable(str(content.get("release_id", name)), kept=""), day, reason)


def read_json(location: Location) -> dict[str, Any]:
    """Read a pointer; StoreError where it is unreadable."""
    content = stated(location)
    if content is None:
        raise damaged(location, "is missing or unreadable")
    return content


def stated(location: Location) -> dict[str, Any] | None:
    """What a pointer states; None where there is none, or what is there is no pointer.

    Raises
    ------
    StoreError
        Nobody knows: this account may not look, or the store of an address does not answer.
    """
    try:
        content = guard(
            lambda: parse_json(_content(location) or b""), lambda _: not_permitted(location), PermissionError
        )
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _content(location: Location) -> bytes | None:
    if isinstance(location, Path):
        return read_regular(location, MOST_METADATA)
    folder, _, name = location.rpartition("/")
    place = objects.client(folder)
    content_and_state = guard(
        lambda: objects.content_of(place, name, MOST_METADATA), lambda error: objects.unreachable(name, error)
    )
    return None if content_and_state is None else content_and_state[0]


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
        raise not_permitted(location) from None
    except (FileNotFoundError, NotADirectoryError):
        there = False
    if not there:
        raise StoreError(
            f"There is no release {named}",
            "A release is named by its id together with its config, or by its pointer, its folder or its address",
            "Check its date and name, and the config or path; `blockveil ledger show` lists which nights were released."
            " If it was there, restore it from a backup",
        )


def followed(location: Location) -> tuple[Location, dict[str, Any] | None]:
    """Return the Zarr group that a location leads to, and what the pointer says, where there is one.

    Raises StoreError where the release was withdrawn, or there is no pointer that names a group beside it.
    """
    _refuse_withdrawn(location)
    if not name_of(location).endswith(".json"):
        return location, None
    pointer = read_json(location)
    name = str(pointer.get("path"))
    if not RELEASE_FOLDER.fullmatch(name):
        raise damaged(location, "does not name a release")
    return _beside(location, name), pointer


def require_agreement(location: Location, pointer: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
    """Refuse a pointer that says otherwise than its release.

    Raises StoreError where it has another digest, repeats an attribute otherwise, or says more than a pointer does.

    Parameters
    ----------
    location
        The pointer.
    pointer, attributes
        What it says, and what the release states.
    """
    if pointer.get("output_digest") != attributes.get("output_digest"):
        raise damaged(location, "does not match its pointer")
    if set(pointer) - {"path", "output_digest", *COPIED}:
        raise damaged(location, "says what no pointer says")
    if any(pointer[name] != attributes.get(name) for name in COPIED if name in pointer):
        raise damaged(location, "says of its release what the release does not state")


def require_own_place(location: Location, attributes: Mapping[str, Any], release_id: str | None = None) -> None:
    """Refuse a release under another name than its own, as a copy is that is to pass for another night.

    Raises OutOfPlace where its id is another one than its pointer, its group or the place says.

    Parameters
    ----------
    location
        The pointer or the group; of one that was renamed to something else than a release's name nothing is compared.
    attributes
        What the release states.
    release_id
        Id under which it was looked up; None where it was not looked up by one.
    """
    own, name = str(attributes.get("release_id")), name_of(location)
    match = RELEASE_FOLDER.fullmatch(name) or POINTER.fullmatch(name)
    if match and not own.endswith(f"/{name[:10]}"):
        raise _out_of_place(location, own)
    if release_id is not None and own != release_id:
        raise _out_of_place(location, own)


def _out_of_place(location: Location, own: str) -> OutOfPlace:
    return OutOfPlace(
        f"{name_of(location)} holds {printable(own, kept='')[:200]}",
        "A release stands under its own data set, name and date",
        "Do not use it in the place of another night; ask who put it there",
    )


def _refuse_withdrawn(location: Location) -> None:
    withdrawal = withdrawal_of(location)
    if withdrawal is not None:
        raise StoreError(
            withdrawal.words, "A release that was withdrawn is not to be used", "Use a release of another date or name"
        )


def _beside(location: Location, name: str) -> Location:
    if isinstance(location, Path):
        return location.parent / name
    return f"{location.rstrip('/').rpartition('/')[0]}/{name}"


def damaged(location: Location, problem: str) -> StoreError:
    """Error for a release that cannot be trusted."""
    return StoreError(
        f"{name_of(location)} {problem}",
        "A release is used only if its content matches its digest",
        "Restore it from a backup, or move it away and run the release again",
    )


def not_permitted(location: Location) -> StoreError:
    """Error for a release that this account may not look at; nothing is known to be wrong with it."""
    return NotPermitted(
        f"{name_of(location)} cannot be read: no permission",
        "Whether a release is whole, and not withdrawn, is seen in all of its files",
        "Let their owner give this account permission to read them and to look into their folders",
    )

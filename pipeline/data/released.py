"""Reading a release: nothing is returned whose content does not match its digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import BlockveilError, StoreError, guard
from blockveil.pipeline.base.foreign_files import NotPlain
from blockveil.pipeline.data.content import Labelled, array_digest, content_digest, release_digest
from blockveil.pipeline.data.derived_noise import derived
from blockveil.pipeline.data.known_content import known_digests
from blockveil.pipeline.data.pointers import (
    damaged,
    followed,
    name_of,
    not_permitted,
    require_agreement,
    require_own_place,
)
from blockveil.pipeline.data.release_files import opened_release
from blockveil.pipeline.data.stated_arrays import check_stated
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.data.zarr_arrays import ArrayLikeOnDisk

RUNNING_TOTAL = "running_total"
"""Name of what later nights of a series are read with, among the arrays of a release."""


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
    arrays: Mapping[str, ArrayLikeOnDisk]
    dimensions: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the group: date and digest."""
        return name_of(self.path)

    @property
    def output_digest(self) -> str:
        """Digest of all of it, as :mod:`.content` says."""
        return str(self.attributes["output_digest"])


@dataclass(frozen=True, eq=False)
class ReleaseInMemory(OpenRelease):
    """A checked release in memory; its values are float64, and text for names of features."""

    arrays: dict[str, NDArray[Any]]


def read_release(path: Location) -> ReleaseInMemory:
    """Read a release and check it.

    Raises StoreError where there is no release, or it is damaged, or the store of an address does not give it.

    Parameters
    ----------
    path
        The pointer (``.json``) or the Zarr group, as a path or as an address in an object store.
    """
    target, pointer = followed(path)
    members, attributes = _open(target)
    arrays = _values(members, target)
    content = {name: Labelled.of(members[name], values) for name, values in arrays.items()}
    _check(partial(content_digest, content), attributes, target)
    _require_named(path, target, pointer, attributes)
    arrays |= {name: array[...] for name, array in derived(arrays, attributes).items()}
    return ReleaseInMemory(target, arrays, _dimensions(members, attributes), attributes)


def open_release(path: Location) -> OpenRelease:
    """Check a release, a slab at a time, and leave its values on the disk; raises as :func:`read_release`."""
    target, pointer = followed(path)
    members, attributes = _open(target)
    _check(partial(_known, target, members), attributes, target)
    _require_named(path, target, pointer, attributes)
    arrays: dict[str, ArrayLikeOnDisk] = {**members, **derived(members, attributes)}
    return OpenRelease(target, arrays, _dimensions(members, attributes), attributes)


def _require_named(
    path: Location, target: Location, pointer: Mapping[str, Any] | None, attributes: Mapping[str, Any]
) -> None:
    """Refuse a pointer that says otherwise than its release, and a date that is not the release's."""
    if pointer is not None:
        require_agreement(path, pointer, attributes)
    if "release_id" in attributes:
        for each in {path, target}:
            require_own_place(each, attributes)


def _dimensions(members: dict[str, zarr.Array[Any]], attributes: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    dimensions = {name: tuple(getattr(array.metadata, "dimension_names", ()) or ()) for name, array in members.items()}
    return dimensions | {name: dimensions[str(attributes["matrix"])] for name in derived(members, attributes)}


def verified_attributes(path: Path) -> dict[str, Any]:
    """Return a release's attributes after checking its values, a slab at a time; raises as :func:`read_release`."""
    members, attributes = _open(path)
    _check(partial(_known, path, members), attributes, path)
    return attributes


def _absent(location: Location) -> StoreError:
    return StoreError(
        f"{name_of(location)} is not there",
        "A release is named by its folder or its pointer, and by its id only together with the folder of all releases",
        "Correct the path; if it was there, restore it from a backup",
    )


@contextmanager
def stating(location: Location) -> Iterator[None]:
    """Read what a stranger's release states of itself, for as long as the block runs.

    Raises StoreError where a number, text or table is not where a release has it.
    """
    try:
        yield
    except BlockveilError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        # Nothing that is published is private, so that what was met may be kept for whoever looks into it.
        raise damaged(location, f"states of itself what this version cannot read ({type(error).__name__})") from error


def _open(location: Location) -> tuple[dict[str, zarr.Array[Any]], dict[str, Any]]:
    def opened() -> tuple[dict[str, zarr.Array[Any]], dict[str, Any]]:
        members, attributes = opened_release(location)
        check_stated(attributes, {name: tuple(array.shape) for name, array in members.items()})
        return members, attributes

    def failure(error: Exception) -> StoreError:
        if isinstance(error, NotPlain):
            return damaged(location, f"is not written as a release is: {error}")
        if isinstance(location, Path) and not isinstance(error, PermissionError) and not location.exists():
            return _absent(location)
        return _refused(error, location, "is missing or is not a release")

    return guard(opened, failure)


def _refused(error: Exception, location: Location, problem: str) -> StoreError:
    return not_permitted(location) if isinstance(error, PermissionError) else damaged(location, problem)


def _values(members: dict[str, zarr.Array[Any]], location: Location) -> dict[str, NDArray[Any]]:
    return guard(
        lambda: {name: np.asarray(array[...]) for name, array in members.items()},
        lambda error: _refused(error, location, "cannot be read: a chunk is damaged"),
    )


def _check(digest: Callable[[Mapping[str, Any]], str], attributes: Mapping[str, Any], location: Location) -> None:
    problem = "is damaged: it does not match its digest"
    if guard(lambda: digest(attributes), lambda error: _refused(error, location, problem)) != attributes.get(
        "output_digest"
    ):
        raise damaged(location, problem)


def _known(location: Location, members: Mapping[str, zarr.Array[Any]], attributes: Mapping[str, Any]) -> str:
    """Digest of a release whose arrays stay on the disk."""
    return release_digest(known_digests(location, members), attributes)


def result_digest(release: Path) -> str:
    """SHA-256 of what later nights of a series are read with, from a release.

    Raises
    ------
    StoreError
        It is missing or damaged.
    """
    return _kept(release)[1]


def known_result(release: Path, digest: str) -> zarr.Array[Any]:
    """What later nights of a series are read with, from a release.

    Raises
    ------
    StoreError
        It is missing, damaged, or another one than has this digest.
    """
    running_total, has = _kept(release)
    if has != digest:
        raise damaged(release, f"holds another {RUNNING_TOTAL} than the ledger knows")
    return running_total


def _kept(release: Path) -> tuple[zarr.Array[Any], str]:
    try:
        running_total = _running_total(release)
        return running_total, array_digest(RUNNING_TOTAL, Labelled.of(running_total))
    except Exception:  # noqa: BLE001 - a reader of foreign files may raise anything
        failure = damaged(release, f"has no readable {RUNNING_TOTAL}")
    raise failure


def _running_total(release: Path) -> zarr.Array[Any]:
    member = zarr.open_group(release, mode="r", zarr_format=3, use_consolidated=False)[RUNNING_TOTAL]
    if not isinstance(member, zarr.Array):
        raise TypeError(RUNNING_TOTAL)
    return member

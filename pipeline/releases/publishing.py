"""Released arrays become a published release: staged, checked, renamed, pointed to.

::

    <root>/<dataset>/<name>/.staging-...                 unfinished, removed once no attempt holds its lock
    <root>/<dataset>/<name>/<date>-<digest>.zarr         the release, named after its content
    <root>/<dataset>/<name>/<date>.json                  the pointer that readers follow, replaced atomically

A release appears whole or not at all, also after a power loss. Publishing the same bits again changes nothing; other
bits under the same release id are refused.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.canonical import TIME_OF_DAY, canonical_json
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.permissions import open_as
from blockveil.pipeline.data import signatures, zarr_arrays
from blockveil.pipeline.data.content import release_digest
from blockveil.pipeline.data.known_content import known_digests
from blockveil.pipeline.data.pointers import COPIED, damaged, split_release_id, stated, withdrawal_of
from blockveil.pipeline.data.released import ReleaseInMemory, open_release, read_release, verified_attributes
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.questions.arrays import ReleaseArrays

__all__ = [
    "Draft",
    "Published",
    "ReleaseInMemory",
    "Staged",
    "draft",
    "find_published",
    "publish",
    "read_release",
    "require_place",
    "stage_release",
    "sweep_staging",
]


@dataclass(frozen=True)
class Staged:
    """A complete release that readers cannot see yet.

    Attributes
    ----------
    path
        Zarr group in a staging folder.
    output_digest
        Digest of all of it, as :mod:`.content` says.
    held
        Its lock, which ends with this object.
    """

    path: Path
    output_digest: str
    held: staging.Held = field(repr=False)


@dataclass(frozen=True)
class Published:
    """A release that readers can see.

    Attributes
    ----------
    path
        Zarr group.
    pointer
        JSON file that names it.
    output_digest
        Digest of all of it, as :mod:`.content` says.
    """

    path: Path
    pointer: Path
    output_digest: str


class Draft:
    """A release that is being written where readers do not look; see :func:`draft`."""

    def __init__(self, held: staging.Held, signer: Signer | None) -> None:
        # What a killed attempt leaves may be noise on records that changed meanwhile: beside the release, whose noise
        # is the same, it would show the difference. Nobody else reads it before all of it was checked.
        self._held, self._signer = held, signer
        self._group = zarr_arrays.create_group(held.path, {})

    def write(self, arrays: ReleaseArrays) -> None:
        """Write whole arrays."""
        for name in sorted(arrays):
            values, dimensions = arrays[name]
            zarr_arrays.write_array(self._group, name, values, dimensions)

    def create(
        self,
        name: str,
        shape: tuple[int, ...],
        dimensions: tuple[str, ...],
        dtype: Any = np.float64,
        chunks: tuple[int, ...] | None = None,
        *,
        shrinks: bool = True,
    ) -> zarr.Array[Any]:
        """Create an array to be filled in blocks; as :func:`.zarr_arrays.create_array`."""
        return zarr_arrays.create_array(self._group, name, shape, dtype, dimensions, chunks, shrinks=shrinks)

    def finish(self, attributes: Mapping[str, Any]) -> Staged:
        """Add attributes and the digest of the release, and bring all of it to the disk.

        Parameters
        ----------
        attributes
            Plain JSON values without times of day, so that every attempt stages the same bytes. ``output_digest`` is
            added.

        Raises
        ------
        ValueError, TypeError
            An attribute is not plain JSON or holds a time of day.
        """
        durable.sync_tree(self._held.path)
        digest = release_digest(known_digests(self._held.path, dict(self._group.arrays())), attributes)
        final_attributes = {**attributes, "output_digest": digest}
        if self._signer is not None:
            final_attributes[signatures.ATTRIBUTE] = self._signer.signature(final_attributes)
        text = canonical_json(final_attributes)
        if TIME_OF_DAY.search(text):
            raise ValueError("an attribute holds a time of day; a resumed run could not write the same bytes")
        self._group.attrs.put(json.loads(text))
        durable.sync_tree(self._held.path)
        return Staged(self._held.path, digest, self._held)


@contextmanager
def draft(root: Path, release_id: str, attempt: str, signer: Signer | None = None) -> Iterator[Draft]:
    """Begin a release where readers do not look; after a failure nothing is left behind.

    Parameters
    ----------
    root
        Folder of all releases.
    release_id
        ``dataset/name/logical date``.
    attempt
        Name of this attempt.
    signer
        Signs it; None leaves it unsigned.

    Raises
    ------
    StoreError
        The disk is full, or the folder cannot be written.
    """
    folder = _folder(root, release_id)
    area: staging.Held | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        area = staging.Held(folder, attempt)
        yield Draft(area, signer)
    except OSError as error:
        failure = durable.store_error(error, f"release {release_id} cannot be written")
    except BaseException:
        if area is not None:
            area.discard()
        raise
    else:
        return
    if area is not None:
        area.discard()
    raise failure


def stage_release(
    root: Path, release_id: str, attempt: str, arrays: ReleaseArrays, attributes: Mapping[str, Any]
) -> Staged:
    """Stage a release of whole arrays; parameters and errors as for :func:`draft` and :meth:`Draft.finish`."""
    with draft(root, release_id, attempt) as release_draft:
        release_draft.write(arrays)
        return release_draft.finish(attributes)


def publish(root: Path, release_id: str, staged: Staged) -> Published:
    """Make a staged release visible; harmless when another attempt has published the same bits.

    Raises
    ------
    StoreError
        The staged bits are damaged, other bits are published under the same release id, or the file system refuses.
    """
    folder = _folder(root, release_id)
    date = split_release_id(release_id)[2]
    target = folder / f"{date}-{staged.output_digest[:16]}.zarr"
    pointer = folder / f"{date}.json"
    try:
        _check_same(pointer, staged.output_digest, release_id)
        attributes = _settle(staged, target)
        durable.sync(folder)
        content = {"release_id": release_id, "path": target.name, "output_digest": staged.output_digest}
        content |= {name: attributes[name] for name in COPIED if name in attributes}
        scratch = staging.scratch_path(folder, "pointer")
        durable.replace_file(pointer, canonical_json(content) + b"\n", scratch)
        durable.sync_names(folder)
        return Published(target, pointer, staged.output_digest)
    except OSError as error:
        failure = durable.store_error(error, f"release {release_id} cannot be published")
    finally:
        # Two sets of values under one key must not both stay readable: their difference would be free of noise.
        staged.held.discard()
    raise failure


def find_published(root: Path, release_id: str, charge_id: str | None = None) -> Published | None:
    """Return a release if it is published, after checking all of it.

    Parameters
    ----------
    root, release_id
        As in :func:`stage_release`.
    charge_id
        Charge that must have paid for it; None accepts any.

    Raises
    ------
    StoreError
        The release is damaged, or was paid for by another charge.
    """
    pointer = _folder(root, release_id) / f"{split_release_id(release_id)[2]}.json"
    if not pointer.exists():
        return None
    release = open_release(pointer)
    paid_by = release.attributes.get("ledger", {}).get("charge_id")
    if charge_id is not None and paid_by != charge_id:
        raise StoreError(
            f"release {release_id} is published, but under another charge",
            "A published release never changes, and its ledger entry must be in this ledger",
            "Check that output.root and output.ledger belong together",
        )
    try:
        # The attempt that published it may have died before it had brought the names to the disk: sealed after that, a
        # power loss would take the release away when its key is gone already.
        durable.sync(pointer.parent)
        durable.sync_names(pointer.parent)
    except OSError as error:
        failure = durable.store_error(error, f"release {release_id} cannot be brought to the disk")
    else:
        return Published(pointer.parent / release.name, pointer, str(release.attributes["output_digest"]))
    raise failure


def sweep_staging(root: Path, release_id: str) -> list[Path]:
    """Remove what dead attempts at any date of this release left unfinished; return what was removed.

    Raises
    ------
    StoreError
        The file system has no locks, so that nobody knows which attempt lives.
    """
    try:
        return staging.sweep(_folder(root, release_id))
    except OSError as error:
        failure = durable.store_error(error, f"what is unfinished of {release_id} cannot be removed")
    raise failure


def require_place(root: Path, release_id: str) -> None:
    """Check, before anything is paid for, that a release can be written.

    Raises
    ------
    StoreError
        Its folder cannot be made or written, or has no locks.
    """
    folder = _folder(root, release_id)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staging.require_locks(folder)
    except OSError as error:
        failure = durable.store_error(error, f"release {release_id} could not be written")
    else:
        return
    raise failure


def _folder(root: Path, release_id: str) -> Path:
    dataset, name, _ = split_release_id(release_id)
    return root / dataset / name


def _check_same(pointer: Path, digest: str, release_id: str) -> None:
    """Refuse other bits under a published id; what is no pointer is no release and is replaced."""
    content = stated(pointer)
    if content is None:
        return
    published = content.get("output_digest")
    withdrawal = withdrawal_of(pointer)
    if withdrawal is not None:
        raise StoreError(
            withdrawal.words, "A withdrawn release is not published again", "Release under another date or name"
        )
    if published != digest:
        raise StoreError(
            f"release {release_id} is published already, with other values",
            "A published release never changes",
            "Check that output.root and output.ledger belong together, or release under another name",
        )


def _settle(staged: Staged, target: Path) -> dict[str, Any]:
    """Give the staged folder its final name, unless another attempt has put the same bits there."""
    if staged.path.exists():
        attributes = _verify(staged.path, staged.output_digest)
        open_as(staged.path, target.parent)
        try:
            staged.path.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return attributes
    return _verify(target, staged.output_digest)


def _verify(path: Path, digest: str) -> dict[str, Any]:
    attributes = verified_attributes(path)
    if attributes["output_digest"] != digest:
        raise damaged(path, "holds other values than were staged")
    return attributes

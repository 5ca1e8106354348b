"""Writing to an object store, which has no locks and no renames: an object is created once, or replaced at once.

The one guarantee that everything here rests on is the conditional put: of several writers of one name exactly one
creates it, and the others learn that it is there. A reply may be lost after the put was carried out; whoever tries
again then finds an object, and compares its content with what it wanted to write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import StoreError, StoreUnreachable, guard
from blockveil.pipeline.data.objects import client, is_denied, is_error, looked_up, state_of, unreachable

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ObjectStore as Client

Result = TypeVar("Result")

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
}


def answered(name: str, work: Callable[[], Result]) -> Result:
    """Do what needs a store, and say in words what the store refuses.

    Parameters
    ----------
    name
        Key of the config, or option, that holds the store's address.
    work
        The requests.

    Raises
    ------
    StoreError
        The store is not there, or gives no permission. The text of the store is not shown: it may quote credentials.
    StoreUnreachable
        It does not answer as it should; another try may help.
    """
    return guard(work, lambda error: _refused(name, error))


def _refused(name: str, error: Exception) -> StoreError:
    if isinstance(error, OSError) and error.errno is not None:  # of a file here; a store's failure has no number
        return durable.store_error(error, f"{name}: a file of it cannot be read or written here")
    if is_denied(error):
        return StoreError(
            f"{name}: no permission",
            "Who sends there must be allowed to put, get and list objects, and have a clock that is right",
            "Correct the credentials or the permissions, and see that the clock is not minutes wrong",
        )
    if is_error(error, "NotSupportedError") or isinstance(error, NotImplementedError):
        return StoreError(
            f"{name}: the store cannot do what is needed",
            "An object must be created only where there is none",
            "Use a store with conditional writes",
        )
    return unreachable(name, error)


def put_new(place: Client, path: str, content: bytes | Path) -> bool:
    """Create an object with all of its content; False where there is one already, which stays as it is.

    Parameters
    ----------
    place
        Client.
    path
        Name, relative to the client's address.
    content
        Bytes, or the file that holds them.
    """
    import obstore

    try:
        obstore.put(place, path, content, mode="create", use_multipart=False, attributes=_attributes(path))
    except Exception as error:
        if is_error(error, "AlreadyExistsError", "PreconditionError"):
            return False
        raise
    return True


def put_over(place: Client, path: str, content: bytes | Path) -> None:
    """Create an object, or replace it: a reader gets the old or the new content, never a part."""
    import obstore

    obstore.put(place, path, content, use_multipart=False, attributes=_attributes(path))


def put_if_still(place: Client, path: str, content: bytes, state: UpdateVersion | None) -> UpdateVersion | None:
    """Replace an object that is still the one that was read, or create it where there was none.

    Parameters
    ----------
    place, path, content
        As for :func:`put_new`.
    state
        State of it that was read, as :func:`.objects.content_of` returns it; None where there was none.

    Returns
    -------
    State of what was put, or None where somebody else has put another.
    """
    import obstore

    # S3 and Azure compare the entity tag, and Google Cloud Storage the version, which it calls generation.
    mode: Literal["create"] | UpdateVersion = "create" if state is None else state
    try:
        response = obstore.put(place, path, content, mode=mode, use_multipart=False, attributes=_attributes(path))
    except Exception as error:
        gone = isinstance(error, FileNotFoundError) and state is not None
        if gone or is_error(error, "PreconditionError", "AlreadyExistsError"):
            return None
        raise
    return state_of(response)


def _attributes(path: str) -> dict[str, str]:
    return {"Content-Type": _KINDS.get(Path(path).suffix, "application/octet-stream")}


def require_same(place: Client, path: str, content: bytes | Path, refused: StoreError) -> None:
    """Check that an object holds what was to be written.

    Parameters
    ----------
    place, path, content
        As for :func:`put_new`.
    refused
        Error for an object that holds something else.

    Raises
    ------
    StoreError
        It does.
    StoreUnreachable
        It is not there although it could not be created: another writer is about to.
    """
    meta = looked_up(place, path)
    if meta is None:
        raise StoreUnreachable(
            "An object of the upload is being written by somebody else",
            "Two runs may send the same release, one of them at a time",
            "Run again",
        )
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    if meta.size != size or digest_of(place, path) != _digest(content):
        raise refused


def digest_of(place: Client, path: str) -> str:
    """SHA-256 of an object, which is read a part at a time."""
    import obstore

    digest = hashlib.sha256()
    for part in obstore.get(place, path):
        digest.update(part)
    return digest.hexdigest()


def _digest(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(place: Client, paths: list[str]) -> None:
    """Remove objects; what is not there is no error."""
    import obstore

    for path in paths:
        try:
            obstore.delete(place, path)
        except FileNotFoundError:
            continue


class StorePlace:
    """Place in an object store that something is sent to.

    Parameters
    ----------
    address
        Such as ``s3://bucket/folder``.
    credentials
        Settings of the client, in place of those of the environment; None takes all from there.
    key
        Key of the config, or option, that holds the address.
    """

    def __init__(self, address: str, credentials: Mapping[str, str] | None = None, key: str = "output.upload") -> None:
        self.address = address.rstrip("/")
        self._credentials, self._key = credentials, key

    @cached_property
    def place(self) -> Client:
        """Client of the address."""
        return client(self.address, self._credentials)

    def ask(self, work: Callable[[], Result]) -> Result:
        """Do what needs the store; raises as :func:`answered`."""
        return answered(self._key, work)

"""Objects in S3-compatible stores, Google Cloud Storage and Azure.

Credentials are taken from the environment of the process that reads (the variables, files and machine identities that
each provider documents), so they stand in no config and travel in no pickle: a pickled store holds its address only.
What a store answers in an error may quote addresses and keys; only the kind of an error is shown.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.errors import NotPermitted, StoreError, StoreUnreachable, guard
from blockveil.pipeline.base.extras import MissingExtra

if TYPE_CHECKING:
    from obstore import GetOptions, UpdateVersion
    from obstore.store import ObjectStore as Client

BUFFER_BYTES = 8 * 2**20
"""Bytes asked for at once: large enough that the way to the store does not count."""

RETRY_SECONDS = 60.0
"""How long a request is tried again."""

# The library has no classes for these. What a text says of a request is looked for, and nothing of it is shown.
_NO_TOKEN = re.compile(r"performing token request|//169\.254\.169\.254/|//metadata\.google\.internal/")
_DENIED = re.compile(r"status code: 40[13]\b")
_NOT_FOUND = re.compile(r"status code: 404\b")


def is_remote(location: str) -> bool:
    """Whether a location is an address and not a local path."""
    return "://" in location


def split(address: str) -> tuple[str, str]:
    """Bucket and path of an address: ``s3://bucket`` and ``folder/name``."""
    scheme, _, rest = address.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path.strip("/")


def client(address: str, credentials: Mapping[str, str] | None = None) -> Client:
    """Client of an address; paths start from it. Nothing is contacted yet.

    Parameters
    ----------
    address
        Such as ``s3://bucket/folder``.
    credentials
        Settings that take the place of those of the environment, for a client that never leaves this process: a pickled
        one would hold them.

    Raises
    ------
    MissingExtra
        The library that reads object stores is not installed.
    StoreError
        The environment does not say enough to build one, or the address could hold a password or a signature.
    """
    if any(mark in address for mark in "@?#"):
        raise StoreError(  # which does not repeat it
            "The address of an object store holds one of @, ? and #",
            "It is written s3://bucket/folder, gs://... or az://..., without credentials",
            "Correct it; credentials are taken from the environment",
        )
    try:
        from obstore.store import from_url
    except ModuleNotFoundError as missing:
        missing_extra = MissingExtra.of(missing)
        if missing_extra is None:
            raise
        raise missing_extra from None
    settings: Any = _settings(address, credentials)
    try:
        # Where only the address is given, whatever else is needed comes from the environment, here and in each worker.
        store: Client = from_url(
            address,
            config=settings,
            retry_config={
                "max_retries": 4,
                "backoff": {"base": 2, "init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5)},
                "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            },
        )
    except BaseException as error:  # its text could quote a setting
        # Some names of settings make the library panic, which is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failure = StoreError(
            f"The client of the object store cannot be made ({type(error).__name__})",
            "Its settings have names that the provider knows, and go together",
            "Check those in the environment, and in the file of credentials where a config refers to one",
        )
    else:
        if type(store).__name__ != "HTTPStore":
            return store
        failure = StoreError(
            f"{address[:200]} is an address of a web server",
            "An object store lists what it holds; a web server does not. It is written s3://bucket/folder, gs://..., "
            "or az://...",
            "Name that, or copy the pointer and the folder of the release here, and name the copy",
        )
    raise failure


def _settings(address: str, credentials: Mapping[str, str] | None) -> dict[str, str] | None:
    """Settings of a client, whose keys differ by provider; None where its environment has them all."""
    settings = dict(credentials or {})
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if account and address.startswith(("az", "abfs")) and not any("account_name" in key for key in settings):
        # A client that finds its account by itself panics where it is shown, as in an error of Zarr's.
        settings["account_name"] = account
    return settings or None


@dataclass(frozen=True)
class Found:
    """One object.

    Attributes
    ----------
    path
        Relative to the client's address.
    size
        Bytes.
    identity
        Entity tag of the content; where a store gives none, size and time of the last change.
    """

    path: str
    size: int
    identity: str


def listed(place: Client, prefix: str = "") -> Iterator[Found]:
    """All objects below a prefix of whole path parts."""
    import obstore

    for chunk in obstore.list(place, prefix=prefix or None, chunk_size=1000):
        for entry in chunk:
            yield _found(entry)


def looked_up(place: Client, path: str) -> Found | None:
    """One object, or None where there is none."""
    import obstore

    try:
        return _found(obstore.head(place, path))
    except Exception as error:
        if is_error(error, "NotFoundError") or isinstance(error, FileNotFoundError):
            return None
        raise


def _found(entry: Any) -> Found:
    identity = str(entry.get("e_tag") or f"{entry['size']} {entry['last_modified'].isoformat()}")
    if entry.get("e_tag") and not identity.endswith('"'):
        identity = f'"{identity}"'  # as its header has it; a list of Azure leaves the quotes out
    return Found(str(entry["path"]), int(entry["size"]), identity)


class ObjectFile(io.RawIOBase):
    """An object read like a file; refuses to go on if it is replaced meanwhile."""

    def __init__(self, place: Client, found: Found) -> None:
        super().__init__()
        self._place, self._found, self._at = place, found, 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Next byte."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._found.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes."""
        stop = min(self._at + len(buffer), self._found.size)
        if stop <= self._at:
            return 0
        content = read_range(self._place, self._found, self._at, stop)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def read_range(place: Client, found: Found, start: int, stop: int) -> memoryview:
    """Bytes ``start <= byte < stop`` of an object that must still be the one that was found."""
    import obstore

    options: GetOptions = {"range": (start, stop)}
    if " " not in found.identity:
        options["if_match"] = found.identity
    return memoryview(obstore.get(place, found.path, options=options).bytes())


class Objects:
    """The objects below an address, listed once: sizes, identities and parts by relative name."""

    def __init__(self, place: Client, prefix: str) -> None:
        self._place = place
        start = f"{prefix}/" if prefix else ""
        self._found = {one.path.removeprefix(start): one for one in listed(place, prefix)}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each object, by its name."""
        return {name: meta.size for name, meta in self._found.items()}

    def size(self, name: str) -> int | None:
        """Bytes of an object, or None where there is none."""
        return self._found[name].size if name in self._found else None

    def identity(self, name: str) -> str:
        """What changes with the object's content."""
        return self._found[name].identity

    def read(self, name: str, start: int, length: int) -> bytes:
        """Bytes of an object from ``start`` on, at most ``length``."""
        meta = self._found[name]
        return bytes(read_range(self._place, meta, start, min(start + length, meta.size)))


def opened(place: Client, found: Found) -> io.BufferedReader:
    """An object as a buffered, seekable file."""
    return io.BufferedReader(ObjectFile(place, found), BUFFER_BYTES)


def content_of(place: Client, path: str, most: int | None = None) -> tuple[bytes, UpdateVersion] | None:
    """Content of a small object, and what tells the state that it is of; None where there is none.

    Raises ValueError where it has more.

    Parameters
    ----------
    place, path
        Where it is.
    most
        Bytes that it may have; None for any number.
    """
    import obstore

    try:
        got = obstore.get(place, path)
        if most is not None and int(got.meta["size"]) > most:
            raise ValueError(f"an object has more than {most:,} bytes")
        return bytes(got.bytes()), state_of(got.meta)
    except Exception as error:
        if is_error(error, "NotFoundError") or isinstance(error, FileNotFoundError):
            return None
        raise


def state_of(entry: Any) -> UpdateVersion:
    """What tells the state of an object, of those that a store gives: S3 and Azure a tag, Google a generation."""
    state: UpdateVersion = {}
    if entry.get("e_tag"):
        state["e_tag"] = entry["e_tag"]
    if entry.get("version"):
        state["version"] = entry["version"]
    return state


def names_in(place: Client, folder: str) -> tuple[list[str], list[str]]:
    """Names of the objects directly in a folder, and of the folders in it, in order."""
    import obstore

    listing = obstore.list_with_delimiter(place, folder or None)
    objects = sorted(str(each["path"]).rpartition("/")[2] for each in listing["objects"])
    return objects, sorted(str(each).rstrip("/").rpartition("/")[2] for each in listing["common_prefixes"])


def names_at(address: str) -> list[str]:
    """Names of the objects directly at an address, in order; raises as :func:`unreachable` says."""
    return _names(address, lambda place: names_in(place, "")[0])


def names_below(address: str) -> list[str]:
    """Names of all objects below an address, folders included; raises as :func:`unreachable` says."""
    return _names(address, lambda place: [each.path for each in listed(place)])


def _names(address: str, ask: Callable[[Client], list[str]]) -> list[str]:
    place = client(address)
    return guard(lambda: ask(place), lambda error: unreachable("The folder of releases", error))


def is_error(error: BaseException, *kinds: str) -> bool:
    """Whether an error is one of the library's, which is loaded where there is one."""
    exceptions = sys.modules.get("obstore.exceptions")
    return exceptions is not None and isinstance(error, tuple(getattr(exceptions, kind) for kind in kinds))


def is_denied(error: BaseException) -> bool:
    """Whether a store knows who asks, or that it does not, and gives no permission."""
    if is_error(error, "PermissionDeniedError", "UnauthenticatedError") or isinstance(error, PermissionError):
        return True
    return is_error(error, "GenericError") and not _NO_TOKEN.search(str(error)) and bool(_DENIED.search(str(error)))


def unreachable(name: str, error: BaseException) -> StoreError:
    """Error for a store that does not answer as it should; only its kind is shown."""
    if is_error(error, "GenericError") and _NO_TOKEN.search(str(error)):
        return StoreUnreachable(
            f"{name}: there are no credentials",
            "The environment of each process that reads or sends has them, or the machine has an identity that gives a "
            "token, and this one gave none",
            "Set the variables of the provider, such as AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT or "
            "AZURE_STORAGE_ACCOUNT_KEY, and run again",
        )
    if is_denied(error):
        return NotPermitted(
            f"{name}: no permission",
            "Credentials are taken from the environment of each process that reads",
            "Set them there, or give them permission to list and read",
        )
    if is_error(error, "NotFoundError") or isinstance(error, FileNotFoundError):
        return StoreError(f"{name} is not there", "It must exist", "Correct the address")
    if is_error(error, "GenericError") and _NOT_FOUND.search(str(error)):
        return StoreError(
            f"{name} is not there", "Its bucket or container must exist, in this account", "Correct the address"
        )
    if is_error(error, "PreconditionError"):
        return StoreError(
            f"{name} was replaced while it was read", "All of it must be of one state", "Run again when nothing writes"
        )
    return StoreUnreachable(
        f"{name} does not answer as it should ({type(error).__name__})",
        "The store must answer, and region, endpoint and credentials must be in the environment",
        "Check them, and the network, and run again",
    )

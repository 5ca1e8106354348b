"""The secret of one release: made from the operating system's randomness, kept until the seal, and destroyed then.

The product keeps each in a file of its own (:class:`KeyStore`); other packages may keep them elsewhere
(:class:`NoiseKeys`).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from secrets import token_bytes
from typing import Any

from blockveil.pipeline.base.durable import kind_of, sync, sync_names
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.offers import offered
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.secrets import KEY_STORES

SECRET_BYTES = 32
_TRIES = 100
"""A secret that is destroyed while it is made is made again; its charge is committed, so that it cannot be used."""

_PAUSE_SECONDS = 0.01

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_CHARGE = re.compile(r"[0-9a-f]{16,64}")


class NoiseKeys(ABC):
    """Secrets by charge, wherever they are kept; a class of another package is made from an address.

    A charge is named by 16 to 64 hexadecimal digits; another name is refused with ``ValueError``. No secret, and
    nothing that follows from one, stands in an error or a log.
    """

    @abstractmethod
    def create(self, charge_id: str) -> bytes:
        """Secret of a charge, 32 bytes: a new one, durable when this returns, or the one that is there.

        Of attempts that race, all get one secret. A new one is of the operating system's randomness.

        Raises
        ------
        StoreError
            The store cannot be written, or others may read it.
        """

    @abstractmethod
    def read(self, charge_id: str) -> bytes | None:
        """Secret of a charge, or None where there is none.

        Raises
        ------
        StoreError
            It cannot be read, has the wrong size, or others may read it.
        """

    @abstractmethod
    def destroy(self, charge_id: str) -> None:
        """Destroy a secret for good; silent when it is gone.

        Raises
        ------
        StoreError
            It cannot be destroyed.
        """

    @abstractmethod
    def list(self) -> list[str]:
        """Charges that have a secret."""


class KeyStore(NoiseKeys):
    """Secrets by charge, in files of mode 0600 inside a folder of mode 0700.

    Parameters
    ----------
    root
        Folder of the store; made when the first secret is.
    """

    def __init__(self, root: Path) -> None:
        self.root = self._root = root

    def create(self, charge_id: str) -> bytes:
        """Secret of a charge: a new one, on the disk when this returns, or the one that is there.

        Raises
        ------
        StoreError
            The store cannot be written, or others may read it.
        """
        return self._created(charge_id)

    def _created(self, charge_id: str) -> bytes:
        path, failure = self._path(charge_id), _failure(FileNotFoundError())
        for _ in range(_TRIES):
            try:
                self._link(path)
                secret = self.read(charge_id)
            except FileNotFoundError as error:  # an attempt that has just finished destroyed the secret, or our draft
                failure = _failure(error)
                continue
            except OSError as error:
                failure = _failure(error)
                break
            if secret is not None:
                return secret
            time.sleep(_PAUSE_SECONDS)  # let it be removed
        raise failure

    def _link(self, path: Path) -> None:
        """Make a secret unless one is there."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_private(self._root)
        # Written whole under another name and then linked: the name never shows a part of a secret, and of two
        # attempts that race exactly one link succeeds.
        draft = self._root / f".{path.name}.{os.urandom(8).hex()}"
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(token_bytes(SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            self._wipe(draft)
        sync(self._root)
        sync_names(self._root)  # a folder that was just made is lost with all that is in it

    def read(self, charge_id: str) -> bytes | None:
        """Secret of a charge, or None where there is none.

        Raises
        ------
        StoreError
            It cannot be read, has the wrong size, or others may read it.
        """
        path = self._path(charge_id)
        try:
            self._check_private(self._root)
            self._check_private(path)
            secret = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            failure = _failure(error)
        else:
            if secret == bytes(SECRET_BYTES):  # it is being destroyed
                return None
            if len(secret) == SECRET_BYTES:
                return secret
            failure = StoreError(
                f'"{path.name}" in the key store is damaged',
                f"A key has {SECRET_BYTES} bytes",
                "Restore it from a copy; where there is none, remove it and run again: it counts as lost then, and "
                "the next message says what to do",
            )
        raise failure

    def destroy(self, charge_id: str) -> None:
        """Overwrite and remove a secret; silent when it is gone.

        Raises
        ------
        StoreError
            It cannot be removed.
        """
        path = self._path(charge_id)
        try:
            # A kill while the secret was made may have left it a second name.
            for draft in self._drafts(charge_id):
                draft.unlink(missing_ok=True)
            self._wipe(path)
            if self._root.exists():
                sync(self._root)
        except OSError as error:
            failure = _failure(error)
        else:
            return
        raise failure

    def _drafts(self, charge_id: str) -> Sequence[Path]:
        # By the start of the name: a pattern of each charge would have to be compiled.
        if not self._root.is_dir():
            return ()
        with os.scandir(self._root) as names:
            return tuple(Path(each.path) for each in names if each.name.startswith(f".{charge_id}."))

    def list(self) -> list[str]:
        """Charges that have a secret."""
        if not self._root.exists():
            return []
        return sorted(path.name for path in self._root.iterdir() if _CHARGE.fullmatch(path.name))

    def _path(self, charge_id: str) -> Path:
        if not _CHARGE.fullmatch(charge_id):
            raise ValueError("a charge is named by 16 to 64 hexadecimal digits")
        return self._root / charge_id

    @staticmethod
    def _wipe(path: Path) -> None:
        # A second link of the same file (a draft) must not be overwritten, or the secret itself would be.
        with contextlib.suppress(FileNotFoundError):  # another attempt removed it
            if path.stat().st_nlink == 1:
                with path.open("r+b", buffering=0) as file:
                    file.write(bytes(SECRET_BYTES))
                    os.fsync(file.fileno())
            path.unlink()

    @staticmethod
    def _check_private(path: Path) -> None:
        """Refuse a folder or a file of the store that another account may read, write or own."""
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        if mode & _OTHERS:
            raise StoreError(
                f'"{path.name}" in the key store has mode {mode:04o}',
                "Only its owner may read a noise key",
                f"Check who read it, then run chmod {mode & ~_OTHERS:04o} on it",
            )
        if status.st_uid not in (0, os.geteuid()):
            raise StoreError(
                f'"{path.name}" in the key store belongs to another account (number {status.st_uid})',
                "Whoever owns a noise key may read it",
                "Run as its owner, or give the key store to the account that releases with chown",
            )


class ContentStore(KeyStore):
    """Keys of digests of records, in a folder ``content`` of a store of noise keys; they outlast releases.

    Parameters
    ----------
    keys
        Folder of the noise keys.
    """

    def __init__(self, keys: Path) -> None:
        super().__init__(keys / "content")

    def create(self, charge_id: str) -> bytes:
        """Secret of a name; as :meth:`KeyStore.create`."""
        try:
            self._root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # folders above have the usual mode
        except OSError as error:
            raise _failure(error) from None
        return self._created(charge_id)


def open_keys(loaded: LoadedConfig) -> NoiseKeys:
    """The key store that a config names; a package that keeps one is imported now.

    Raises
    ------
    ConfigError
        What ``output.keys`` refers to is no address of a key store.
    StoreError
        The class of the package cannot be used.
    """
    root = loaded.keys_root
    if root is not None:
        return KeyStore(root)
    address = loaded.keys_address
    scheme = address.partition("://")[0]
    kind: Any = offered(KEY_STORES, scheme, NoiseKeys)
    if isinstance(kind, str):
        raise StoreError(
            f'The key store of addresses "{scheme[:20]}://..." cannot be used: {kind}',
            "One installed package keeps the key stores of a scheme",
            "Correct the installation, or name a folder",
        )
    keys: NoiseKeys = kind(address)
    return keys


def content_keys(keys: NoiseKeys) -> NoiseKeys:
    """Where the keys of digests of records are kept, beside the noise keys of a store."""
    return ContentStore(keys.root) if isinstance(keys, KeyStore) else keys


def secret_of(keys: NoiseKeys, name: str, *, new: bool) -> bytes | None:
    """Secret of a name; None where it is lost.

    Parameters
    ----------
    keys
        Where it is kept.
    name
        Of a charge, or of a key of records.
    new
        Whether it is made unless it is there.

    Raises
    ------
    StoreError
        The key store cannot be used, or gave something else than a secret.
    """
    secret = keys.create(name) if new else keys.read(name)
    if secret is not None and len(secret) != SECRET_BYTES:  # of another package: noise under it could be guessed
        raise StoreError(
            f"The key store gave a key of {len(secret)} bytes",
            f"It has {SECRET_BYTES}, of the operating system's randomness",
            "Ask who maintains the package of the key store, or name a folder in output.keys",
        )
    return secret


def _failure(error: OSError) -> StoreError:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return kind_of(error)(
        f"The key store cannot be used ({reason})",
        "A noise key must be safely on the disk before noise is drawn",
        "Check space and permissions of the folder output.keys",
    )

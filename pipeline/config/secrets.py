"""Values that a config only refers to: ``env:NAME`` of a variable, ``file:PATH`` of a private file."""

from __future__ import annotations

import contextlib
import os
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import BinaryIO

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.permissions import private_problem

_LONGEST = 1 << 20
"""Bytes of a secret at most."""

_PUBLIC = (b"-----BEGIN PUBLIC KEY", b"-----BEGIN CERTIFICATE")

POSTGRES = ("postgresql", "postgresql+psycopg", "postgres")
"""Schemes of addresses of PostgreSQL databases."""


def read_secret(key: str, reference: str, base: Path) -> str:
    """Return what a reference stands for, without the white space around it.

    A file belongs to this account or to root, and no other account may read or change it. A group may read it where
    root owns it, as containers and service managers hand secrets over; all may read a public key or a certificate.

    Parameters
    ----------
    key
        How the reference is called where it was written, for messages.
    reference
        ``env:NAME`` or ``file:PATH``.
    base
        Folder that a relative path starts from.

    Raises
    ------
    ConfigError
        It is no reference, there is nothing where it points, or others may read or change its file. The value is never
        shown.
    """
    scheme, _, rest = reference.partition(":")
    if scheme == "env" and rest:
        if not os.environ.get(rest, "").strip():
            raise ConfigError(
                f"{key}: the variable {rest} is not set", "A reference must exist", f"Export {rest} with the value"
            )
        return os.environ[rest].strip()
    if scheme == "file" and rest:
        return _read(key, base / rest)
    # What was written may be the secret itself: it is not repeated.
    raise ConfigError(
        f"{key}: this is not a reference", "Secrets are given by reference", "Write env:NAME or file:PATH"
    )


def check_private(key: str, path: Path) -> None:
    """Refuse a file of a key or a certificate which other accounts may use as its owner would.

    A file that is not there, or cannot be read, is left to whoever uses it.

    Raises
    ------
    ConfigError
        With the command that puts it right.
    """
    with contextlib.suppress(OSError), path.open("rb") as file:
        _check(key, file, file.read(_LONGEST))


def _read(key: str, path: Path) -> str:
    problem, cause = "is empty", None
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
            _check(key, file, content)
        text = content.decode("utf-8").strip()
    except OSError as error:
        text, problem, cause = "", f"cannot be read ({os.strerror(error.errno or 0)})", error
    except UnicodeDecodeError:
        text, problem = "", "is not text"
    else:
        text, problem = ("", "is too long") if len(content) > _LONGEST else (text, problem)
    if text:
        return text
    failure = ConfigError(f'{key}: the file "{path.name}" {problem}', "A reference must exist", "Put the value into it")
    raise failure if cause is None else durable.unreadable(cause, failure)


def _check(key: str, file: BinaryIO, content: bytes) -> None:
    """Refuse an open file that others may use; all may read what is public by its kind."""
    public = content.lstrip().startswith(_PUBLIC) and b"PRIVATE KEY" not in content
    problem = private_problem(os.fstat(file.fileno()), public=public)
    if problem is not None:
        raise ConfigError(
            f'{key}: the file "{Path(file.name).name}" {problem}',
            "Its owner decides whom to trust" if public else "No other account may read or change a secret",
            f"Find out who used it, then run chmod {'go-w' if public else 'go-rwx'} on it, or give it to this account",
        )


LEDGERS = "blockveil.ledgers"
"""Group of entry points of ledgers in other packages, each under the scheme of its addresses."""


def is_of_another_package(address: str) -> bool:
    """Whether the ledger at an address is kept by another package; imports nothing."""
    scheme = address.partition("://")[0]
    return scheme not in ("sqlite", *POSTGRES) and bool(entry_points(group=LEDGERS, name=scheme))


KEY_STORES = "blockveil.key_stores"
"""Group of entry points of key stores in other packages, each under the scheme of its addresses."""


def read_key_store(key: str, reference: str, base: Path) -> str:
    """Return the address of a key store that a reference stands for; raises as :func:`read_secret`."""
    address = read_secret(key, reference, base)
    scheme, separator, _ = address.partition("://")
    if not separator or not entry_points(group=KEY_STORES, name=scheme):
        raise ConfigError(
            f"{key}: what it refers to is not the address of a key store of an installed package (it is not shown)",
            "It begins with a scheme that a package offers, and ://",
            "Install the package, or correct it; a folder is written in the config itself",
        )
    return address


def read_address(key: str, reference: str, base: Path) -> str:
    """Return the address of a ledger's database that a reference stands for; raises as :func:`read_secret`."""
    address = read_secret(key, reference, base)
    if address.partition("://")[0] not in POSTGRES and not is_of_another_package(address):
        raise ConfigError(
            f"{key}: what it refers to is not the address of a PostgreSQL database (it is not shown)",
            "It is written postgresql://role:password@host:port/database",
            "Correct it; a path to an SQLite file is written in the config itself",
        )
    return address


def read_credentials(key: str, reference: str | None, base: Path) -> dict[str, str] | None:
    """Settings of a client that a reference stands for, or None where none is given.

    Parameters
    ----------
    key, base
        As for :func:`read_secret`.
    reference
        ``env:NAME`` or ``file:PATH`` of lines ``NAME = "VALUE"``.

    Raises
    ------
    ConfigError
        There is nothing where it points, or something else. No value is shown.
    """
    if reference is None:
        return None
    try:
        settings = tomllib.loads(read_secret(key, reference, base))
    except tomllib.TOMLDecodeError:
        settings = {}
    if settings and all(isinstance(value, str) for value in settings.values()):
        return settings
    raise ConfigError(
        f"{key}: what it refers to does not hold credentials (it is not shown)",
        'They are lines NAME = "VALUE", such as aws_access_key_id = "..."',
        "Correct it",
    )

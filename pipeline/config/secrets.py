"""Values that a config only refers to: ``env:NAME`` of a variable, ``file:PATH`` of a private file."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

from blockveil.pipeline.base.errors import ConfigError

POSTGRES = ("postgresql", "postgresql+psycopg", "postgres")
"""Schemes of addresses of PostgreSQL databases."""


def read_secret(key: str, reference: str, base: Path) -> str:
    """Return what a reference stands for, without the white space around it.

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
        It is no reference, or there is nothing where it points. The value is never shown.
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


def _read(key: str, path: Path) -> str:
    problem = "is empty"
    try:
        found = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        found, problem = "", f"cannot be read ({os.strerror(error.errno or 0)})"
    except UnicodeDecodeError:
        found, problem = "", "is not text"
    if found:
        return found
    raise ConfigError(f'{key}: the file "{path.name}" {problem}', "A reference must exist", "Put the value into it")


LEDGERS = "blockveil.ledgers"
"""Group of entry points of ledgers in other packages, each under the scheme of its addresses."""


def is_of_another_package(address: str) -> bool:
    """Whether the ledger at an address is kept by another package; imports nothing."""
    scheme = address.partition("://")[0]
    return scheme not in ("sqlite", *POSTGRES) and bool(entry_points(group=LEDGERS, name=scheme))


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

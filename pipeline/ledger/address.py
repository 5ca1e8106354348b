"""From an address to a backend."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.base.offers import offered
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.secrets import LEDGERS, POSTGRES, is_of_another_package
from blockveil.pipeline.ledger.database import Database


def open_database(url: str) -> Database:
    """Return the backend of ``sqlite:///path``, ``postgresql://...`` or another package; connects to nothing yet.

    Raises
    ------
    ConfigError
        There can be no such path.
    LedgerError
        The address is of another kind, or malformed. What it says after its scheme is not repeated.
    """
    scheme = url.partition("://")[0]
    if url.startswith("sqlite:///"):
        from blockveil.pipeline.ledger.sqlite import SqliteDatabase

        path = Path(url.removeprefix("sqlite:///"))
        absolute(path, "The ledger")
        return SqliteDatabase(path)
    if scheme in POSTGRES:
        from blockveil.pipeline.ledger.postgres import PostgresDatabase

        return PostgresDatabase(url)
    if is_of_another_package(url):
        database: Database = _backend(scheme)(url)
        return database
    raise LedgerError(
        f'The ledger address "{scheme[:20]}://..." is not supported',
        "A ledger is an SQLite file or a PostgreSQL database",
        "Give sqlite:/// and a path, or postgresql:// and an address",
    )


def _backend(scheme: str) -> Any:
    """Class of another package for addresses of a scheme: a Database that is made from an address.

    Raises
    ------
    LedgerError
        Two packages offer it, or it cannot be imported.
    """
    backend = offered(LEDGERS, scheme, Database)  # type: ignore[type-abstract]
    if isinstance(backend, str):
        raise LedgerError(
            f'The ledger of addresses "{scheme[:20]}://..." cannot be used: {backend}',
            "One installed package keeps the ledgers of a scheme",
            "Correct the installation, or use an SQLite file or a PostgreSQL database",
        )
    return backend


def digest_of_place(url: str) -> str:
    """SHA-256 that tells one place of a ledger from another: of the file's full path, or of server and database."""
    place = place_of(url)
    if place.startswith("sqlite:///"):
        place = f"sqlite:///{Path(place.removeprefix('sqlite:///')).resolve()}"
    return hashlib.sha256(place.encode()).hexdigest()


def place_of(url: str) -> str:
    """Where a ledger is: the address that :func:`open_database` takes, without role, password and options."""
    if url.startswith("sqlite:///"):
        return url
    if is_of_another_package(url):
        return str(_backend(url.partition("://")[0]).place(url))
    address = sa.make_url(url)
    options = [address.query.get(key) for key in ("host", "hostaddr", "port")]
    return f"postgresql {[address.host, address.port, *options, address.database]}"

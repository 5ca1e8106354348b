"""Alembic, run inside a transaction that already holds the ledger's lock."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

_one_at_a_time = Lock()
# Alembic's operations belong to the process: of two threads, one would change the tables of the other's ledger.


def migrate(connection: sa.Connection, stamped: str | None) -> None:
    """Bring the tables to the newest version.

    Parameters
    ----------
    connection
        An open transaction; the caller commits it.
    stamped
        Version of a ledger that does not name its own, or None.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    with _one_at_a_time:
        if stamped is not None:
            command.stamp(config, stamped)
        command.upgrade(config, "head")

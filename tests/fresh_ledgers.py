"""Tables of new ledgers from what the migrations of the first one said: to plan them takes longer than to run them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.ledger import database

Statement = tuple[str, Any, bool]

by_alembic = database._migrate
"""How the product makes tables; for tests of that itself."""

_said: dict[str, list[Statement]] = {}
"""Statements of the migrations of an empty database, by its dialect."""


def migrate(connection: sa.Connection, stamped: str | None = None) -> None:
    """Migrate as the product does; the second empty database of a kind gets the same statements without Alembic."""
    dialect = connection.dialect.name
    if stamped is not None or sa.inspect(connection).get_table_names():
        by_alembic(connection, stamped)
    elif dialect in _said:
        for statement, parameters, many in _said[dialect]:
            assert not many
            connection.exec_driver_sql(statement, parameters or None)
    else:
        _said[dialect] = _recorded(connection)


def _recorded(connection: sa.Connection) -> list[Statement]:
    said: list[Statement] = []

    def keep(_connection, _cursor, statement, parameters, _context, many):
        said.append((statement, parameters, many))

    sa.event.listen(connection, "before_cursor_execute", keep)
    try:
        by_alembic(connection, None)
    finally:
        sa.event.remove(connection, "before_cursor_execute", keep)
    return said

"""Sessions of SQLAlchemy, as far as the ledger uses them, without what SQLAlchemy does for every one of them anew.

A schedule runs some hundred statements, and most of its time would go into pools, events, cache keys and rows of
SQLAlchemy. Here a statement that the product has built is compiled by SQLAlchemy once and then run as it is. Sessions
begin, commit, roll back and close as SQLAlchemy's do; that a seed gives the same schedule with SQLAlchemy itself is
tested.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

DIALECT = SQLiteDialect_pysqlite()

_compiled: WeakKeyDictionary[Any, dict[tuple[str, ...], Compiled]] = WeakKeyDictionary()


class Compiled:
    """Text of a statement, and where its values come from.

    Parameters
    ----------
    statement
        As the product built it.
    names
        Names of the values that it is run with.
    """

    def __init__(self, statement: Any, names: tuple[str, ...]) -> None:
        inserts = isinstance(statement, sa.Insert)
        made = statement.compile(dialect=DIALECT, column_keys=list(names) if inserts else None)
        state = made.construct_expanded_state(dict.fromkeys(names, ""))
        self._convert = made._bind_processors
        self.text, self._values = state.statement, state.parameters
        self._order = tuple(state.positiontup or ())
        columns = [] if inserts else statement.selected_columns
        if any(column.type.dialect_impl(DIALECT).result_processor(DIALECT, None) for column in columns):
            raise NotImplementedError("a result that SQLAlchemy would convert")
        self.keys = tuple(getattr(column, "name", "") for column in columns)
        self.row: Any = namedtuple("Row", self.keys, rename=True)  # type: ignore[misc]

    @classmethod
    def of(cls, statement: Any, names: tuple[str, ...]) -> Compiled:
        """The same for the same statement and names."""
        found = _compiled.setdefault(statement, {})
        if names not in found:
            found[names] = cls(statement, names)
        return found[names]

    def values(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order of the text."""
        known = {**self._values, **given}
        if self._convert:
            known |= {name: convert(known[name]) for name, convert in self._convert.items()}
        return tuple([known[name] for name in self._order])


class Everything(list[Any]):
    """All rows, or one value of each."""

    def all(self) -> list[Any]:
        """The same."""
        return self


class Result:
    """Rows of a statement."""

    _soft_closed = False

    def __init__(self, rows: list[Any], keys: tuple[str, ...], row: Any) -> None:
        self._rows, self._keys, self._row = rows, keys, row

    def all(self) -> list[Any]:
        """Rows, with values by name too."""
        return list(map(self._row._make, self._rows))

    def fetchall(self) -> list[Any]:
        """Rows."""
        return self._rows

    def mappings(self) -> Everything:
        """Rows as dictionaries."""
        return Everything(dict(zip(self._keys, row, strict=True)) for row in self._rows)

    def scalars(self) -> Everything:
        """First values of all rows."""
        return Everything(row[0] for row in self._rows)

    def first(self) -> Any:
        """First row, or None."""
        return self._row._make(self._rows[0]) if self._rows else None

    def one_or_none(self) -> Any:
        """The only row, or None."""
        if len(self._rows) > 1:
            raise sa.exc.MultipleResultsFound
        return self.first()

    def scalar_one_or_none(self) -> Any:
        """First value of the only row, or None."""
        row = self.one_or_none()
        return None if row is None else row[0]

    def scalar_one(self) -> Any:
        """First value of the only row."""
        row = self.one_or_none()
        if row is None:
            raise sa.exc.NoResultFound
        return row[0]


_PLAIN: Any = namedtuple("Plain", ())


class Session(sa.Connection):
    """A connection with its transaction."""

    def __init__(self, engine: Any, driver: Any, begin: Callable[[Any], None] | None) -> None:
        self.engine, self.dialect, self._driver, self._on_begin = engine, DIALECT, driver, begin
        self._options: dict[str, Any] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._driver.rollback()
        self._driver.close()

    def execution_options(self, **options: Any) -> Any:
        self._options |= options
        return self

    def get_execution_options(self) -> Any:
        return self._options

    def begin(self) -> Any:
        if self._on_begin is not None:
            self._on_begin(self)
        return _Transaction(self._driver)

    def exec_driver_sql(self, statement: str, *_: Any, **__: Any) -> Any:
        return Result(self._run(statement, ()), (), _PLAIN)

    def execute(self, statement: Any, parameters: Any = None, **_: Any) -> Any:
        given = parameters or {}
        compiled = Compiled.of(statement, tuple(given))
        return Result(self._run(compiled.text, compiled.values(given)), compiled.keys, compiled.row)

    def scalar(self, statement: Any, parameters: Any = None, **_: Any) -> Any:
        row = self.execute(statement, parameters).first()
        return None if row is None else row[0]

    def scalars(self, statement: Any, parameters: Any = None, **_: Any) -> Any:
        return self.execute(statement, parameters).scalars()

    def _run(self, text: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            found: list[Any] = self._driver.rows(text, values)
        except sqlite3.Error as error:
            raise _translated(text, error) from error
        return found


class _Transaction:
    """Commits where all went well, and else rolls back."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, _: object) -> None:
        if kind is not None:
            self._driver.rollback()
            return
        try:
            self._driver.commit()
        except BaseException as failure:
            self._driver.rollback()
            if isinstance(failure, sqlite3.Error):
                raise _translated("COMMIT", failure) from failure
            raise


def _translated(statement: str, error: sqlite3.Error) -> BaseException:
    """An error of the driver as SQLAlchemy raises it."""
    return sa.exc.DBAPIError.instance(statement, (), error, sqlite3.Error, hide_parameters=True, dialect=DIALECT)


class Sessions:
    """In place of SQLAlchemy's engine.

    Parameters
    ----------
    connect
        Gives a connection of the driver.
    configure, begin
        What SQLAlchemy would call with each new connection, and where a transaction begins.
    """

    dialect = DIALECT

    def __init__(
        self,
        connect: Callable[[], Any],
        configure: Callable[[Any], None] | None = None,
        begin: Callable[[Any], None] | None = None,
    ) -> None:
        self._connect, self._configure, self._begin = connect, configure, begin

    def connect(self) -> Session:
        """A connection."""
        try:
            driver = self._connect()
            if self._configure is not None:
                self._configure(driver)
        except sqlite3.Error as error:
            raise _translated("connect", error) from error
        return Session(self, driver, self._begin)

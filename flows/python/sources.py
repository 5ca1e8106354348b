"""The config, the date and the person of a call, as they are given: a path, nested tables, or keyword arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import one_line
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.config.load import load_tables
from blockveil.pipeline.config.toml import as_toml

Given = str | os.PathLike[str] | Mapping[str, Any] | None
"""What a config is given as; relative paths of nested tables start from the current folder."""


def config_of(given: Given, tables: Mapping[str, Any], allowed: tuple[str, ...] | None = None) -> LoadedConfig:
    """The config of a call.

    Parameters
    ----------
    given
        Path of a config, or a config as nested tables, or None where the keyword arguments are all of it.
    tables
        Keyword arguments: tables by name, laid over what is given.
    allowed
        What may be laid over a file; None allows all.

    Raises
    ------
    ConfigError
        It cannot be read, a key is unknown, missing or not allowed, or something is of a type that no config holds.
    """
    over = as_toml(tables)
    if given is None or isinstance(given, Mapping):
        return load_tables(_merged(as_toml(given or {}), over), Path.cwd())
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"A config cannot be a {type(given).__name__}",
            "It is a path, nested tables or keyword arguments",
            "Give one",
        )
    return load_config(given, dict(_overrides(over)), allowed)


def _merged(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    tree = dict(below)
    for name, value in over.items():
        both_tables = isinstance(value, dict) and isinstance(tree.get(name), dict)
        tree[name] = _merged(tree[name], value) if both_tables else value
    return tree


def _overrides(table: dict[str, Any], lead: str = "") -> Iterator[tuple[str, str]]:
    """Dotted keys and TOML values."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _overrides(value, f"{lead}{name}.")
        else:
            yield f"{lead}{name}", _written(value)


def _written(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_written(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # inf and nan too, which the config refuses
    return value.isoformat() if isinstance(value, date) else json.dumps(value)


def day_of(given: date | str | None) -> date:
    """The logical date of a call; today where none is given.

    Raises
    ------
    ConfigError
        It is no date.
    """
    if given is None:
        return datetime.now().astimezone().date()
    if isinstance(given, date):
        return given.date() if isinstance(given, datetime) else given
    try:
        return date.fromisoformat(given)
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"date {str(given)[:60]!r} is not a date", "It is a date, or a text YYYY-MM-DD", "Correct it")


def person(given: str | None) -> str | None:
    """Name of who approves, or None.

    Raises
    ------
    ConfigError
        It is not a name.
    """
    if given is None or (
        isinstance(given, str) and 0 < len(given.strip()) <= len(given) <= 60 and one_line(given) == given
    ):
        return given
    raise ConfigError("approve is not a name", "It is printable text of at most 60 characters", "Give a person's name")


def guess(rows: int | None) -> int | None:
    """A guess of the number of records, or None; ConfigError where it is no whole number."""
    if rows is None or (isinstance(rows, int) and not isinstance(rows, bool)):
        return rows
    raise ConfigError("rows is not a whole number", "It is a guess of the number of records", "Give for instance 10000")


def fraction(name: str, given: float) -> float:
    """A number of a call by its name; ConfigError where it is none."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    raise ConfigError(
        f"{name} is not a number", "It is a fraction, as the command line takes it", "Give for instance 0.5"
    )

"""TOML as configs hold it: parsed and written, with values of sizes and characters that every later step can take."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import is_hidden, one_line, short

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MOST_BYTES = 64 * 2**20
_DEEPEST = 32
_LARGEST = 2**63
_KEPT = "\n\t"
_ANY_CHARACTER = ("delimiter",)
"""Keys of a character that separates fields, which is often a control character; it is never shown."""


def read_toml(file: Path, rule: str = "A config is a TOML file") -> dict[str, Any]:
    """Parsed TOML file.

    Raises
    ------
    ConfigError
        It cannot be read or parsed, or holds a number or a text that no config may hold.
    StoreUnreachable
        The disk or share fails.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        problem = f"the file cannot be read ({os.strerror(getattr(error, 'errno', None) or 0)})"
        problem = "there is no such file" if isinstance(error, FileNotFoundError) else problem
        why = f"{short(str(file), 120)}: {problem}", rule, "Correct the path or its permissions"
        failure = durable.unreadable(error, ConfigError(*why))
    else:
        return parse_toml(content, str(file), rule)
    raise failure


def parse_toml(content: bytes, source: str, rule: str = "A config is a TOML file") -> dict[str, Any]:
    """Parsed TOML text; raises as :func:`read_toml`.

    Parameters
    ----------
    content
        The text in UTF-8.
    source
        Name of the file, for messages.
    rule
        What the file is, for messages.
    """
    try:
        if len(content) > _MOST_BYTES:
            raise _Unusable(f"the file has more than {_MOST_BYTES >> 20} MiB")
        tree = tomllib.loads(content.decode("utf-8"))
        _check(tree, (), 0)
    except _Unusable as error:
        problem = str(error)
    except UnicodeDecodeError:
        problem = "the file is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        problem = f"syntax error: {short(str(error), 120)}"
    except RecursionError:
        problem = "tables or lists are nested too deeply"
    except ValueError:  # Python itself refuses to read a number of very many digits
        problem = "a number is too long"
    else:
        return tree
    raise ConfigError(f"{short(source, 120)}: {problem}", rule, "Correct it; text needs quotes")


def as_toml(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of a program as a TOML file would hold them: a copy, in which paths are texts and tuples are lists.

    Values that are None are left out, as a file leaves a key out.

    Raises
    ------
    ConfigError
        A value is of another type, such as an array of numbers. The message names its type and never the value.
    """
    try:
        tree = {str(name): _converted(part, (str(name),), 0) for name, part in tables.items() if part is not None}
        _check(tree, (), 0)
    except _Unusable as error:
        problem = str(error)
    else:
        return tree
    raise ConfigError(
        f"The given tables cannot be a config: {problem}",
        "A config holds texts, numbers, truth values, dates, lists and tables",
        "Correct it; give single numbers with float() or int()",
    )


def _converted(value: Any, key: tuple[str, ...], depth: int) -> Any:
    if depth > _DEEPEST:
        raise _Unusable(f"{_shown(key[:3])} is nested more than {_DEEPEST} deep")
    match value:
        case Mapping():
            entries = [(str(name), part) for name, part in value.items() if part is not None]
            return {name: _converted(part, (*key, name), depth + 1) for name, part in entries}
        case list() | tuple():
            return [_converted(part, key, depth + 1) for part in value]
        case os.PathLike():
            return os.fspath(value)
        case bool() | date():
            return value
        case str():
            return str.__str__(value)  # an enumeration's value, not its name
        case int() | float():
            return int(value) if isinstance(value, int) else float(value)
    raise _Unusable(f"{_shown(key)} is of the type {type(value).__name__}")


class _Unusable(Exception):
    """A part of the file that no config may hold, in words."""


def _check(value: Any, key: tuple[str, ...], depth: int) -> None:
    """Refuse what later steps could not take, or what would steer the terminal or page that shows it."""
    if depth > _DEEPEST:
        raise _Unusable(f"{_shown(key)} is nested more than {_DEEPEST} deep")
    if isinstance(value, str) and _hidden(value) and key[-1:] != _ANY_CHARACTER:
        raise _Unusable(f"{_shown(key)} holds a control character or a mark that reorders text")
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise _Unusable(f"{_shown(key)} is a whole number of more than 64 bits")
    for name, part in _parts(value):
        if name and (_hidden(name) or "\n" in name or "\t" in name):
            raise _Unusable(f"the key {_shown((*key, name))} holds a control character or a mark that reorders text")
        _check(part, (*key, name) if name else key, depth + 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from (("", part) for part in value)


def _hidden(text: str) -> bool:
    return not text.isprintable() and any(is_hidden(sign) and sign not in _KEPT for sign in text)


def _shown(key: tuple[str, ...]) -> str:
    return short(one_line(".".join(key)), 80)


def toml_lines(table: Mapping[str, Any]) -> list[str]:
    """Keys and values of a table, a line each, without its name."""
    return [f"{_key(key)} = {toml_value(value)}" for key, value in table.items()]


def toml_value(value: Any) -> str:
    """One value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case date():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(toml_lines(value))} }}"
    return str(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)

"""What the commands share: options, reading a config, printing lines for a person or JSON for a program.

Every command imports this module, so that it imports libraries only within functions.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blockveil.flows.cli.line_breaks import broken, column_of_heads, columns_of
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.printable import one_line, printable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from blockveil.engine.guarantees.guarantee import ApproxDP
    from blockveil.pipeline.config import LoadedConfig
    from blockveil.pipeline.ledger import Ledger


Config = Annotated[Path, typer.Argument(help="Config file of a release, TOML.", show_default=False)]
Date = Annotated[str | None, typer.Option("--date", help="Logical date, YYYY-MM-DD; today by default.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override one key of the config, section.key=value; may be repeated.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for programs, and nothing else, to standard output.")
]


NamedRelease = Annotated[
    str,
    typer.Argument(
        metavar="RELEASE", help="Release id (with --config), pointer or folder, or its address.", show_default=False
    ),
]
OfRelease = Annotated[Path | None, typer.Option("--config", help="Config of the release, to find a release id.")]


def parse_date(text: str | None) -> date:
    """Logical date of an option."""
    return parse_day("--date", text) or datetime.now().astimezone().date()


def parse_day(option: str, text: str | None) -> date | None:
    """Day of an option, or None where it is not given."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    raise ConfigError(f"{option} {text!r} is not a date", "A date is written YYYY-MM-DD", "Correct it")


def parse_period(begins: tuple[str, str | None], ends: tuple[str, str | None]) -> tuple[date | None, date | None]:
    """First and last day of a period, each of an option and its text; None where one is not given."""
    first, last = parse_day(*begins), parse_day(*ends)
    if first is not None and last is not None and first > last:
        raise ConfigError(
            f"{begins[0]} {first} is after {ends[0]} {last}", "A period begins before it ends", "Exchange the two days"
        )
    return first, last


def parse_name(option: str, text: str | None) -> str | None:
    """Name of a person in an option, or None where it is not given."""
    if text is None or (len(text.strip()) > 0 and len(text) <= 60 and one_line(text) == text):
        return text
    raise ConfigError(
        f"{option} {text[:60]!r} is not a name",
        "It is kept in the ledger, in 1 to 60 printable characters",
        "Correct it",
    )


def parse_address(option: str, text: str) -> str:
    """Address in an object store that an option gives."""
    from pydantic import TypeAdapter, ValidationError

    from blockveil.pipeline.sections.fields import RemoteLocation

    try:
        return TypeAdapter(RemoteLocation).validate_python(text)
    except ValidationError:
        pass
    # What was written may hold a password or a signature: it is not repeated.
    raise ConfigError(
        f"{option}: this is not the address of an object store",
        "It is written s3://bucket/folder, gs://... or az://..., without credentials",
        "Correct it",
    )


def parse_guarantee(epsilon: float, delta: float, what: str) -> ApproxDP:
    """Guarantee of two options, for a study or an audit, as ``what`` calls it."""
    from blockveil.engine.guarantees.guarantee import ApproxDP

    try:
        return ApproxDP(epsilon, delta)
    except ValueError as error:
        failure = ConfigError(f"This {what} cannot be made", str(error), "Correct the parameter")
    raise failure


def read_public_key(option: str, reference: str) -> Ed25519PublicKey:
    """Public key that an option refers to."""
    from blockveil.pipeline.base.ed25519 import public_key
    from blockveil.pipeline.config.secrets import read_secret

    key = public_key(read_secret(option, reference, Path.cwd()))
    if key is None:
        raise ConfigError(
            f"{option}: this is no key", "It must be an Ed25519 key in PEM", "Correct what is referred to"
        )
    return key


def parse_overrides(pairs: Sequence[str] | None) -> dict[str, str]:
    """Overrides of ``--set`` options."""
    overrides = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(
                f"--set {pair!r} is not key=value", "An override is written section.key=value", "Correct it"
            )
        overrides[key.strip()] = value.strip()
    return overrides


def read_config(
    path: Path, overrides: dict[str, str] | None = None, allowed: tuple[str, ...] | None = None
) -> LoadedConfig:
    """Config of a path."""
    from blockveil.pipeline.config import load_config

    return load_config(path, overrides=overrides or {}, allowed_prefixes=allowed)


def open_ledger(config: Path | None, address: str | None) -> Ledger:
    """Ledger of a config, or of an address: ``sqlite:///path``, the path alone, or a reference to a database."""
    if (config is None) == (address is None):
        raise ConfigError(
            "No ledger is named" if config is None else "Two ledgers are named",
            "A ledger is named by a config or by --ledger",
            "Give one of them",
        )
    if config is None:
        return ledger_at(str(address))
    from blockveil.pipeline.ledger import Ledger

    return Ledger(read_config(config).ledger_url)


def ledger_at(address: str) -> Ledger:
    """Ledger of an address."""
    from blockveil.pipeline.ledger import Ledger

    return Ledger(address_of(address, "--ledger"))


def address_of(address: str, option: str) -> str:
    """Address of a ledger that an option names: ``sqlite:///path``, the path alone, or a reference to a database."""
    from blockveil.pipeline.config.secrets import read_address
    from blockveil.pipeline.sections.fields import REFERENCES

    if address.startswith(REFERENCES):
        return read_address(option, address, Path.cwd())
    if address.startswith("postgres"):
        raise ConfigError(
            f"{option} holds the address of a database in clear",
            "Other users of the machine see a command line, and it may hold a password",
            "Put the address into a variable, and give env:NAME",
        )
    return address if "://" in address else f"sqlite:///{absolute(address, option)}"


def print_answer(rows: Sequence[tuple[str, str]], as_json: bool, **values: Any) -> None:
    """Print the answer of a command: aligned lines for a person, or one JSON document for a program.

    Parameters
    ----------
    rows
        Lines (what, value); in JSON each is a key, and a line that is there several times is a list.
    as_json
        Whether a program asks.
    values
        Further keys of the JSON document, numbers as numbers.
    """
    if as_json:
        print_json({**keyed(rows), **values})
    else:
        print_rows(rows)


def print_message(text: str, as_json: bool, **values: Any) -> None:
    """Print a sentence for a person, or one JSON document with it as ``message`` and further values."""
    if as_json:
        print_json({"message": text, **values})
    else:
        say(text)


_printed: list[None] = []
"""One entry for each document of this process."""


def print_failure(text: str, code: int) -> None:
    """Say as JSON that a command failed, unless it has printed its document: what is read then parses always."""
    if not _printed:
        print_json({"error": text, "exit_code": code})


def print_json(content: Any) -> None:
    """Print one JSON document."""
    _printed.append(None)
    say(json.dumps(plain_values(content), indent=2, ensure_ascii=False, allow_nan=False))


def keyed(rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Lines as keys and values of JSON.

    >>> keyed([("Nights left", "3"), ("Warning", "one"), ("Warning", "two")])
    {'nights_left': '3', 'warning': ['one', 'two']}
    """
    entries: dict[str, Any] = {}
    for what, value in rows:
        key = "_".join("".join(sign if sign.isalnum() else " " for sign in what.lower()).split())
        if key not in entries:
            entries[key] = value
        else:
            entries[key] = [*(entries[key] if isinstance(entries[key], list) else [entries[key]]), value]
    return entries


def plain_values(value: Any) -> Any:
    """The same in the values that JSON knows; numbers that it does not know become text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain_values(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, Enum):
        return plain_values(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print aligned lines; on a terminal what a line is about is in bold, and a warning in yellow."""
    columns = columns_of(sys.stdout)
    width = column_of_heads(max((len(what) for what, _ in rows), default=0), columns)
    for what, value in rows:
        head, indent = f"{one_line(what).ljust(width)}  ", width + 2
        if len(head) > indent:
            for line in broken(one_line(what), columns).splitlines():
                say("", head=line)
            head = " " * indent
        say(broken(one_line(value), columns, indent), head=head)


def say_sentence(text: str, err: bool = False) -> None:
    """Print what a person reads, with lines that end between words on a terminal; parameters as of :func:`say`."""
    say(broken(printable(text, kept="\n"), columns_of(sys.stderr if err else sys.stdout)), err=err)


def say(text: str, nl: bool = True, head: str = "", err: bool = False) -> None:
    """Print text; what would steer the terminal is written out, for names of files and stored texts can hold it.

    Parameters
    ----------
    text
        Any text.
    nl
        Whether the line ends there.
    head
        Begins the line; on a terminal it is set apart from the text.
    err
        Whether it goes to standard error, beside an answer.
    """
    head = printable(head, kept="\t")
    if head and coloured():
        head = typer.style(head, fg="yellow", bold=True) if head.startswith("Warning") else typer.style(head, bold=True)
    typer.echo(head + printable(text, kept="\n\t"), nl=nl, err=err)


def coloured() -> bool:
    """Whether standard output is a terminal whose user has not switched colour off (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

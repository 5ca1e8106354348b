"""Which stores of this machine are of the same source: two ledgers of one population know nothing of each other.

Each account remembers the sources of its ingests in one private file, by where they are: paths with their links
followed, addresses, and tables of databases. A copy of a file elsewhere, another account and another machine are not
seen. What is remembered decides nothing; a file that cannot be written is done without.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.base.state_home import state_home
from blockveil.pipeline.config import LoadedConfig, load_config
from blockveil.pipeline.config.ingest_databases import (
    DatabaseSource,
    DeltaSource,
    DuckdbSource,
    IcebergSource,
    SqliteSource,
)
from blockveil.pipeline.config.ingest_file import LoadedIngest, load_ingest
from blockveil.pipeline.data.objects import is_remote

_TABLE = re.compile(r"\b(?:from|join)\s+((?:\"[^\"]+\"|[\w.]+)+)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")
_MOST_FILES = 500
"""TOML files of a folder that are looked at."""


def path_name(location: str, base: Path) -> str:
    """Name of a file, folder, pattern or address as a source; links in the path are followed."""
    return location if is_remote(location) else os.path.realpath(base / location)


def table_name(kind: str, database: str, table: str) -> str:
    """Name of a table of a database as a source."""
    return f"{kind}:{database}:{table.replace(chr(34), '').lower()}"


def source_names(loaded: LoadedIngest) -> tuple[str, ...]:
    """Names of all that an ingest reads."""
    source, base = loaded.config.source, loaded.path.parent
    if isinstance(source, DatabaseSource):
        if isinstance(source, DuckdbSource | SqliteSource):
            database = path_name(source.file, base)
        else:
            database = str(getattr(source, "address", ""))
        return tuple(table_name(source.kind, database, table) for table in _TABLE.findall(source.query))
    if isinstance(source, DeltaSource | IcebergSource):
        catalog = getattr(source, "catalog", None)
        return (path_name(source.table, base) if catalog is None else f"catalog:{catalog}/{source.table}",)
    return tuple(path_name(location, base) for location in source.files)


def overlap(one: str, other: str) -> bool:
    """Whether two names are of sources that can hold the same records: equal, or one within the other."""
    return one == other or _holds(one, other) or _holds(other, one)


def _holds(outer: str, inner: str) -> bool:
    """Whether a folder or pattern has a file, or another pattern, in it."""
    if _GLOB.search(outer):
        return fnmatchcase(inner, outer)
    return inner.startswith(outer.rstrip("/") + "/")


def readers_of(store: Path, folder: Path) -> list[LoadedConfig]:
    """Configs of releases in a folder that read a store, in the order of their names."""
    found = []
    for path in _configs(folder):
        with suppress(BlockveilError, OSError):
            loaded = load_config(path)
            local = not is_remote(loaded.config.data.store)
            if local and os.path.realpath(loaded.store_path) == os.path.realpath(store):
                found.append(loaded)
    return found


def _configs(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob("*.toml"))[:_MOST_FILES]
    return []


def remember(loaded: LoadedIngest) -> None:
    """Remember an ingest that has made its store."""
    with suppress(OSError, ValueError), _locked() as file:
        known = _read(file)
        known[str(loaded.target)] = {"source": list(source_names(loaded)), "config": str(loaded.path)}
        there = {store: entry for store, entry in known.items() if Path(store).exists()}
        with durable.replacing(file, file.with_suffix(".new"), 0o600) as new:
            new.write(json.dumps(there, indent=1).encode())


def ingests_of(names: tuple[str, ...]) -> list[Path]:
    """Configs of remembered ingests of a source whose stores are there; none where nothing can be read."""
    with suppress(OSError, ValueError):
        known = _read(state_home() / "sources.json")
        same = [
            (store, entry)
            for store, entry in known.items()
            if any(overlap(one, str(other)) for one in names for other in entry["source"])
        ]
        return [Path(str(entry["config"])) for store, entry in same if Path(store).exists()]
    return []


def elsewhere(loaded: LoadedIngest) -> list[str]:
    """Stores of the same source whose releases another ledger pays for, a line each for the person at the terminal."""
    own = {each.ledger_url for each in readers_of(loaded.target, loaded.path.parent)}
    lines = []
    for path in ingests_of(source_names(loaded)):
        with suppress(BlockveilError, OSError):
            other = load_ingest(path)
            if other.target == loaded.target:
                continue
            ledgers = {each.ledger_url for each in readers_of(other.target, path.parent)} - own
            lines += [f'"{other.target}", ledger "{_shown(url)}"' for url in sorted(ledgers)]
    return lines


def _shown(url: str) -> str:
    """The file of a ledger; of a database server nothing, as its address may hold a password."""
    return url.removeprefix("sqlite:///") if url.startswith("sqlite:///") else "of a database server"


def _read(file: Path) -> dict[str, dict[str, Any]]:
    if not file.exists():
        return {}
    known = json.loads(file.read_bytes())
    if not isinstance(known, dict):
        raise ValueError("it is not a table")
    return {store: entry for store, entry in known.items() if {"source", "config"} <= entry.keys()}


@contextmanager
def _locked() -> Iterator[Path]:
    """The file, while no other process of this account writes it."""
    folder = state_home()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / "sources.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder / "sources.json"
    finally:
        os.close(descriptor)

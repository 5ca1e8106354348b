"""Which stores of this machine are of the same source: two ledgers of one population know nothing of each other.

Each account remembers the sources of its ingests in one private file, by where they are: paths with their links
followed, addresses, and tables of databases. Files are the same under every name that leads to them; an ingest, which
reads them anyway, knows copies by their bytes too. Another account and another machine are not seen. What is remembered
decides nothing; a file that cannot be written is done without.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

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
from blockveil.pipeline.config.secrets import read_address
from blockveil.pipeline.data.objects import is_remote

_TABLE = re.compile(r"\b(?:from|join)\s+((?:\"[^\"]+\"|[\w.]+)+)", re.IGNORECASE)
_GLOB = re.compile(r"[*?\[]")
_DATABASE = re.compile(r"(?:duckdb|sqlite):(.*):([^:]*)", re.DOTALL)
_RECORDS = re.compile(r"\.(csv|tsv|parquet|pq|npy|npz)(\.gz|\.bz2|\.zst)?$", re.IGNORECASE)
_MOST_FILES = 500
"""TOML files of a folder, and files of a source, that are looked at."""

_DEFAULT_SCHEMAS = ("main", "public")
_SAMPLES, _SAMPLE = 16, 2**16
"""Pieces of two files of one size that are compared, and bytes of each."""


def path_name(location: str, base: Path) -> str:
    """Name of a file, folder, pattern or address as a source; links in the path are followed."""
    return location.rstrip("/") if is_remote(location) else os.path.realpath(base / location)


def table_name(kind: str, database: str, table: str) -> str:
    """Name of a table of a database as a source: without the schema that is meant where none is named."""
    parts = table.replace('"', "").lower().split(".")[-2:]
    return f"{kind}:{database}:{'.'.join(parts[1:] if parts[0] in _DEFAULT_SCHEMAS else parts)}"


def server_names(address: str, base: Path) -> tuple[str, ...]:
    """Names of a database on a server: by what refers to its address, and by where it is, without user or password."""
    with suppress(BlockveilError, OSError, ValueError):
        place = urlsplit(read_address("source.address", address, base))
        return address, f"{place.hostname}:{place.port or 5432}{place.path}"
    return (address,)


def source_names(loaded: LoadedIngest) -> tuple[str, ...]:
    """Names of all that an ingest reads."""
    source, base = loaded.config.source, loaded.path.parent
    if isinstance(source, DatabaseSource):
        databases = (
            (path_name(source.file, base),)
            if isinstance(source, DuckdbSource | SqliteSource)
            else server_names(str(getattr(source, "address", "")), base)
        )
        public = {table_name("", "", each.table) for each in source.public}
        tables = [table for table in _TABLE.findall(source.query) if table_name("", "", table) not in public]
        return tuple(table_name(source.kind, database, table) for database in databases for table in tables)
    if isinstance(source, DeltaSource | IcebergSource):
        catalog = getattr(source, "catalog", None)
        return (path_name(source.table, base) if catalog is None else f"catalog:{catalog}/{source.table}",)
    return tuple(path_name(location, base) for location in source.files)


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether names are of sources that can hold the same records: equal, one within the other, or of one file."""
    some, others = list(some), list(others)
    if any(one == other or _holds(one, other) or _holds(other, one) for one in some for other in others):
        return True
    files = [{(table, state.st_dev, state.st_ino) for table, _, state in _files(names)} for names in (some, others)]
    return not files[0].isdisjoint(files[1])


def copies(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a file of some sources has the bytes of one of others, as far as samples of both tell."""
    there = [(table, path, state.st_size) for table, path, state in _files(others)]
    return any(
        table == other_table and state.st_size == size > 0 and _sampled(path, size) == _sampled(other, size)
        for table, path, state in _files(some)
        for other_table, other, size in there
    )


def _files(names: Iterable[str]) -> Iterator[tuple[str, str, os.stat_result]]:
    """Files of this machine that names lead to, with the table that is read of a database, or nothing.

    Chunks of arrays and logs of tables are left out: they may well be equal where records are not.
    """
    for name in names:
        database = _DATABASE.fullmatch(name)
        place, table = (database[1], database[2]) if database else (name, "")
        paths = [place] if os.path.isfile(place) else glob(place, recursive=True) if _GLOB.search(place) else []
        if os.path.isdir(place) and not place.endswith(".zarr"):
            paths = [os.path.join(folder, one) for folder, _, inside in os.walk(place) for one in inside]
        for path in sorted(one for one in paths if one == place or _RECORDS.search(one))[:_MOST_FILES]:
            with suppress(OSError):
                yield table, path, os.stat(path)


def _sampled(path: str, size: int) -> bytes:
    """Pieces of a file from its beginning to its end; nothing that another file has where it cannot be read."""
    with suppress(OSError), open(path, "rb") as stream:
        digest = hashlib.sha256()
        for number in range(_SAMPLES):
            stream.seek(max(0, size - _SAMPLE) * number // (_SAMPLES - 1))
            digest.update(stream.read(_SAMPLE))
        return digest.digest()
    return os.urandom(32)


def _holds(outer: str, inner: str) -> bool:
    """Whether a folder or pattern has a file, or another pattern, in it."""
    if _GLOB.search(outer):
        return fnmatchcase(inner, outer)
    return inner.startswith(outer.rstrip("/") + "/")


def readers_of(store: Path, folder: Path) -> list[LoadedConfig]:
    """Configs of releases in a folder that read a store, in the order of their names."""
    configs = []
    for path in configs_in(folder):
        with suppress(BlockveilError, OSError):
            loaded = load_config(path)
            local = not is_remote(loaded.config.data.store)
            if local and os.path.realpath(loaded.store_path) == os.path.realpath(store):
                configs.append(loaded)
    return configs


def configs_in(folder: Path) -> list[Path]:
    """TOML files of a folder by name; none where it cannot be read."""
    with suppress(OSError):
        return sorted(folder.glob("*.toml"))[:_MOST_FILES]
    return []


def remember(loaded: LoadedIngest) -> None:
    """Remember an ingest that has made its store."""
    with suppress(OSError, ValueError), _locked() as file:
        sources = _read(file)
        sources[str(loaded.target)] = {"config": str(loaded.path)}
        there = {store: entry for store, entry in sources.items() if Path(store).exists()}
        with durable.replacing(file, file.with_suffix(".new"), 0o600) as new:
            new.write(json.dumps(there, indent=1).encode())


def remembered() -> list[Path]:
    """Configs of remembered ingests whose stores are there; none where nothing can be read."""
    with suppress(OSError, ValueError):
        sources = _read(state_home() / "sources.json")
        return [Path(str(entry["config"])) for store, entry in sources.items() if Path(store).exists()]
    return []


def elsewhere(loaded: LoadedIngest) -> list[str]:
    """Stores of the same source whose releases another ledger pays for, a line each for the person at the terminal."""
    own = {each.ledger_url for each in readers_of(loaded.target, loaded.path.parent)}
    names, lines = source_names(loaded), list[str]()
    for path in remembered():
        with suppress(BlockveilError, OSError):
            other = load_ingest(path)
            others = source_names(other)
            if other.target == loaded.target or not (overlap(names, others) or copies(names, others)):
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
    sources = json.loads(file.read_bytes())
    if not isinstance(sources, dict):
        raise ValueError("it is not a table")
    return {store: entry for store, entry in sources.items() if "config" in entry}


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

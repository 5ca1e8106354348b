"""The Parquet files of a Delta table, as its log names them at one version, which never changes.

Only the log is read here: which files there are, how large they are, and the values of partition columns. What it says
about the records besides, such as their number and extremes, is not looked at.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.ingest_databases import DeltaSource
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.ingest.files import SourceFile
from blockveil.pipeline.data.ingest.table_files import elsewhere, located

_KNOWN = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features under which the files of a table hold its rows, all of them and no others, under their own names."""


def find_delta(source: DeltaSource, base: Path) -> list[SourceFile]:
    """Files of a table in the order in which they were added.

    Parameters
    ----------
    source
        The table.
    base
        Folder that a relative path starts from.

    Raises
    ------
    MissingExtra
        The library that reads the log is not installed.
    StoreError
        There is no table, or no such version of it.
    DataError
        It needs more of a reader than reading files, or names files elsewhere.
    """
    try:
        import deltalake
    except ModuleNotFoundError as missing:
        raise MissingExtra.of(missing) or missing from None
    shown = f'source.table "{source.table}"'
    root = _root(source, base)
    try:
        table = deltalake.DeltaTable(root, version=source.version)
        _check_features(table.protocol(), shown)
        found = _added(table)
    except BlockveilError:
        raise
    except BaseException as error:  # its text may quote anything
        # Some settings in the environment make the library panic, which is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failure: BlockveilError = StoreError(
            f"{shown} cannot be read as a Delta table ({type(error).__name__})",
            "It is the folder of a Delta table, and has the version that source.version names",
            "Correct it; a relative path starts from the config's folder, and credentials of an object store are taken "
            "from the environment",
        )
    else:
        return [_file(root, action, shown) for action in found]
    raise failure


def _root(source: DeltaSource, base: Path) -> str:
    """Where the table is: an absolute path, or an address whose store can be reached by what the environment says."""
    if not objects.is_remote(source.table):
        return str(absolute(base / source.table, "source.table"))
    address = source.table.rstrip("/")
    objects.client(objects.split(address)[0])  # refuses an address with a password, and settings that do not suffice
    return address


def _check_features(protocol: Any, shown: str) -> None:
    features = set(protocol.reader_features or ())
    if protocol.min_reader_version == 2:
        features.add("columnMapping")
    if features - _KNOWN or protocol.min_reader_version > 3:
        named = ", ".join(sorted(features - _KNOWN)) or "a later version"
        raise DataError(
            f"{shown} needs {named} of a reader",
            "Its files must hold its rows, all of them and no others, under their own names",
            "Write it without that feature, such as by a copy of the table",
        )


def _added(table: Any) -> list[dict[str, Any]]:
    """Path, time and partition values of each file, and nothing else that the log says."""
    actions = pa.table(table.get_add_actions(flatten=True))
    wanted = [name for name in actions.column_names if name in ("path", "modification_time", "size_bytes")]
    wanted += [name for name in actions.column_names if name.startswith("partition.")]
    rows: list[dict[str, Any]] = actions.select(wanted).to_pylist()
    return sorted(rows, key=lambda row: (row["modification_time"], row["path"]))


def _file(root: str, action: dict[str, Any], shown: str) -> SourceFile:
    path = action["path"]
    if "://" in path:
        raise elsewhere(shown)
    keys = tuple(
        (name.removeprefix("partition."), None if value is None else str(value))
        for name, value in action.items()
        if name.startswith("partition.")
    )
    return replace(located(f"{root}/{path}", root, shown, "its log", "a version"), keys=keys)

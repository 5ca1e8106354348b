"""The Parquet files of a Delta table, as its log names them at one version, which never changes.

Only the log is read here: which files there are, how large they are, and the values of partition columns. What it says
about the records besides, such as their number and extremes, is not looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.ingest_databases import DeltaSource
from blockveil.pipeline.data.ingest.files import SourceFile

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
    root = absolute(base / source.table, "source.table")
    shown = f'source.table "{source.table}"'
    try:
        table = deltalake.DeltaTable(str(root), version=source.version)
        _check_features(table.protocol(), shown)
        found = _added(table)
    except BlockveilError:
        raise
    except Exception as error:  # noqa: BLE001 - its text may quote anything
        failure: BlockveilError = StoreError(
            f"{shown} cannot be read as a Delta table ({type(error).__name__})",
            "It is the folder of a Delta table, and has the version that source.version names",
            "Correct it; a relative path starts from the config's folder",
        )
    else:
        return [_file(root, action, shown) for action in found]
    raise failure


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


def _file(root: Path, action: dict[str, Any], shown: str) -> SourceFile:
    path = action["path"]
    file = root / path if (root / path).exists() else root / unquote(path)
    if "://" in path or not file.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{shown} names a file elsewhere", "The files of a table lie in its folder", "Copy the table")
    keys = tuple(
        (name.removeprefix("partition."), None if value is None else str(value))
        for name, value in action.items()
        if name.startswith("partition.")
    )
    try:
        state = file.stat()
    except OSError:
        failure = StoreError(
            f"{shown}: a file that its log names is not there", "A table is whole", "Name a version that is kept"
        )
    else:
        return SourceFile(str(file), state.st_size, f"{state.st_size} {state.st_mtime_ns}", keys)
    raise failure

"""The Parquet files of a Delta table, as its log names them at one version, which never changes.

Only the log is read here: which files there are, how large they are, and the values of partition columns. What it says
about the records besides, such as their number and extremes, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from blockveil.pipeline.base.errors import BlockveilError, StoreError
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.ingest_databases import DeltaSource
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.ingest.delta_log import check_features, commit_of
from blockveil.pipeline.data.ingest.files import SourceFile
from blockveil.pipeline.data.ingest.growth_state import TablePoint
from blockveil.pipeline.data.ingest.table_files import elsewhere, located
from blockveil.pipeline.data.ingest.table_growth import check_same, forgotten, new_in

T = TypeVar("T")

_SPELLED: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("string", "date"), str),
    **dict.fromkeys(("byte", "short", "integer", "long"), lambda value: str(int(value))),
    "boolean": str.capitalize,
}
"""How a value of a partition column in the log is spelled; of other types there is no value to read."""

_IN_TIME = "Take in what is new before the table's old files are removed (VACUUM)"


class DeltaVersion:
    """A Delta table at one version; see :class:`.table_growth.GrowingTable`.

    Parameters
    ----------
    root
        Its folder: an absolute path or an address.
    table
        The table, as the library opens it.
    shown
        What it is called in messages.
    """

    def __init__(self, root: str, table: Any, shown: str) -> None:
        self._root, self._table, self._shown = root, table, shown
        protocol = table.protocol()
        check_features(protocol.min_reader_version, protocol.reader_features or (), shown)
        self.name, self.version = str(table.metadata().id), str(table.version())

    def columns(self) -> list[str]:
        """Names of its columns, in their order."""
        return _guarded(lambda: [field.name for field in self._table.schema().fields], self._shown)

    def files(self) -> list[SourceFile]:
        """See :class:`.table_growth.GrowingTable`."""
        actions = _guarded(lambda: _added(self._table), self._shown)
        return [_file(self._root, action, self._shown, "Name a version that is kept") for action in actions]

    def since(self, point: TablePoint) -> list[SourceFile]:
        """See :class:`.table_growth.GrowingTable`."""
        check_same(self, point, self._shown)
        return _guarded(lambda: self._since(point), self._shown)

    def _since(self, point: TablePoint) -> list[SourceFile]:
        first, last, erased = int(point.version) + 1, int(self.version), int(point.erased or -1)
        if last < first - 1:
            raise forgotten(self._shown)
        types = {
            field.name: getattr(field.type, "type", "")
            for field in self._table.schema().fields
            if field.name in self._table.metadata().partition_columns
        }
        commits = (commit_of(self._root, number, number <= erased, self._shown) for number in range(first, last + 1))
        actions = [_listed(action, types) for action in new_in(commits, self._shown)]
        return [_file(self._root, action, self._shown, _IN_TIME) for action in actions]


def open_delta(source: DeltaSource, base: Path) -> DeltaVersion:
    """A table at one version.

    Raises
    ------
    MissingExtra
        The library that reads the log is not installed.
    StoreError
        There is no table, or no such version of it.
    DataError
        It needs more of a reader than reading files.
    """
    try:
        import deltalake
    except ModuleNotFoundError as missing:
        raise MissingExtra.of(missing) or missing from None
    label = f'source.table "{source.table}"'
    root = _root(source, base)
    return _guarded(lambda: DeltaVersion(root, deltalake.DeltaTable(root, version=source.version), label), label)


def _guarded(work: Callable[[], T], shown: str) -> T:
    """What the library returns; its text is not shown where it fails."""
    try:
        return work()
    except BlockveilError:
        raise
    except BaseException as error:  # its text may quote anything
        # Some settings in the environment make the library panic, which is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        failure = StoreError(
            f"{shown} cannot be read as a Delta table ({type(error).__name__})",
            "It is the folder of a Delta table, and has the version that source.version names",
            "Correct it; a relative path starts from the config's folder, and credentials of an object store are taken "
            "from the environment",
        )
    raise failure


def _root(source: DeltaSource, base: Path) -> str:
    """Where the table is: an absolute path, or an address whose store can be reached by what the environment says."""
    if not objects.is_remote(source.table):
        return str(absolute(base / source.table, "source.table"))
    address = source.table.rstrip("/")
    objects.client(objects.split(address)[0])  # refuses an address with a password, and settings that do not suffice
    return address


def _added(table: Any) -> list[dict[str, Any]]:
    """Path, time and partition values of each file, and nothing else that the log says."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = [name for name in actions.column_names if name in ("path", "modification_time", "size_bytes")]
    columns += [name for name in actions.column_names if name.startswith("partition.")]
    rows: list[dict[str, Any]] = actions.select(columns).to_pylist()
    return sorted(rows, key=lambda row: (row["modification_time"], row["path"]))


def _listed(action: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    """An action of a commit as :func:`_added` has it: values of partition columns have one spelling."""
    partition_values = {
        f"partition.{name}": None if not value else _SPELLED[types[name]](value)
        for name, value in action["partitionValues"].items()
        if types.get(name) in _SPELLED
    }
    return {"path": action["path"], **partition_values}


def _file(root: str, action: dict[str, Any], shown: str, remedy: str) -> SourceFile:
    path = action["path"]
    if "://" in path:
        raise elsewhere(shown)
    keys = tuple(
        (name.removeprefix("partition."), None if value is None else str(value))
        for name, value in action.items()
        if name.startswith("partition.")
    )
    return replace(located(f"{root}/{path}", root, shown, "its log", remedy), keys=keys)

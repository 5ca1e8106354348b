"""The Parquet files of an Iceberg table at one snapshot, which never changes.

Its metadata and manifests are read here, in which a snapshot names its files, and the schema that each file was written
with. Columns of such a table are known by numbers, and files keep the names of their time: a column that is read must
have the table's number in each file, so that no other column is ever read under its name. What the metadata says about
the records besides, such as their number and extremes, is not looked at.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.parquet as arrow_parquet

from blockveil.pipeline.base.errors import DataError, StoreError, guard
from blockveil.pipeline.base.extras import MissingExtra
from blockveil.pipeline.config.ingest_databases import IcebergSource
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.ingest.files import SourceFile, file_at, unreadable
from blockveil.pipeline.data.ingest.growth_state import TablePoint
from blockveil.pipeline.data.ingest.table_files import METADATA, elsewhere, located, within
from blockveil.pipeline.data.ingest.table_growth import Commit, changed, check_same, forgotten, new_in

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

T = TypeVar("T")

_SETTINGS = ".pyiceberg.yaml"
_NUMBER = b"PARQUET:field_id"
_KEPT = "Name a snapshot that is kept; take in what is new before old snapshots and their files are removed"
_SAME = {"s3a": "s3", "s3n": "s3"}


class IcebergVersion:
    """An Iceberg table at one snapshot; see :class:`.table_growth.GrowingTable`.

    Parameters
    ----------
    metadata
        Its metadata.
    root
        Its folder.
    snapshot
        The snapshot; None where there is none yet.
    numbers
        The number of each column that is read.
    shown
        What the table is called in messages.
    """

    def __init__(self, metadata: TableMetadata, root: str, snapshot: Any, numbers: dict[str, int], shown: str) -> None:
        self._metadata, self._root, self._snapshot = metadata, root, snapshot
        self._numbers, self._shown = numbers, shown
        # With the columns that are read: one that takes another's name later is not added to it.
        self.name = " ".join(map(str, (metadata.table_uuid, *numbers.values())))
        self.version = "" if snapshot is None else str(snapshot.snapshot_id)

    def files(self) -> list[SourceFile]:
        """See :class:`.table_growth.GrowingTable`."""
        return self._checked(_guarded(lambda: _listed(self._snapshot, self._reading), self._shown))

    def since(self, point: TablePoint) -> list[SourceFile]:
        """See :class:`.table_growth.GrowingTable`."""
        check_same(self, point, self._shown)
        return self._checked(_guarded(lambda: self._since(point), self._shown))

    def _since(self, point: TablePoint) -> list[str]:
        later, erased = self._later(point), str(point.erased or point.version)
        numbers = [str(each.snapshot_id) for each in later]
        if erased not in (*numbers, point.version):
            raise forgotten(self._shown)
        first_new = 0 if erased == point.version else numbers.index(erased) + 1
        return new_in((_commit_of(each, at < first_new, self._reading) for at, each in enumerate(later)), self._shown)

    def _later(self, point: TablePoint) -> list[Any]:
        """Snapshots that came after one, up to this one."""
        snapshots, at = list[Any](), self._snapshot
        while at is not None and str(at.snapshot_id) != point.version:
            snapshots.append(at)
            at = None if at.parent_snapshot_id is None else self._metadata.snapshot_by_id(at.parent_snapshot_id)
        if at is None:
            raise forgotten(self._shown)
        return snapshots[::-1]

    def _checked(self, paths: list[str]) -> list[SourceFile]:
        return [_checked(path, self._root, self._numbers, self._shown) for path in paths]

    @property
    def _reading(self) -> _Files:
        return _Files(self._root, self._shown)


def open_iceberg(source: IcebergSource, base: Path, inputs: Sequence[str]) -> IcebergVersion:
    """A table at one snapshot.

    Parameters
    ----------
    source
        The table.
    base
        Folder that a relative path starts from.
    inputs
        Columns that are read.

    Raises
    ------
    MissingExtra
        The library that reads the metadata is not installed.
    StoreError
        There is no table, or no such snapshot of it, or the present folder has settings.
    DataError
        It lacks a column, or was copied from elsewhere.
    """
    label = _ready(source)

    def opened() -> IcebergVersion:
        metadata, place = _metadata(source, base, label)
        root, numbers = _folder(metadata, place, label), _numbers(metadata, source, inputs, label)
        return IcebergVersion(metadata, root, _snapshot(metadata, source), numbers, label)

    return _guarded(opened, label)


def iceberg_columns(source: IcebergSource, base: Path) -> list[str]:
    """Names of the columns of a table as it is now, in their order; no manifest and no file of it is opened.

    Raises
    ------
    BlockveilError
        As :func:`open_iceberg`.
    """
    label = _ready(source)

    def declared() -> list[str]:
        metadata, place = _metadata(source, base, label)
        _folder(metadata, place, label)  # refuses a copy, which could not be read
        return [field.name for field in metadata.schema().fields]

    return _guarded(declared, label)


def _ready(source: IcebergSource) -> str:
    """What a table is called in messages, once its library may be called."""
    _check_settings()
    try:
        import pyiceberg  # noqa: F401 - whether it is there
    except ModuleNotFoundError as missing:
        raise MissingExtra.of(missing) or missing from None
    return f'source.table "{source.table}"'


def _guarded(work: Callable[[], T], shown: str) -> T:
    """What the library returns; its text is not shown where it fails."""
    return guard(
        work,
        lambda error: StoreError(
            f"{shown} cannot be read as an Iceberg table ({type(error).__name__})",
            "It is the folder or the metadata file of a table, or its name in a catalog, of format version 1 to 3",
            "Correct it, or source.catalog; credentials are taken from the environment",
        ),
    )


def _check_settings() -> None:
    """Refuse settings in the present folder, before the library reads them: they may name code to import."""
    if Path(_SETTINGS).exists() and str(Path.cwd()) != os.path.expanduser("~"):  # an account may have no home
        raise StoreError(
            f"The present folder holds {_SETTINGS}, which PyIceberg would obey",
            "Settings are the account's own: others may write to a folder in which a command is called",
            "Move it to your home folder, name its folder in PYICEBERG_HOME, or call the command elsewhere",
        )


def _metadata(source: IcebergSource, base: Path, shown: str) -> tuple[TableMetadata, str]:
    """The metadata of the table, and where they are."""
    from pyiceberg.serializers import FromInputFile

    if source.catalog is not None:
        from pyiceberg.catalog import load_catalog

        place = _plain(load_catalog(source.catalog).load_table(source.table).metadata_location, shown)
    else:
        place = source.table if objects.is_remote(source.table) else str((base / source.table).resolve())
        if not place.endswith(METADATA):
            place = _newest(place.rstrip("/"), shown)
    return FromInputFile.table_metadata(_file_io(_Files("", shown)).new_input(place)), place


def _newest(folder: str, shown: str) -> str:
    """The metadata file that a table's hint names, where something else than a catalog keeps the table."""
    hint = None
    with suppress(OSError, StoreError):
        hint = _content(f"{folder}/metadata/version-hint.text").decode().strip()
    if hint is None:
        raise StoreError(
            f"{shown} has no metadata/version-hint.text, so its catalog alone knows what is in it",
            "A folder says itself which of its metadata files is the newest, or a catalog does",
            "Set source.catalog (for init, name catalog:NAME/TABLE), or name the metadata file (...metadata.json) that "
            "the catalog gives",
        )
    name = f"v{hint}" if hint.isdigit() else hint.removesuffix(METADATA)
    return f"{folder}/metadata/{name}{METADATA}"


def _folder(metadata: TableMetadata, place: str, shown: str) -> str:
    """Where the table lies, by its own words; it is refused where its metadata were found elsewhere."""
    root = _plain(metadata.location, shown).rstrip("/")
    if not within(place, root):
        raise DataError(
            f"{shown} was moved or copied: its metadata name another place",
            "The files of a table are those that its metadata name",
            "Read it where it is, or register it anew where it was copied to",
        )
    return root


def _numbers(metadata: TableMetadata, source: IcebergSource, inputs: Sequence[str], shown: str) -> dict[str, int]:
    """The number of each column that is read."""
    # The newest state has the table's columns of now; an earlier one has those of its time.
    schema_id = metadata.current_schema_id if source.snapshot is None else _snapshot(metadata, source).schema_id
    schema = next((each for each in metadata.schemas if each.schema_id == schema_id), metadata.schema())
    field_ids = {field.name: field.field_id for field in schema.fields}
    lacking = [name for name in inputs if name not in field_ids]
    if lacking:
        raise DataError(
            f'{shown} does not have column "{lacking[0]}"',
            "Columns are those of the snapshot, outside of structures",
            "Correct columns, or their upper and lower case",
        )
    return {name: field_ids[name] for name in inputs}


def _snapshot(metadata: TableMetadata, source: IcebergSource) -> Any:
    if source.snapshot is None:
        return metadata.current_snapshot()
    snapshot = metadata.snapshot_by_id(source.snapshot)
    if snapshot is None:
        raise LookupError(source.snapshot)
    return snapshot


def _commit_of(snapshot: Any, erased: bool, within: _Files) -> Commit[str]:
    """What one snapshot changed; one that says that it changed no row is a compaction."""
    from pyiceberg.manifest import ManifestEntryStatus
    from pyiceberg.table.snapshots import Operation

    operation = None if snapshot.summary is None else snapshot.summary.operation
    if operation is None:
        raise changed(within.shown, "does not say what it does")
    if operation == Operation.REPLACE:
        return Commit({}, frozenset(), erased)
    added = _listed(snapshot, within, ManifestEntryStatus.ADDED)
    removed = _listed(snapshot, within, ManifestEntryStatus.DELETED)
    return Commit({path: path for path in added}, frozenset(removed), erased)


def _listed(snapshot: Any, within: _Files, done: Any = None) -> list[str]:
    """Data files by the order of their commits: those that a snapshot has, or what it has ``done`` itself with some."""
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

    files, data_files, label = _file_io(within), list[Any](), within.shown
    for manifest in () if snapshot is None else snapshot.manifests(files):
        for entry in manifest.fetch_manifest_entry(files, discard_deleted=done is None):
            if done is not None and (entry.status, entry.snapshot_id) != (done, snapshot.snapshot_id):
                continue
            file = entry.data_file
            if manifest.content != ManifestContent.DATA or file.content != DataFileContent.DATA:
                raise DataError(
                    f"{label} has deleted rows that are still in its files",
                    "Its files must hold its rows, all of them and no others",
                    "Rewrite its data files (compaction), or read an earlier snapshot",
                )
            if file.file_format != FileFormat.PARQUET or file.key_metadata is not None:
                raise DataError(
                    f"{label} has files that are not Parquet, or encrypted",
                    "Its files are plain Parquet files",
                    "Rewrite its data files as Parquet",
                )
            data_files.append((entry.sequence_number or 0, file.file_path))
    if len({path for _, path in data_files}) != len(data_files):
        raise DataError(f"{label} names a file twice", "Each row of a table counts once", "Rewrite its data files")
    return [path for _, path in sorted(data_files)]


def _checked(path: str, root: str, numbers: dict[str, int], shown: str) -> SourceFile:
    """A file, whose columns have the table's numbers."""
    file = located(_plain(path, shown), root, shown, "its snapshot", _KEPT)

    def fields() -> dict[str, dict[bytes, bytes]]:
        with closing(file.open()) as stream:
            schema = arrow_parquet.read_schema(stream)
        return {name: schema.field(name).metadata or {} for name in numbers if schema.names.count(name) == 1}

    metadata = guard(fields, lambda error: unreadable(f'File "{file.name}"', error))
    wrong = [name for name, number in numbers.items() if metadata.get(name, {}).get(_NUMBER) != b"%d" % number]
    if wrong:
        raise DataError(
            f'File "{file.name}" of {shown} does not have column "{wrong[0]}" as the table has it now',
            "A column that is read is in all files, under one name and number",
            "Rewrite the table's data files after columns were added, renamed or taken from other tables",
        )
    return file


def _plain(place: str, shown: str) -> str:
    """A place as it is written here: an absolute path, or an address of a store that is known."""
    if place.startswith("file:"):
        rest = place.removeprefix("file:")
        return "/" + rest.lstrip("/")
    scheme, colon, rest = place.partition("://")
    scheme = _SAME.get(scheme, scheme)
    if not colon:
        return place
    if scheme in ("s3", "gs", "az"):
        return f"{scheme}://{rest}"
    raise DataError(
        f"{shown} lies in a store of another kind ({scheme})",
        "Tables are read from folders, s3://, gs:// and az://",
        "Copy the table",
    )


def _content(place: str) -> bytes:
    with closing(file_at(place).open()) as stream:
        return stream.read()


class _Input:
    """A file of metadata; see :class:`pyiceberg.io.InputFile`."""

    def __init__(self, location: str, place: str) -> None:
        self.location, self._place = location, place

    def __len__(self) -> int:
        return file_at(self._place).size

    def exists(self) -> bool:
        """Whether it is there."""
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:
        """All of it, in memory."""
        return io.BytesIO(_content(self._place))


@dataclass(frozen=True)
class _Files:
    """Where metadata may be read, and what the table is called in messages; an empty root stands for everywhere."""

    root: str
    shown: str

    def input(self, location: str) -> _Input:
        """A file within the root; DataError."""
        place = _plain(location, self.shown)
        if self.root and not within(place, self.root):
            raise elsewhere(self.shown)
        return _Input(location, place)


def _file_io(within: _Files) -> Any:
    """What the library reads manifests with, by the ways in which records are read."""
    from pyiceberg.io import FileIO

    class Reading(FileIO):
        def new_input(self, location: str) -> Any:
            return within.input(location)

        def new_output(self, location: str) -> Any:
            raise PermissionError(location)

        def delete(self, location: Any) -> None:
            raise PermissionError

    return Reading()

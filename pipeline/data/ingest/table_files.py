"""Files that the metadata of a table name: each lies in the table's own folder, in a file system or an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from blockveil.pipeline.base.errors import DataError, StoreError, guard
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.ingest.files import SourceFile, file_at, unreadable

METADATA = ".metadata.json"
"""What the name of a metadata file of an Iceberg table ends with."""


def located(place: str, root: str, shown: str, naming: str, remedy: str) -> SourceFile:
    """A file that a table names.

    Parameters
    ----------
    place
        Its path or address, which may be written with escapes such as ``%20``.
    root
        The table's folder.
    shown
        What the table is called in messages.
    naming, remedy
        What names the file, and what to do where it is gone.

    Raises
    ------
    DataError
        It lies elsewhere.
    StoreError
        It is not there, or its store does not answer.
    """
    for each in dict.fromkeys((place, unquote(place))):
        if not within(each, root):
            raise elsewhere(shown)
        try:
            return file_at(each)
        except (OSError, StoreError) as error:
            if objects.is_remote(each) and not isinstance(error, FileNotFoundError):
                raise
        except Exception as error:  # noqa: BLE001 - an object store may raise anything, and its text may hold keys
            failure = objects.unreachable(f"{shown}: a file of it", error)
            break
    else:
        failure = StoreError(f"{shown}: a file that {naming} names is not there", "A table is whole", remedy)
    raise failure


def within(place: str, root: str) -> bool:
    """Whether a path or an address is below a table's folder."""
    if objects.is_remote(place) or objects.is_remote(root):
        return place.startswith(f"{root}/") and ".." not in place.split("/")
    return Path(place).resolve().is_relative_to(Path(root).resolve())


def elsewhere(shown: str) -> DataError:
    """Refusal of a table whose metadata name a file outside of its folder."""
    return DataError(f"{shown} names a file elsewhere", "The files of a table lie in its folder", "Copy the table")


def lake_kind(location: str, base: Path) -> Literal["delta", "iceberg"] | None:
    """Of which format a folder or a metadata file is, by the names in it; None for what is no such table.

    Raises StoreError where it may not be looked at, or its store does not answer.
    """
    if location.endswith(METADATA):
        return "iceberg"
    label = f'source "{location}"'
    return guard(lambda: _kind_of_folder(location.rstrip("/"), base), lambda error: unreadable(label, error))


def _kind_of_folder(location: str, base: Path) -> Literal["delta", "iceberg"] | None:
    if not objects.is_remote(location):
        has_log = (base / location / "_delta_log").is_dir()
        names = (path.name for path in (base / location / "metadata").glob(f"*{METADATA}"))
    else:
        bucket, path = objects.split(location)
        place = objects.client(bucket)
        has_log = next(iter(objects.listed(place, f"{path}/_delta_log")), None) is not None
        names = (entry.path for entry in objects.listed(place, f"{path}/metadata"))
    if has_log:
        return "delta"
    return "iceberg" if any(name.endswith(METADATA) for name in names) else None

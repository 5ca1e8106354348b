"""The commits of a Delta table: what each added, and that it changed nothing else.

Each commit is a file of actions, one a line. Of those that add or remove files it is read whether rows changed by them:
where they did not (``dataChange`` is false), files were only written anew. :mod:`.table_growth` says what follows.

**Source**: Delta Transaction Log Protocol, "Actions".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from blockveil.pipeline.base.errors import BlockveilError, DataError, guard
from blockveil.pipeline.data.ingest.files import file_at, unreadable
from blockveil.pipeline.data.ingest.table_growth import Commit, changed, forgotten

_KNOWN = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features under which the files of a table hold its rows, all of them and no others, under their own names."""

_NO_ROWS = frozenset({"commitInfo", "txn", "domainMetadata", "cdc", "metaData"})
"""Actions by which no row comes or goes: another schema or table is seen at the version that is read."""


def check_features(version: int, features: Iterable[str], shown: str) -> None:
    """Refuse a table whose files do not hold its rows alone.

    Raises DataError where it asks for more than reading files.

    Parameters
    ----------
    version, features
        What its protocol asks of a reader.
    shown
        What it is called in messages.
    """
    unsupported = {*features, *(("columnMapping",) if version == 2 else ())} - _KNOWN
    if unsupported or version > 3:
        names = ", ".join(sorted(unsupported)) or "a later version"
        raise DataError(
            f"{shown} needs {names} of a reader",
            "Its files must hold its rows, all of them and no others, under their own names",
            "Write it without that feature, such as by a copy of the table",
        )


def commit_of(root: str, version: int, erased: bool, shown: str) -> Commit[dict[str, Any]]:
    """What one commit changed: of each file that it added the action.

    Parameters
    ----------
    root
        Folder of the table.
    version
        Number of the commit.
    erased
        Whether rows that are stored may have been deleted by it.
    shown
        What the table is called in messages.

    Raises
    ------
    DataError
        It is not kept, or of a kind that is not known.
    StoreError
        The log cannot be read.
    """
    added, removed = list[dict[str, Any]](), set[str]()
    for action in _actions(root, version, shown):
        ((kind, content),) = action.items()
        if kind == "protocol":
            check_features(content["minReaderVersion"], content.get("readerFeatures") or (), shown)
        elif kind in ("add", "remove"):
            if content.get("deletionVector"):
                raise changed(shown, "deletes rows beside their file")
            if content.get("dataChange", True):
                added += [content] if kind == "add" else []
                removed |= {content["path"]} if kind == "remove" else set()
        elif kind not in _NO_ROWS:
            raise changed(shown, "this version of Blockveil does not know")
    added.sort(key=lambda action: (action["modificationTime"], action["path"]))
    return Commit({action["path"]: action for action in added}, frozenset(removed), erased)


def _actions(root: str, version: int, shown: str) -> list[dict[str, Any]]:
    def lines() -> list[dict[str, Any]]:
        with closing(file_at(f"{root}/_delta_log/{version:020d}.json").open()) as stream:
            return [json.loads(line) for line in stream.read().splitlines() if line.strip()]

    def failure(error: Exception) -> BlockveilError:
        if isinstance(error, FileNotFoundError):
            return forgotten(shown)
        return (
            changed(shown, "cannot be read")
            if isinstance(error, ValueError)
            else unreadable(f"{shown}: its log", error)
        )

    return guard(lines, failure)

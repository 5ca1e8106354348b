"""Reads the list of values that divide records from a file, where a config names one in place of the list.

The values are put into the config as if they were written there, so the same list is the same part of the records
wherever it stands. Their digest is kept with the store and with each charge: a file that changes is another list.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.foreign_files import NotPlain, read_regular
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.printable import visible

_MOST_BYTES = 16 * 2**20
_KEY = "ingest.partition.values"
_RULE = "A list of values has one a line, or is a .csv file whose first line names its columns; UTF-8, at most 16 MiB"


def with_listed_values(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the tables of an ingest's config with the values of the file that ``ingest.partition.values`` names.

    Raises
    ------
    ConfigError
        The file cannot be read, or holds no such list.
    """
    ingest = tree.get("ingest")
    only = ingest.get("partition") if isinstance(ingest, dict) else None
    if not isinstance(ingest, dict) or not isinstance(only, dict) or not isinstance(only.get("values"), str):
        return tree
    name = only["values"]
    content = _content(absolute(folder / name, _KEY), name)
    values = _column(content, only, name) if name.lower().endswith(".csv") else content.split("\n")
    return {**tree, "ingest": {**ingest, "partition": {**only, "values": [value for value in values if value]}}}


def _content(path: Path, name: str) -> str:
    """Text of a file, with plain ends of lines."""
    try:
        # The path may lead through links, as in a mounted volume; what is read is a plain file.
        text = read_regular(path.resolve(), _MOST_BYTES).decode("utf-8-sig")
    except NotPlain as error:
        problem = str(error)
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except (OSError, ValueError, RuntimeError) as error:  # a path that no system can take, a loop of links
        problem = os.strerror(getattr(error, "errno", None) or 0)
    else:
        return text.replace("\r\n", "\n")
    raise _refused(name, f"cannot be read ({problem})", "Correct the path, or list the values in the config")


def _column(content: str, only: Mapping[str, Any], name: str) -> list[str]:
    """Values of the column of a CSV file that is named as the source's, or of the only one there is."""
    try:
        names, *rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row] or [[]]
    except csv.Error:
        names, rows = [], []
    column = only.get("column")
    if column not in names and len(names) != 1:
        raise _refused(
            name, f'has no column "{visible(str(column))[:60]}"', "Name its column as that of the source, or keep one"
        )
    place = names.index(column) if column in names else 0
    if names.count(names[place]) > 1 or any(len(row) != len(names) for row in rows):
        raise _refused(name, "is no table", "Give each line as many cells as it has names, and each name once")
    return [row[place] for row in rows]


def _refused(name: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(f'{_KEY}: "{visible(name)[:60]}" {problem}', _RULE, remedy)

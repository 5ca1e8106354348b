"""A small source with people who have several rows each, and configs that ingest it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import zarr

from blockveil.pipeline.config.ingest_file import LoadedIngest, load_ingest
from blockveil.pipeline.data.ingest.ingest_run import IngestOutcome, ingest, look

CANARY = 271828.182845904
"""A value that no message may hold."""

SOURCE = 'kind = "parquet"\nfiles = ["in"]'
ROW = 'kind = "row"\nname = "one visit (one row)"'
_PERSON = 'name = "one person"\ncolumn = "person"\ntype = "whole"\nmissing = "drop"\nseed = "a"'
CHOOSE = f'kind = "choose"\n{_PERSON}\nrows_at_most = {{most}}'
TOGETHER = f'kind = "aggregate"\n{_PERSON}\nby = "{{by}}"'
NUMBER = {"name": "cost", "kind": "number", "missing": "refuse"}


def toml(value: Any) -> str:
    """A TOML value."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def configure(
    folder: Path,
    columns: list[dict[str, Any]],
    source: str = SOURCE,
    unit: str = ROW,
    name: str = "ingest",
    **keys: Any,
) -> LoadedIngest:
    """Write a config that makes ``out.zarr``, and load it."""
    section = {"store": "out.zarr", **keys}
    lines = "\n".join(f"{key} = {toml(value)}" for key, value in section.items())
    text = f"columns = {toml(columns)}\n[ingest]\n{lines}\n[source]\n{source}\n[unit]\n{unit}\n"
    (folder / f"{name}.toml").write_text(text)
    return load_ingest(folder / f"{name}.toml")


def visits(rows: int = 500, people: int = 120) -> pa.Table:
    """Rows of people: an identifier, a real number, a whole one, a category and a flag."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "person": rng.integers(0, people, rows),
            "cost": rng.normal(size=rows),
            "stay": rng.integers(0, 40, rows),
            "ward": pa.array(rng.choice(["a", "b", "c"], rows)),
            "urgent": rng.integers(0, 2, rows).astype(bool),
        }
    )


COLUMNS = [
    NUMBER,
    {"name": "stay", "kind": "whole", "missing": "refuse"},
    {
        "name": "ward",
        "kind": "category",
        "categories": ["a", "b"],
        "unknown": "other",
        "missing": "refuse",
        "encode": "one-hot",
    },
    {"name": "urgent", "kind": "boolean", "missing": "refuse"},
]
"""Columns of the store for :func:`visits`: six of them."""


def expected(table: pa.Table) -> np.ndarray[Any, Any]:
    """What :data:`COLUMNS` store for a table, one row each."""
    ward = np.array(table["ward"].to_pylist())
    parts = [table["cost"].to_numpy(), table["stay"].to_numpy(), ward == "a", ward == "b", ward == "c"]
    return np.column_stack([*parts, table["urgent"].to_numpy()]).astype(np.float32)


def write_parquet(folder: Path, table: pa.Table, files: int = 1, **options: Any) -> None:
    """Write a table as files ``in/part-0.parquet`` and so on."""
    (folder / "in").mkdir(exist_ok=True)
    size = -(-table.num_rows // files)
    for number in range(files):
        arrow_parquet.write_table(table.slice(number * size, size), folder / "in" / f"part-{number}.parquet", **options)


def write_csv(path: Path, table: pa.Table) -> None:
    """Write a table as CSV."""
    path.parent.mkdir(exist_ok=True)
    arrow_csv.write_csv(table, path)


def run(loaded: LoadedIngest) -> IngestOutcome:
    """Ingest, telling nobody."""
    return ingest(look(loaded), lambda stage, share: None)


def stored(folder: Path) -> np.ndarray[Any, Any]:
    """The records of ``out.zarr``."""
    return np.asarray(zarr.open_array(folder / "out.zarr" / "records", mode="r")[...])


def bits(folder: Path) -> dict[str, bytes]:
    """Content of each file of ``out.zarr``, but for its random name."""
    root = folder / "out.zarr"
    found = {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}
    return {name: re.sub(rb'"store_id": "[0-9a-f]{32}"', b"", content) for name, content in found.items()}


def left(folder: Path) -> list[str]:
    """Names of what unfinished ingests left."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))

"""A source that grows by a file a day, and a config that appends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet

from blockveil.pipeline.config.ingest_file import LoadedIngest
from blockveil.pipeline.data.ingest import growth_state
from blockveil.pipeline.data.ingest.identity_key import EncryptedFile, IdentityKey
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.sparse_store import Stored, open_rows
from tests.pipeline.data.ingest import ingest_support as people

PERSON = {"name": "person", "kind": "whole", "missing": "refuse"}
COLUMNS = [PERSON, {"name": "stay", "kind": "whole", "missing": "refuse"}]
"""Columns that tell whose a stored record is, and which of the rows it was."""

UNITS = {"rows": people.ROW, "chosen": people.CHOOSE.format(most=2)}


def day(number: int, rows: int = 60, persons: int = 40) -> pa.Table:
    """Rows of one day: who, and a number that no other row has."""
    rng = np.random.default_rng(number)
    return pa.table({"person": rng.integers(0, persons, rows), "stay": np.arange(rows) + 1000 * number})


def put(folder: Path, number: int, table: pa.Table | None = None) -> None:
    """Write the file of a day."""
    (folder / "in").mkdir(exist_ok=True)
    name = folder / "in" / f"day-{number:02d}.parquet"
    arrow_parquet.write_table(day(number) if table is None else table, name, row_group_size=20)


def configure(folder: Path, unit: str = "chosen", **keys: Any) -> LoadedIngest:
    """A config that appends to ``out.zarr`` what is in ``in``."""
    keys = {"append": True, "late": "next", "chunk_rows": 16, **keys}
    return people.configure(folder, COLUMNS, unit=UNITS.get(unit, unit), **keys)


def opened(folder: Path) -> Stored:
    """The store, as a release opens it."""
    return open_rows(folder / "out.zarr", "records", "data.store")


def records(folder: Path) -> np.ndarray[Any, Any]:
    """All records of the store."""
    return np.asarray(opened(folder)[:])


def state(folder: Path) -> growth_state.GrowthState:
    """What is kept beside the store."""
    contract = Contract.of(opened(folder))
    assert contract is not None
    return growth_state.read(folder / "out.zarr", contract.spec)


def content(folder: Path) -> dict[str, bytes]:
    """What the store and what is kept beside it say, but for what is random, or is under a random key."""
    found = {name: re.sub(rb'"(spec|store_id)": "[0-9a-f]+"', b"", said) for name, said in files(folder).items()}
    beside = folder / ".grown-out.zarr"
    for file in sorted(beside.iterdir()) if beside.exists() else ():
        del found[str(file.relative_to(folder))]
        if file.name.startswith("state-"):
            said = IdentityKey.load(beside).unsealed(file.read_bytes())
            found["state"] = re.sub(rb'"(spec|digest)":"[0-9a-f]{64}"|"(rows|erased)-[0-9a-f]{32}"', b"", said)
        elif file.name != "identity":
            with EncryptedFile(file) as stream:
                found[re.sub("[0-9a-f]{32}", "", file.name)] = stream.read(0, stream.size)
    return found


def files(folder: Path) -> dict[str, bytes]:
    """Each file of the store and of what is kept beside it."""
    roots = [folder / "out.zarr", folder / ".grown-out.zarr"]
    found = sorted(file for root in roots for file in root.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}

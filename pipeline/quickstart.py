"""The quickstart's records: a bundled file of real data, written as the Zarr store that its config names."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from engine.store import create_group, write_array
from pipeline import durable, staging
from pipeline.errors import DataError

SOURCE = Path("data") / "credit_default" / "credit_default.npz"
"""Bundled file, relative to the folder of configs."""


def write_records(source: Path, store: Path) -> bool:
    """Write bundled records as a Zarr group with an array ``records``; nothing is done where the store exists.

    Parameters
    ----------
    source
        NPZ file with ``records`` (n, d).
    store
        Folder to make.

    Returns
    -------
    Whether it was written now.

    Raises
    ------
    DataError
        The bundled file is missing or damaged.
    StoreError
        The store cannot be written.
    """
    if store.exists():
        return False
    try:
        with np.load(source, allow_pickle=False) as bundle:
            records = bundle["records"]
    except (OSError, ValueError, KeyError):
        records = None
    if records is None:
        raise DataError(
            f'The bundled file "{source.name}" cannot be read',
            "It comes with the project",
            "Restore it from the repository",
        )
    scratch = staging.scratch_path(store.parent, "quickstart")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        write_array(create_group(scratch, {}), "records", records, ("record", "feature"))
        durable.sync_tree(scratch)
        scratch.rename(store)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        failure = durable.store_error(error, "the quickstart's records cannot be written")
    else:
        return True
    raise failure

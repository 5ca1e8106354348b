"""The quickstart's records: a bundled file of real data, written as the Zarr store that its config names."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.store import create_group, write_array
from pipeline import durable, staging
from pipeline.errors import DataError

SOURCE = Path("data") / "credit_default" / "credit_default.npz"
"""Bundled file, relative to the folder of configs."""

_ATTEMPT = "quickstart"


def write_records(source: Path, store: Path) -> bool:
    """Write bundled records as a Zarr group with an array ``records``; nothing is done where the store exists.

    The store appears whole, by one rename: whoever finds it can use it, also beside a second writer or after a kill.

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
    records = _bundled(source)
    held: staging.Held | None = None
    try:
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o755)  # the ledger's folder: nobody else may write there
        staging.sweep(store.parent)
        held = staging.Held(store.parent, _ATTEMPT)
        write_array(create_group(held.path, {}), "records", records, ("record", "feature"))
        durable.sync_tree(held.path)
        held.path.chmod(stat.S_IMODE(store.parent.stat().st_mode))
        held.path.rename(store)
        durable.sync(store.parent)
    except OSError as error:
        if (store / "records").is_dir():
            return False  # another run was faster; its store holds the same records
        failure = durable.store_error(error, "the quickstart's records cannot be written")
    else:
        return True
    finally:
        if held is not None:
            held.discard()
    raise failure


def _bundled(source: Path) -> NDArray[Any]:
    try:
        with source.open("rb") as file, np.load(file, allow_pickle=False) as bundle:
            return np.asarray(bundle["records"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        pass
    raise DataError(
        f'The bundled file "{source.name}" cannot be read',
        "It comes with the project",
        "Restore it from the repository",
    )

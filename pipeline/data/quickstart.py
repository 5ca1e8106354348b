"""The quickstart: its config, and its records, bundled real data written as the store that the config names."""

from __future__ import annotations

import zipfile
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base import durable, staging
from blockveil.pipeline.base.errors import DataError, guard
from blockveil.pipeline.base.permissions import open_as
from blockveil.pipeline.data.zarr_arrays import create_group, write_array

_EXAMPLES = Path(str(files("blockveil"))) / "configs"

CONFIG = _EXAMPLES / "quickstart.toml"
"""Bundled config."""

SOURCE = _EXAMPLES / "data" / "credit_default" / "credit_default.npz"
"""Bundled records."""

_ATTEMPT = "quickstart"


def write_config(folder: Path) -> Path:
    """Copy the bundled config to a folder, where it is not yet, and return the copy.

    All that the config names lies in that folder too; somebody who edits the copy keeps what they wrote.

    Raises StoreError where the folder cannot be written.
    """
    copy = folder / "configs" / CONFIG.name

    def write() -> None:
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        durable.replace_file(copy, CONFIG.read_bytes(), copy.with_suffix(".new"))

    if not copy.exists():
        guard(write, lambda error: durable.store_error(error, "the demo's config cannot be written"), OSError)
    return copy


def write_records(source: Path, store: Path) -> bool:
    """Write bundled records as a Zarr group with an array ``records``; nothing is done where the store exists.

    The store appears whole, by one rename: whoever finds it can use it, also beside a second writer or after a kill.

    The source is an NPZ file with ``records`` (n, d).

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
    scratch: staging.Held | None = None
    try:
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o755)  # the ledger's folder: nobody else may write there
        staging.sweep(store.parent)
        scratch = staging.Held(store.parent, _ATTEMPT)
        write_array(create_group(scratch.path, {}), "records", records, ("record", "feature"))
        durable.sync_tree(scratch.path)
        open_as(scratch.path, store.parent)
        scratch.path.rename(store)
        durable.sync(store.parent)
    except OSError as error:
        if (store / "records").is_dir():
            return False  # another run was faster; its store holds the same records
        failure = durable.store_error(error, "the quickstart's records cannot be written")
    else:
        return True
    finally:
        if scratch is not None:
            scratch.discard()
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

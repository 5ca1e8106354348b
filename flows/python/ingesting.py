"""``blockveil.ingest``: makes the store of records that releases read. Spends nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import ingest_run


def ingest(config: str | os.PathLike[str], /, *, progress: Callable[[str, float | None], object] | None = None) -> Path:
    """Make the store of records that releases read, or append new files to it. Spends nothing.

    A run that was killed is finished by running it again.

    Parameters
    ----------
    config
        Path of the config of an ingest.
    progress
        Receives progress: a stage, and the share of it that is done or None.

    Returns
    -------
    Path
        The store. How many rows were read or left out is private and returned nowhere.

    Raises
    ------
    ConfigError
        The config cannot be read.
    DataError, StoreError
        The source does not hold what is declared, cannot be read, or another store is in the way.
    """

    def tell(stage: str, share: float | None) -> None:
        if progress is not None:
            progress(stage, share)

    return ingest_run.ingest(ingest_run.look(load_ingest(config)), tell).path

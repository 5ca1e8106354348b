"""``blockveil.ingest`` and ``blockveil.erase``: make the store of records that releases read. Spend nothing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path

from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import erasing, ingest_run, known_sources
from blockveil.pipeline.data.ingest.arrivals import up_to
from blockveil.pipeline.releases.renewing import ReleaseLedgers


def ingest(
    config: str | os.PathLike[str],
    /,
    *,
    before: date | None = None,
    progress: Callable[[str, float | None], object] | None = None,
) -> Path:
    """Make the store of records that releases read, or append what is new in its source. Spends nothing.

    A run that was killed is finished by running it again.

    Parameters
    ----------
    config
        Path of the config of an ingest.
    before
        Of a table with ``source.arrival``, the dates before this one are read; today where it is None.
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
        The source does not hold what is declared, cannot be read, another store is in the way, or ``before`` is still
        to come.
    """

    def tell(stage: str, share: float | None) -> None:
        if progress is not None:
            progress(stage, share)

    loaded = load_ingest(config)
    last = up_to(loaded.config, before, datetime.now().astimezone().date())
    path = ingest_run.ingest(ingest_run.look(loaded, before=last), tell).path
    for other in known_sources.elsewhere(loaded):
        warnings.warn(f"the same source is in another store, which another ledger pays for: {other}", stacklevel=2)
    return path


def erase(
    config: str | os.PathLike[str],
    units: Sequence[int | str],
    /,
    *,
    releases: Sequence[str | os.PathLike[str]] = (),
    deleted_stores: Sequence[str] = (),
) -> Path:
    """Remove all rows of units from a store that grows, and all that an unfinished ingest left. Spends nothing.

    Delete the units from the source first. A call that was killed is finished by calling again.

    Parameters
    ----------
    config
        Path of the config of the ingest that makes the store.
    units
        Identifiers as the source has them: whole numbers or texts.
    releases
        Configs of releases that read a copy of the store; others are known.
    deleted_stores
        Paths of configs of releases, and of other stores of their ledgers, that are gone for good.

    Returns
    -------
    Path
        The store, which holds no row of these units and will take in none. Whether it held any is returned nowhere.

    Raises
    ------
    ConfigError
        The config cannot be read.
    DataError
        The store does not keep whose its rows are, or an identifier is of another kind than those of the source.
    StoreError
        The store is not there, what is kept beside it is lost, another ingest works on it, or another store of the
        ledger cannot be read.
    LedgerError
        A night that began with records of the units is unfinished, or a ledger cannot be reached.
    """
    loaded = load_ingest(config)
    ledgers = ReleaseLedgers([Path(one) for one in releases], deleted_stores)
    erasing.erase(ingest_run.look(loaded, needed=False), units, lambda *_: None, ledgers)
    return loaded.target

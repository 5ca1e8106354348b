"""``blockveil.ledger``: what an operator states of a ledger that was put back, moved, or whose key was lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from blockveil.flows.python.sources import Given, config_of
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.restoring import Restored
from blockveil.pipeline.releases import put_back
from blockveil.pipeline.releases.lost_key import KeyReplacement, replace_lost_key


class LedgerOfConfig:
    """The ledger of a config, for statements of its operator; the ledger keeps each of them.

    Parameters
    ----------
    loaded
        The config.
    """

    def __init__(self, loaded: LoadedConfig) -> None:
        self._loaded = loaded

    def reconcile(self, since: datetime | str | None = None) -> Restored:
        """State that an older copy was put back: book what it lacks, and end the series that were open.

        Parameters
        ----------
        since
            When the copy was made, for the record; None for the time of its newest entry. Without a zone it is UTC.

        Returns
        -------
        Restored
            What was booked and given back; it prints as the command line shows it.

        Raises
        ------
        ConfigError
            The time is none, or is still to come.
        LedgerError, StoreError
            The ledger cannot be changed, or this account's mark of it or the key store cannot be used.
        """
        return put_back.state_restored(Ledger(self._loaded.ledger_url), self._loaded, since)

    def attest(self, *, by: str, why: str) -> int:
        """State that no older copy was put back, where this account goes on with the ledger on a new machine.

        Parameters
        ----------
        by, why
            Who says so, and why it is known: a line each.

        Returns
        -------
        int
            Number of the entry.

        Raises
        ------
        LedgerError
            A line is empty, the ledger has no entries, or this account knows the ledger on this machine.
        """
        return put_back.attest(Ledger(self._loaded.ledger_url), by, why)

    def replace_key(self, *, by: str, why: str, deleted_stores: Sequence[str] = ()) -> KeyReplacement:
        """State that the key of the ledger's digests of records was lost, and go on under a new one.

        Parameters
        ----------
        by, why
            Who states it, and what happened: a line each.
        deleted_stores
            Paths of stores of the ledger that are gone for good.

        Returns
        -------
        KeyReplacement
            What was given back, and which parts cannot be compared; it prints as the command line shows it.

        Raises
        ------
        LedgerError
            The key is there, a line is empty, or the ledger cannot be changed.
        StoreError
            A store of the ledger, or the key store, cannot be read.
        """
        return replace_lost_key(self._loaded, by, why, deleted_stores)


def ledger(config: Given = None, /, **tables: Any) -> LedgerOfConfig:
    """The ledger of a config, for what its operator states of copies and keys.

    Parameters
    ----------
    config
        Path of a config, or a config as nested tables.
    **tables
        Tables of the config by name, laid over what is given, or all of it.

    Raises
    ------
    ConfigError
        The config cannot be read.
    """
    return LedgerOfConfig(config_of(config, tables))

"""What a night is booked in: the ledger, and the key store of its config."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger import Ledger, State, refusals
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.restoring import is_lost
from blockveil.pipeline.releases.keys import NoiseKeys, open_keys

_RESERVED_AT_MOST = timedelta(hours=24)
"""After this time another release of the budget gives back what a dead run had reserved."""


@dataclass(frozen=True, eq=False)
class Books:
    """Ledger and keys of a config's releases."""

    loaded: LoadedConfig
    ledger: Ledger

    @cached_property
    def keys(self) -> NoiseKeys:
        """The key store that the config names, opened when a step first needs it."""
        return open_keys(self.loaded)

    def expire(self, release_id: str) -> list[str]:
        """Give back reservations of a release's budget whose runs died long ago; their release ids.

        A reservation is kept while its key exists (its attempt may commit, or a person must look); so is that of the
        release itself.
        """
        own = self.ledger.find(release_id)
        try:
            in_use = {*self.keys.list(), "" if own is None else own.charge_id}
        except OSError:  # whether a key exists is not known
            return []
        before = (datetime.now(UTC) - _RESERVED_AT_MOST).isoformat(timespec="seconds")
        return self.ledger.expire(self.loaded.config.release.account, before, in_use.__contains__)

    def standing(self, release_id: str) -> Entry | None:
        """RESERVED entry of a release's charge; None where no charge stands.

        Raises
        ------
        LedgerError
            An older copy of the ledger had lost the release.
        """
        charge = self.ledger.find(release_id)
        if charge is None:
            return None
        rows = self.ledger.history(release_id=release_id)
        (row,) = (one for one in rows if (one.charge_id, one.kind) == (charge.charge_id, State.RESERVED))
        if is_lost(row):
            raise refusals.lost_night(release_id)
        return row

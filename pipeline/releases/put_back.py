"""An operator states that an older copy of the ledger was put back, or that none was: what the ledger and keys then do.

The command line and Python say it by these functions.
"""

from __future__ import annotations

from datetime import UTC, datetime

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.grants import named_grant
from blockveil.pipeline.ledger.restoring import ATTESTED, RESTORED, Restored, Statement
from blockveil.pipeline.releases.keys import open_keys


def state_restored(ledger: Ledger, loaded: LoadedConfig | None, since: datetime | str | None) -> Restored:
    """Book what an older copy lacks, give back its reservations with their noise keys, and end its open series.

    Parameters
    ----------
    ledger
        The ledger that was put back.
    loaded
        Config that names it and the key store; without one, noise keys of what is given back stay.
    since
        When the copy was made, for the record; None for the time of its newest entry. Without a zone it is UTC.

    Raises
    ------
    ConfigError
        The time is none, or is still to come.
    LedgerError
        The ledger has no entries, or cannot be changed.
    StoreError
        The mark or the key store cannot be used.
    """
    restoration = ledger.state(Statement(RESTORED, {} if since is None else {"since": _moment(since)}))
    if loaded is not None and restoration.given_back:
        keys = open_keys(loaded)
        for _, charge_id in restoration.given_back:
            keys.destroy(charge_id)
    return restoration


def attest(ledger: Ledger, by: str, why: str) -> int:
    """Keep that no older copy was put back before this account goes on here; the number of the entry.

    Raises
    ------
    LedgerError
        A line is empty, the ledger has no entries, or this account knows the ledger on this machine.
    """
    grant = named_grant(by, why)
    return ledger.state(Statement(ATTESTED, {"by": grant["granted_by"], "why": grant["why"]})).sequence


def _moment(since: datetime | str) -> str:
    """A time as the ledger writes it."""
    try:
        moment = since if isinstance(since, datetime) else datetime.fromisoformat(since)
    except (TypeError, ValueError):
        moment = None
    if moment is not None:
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    if moment is None or moment > datetime.now(UTC):
        raise ConfigError(
            f"--since {str(since)[:40]!r} is no time at which a copy can have been made",
            "It is written YYYY-MM-DD or YYYY-MM-DDTHH:MM, UTC, and has passed",
            "Correct it, or leave it out",
        )
    return moment.isoformat(timespec="minutes")

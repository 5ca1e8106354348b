"""What a ledger says: budgets, charges, its whole chain. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

import sqlalchemy as sa

from blockveil.pipeline.ledger import lookups, restoring, shared_nights
from blockveil.pipeline.ledger.address import open_database
from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.entries import Charge, DrawnNight, Entry, Verification
from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.proofs import Proof, head_of, proof_of
from blockveil.pipeline.ledger.renewals import Renewals
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.transfer import Form, write_rows
from blockveil.pipeline.ledger.verification import verify_chain

_LAST_TIME = sa.select(entry.c.time).order_by(entry.c.sequence.desc()).limit(1)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class LedgerReader:
    """A ledger as it is read.

    Parameters
    ----------
    url
        ``sqlite:///path`` of a file, or ``postgresql://...`` of a database.
    now
        Clock, giving UTC as ISO text; None is that of the machine.
    """

    def __init__(self, url: str, now: Callable[[], str] | None = None) -> None:
        self._database = open_database(url)
        self._url = url
        self._now = now or _now

    def exists(self) -> bool:
        """Whether there is a ledger; nobody has granted a budget where there is none."""
        return self._database.exists()

    def budget(self, dataset: str) -> BudgetStatus:
        """Budget of a name and what is left; LedgerError where there is none."""
        return self._database.read(
            lambda connection: lookups.require_budget(connection, dataset, self._time(connection))
        )

    def first(self) -> str:
        """Hash of the first entry, which is of this ledger and its copies alone; empty where there is none."""
        return str(self._database.read(lambda connection: connection.scalar(lookups.FIRST)) or "")

    def datasets(self) -> list[str]:
        """Names that have a budget."""
        return self._database.read(lambda connection: sorted(connection.scalars(lookups.NAMED)))

    def find(self, release_id: str) -> Charge | None:
        """Charge of a release that is not void, if there is one."""
        with self._database.reading() as connection:
            reservation = lookups.active(connection, release_id)
            return None if reservation is None else lookups.charge(connection, reservation, is_new=False)

    def nights(self, release_id: str, spec: Mapping[str, Any]) -> list[Entry]:
        """RESERVED entries of the nights that share a charge; see :func:`.shared_nights.nights`."""
        with self._database.reading() as connection:
            return shared_nights.nights(connection, release_id, spec)

    def drawn_nights(self, release_id: str, spec: Mapping[str, Any]) -> list[DrawnNight]:
        """Nights of a release's series other than its own that were committed, by number."""
        with self._database.reading() as connection:
            return shared_nights.drawn_nights(connection, release_id, spec)

    def history(self, dataset: str | None = None, release_id: str | None = None) -> list[Entry]:
        """Entries in order, all or those of a data set or a release."""
        with self._database.reading() as connection:
            return lookups.history(connection, dataset, release_id)

    def renewals(self) -> Renewals:
        """Changes of the key under which digests of records stand (:mod:`.renewals`)."""
        return self._database.read(Renewals.read)

    def missing(self) -> str | None:
        """Which entry that this account saw on this machine is not there; None where none is missing or was seen."""
        last = restoring.last_seen(self.first())  # before the entries, for others go on meanwhile
        return None if last is None else self._database.read(lambda connection: restoring.problem(connection, last))

    def verify(self, expected_head: str | Head | None = None) -> Verification:
        """Recompute the whole chain, and look for a head that was kept elsewhere."""
        return self._database.read(lambda connection: verify_chain(lookups.rows(connection), expected_head))

    def head(self) -> Head:
        """Return the last row, to be kept elsewhere; LedgerError where the chain is broken."""
        rows = self._rows()
        return head_of(rows, verify_chain(rows, None))

    def proof(self, release_id: str) -> Proof:
        """Place of the entry that paid for a release, for readers without the ledger.

        Raises
        ------
        LedgerError
            The chain is broken, or no charge of the release was committed.
        """
        rows = self._rows()
        return proof_of(rows, head_of(rows, verify_chain(rows, None)), release_id)

    def export(self, form: Form, stream: TextIO) -> int:
        """Write all entries as JSON Lines, or releases as lineage events; returns how many."""
        return write_rows(self._rows(), form, stream)

    def _rows(self) -> list[dict[str, Any]]:
        return self._database.read(lambda connection: list(lookups.rows(connection)))

    def _time(self, connection: sa.Connection) -> str:
        """Now; a clock that was set back does not turn back the ledger's time."""
        last = connection.scalar(_LAST_TIME)
        return max(self._now(), "" if last is None else str(last))

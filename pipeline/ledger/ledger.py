"""The ledger: who may spend, decided in one transaction before anything is computed.

Rules: the cap of a data set is never exceeded by charges that are not VOID; a release id has at most one charge that
is not VOID; states go RESERVED -> COMMITTED -> RELEASED, or RESERVED -> VOID; the neighbouring relation and the
privacy unit of a data set never mix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.budget.filter import NOTHING, Accountant, Cap, Ticks
from blockveil.pipeline.ledger import lookups, moving, refusals, restoring, shared_nights
from blockveil.pipeline.ledger.address import open_database
from blockveil.pipeline.ledger.booking import check_part
from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.chain import append, identifier
from blockveil.pipeline.ledger.entries import Charge, Entry, State, Verification
from blockveil.pipeline.ledger.granted_budget import BudgetChange, granted
from blockveil.pipeline.ledger.grants import Grant
from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.key_loss import renew
from blockveil.pipeline.ledger.periods import Period
from blockveil.pipeline.ledger.reading import LedgerReader
from blockveil.pipeline.ledger.renewals import Renewal, Renewals
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.restoring import Restored, Sight, Statement
from blockveil.pipeline.ledger.verification import verify_chain
from blockveil.pipeline.ledger.withdrawals import withdrawn


class Ledger(LedgerReader):
    """Budget and charges of data sets, as they are read and written."""

    def set_budget(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        privacy_unit: str,
        *,
        reserve: float | None = None,
        slack: float | None = None,
        accountant: Accountant | None = None,
        periods: Sequence[Period] | None = None,
        after_loss: str | None = None,
        granted_by: Mapping[str, str] | None = None,
    ) -> BudgetStatus:
        """Grant or change a budget; makes the ledger where there is none.

        Parts that are None stay as they are, or as usual in a new budget. ``granted_by`` is recorded, and so is
        ``after_loss``: why a budget is granted although charges were forgotten (:mod:`.lost_ledger`).

        Raises
        ------
        LedgerError
            The parameters are out of range, less than is spent, or would mix relations or units or move what may be
            spent on what after something was released.
        """
        capped = None if periods is None else tuple(periods)
        others = (reserve, slack, accountant, capped, after_loss, granted_by or {})
        terms = BudgetChange(dataset, Cap(float(epsilon), float(delta)), neighbours, privacy_unit, *others)
        Grant(terms.usual, neighbours, privacy_unit)
        self._database.create()
        return self._database.write(lambda connection: granted(connection, terms, self._time(connection)))

    def reserve(self, asking: ChargeRequest) -> Charge:
        """Hold budget for a release, or find the charge that it already has.

        Raises
        ------
        BudgetExhausted
            The cap, or one for a period, does not hold it.
        ReleaseConflict
            The release has a charge for another specification.
        LedgerError
            There is no budget, relation or unit differ from the budget's, other releases of the data set are charged
            to another budget, no charge can be of that part, its records stand under another part, or the ledger is
            not known to be whole (:mod:`.restoring`).
        """
        check_part(asking.part, asking.release_id, asking.charge, asking.neighbours, asking.night)
        charge_id = identifier()
        return self._database.write(lambda connection: asking.book(connection, charge_id, self._time))

    def commit(self, charge_id: str, key_check: str) -> Charge:
        """Make a charge irrevocable before noise is drawn; returns the first commit where there is one.

        Raises
        ------
        LedgerError
            The charge is unknown or void, another night of its series was committed meanwhile, or the ledger is not
            known to be whole (:mod:`.restoring`).
        StoreError
            The mark cannot be written; the charge may be committed, and nothing is drawn.
        """

        def work(connection: sa.Connection) -> tuple[Charge, Sight]:
            sight = restoring.sight(connection)
            reserved, state = lookups.find(connection, charge_id)
            if state is State.VOID:
                raise refusals.given_back(str(reserved.release_id))
            if state is State.RESERVED:
                shared_nights.check_commit(connection, reserved)
                of = (reserved.release_id, charge_id)
                self._append(connection, State.COMMITTED, reserved.dataset, {"key_check": key_check}, *of)
            return lookups.charge(connection, reserved, is_new=False), sight.renewed(connection)

        charge, sight = self._database.write(work)
        sight.follow()  # on the disk before anybody who has the charge draws
        return charge

    def void_if_reserved(self, charge_id: str, reason: str) -> bool:
        """Give a charge back if nothing can have been drawn; whether it is void afterwards."""

        def work(connection: sa.Connection) -> bool:
            reserved, state = lookups.find(connection, charge_id)
            if state is State.RESERVED and restoring.was_committed(connection, charge_id):
                return False
            if state is State.RESERVED:
                of = (reserved.release_id, charge_id, -reserved.ticks)
                self._append(connection, State.VOID, reserved.dataset, {"reason": reason}, *of)
            return state in (State.RESERVED, State.VOID)

        return self._database.write(work)

    def released(self, charge_id: str, output_digest: str, location: str, running_total: str | None = None) -> Charge:
        """Mark a committed charge as published; again with the same output changes nothing.

        Parameters
        ----------
        charge_id
            The charge.
        output_digest, location
            SHA-256 of the arrays by content, and the name of the folder that holds them.
        running_total
            SHA-256 of what later nights of its series are read with, where there is such.

        Raises
        ------
        LedgerError
            The charge is not committed, or was released with other output.
        """

        def work(connection: sa.Connection) -> Charge:
            reserved, state = lookups.find(connection, charge_id)
            payload = {"output_digest": output_digest, "location": location}
            payload |= {} if running_total is None else {"running_total": running_total}
            if state is State.COMMITTED:
                self._append(connection, State.RELEASED, reserved.dataset, payload, reserved.release_id, charge_id)
            elif state is not State.RELEASED or lookups.payload(connection, charge_id, State.RELEASED) != payload:
                raise refusals.not_committed(str(reserved.release_id))
            return lookups.charge(connection, reserved, is_new=False)

        return self._database.write(work)

    def renew(self, renewal: Renewal, seen: Renewals) -> list[tuple[str, str]]:
        """Book a renewal of all digests of records; what it gives back (:func:`.key_loss.renew`)."""
        return self._database.write(lambda connection: renew(connection, renewal, seen, self._time(connection)))

    def withdraw(self, release_id: str, reason: str) -> Charge:
        """Withdraw a release for good, with a reason that everybody may read; see :mod:`.withdrawals`."""
        return self._database.write(
            lambda connection: withdrawn(connection, release_id, reason, self._time(connection))
        )

    def state(self, said: Statement) -> Restored:
        """Write what an operator says of copies that were put back, and book what is missing; see :mod:`.restoring`."""
        restoration, sight = self._database.write(
            lambda connection: restoring.state(connection, said, self._time(connection))
        )
        sight.mark.begin(sight.seen)
        return restoration

    def close_for(self, address: str) -> None:
        """Let no entry follow, for the ledger goes on at another address; again for the same one changes nothing.

        Raises
        ------
        LedgerError
            The address is this ledger's own or malformed, or the ledger was closed for another.
        """
        open_database(address)
        moving.check_other_place(self._url, address)
        self._database.write(lambda connection: moving.close(connection, address, self._time(connection)))

    def load(
        self, rows: Sequence[Mapping[str, Any]], expected_head: str | Head | None = None, *, as_copy: bool = False
    ) -> Verification:
        """Write the entries of another ledger into this new one, as they are.

        The ledger goes on here only if the other was closed for this address; a copy refuses every entry.

        Raises
        ------
        LedgerError
            Their chain is broken or does not hold the head, the other ledger was not closed for this one, or this one
            has entries already.
        """
        moving.check_loadable(rows, verify_chain(rows, expected_head), None if as_copy else self._url)
        self._database.create()

        def work(connection: sa.Connection) -> Verification:
            moving.load(connection, rows, as_copy=as_copy, now=self._now())
            return verify_chain(lookups.rows(connection), expected_head)

        return self._database.write(work)

    def expire(self, dataset: str, before: str, keep: Callable[[str], bool]) -> list[str]:
        """Give back reservations from before a time, but those that ``keep`` wants; their release ids.

        Only what is reserved and not committed is given back, so nothing can have been drawn on it, and an attempt that
        still runs cannot commit it afterwards.
        """
        entries = self._database.read(lambda connection: lookups.stale(connection, dataset, before))
        charges = [(str(one.charge_id), str(one.release_id)) for one in entries if not keep(str(one.charge_id))]
        return [release_id for charge_id, release_id in charges if self.void_if_reserved(charge_id, "expired")]

    def _append(
        self,
        connection: sa.Connection,
        kind: str,
        dataset: str,
        payload: Mapping[str, Any],
        release_id: str | None,
        charge_id: str | None,
        ticks: Ticks = NOTHING,
    ) -> Entry:
        return append(connection, kind, dataset, payload, self._time(connection), release_id, charge_id, ticks)

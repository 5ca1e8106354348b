"""Holding budget for a release: all that one transaction checks before a charge is booked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.budget.filter import NOTHING, Chargeable, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import lookups, refusals, renewals, restoring, same_records, shared_nights
from blockveil.pipeline.ledger.approved import Approved
from blockveil.pipeline.ledger.booking import booked, event_of
from blockveil.pipeline.ledger.budget_status import BudgetStatus
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import Charge, Entry, Night, State
from blockveil.pipeline.ledger.withdrawals import not_withdrawn


@dataclass(frozen=True, eq=False)
class ChargeRequest:
    """What a release says of itself when it asks for budget.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    dataset
        Name of the budget that pays: the data set's own, or one that several share.
    spec, spec_digest
        What is released, and its digest.
    charge
        Loss of the release, or a series of events that is fixed before its first step.
    neighbours, unit
        Relation and privacy unit of the charge.
    attempt
        Who asks.
    approval
        Who approved it; None where nobody has to.
    records
        The store that is read, as the approval is of it.
    night
        Which of nights that share a charge this is; the first of them pays.
    part
        Part of the records that the release is of (:mod:`.parts`); None for all of them.
    stored, generation
        Where the records are and what tells the key of their digests, and how many renewals it has seen
        (:mod:`.renewals`); None without records.
    """

    release_id: str
    dataset: str
    spec: Mapping[str, Any]
    spec_digest: str
    charge: Chargeable
    neighbours: Neighbours
    unit: str
    attempt: str
    approval: Approved | None = None
    records: Mapping[str, Any] | None = None
    night: Night | None = None
    part: Part | None = None
    stored: Mapping[str, str] | None = None
    generation: int | None = None

    def book(self, connection: sa.Connection, charge_id: str, clock: Callable[[sa.Connection], str]) -> Charge:
        """Book a charge inside a writing transaction, or find the one that the release already has.

        Parameters
        ----------
        connection
            The transaction.
        charge_id
            Name of the charge, where it is a new one.
        clock
            The ledger's time.

        Raises
        ------
        BudgetExhausted, ReleaseConflict, LedgerError
            As :meth:`.ledger.Ledger.reserve` says.
        """
        if (closed := lookups.closing(connection)) is not None:
            raise refusals.closed(closed)
        restoring.follow(connection)
        renewals.check_generation(connection, self.generation)
        now = clock(connection)  # of the check and of the row: a period may end between two looks
        budget = lookups.require_budget(connection, self.dataset, now)
        if (active := lookups.active(connection, self.release_id)) is not None:
            self._check_active(connection, active, budget)
            return not_withdrawn(connection, active, is_new=active.charge_id == charge_id)
        lookups.check_scope(budget, self.neighbours, self.unit)
        lookups.check_account(connection, self.release_id, self.dataset)
        payload = self._payload | same_records.note(connection, self.release_id, self.dataset, self.spec, self.part)
        ticks = self._paid(connection, budget, payload)
        of = (self.release_id, charge_id, ticks)
        row = append(connection, State.RESERVED, self.dataset, payload, now, *of, part=self.part)
        return lookups.charge(connection, row, is_new=True)

    def _check_active(self, connection: sa.Connection, active: Entry, budget: BudgetStatus) -> None:
        """Refuse to go on with a charge that was lost, is for something else, or does not pay for this."""
        if restoring.is_lost(active):
            raise refusals.lost_night(self.release_id)
        if active.spec_digest != self.spec_digest:
            raise refusals.conflict(self.release_id, active.payload["spec"], self.spec)
        of = (self.dataset, self.charge, budget.cap, self.night, self.part)
        shared_nights.check_paid(connection, active, *of)

    @property
    def _payload(self) -> dict[str, Any]:
        """What the entry says, as plain JSON values."""
        payload = {"spec": dict(self.spec), "spec_digest": self.spec_digest, "attempt": self.attempt}
        if self.approval is not None:
            payload |= {"approval": self.approval.plain, "records": dict(self.records or {})}
        return payload | ({} if self.stored is None else {"stored": dict(self.stored)})

    def _paid(self, connection: sa.Connection, budget: BudgetStatus, payload: dict[str, Any]) -> Ticks:
        """What it costs, added to what the entry says: nothing where an earlier night of its series paid."""
        night = self.night
        payer = None if night is None else shared_nights.paid_by(connection, self.release_id, self.spec, night)
        if payer is not None:
            payload["continues"] = payer
            return NOTHING
        ticks = booked(budget, self.charge, self.part)
        payload["event"] = event_of(self.charge)
        return ticks

"""What the ledger tells: charges, entries, and the result of a verification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger.approved import Approved


class State(StrEnum):
    """Where a charge stands."""

    RESERVED = "RESERVED"
    """Budget is held; nothing has been drawn."""
    COMMITTED = "COMMITTED"
    """Noise may have been drawn; the charge stands for ever."""
    RELEASED = "RELEASED"
    """Published and sealed."""
    VOID = "VOID"
    """Given back; nothing was drawn."""


WITHDRAWN = "WITHDRAWN"
"""Kind of the entry that withdraws a release. Its charge stays RELEASED: what was spent remains spent."""

RENEWED = "RENEWED"
"""Kind of the entry after which digests of records stand under another key."""


@dataclass(frozen=True)
class Entry:
    """One row of the ledger."""

    sequence: int
    kind: str
    dataset: str
    release_id: str | None
    charge_id: str | None
    loss_ticks: int
    sampler_ticks: int
    pure_ticks: int
    failure_ticks: int
    payload: dict[str, Any]
    time: str
    nonce: str
    previous_hash: str
    hash: str
    part: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entry:
        """Build from a database row."""
        return cls(**{**row, "payload": json.loads(row["payload"])})

    @property
    def ticks(self) -> Ticks:
        """What the entry adds to the spent budget."""
        return Ticks(self.loss_ticks, self.sampler_ticks, self.pure_ticks, self.failure_ticks)

    @property
    def of_part(self) -> Part | None:
        """Part of the records that it is of; None for all of them."""
        return Part.read(self.part)

    def sized(self, ticks: Ticks, part: str | None) -> Entry:
        """The same entry with other sizes, of another part."""
        if (ticks, part) == (self.ticks, self.part):
            return self
        return replace(
            self,
            part=part,
            loss_ticks=ticks.loss,
            sampler_ticks=ticks.sampler,
            pure_ticks=ticks.pure,
            failure_ticks=ticks.failure,
        )

    @property
    def spec_digest(self) -> str:
        """Digest of the specification, of a RESERVED entry."""
        return str(self.payload["spec_digest"])


def state_of(entries: Iterable[Entry]) -> State:
    """Where a charge stands by its entries: once it was committed, nothing gives it back."""
    kinds = {entry.kind for entry in entries}
    order = (State.RELEASED, State.COMMITTED, State.VOID)
    return next((state for state in order if state in kinds), State.RESERVED)


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """Entries with the sizes that count: what gives back a charge that stands gives back nothing.

    What gives back a charge is of the part that the charge is of.

    Parameters
    ----------
    entries
        All entries of a ledger, or of some of its data sets, in order.
    """
    reserved = {entry.charge_id: entry for entry in entries if entry.kind == State.RESERVED}
    final = {entry.charge_id for entry in entries if entry.kind in (State.COMMITTED, State.RELEASED)}

    def size(entry: Entry) -> Ticks:
        if entry.kind == State.RESERVED:
            return entry.ticks.not_negative()
        charge = reserved.get(entry.charge_id) if entry.kind == State.VOID else None
        if charge is None or entry.charge_id in final:
            return NOTHING
        same = (charge.dataset, charge.release_id, -charge.ticks) == (entry.dataset, entry.release_id, entry.ticks)
        return -charge.ticks.not_negative() if same else NOTHING

    def part(entry: Entry) -> str | None:
        charge = reserved.get(entry.charge_id) if entry.kind == State.VOID else entry
        return None if charge is None else charge.part

    return [entry.sized(size(entry), part(entry)) for entry in entries]


@dataclass(frozen=True)
class Charge:
    """A charge and where it stands.

    Attributes
    ----------
    charge_id
        Random identifier.
    state
        Present state.
    sequence, row_hash
        Row that made the charge irrevocable, or that reserved it before.
    is_new
        Whether this call reserved it.
    key_check
        Check value of the noise key, once committed.
    continues
        Of a night whose charge an earlier night paid: that night's charge, which its key is kept under.
    warning
        Where the same records stand under another data set or budget, in one line.
    withdrawn
        Why the release was withdrawn; None where it was not.
    approval
        The signed approval that it was reserved with, if there is one.
    """

    charge_id: str
    release_id: str
    spec_digest: str
    state: State
    sequence: int
    row_hash: str
    is_new: bool
    key_check: str | None
    continues: str | None = None
    warning: str | None = None
    withdrawn: str | None = None
    approval: Approved | None = None


@dataclass(frozen=True)
class DrawnNight:
    """A night of a series whose noise was drawn.

    Attributes
    ----------
    reserved
        Its RESERVED entry.
    released
        What its RELEASED entry says; empty where it is not released yet.
    """

    reserved: Entry
    released: Mapping[str, Any]


@dataclass(frozen=True)
class Night:
    """A night of a series that one charge pays for, to be reserved.

    Attributes
    ----------
    newest
        Charge of the newest other night that its records were compared with; None where there was none.
    """

    newest: str | None


@dataclass(frozen=True)
class Verification:
    """Outcome of checking the whole chain.

    Attributes
    ----------
    problems
        What is wrong, one line each; empty when all is well.
    head
        Hash of the last row: keep it elsewhere to notice truncation.
    entries
        Number of rows.
    time
        Time of the last row; empty where there is none.
    losses
        Budgets that were granted although charges were forgotten, one line each.
    approvals
        Signed approvals of charges, whose signatures fit.
    """

    problems: list[str]
    head: str
    entries: int
    time: str
    losses: tuple[str, ...] = ()
    approvals: tuple[Approved, ...] = ()

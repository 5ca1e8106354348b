"""Digests of records under another key: what an erasure books, so that nights and series go on by that entry alone.

The entries of charges never change, and hold digests under the key of their time. A RENEWED entry says for each charge
which digests its records have under the next key, or what is left of them where some were erased. The key before is
then destroyed: nobody can test any more what the old digests were of.

Where the key before was lost, nobody can say which digest took the place of which. The entry then has the digests that
each store which is still there has had, and the parts of which some records are in no such store. Charges from before
it stand and pay for nothing new: what was not released is never drawn, and series end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import RENEWED, Entry, State
from blockveil.pipeline.ledger.schema import entry

_RENEWED = sa.select(entry.c.sequence, entry.c.payload).where(entry.c.kind == RENEWED).order_by(entry.c.sequence)
_NEWEST = sa.select(sa.func.max(entry.c.sequence)).where(entry.c.kind == State.RESERVED)
_FIRST_CHECK = (
    sa.select(entry.c.payload)
    .where(entry.c.kind == State.RESERVED, entry.c.payload.contains('"stored":{'))
    .order_by(entry.c.sequence)
    .limit(1)
)


@dataclass(frozen=True)
class KeyLoss:
    """A key that was lost, as the operator states it.

    Attributes
    ----------
    by, why
        Who states it, and what happened.
    parts
        Parts, as the ledger writes them, of which some charged records are in no store that is still there, each with a
        release of it.
    """

    by: str
    why: str
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Renewal:
    """One change of the key of all digests.

    Attributes
    ----------
    renewal_id
        Random name: booked again, it changes nothing.
    check_value
        Of the key that is used from now on (:class:`.content_key.ContentKey`).
    digests
        For each charge whose records were found, their digests by name: ``fingerprint`` and ``history``. Where the key
        was lost, ``any_of``: fingerprints of which one is that of its records.
    erased
        Those among these charges whose records are fewer now.
    loss
        That the key before was lost; None where it was there.
    """

    renewal_id: str
    check_value: str
    digests: Mapping[str, Mapping[str, str | list[str]]] = field(default_factory=dict)
    erased: Sequence[str] = ()
    loss: KeyLoss | None = None

    def __repr__(self) -> str:
        """Show nothing."""
        return "Renewal()"

    @property
    def payload(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        loss = {} if self.loss is None else {"key_loss": {**vars(self.loss), "parts": dict(self.loss.parts)}}
        return {
            "renewal": self.renewal_id,
            "check": self.check_value,
            "digests": {charge: dict(each) for charge, each in self.digests.items()},
            "erased": sorted(self.erased),
            **loss,
        }


@dataclass(frozen=True, repr=False)
class Renewals:
    """All changes of the key, as one.

    Attributes
    ----------
    generation
        How many there were.
    check_value
        Of the key that is in use; None where no digest stands under one yet.
    newest
        For each charge, its digests in use where they are others than its entry says.
    erased
        Charges of records of which some were erased since.
    names
        Name of each renewal, in order.
    newest_charge
        Number of the newest entry that reserved a charge; 0 where there is none.
    key_lost
        Number of the newest entry that says that the key before was lost; 0 where there is none. Digests of charges
        before it cannot be compared.
    lost_parts
        Its parts (:class:`KeyLoss`).
    """

    generation: int
    check_value: str | None
    newest: Mapping[str, Mapping[str, Any]]
    erased: frozenset[str]
    names: tuple[str, ...]
    newest_charge: int
    key_lost: int
    lost_parts: Mapping[str, str]

    def __repr__(self) -> str:
        """Show nothing."""
        return f"Renewals(generation={self.generation})"

    @classmethod
    def read(cls, connection: sa.Connection) -> Renewals:
        """All that a ledger has."""
        newest, erased, names, check = dict[str, Mapping[str, Any]](), set[str](), list[str](), None
        key_lost, lost_parts = 0, dict[str, str]()
        for sequence, text in connection.execute(_RENEWED).all():
            payload = json.loads(text)
            if "key_loss" in payload:
                newest, key_lost, lost_parts = {}, sequence, payload["key_loss"]["parts"]
            newest |= payload["digests"]
            erased |= set(payload["erased"])
            names.append(payload["renewal"])
            check = payload["check"]
        if check is None and (first := connection.scalar(_FIRST_CHECK)) is not None:
            check = json.loads(first)["stored"]["check"]
        newest_charge = int(connection.scalar(_NEWEST) or 0)
        return cls(len(names), check, newest, frozenset(erased), tuple(names), newest_charge, key_lost, lost_parts)

    def is_comparable(self, reserved: Entry) -> bool:
        """Whether the digests of a reservation are under a key that was not lost."""
        return reserved.sequence > self.key_lost

    def now(self, reserved: Entry, name: str) -> str | None:
        """A digest of the records of a reservation as it is in use; None where it has none that can be compared."""
        if not self.is_comparable(reserved):
            return None
        at_reservation = reserved.payload.get("spec", {}).get("data", {}).get(name)
        digest = self.newest.get(str(reserved.charge_id), {}).get(name, at_reservation)
        return digest if isinstance(digest, str) else None

    def any_of(self, reserved: Entry) -> list[str]:
        """Fingerprints in use of which one is that of a reservation whose key was lost; empty where none is known."""
        return list(self.newest.get(str(reserved.charge_id), {}).get("any_of", ()))

    def is_of(self, reserved: Entry, fingerprint: str) -> bool:
        """Whether records of a fingerprint are, or may be, those of a reservation."""
        return fingerprint in (self.now(reserved, "fingerprint"), *self.any_of(reserved))

    def charges_of(self, fingerprint: str) -> list[str]:
        """Charges whose records have, or may have, a fingerprint in use that their own entries do not say."""
        return [
            charge
            for charge, each in self.newest.items()
            if fingerprint in (each.get("fingerprint"), *each.get("any_of", ()))
        ]

    def check_part(self, part: Part | None) -> None:
        """Refuse a charge of a part where records of another part of the data set cannot be compared; LedgerError."""
        for text, release_id in self.lost_parts.items():
            other = Part.read(text)
            if part is not None and (other is None or (other.dataset == part.dataset and other != part)):
                raise refusals.lost_part(release_id)


def check_generation(connection: sa.Connection, generation: int | None) -> None:
    """Refuse a charge whose digests are under a key that was replaced meanwhile; LedgerError."""
    if generation is not None and Renewals.read(connection).generation != generation:
        raise refusals.renewed_meanwhile()


def renew(connection: sa.Connection, renewal: Renewal, seen: Renewals, now: str) -> None:
    """Book a renewal, unless it is booked.

    Parameters
    ----------
    connection
        A writing transaction.
    renewal
        The entry.
    seen
        What the ledger had before its digests were looked for.
    now
        Time of the entry.

    Raises
    ------
    LedgerError
        A charge was reserved meanwhile, whose digests it would leave behind.
    """
    current = Renewals.read(connection)
    if renewal.renewal_id in current.names:
        return
    if (current.generation, current.newest_charge) != (seen.generation, seen.newest_charge):
        raise refusals.night_meanwhile()
    append(connection, RENEWED, "", renewal.payload, now)


def check_open(connection: sa.Connection, standing: Sequence[Entry]) -> None:
    """Refuse a new night of a series with nights whose records cannot be compared; LedgerError.

    Parameters
    ----------
    connection
        A transaction.
    standing
        Nights of the series that the ledger has.
    """
    current = Renewals.read(connection)
    if any(not current.is_comparable(one) for one in standing):
        raise refusals.series_key_lost(current.key_lost)

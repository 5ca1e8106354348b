"""Digests of records under another key: what an erasure books, so that nights and series go on by that entry alone.

The entries of charges never change, and hold digests under the key of their time. A RENEWED entry says for each charge
which digests its records have under the next key, or what is left of them where some were erased. The key before is
then destroyed: nobody can test any more what the old digests were of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.chain import append
from blockveil.pipeline.ledger.entries import RENEWED, Entry, State
from blockveil.pipeline.ledger.schema import entry

_RENEWED = sa.select(entry.c.payload).where(entry.c.kind == RENEWED).order_by(entry.c.sequence)
_NEWEST = sa.select(sa.func.max(entry.c.sequence)).where(entry.c.kind == State.RESERVED)
_FIRST_CHECK = (
    sa.select(entry.c.payload)
    .where(entry.c.kind == State.RESERVED, entry.c.payload.contains('"stored":{'))
    .order_by(entry.c.sequence)
    .limit(1)
)


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
        For each charge whose records were found, their digests by name: ``fingerprint`` and ``history``.
    erased
        Those among these charges whose records are fewer now.
    """

    renewal_id: str
    check_value: str
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    erased: Sequence[str] = ()

    def __repr__(self) -> str:
        """Show nothing."""
        return "Renewal()"

    @property
    def payload(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "renewal": self.renewal_id,
            "check": self.check_value,
            "digests": {charge: dict(each) for charge, each in self.digests.items()},
            "erased": sorted(self.erased),
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
    """

    generation: int
    check_value: str | None
    newest: Mapping[str, Mapping[str, str]]
    erased: frozenset[str]
    names: tuple[str, ...]
    newest_charge: int

    def __repr__(self) -> str:
        """Show nothing."""
        return f"Renewals(generation={self.generation})"

    @classmethod
    def read(cls, connection: sa.Connection) -> Renewals:
        """All that a ledger has."""
        newest, erased, names, check = dict[str, Mapping[str, str]](), set[str](), list[str](), None
        for text in connection.scalars(_RENEWED):
            said = json.loads(text)
            newest |= said["digests"]
            erased |= set(said["erased"])
            names.append(said["renewal"])
            check = said["check"]
        if check is None and (first := connection.scalar(_FIRST_CHECK)) is not None:
            check = json.loads(first)["stored"]["check"]
        return cls(len(names), check, newest, frozenset(erased), tuple(names), int(connection.scalar(_NEWEST) or 0))

    def now(self, reserved: Entry, name: str) -> str | None:
        """A digest of the records of a reservation as it is in use; None where it has none of that name."""
        stated = reserved.payload.get("spec", {}).get("data", {}).get(name)
        found = self.newest.get(str(reserved.charge_id), {}).get(name, stated)
        return found if isinstance(found, str) else None

    def charges_of(self, fingerprint: str) -> list[str]:
        """Charges whose records have a fingerprint in use that their own entries do not say."""
        return [charge for charge, each in self.newest.items() if each.get("fingerprint") == fingerprint]


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
    found = Renewals.read(connection)
    if renewal.renewal_id in found.names:
        return
    if (found.generation, found.newest_charge) != (seen.generation, seen.newest_charge):
        raise refusals.night_meanwhile()
    append(connection, RENEWED, "", renewal.payload, now)

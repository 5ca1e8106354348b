"""What a mark and its ledger say of each other: whether the ledger is an older copy, and what it then lacks.

A ledger is whole for an account on a machine where its mark's last entry is in its place. As each entry holds the hash
of the one before, a ledger with that entry has all before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import lookups, refusals
from blockveil.pipeline.ledger.chain import append, identifier
from blockveil.pipeline.ledger.entries import Entry, State
from blockveil.pipeline.ledger.marks import Committed, Last, Mark, Seen
from blockveil.pipeline.ledger.schema import GENESIS, entry
from blockveil.pipeline.ledger.sums import not_void

RESTORED = "RESTORED"
"""Kind of the entry that says that an older copy was put back; nights that share a charge end there."""

ATTESTED = "ATTESTED"
"""Kind of the entry that says that no older copy was put back before an account of another machine went on."""

LOST = "lost"
"""In place of digest, key and location, of a charge that an older copy had lost."""

_OF = entry.alias()
_COMMITTED = (
    sa.select(_OF, entry.c.payload.label("said"))
    .where(
        entry.c.kind == "COMMITTED",
        entry.c.sequence > sa.bindparam("since"),
        _OF.c.charge_id == entry.c.charge_id,
        _OF.c.kind == "RESERVED",
    )
    .order_by(entry.c.sequence)
)
_LAST = sa.select(entry.c.sequence, entry.c.hash).order_by(entry.c.sequence.desc()).limit(1)
_LAST_TIME = sa.select(entry.c.time).order_by(entry.c.sequence.desc()).limit(1)
_HASH = sa.select(entry.c.hash).where(entry.c.sequence == sa.bindparam("sequence"))
_STANDING = sa.select(entry).where(entry.c.kind == "RESERVED", not_void(entry)).order_by(entry.c.sequence)
_OF_CHARGE = sa.select(entry).where(entry.c.charge_id == sa.bindparam("charge_id")).order_by(entry.c.sequence)
_RESTORED = sa.select(entry.c.sequence).where(entry.c.kind == RESTORED).order_by(entry.c.sequence.desc()).limit(1)


@dataclass(frozen=True)
class Sight:
    """A ledger that was held against its mark, inside a transaction.

    Attributes
    ----------
    mark, last
        The mark, and its last line; None where it is made anew.
    seen
        What the ledger has since.
    """

    mark: Mark
    last: Last | None
    seen: Seen

    def renewed(self, connection: sa.Connection) -> Sight:
        """The same after more was written."""
        return replace(self, seen=seen_since(connection, 0 if self.last is None else self.last.seen.sequence))

    def follow(self) -> None:
        """Bring the mark up to what was seen; on the disk when this returns."""
        if self.last is not None:
            self.mark.follow(self.last, self.seen)


@dataclass(frozen=True)
class Restored:
    """What was done to a ledger after an older copy had been put back.

    Attributes
    ----------
    sequence
        The entry that says so.
    booked
        Releases whose charges were missing, and are booked.
    given_back
        Releases whose reservations were given back, and their charges.
    marked
        Whether this account had a mark on this machine.
    newest
        Time of the newest entry that the copy had, UTC; empty where it was stated before.
    """

    sequence: int
    booked: tuple[str, ...]
    given_back: tuple[tuple[str, str], ...]
    marked: bool
    newest: str = ""

    def __str__(self) -> str:
        """Lines for a person."""
        lines = [f"Entry {self.sequence}: restored. Series that were open are ended."]
        lines += [f"The newest entry of the copy is of {self.newest}."] if self.newest else []
        lines += [f"Booked: {release_id}" for release_id in self.booked]
        lines += [f"Given back, for nothing was drawn: {release_id}" for release_id, _ in self.given_back]
        if not self.marked:
            lines.append(
                "Nothing was booked: this account had not used this ledger on this machine, so what is missing is not "
                "known here. Run this command on the machines that released, and book what no machine knows with "
                "`blockveil ledger charge`."
            )
        elif not self.booked:
            lines.append("No charge that this account knows was missing.")
        return "\n".join(lines)


@dataclass(frozen=True)
class Statement:
    """What an operator says of a ledger, as its entry has it.

    Attributes
    ----------
    kind
        ``RESTORED`` or ``ATTESTED``.
    payload
        What is said.
    nonce
        By which a second try finds the entry.
    """

    kind: str
    payload: dict[str, str]
    nonce: str = field(default_factory=identifier)


def sight(connection: sa.Connection) -> Sight:
    """Hold a ledger against its mark, inside a transaction.

    Only a mark that is read while nobody else can commit is never newer than a ledger that is whole.

    Raises
    ------
    LedgerError
        There is no entry, the mark has entries that the ledger lacks, or there is no mark.
    """
    first = connection.scalar(lookups.FIRST)
    if first is None:
        raise refusals.no_entries()
    mark = Mark(str(first))
    last = mark.last()
    if last is None:
        raise refusals.no_mark()
    if not _has(connection, last.seen):
        raise refusals.older_copy(last.seen.sequence)
    return Sight(mark, last, seen_since(connection, last.seen.sequence))


def follow(connection: sa.Connection) -> None:
    """Hold a ledger that has entries against its mark, and bring the mark up to it; raises as :func:`sight`.

    Whoever cannot write the mark learns it here, before anything is charged.
    """
    if connection.scalar(lookups.FIRST) is not None:
        sight(connection).follow()


def last_seen(first: str) -> Last | None:
    """Last line of the mark of a ledger with a first entry; None where there is no mark, or no entry."""
    return Mark(first).last() if first else None


def problem(connection: sa.Connection, last: Last) -> str | None:
    """Why a ledger cannot be the one that this account saw on this machine; None where it can.

    Parameters
    ----------
    connection
        A transaction that began after the mark was read.
    last
        Its last line.
    """
    return None if _has(connection, last.seen) else refusals.older_copy(last.seen.sequence).value


def was_committed(connection: sa.Connection, charge_id: str) -> bool:
    """Whether the mark knows a charge as committed, which an older copy of the ledger may have as reserved."""
    mark = Mark(str(connection.scalar(lookups.FIRST)))
    return mark.last() is not None and charge_id in mark.charges()


def seen_since(connection: sa.Connection, since: int) -> Seen:
    """The last entry, and the charges that were committed after one."""
    last = connection.execute(_LAST).one_or_none()
    rows = connection.execute(_COMMITTED, {"since": since}).mappings()
    charges = tuple(_committed(dict(row)) for row in rows)
    return Seen(0, GENESIS) if last is None else Seen(last.sequence, last.hash, charges)


def begin(connection: sa.Connection) -> None:
    """Make the mark of a ledger that has its first entry in this transaction; of any other nothing is made."""
    last = connection.execute(_LAST).one_or_none()
    if last is not None and last.sequence == 1 and (mark := Mark(last.hash)).last() is None:
        mark.begin(Seen(0, GENESIS))


def state(connection: sa.Connection, said: Statement, now: str) -> tuple[Restored, Sight]:
    """Write what an operator says; after an older copy was put back, also what the mark knows and the ledger lacks.

    A charge that is missing is booked as it was, as released, so that it counts and its night is never drawn again. One
    that the ledger has as reserved is committed. All other reservations are given back.

    Raises
    ------
    LedgerError
        There is no entry yet; or it is said that nothing was restored, where the mark shows otherwise, or is there.
    """
    first = connection.scalar(lookups.FIRST)
    if first is None:
        raise refusals.no_entries()
    mark = Mark(str(first))
    last = mark.last()
    if said.kind == ATTESTED and last is not None:
        raise refusals.has_mark() if _has(connection, last.seen) else refusals.older_copy(last.seen.sequence)
    of_mark = {} if last is None else mark.charges()
    missing = _missing(connection, of_mark.values()) if said.kind == RESTORED else []
    if lookups.has_nonce(connection, said.nonce):
        restoration = Restored(connection.scalar(_RESTORED) or 0, (), (), last is not None)
        return restoration, Sight(mark, None, seen_since(connection, 0))
    newest = str(connection.scalar(_LAST_TIME) or "")
    payload: dict[str, object] = {**said.payload}
    if said.kind == RESTORED:
        payload = {"since": newest, **payload, "booked": len(missing)}
    row = append(connection, said.kind, "", payload, now, nonce=said.nonce)
    given_back = _give_back(connection, of_mark, now) if said.kind == RESTORED else ()
    for charge in missing:
        _book(connection, charge, now)
    restoration = Restored(row.sequence, tuple(one.release_id for one in missing), given_back, last is not None, newest)
    return restoration, Sight(mark, None, seen_since(connection, 0))


def check_open(connection: sa.Connection, release_id: str, first: str, standing: Iterable[Entry]) -> None:
    """Refuse a new night of a series that was open when an older copy was put back.

    Which of its nights were drawn since is not known to the ledger, and a number that is drawn twice is paid twice.

    Parameters
    ----------
    release_id
        The night.
    first
        First date of the series.
    standing
        Nights of the series that the ledger has.

    Raises
    ------
    LedgerError
        The series is closed.
    """
    restored = connection.scalar(_RESTORED)
    if restored is None:
        return
    owner = release_id.rpartition("/")[0]
    lost = (Entry.of(dict(row)) for row in connection.execute(_STANDING).mappings())
    closed = any(one.sequence < restored for one in standing) or any(
        is_lost(one) and str(one.release_id).rpartition("/")[0] == owner and one.payload[LOST].get("first") == first
        for one in lost
    )
    if closed:
        raise refusals.series_closed(restored)


def is_lost(one: Entry) -> bool:
    """Whether a RESERVED entry is of a charge that an older copy had lost; it says nothing of its plan."""
    return LOST in one.payload


def _has(connection: sa.Connection, seen: Seen) -> bool:
    return not seen.sequence or connection.scalar(_HASH, {"sequence": seen.sequence}) == seen.hash


def _missing(connection: sa.Connection, known: Iterable[Committed]) -> list[Committed]:
    there = {one.charge_id for one in seen_since(connection, 0).charges}
    return [one for one in known if one.charge_id not in there]


def _give_back(connection: sa.Connection, known: dict[str, Committed], now: str) -> tuple[tuple[str, str], ...]:
    """Give back reservations on which nothing was drawn, as far as the mark knows; releases and charges.

    Drawn again under such a reservation, a night that was committed after the copy was made would share its charge.
    """
    voided = []
    for row in connection.execute(_STANDING).mappings().all():
        one = Entry.of(dict(row))
        charge_id = str(one.charge_id)
        if charge_id in known or lookups.find(connection, charge_id)[1] is not State.RESERVED:
            continue
        append(connection, State.VOID, one.dataset, {"reason": "restored"}, now, one.release_id, charge_id, -one.ticks)
        voided.append((str(one.release_id), charge_id))
    return tuple(voided)


def _book(connection: sa.Connection, charge: Committed, now: str) -> None:
    charge_id, of_charge = charge.charge_id, {} if charge.first is None else {"first": charge.first}
    entries = connection.execute(_OF_CHARGE, {"charge_id": charge_id}).mappings().all()
    if [row["kind"] for row in entries] == [State.RESERVED]:
        key = {"key_check": charge.key_check}
        append(connection, State.COMMITTED, entries[0]["dataset"], key, now, entries[0]["release_id"], charge_id)
        return
    if entries:  # somebody who knew of no commit has given it back
        of_charge["charge"], charge_id = charge_id, hashlib.sha256(charge_id.encode()).hexdigest()[:32]
    release_id, part = charge.release_id, None if charge.part is None else Part.read(charge.part)
    if lookups.active(connection, release_id) is not None:  # drawn again meanwhile, and charged for that
        dataset, day = release_id.partition("/")[0], release_id.rpartition("/")[2]
        release_id = f"{dataset}/lost-{charge.charge_id[:12]}/{day}"
    payload = {"spec": {"release_id": charge.release_id}, "spec_digest": LOST, "attempt": RESTORED.lower()}
    steps: list[tuple[State, dict[str, object], Ticks, Part | None]] = [
        (State.RESERVED, {**payload, LOST: of_charge}, charge.ticks, part),
        (State.COMMITTED, {"key_check": charge.key_check}, NOTHING, None),
        (State.RELEASED, {"output_digest": LOST, "location": LOST}, NOTHING, None),
    ]
    for kind, details, ticks, of_part in steps:
        append(connection, kind, charge.budget, details, now, release_id, charge_id, ticks, part=of_part)


def _committed(row: dict[str, str]) -> Committed:
    payload = json.loads(row.pop("said"))
    one = Entry.of(row)
    spec = one.payload.get("spec")
    first = spec.get("continual", {}).get("first") if isinstance(spec, dict) else None
    lost = one.payload[LOST] if is_lost(one) else {"first": first}
    return Committed(
        str(lost.get("charge", one.charge_id)),
        str(one.release_id),
        one.dataset,
        one.part,
        one.ticks.not_negative(),
        str(payload["key_check"]),
        lost.get("first"),
    )

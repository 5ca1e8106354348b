"""What the ledger's transactions know of nights that share a charge: which there are, whose turn it is, who paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.budget.filter import Cap, Chargeable
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import lookups, refusals, renewals, restoring
from blockveil.pipeline.ledger.entries import DrawnNight, Entry, Night, State
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.sums import not_void, plain_text

# Built once: a statement takes longer to build than to run.
_STANDING = sa.select(entry).where(
    entry.c.kind == "RESERVED",
    entry.c.release_id.startswith(sa.bindparam("owner"), escape="/"),
    not_void(entry),
)


def nights(connection: sa.Connection, release_id: str, spec: Mapping[str, Any]) -> list[Entry]:
    """RESERVED entries of the nights that share a charge with a release, void ones left out, by number of the night.

    Raises
    ------
    ReleaseConflict
        One of them was planned otherwise.
    LedgerError
        The release is a new night of a series that was open when an older copy of the ledger was put back, or the key
        of its digests was lost.
    """
    ours = spec["calibration"]["continual"]["series"]
    owner = release_id.rpartition("/")[0] + "/"
    rows = connection.execute(_STANDING, {"owner": plain_text(owner)}).mappings()
    entries = [Entry.of(dict(row)) for row in rows]
    same = [
        one for one in entries if one.payload["spec"].get("continual", {}).get("first") == spec["continual"]["first"]
    ]
    for one in same:
        if one.payload["spec"]["calibration"]["continual"]["series"] != ours:
            raise refusals.other_series(str(one.release_id), one.payload["spec"], spec)
    if all(one.release_id != release_id for one in same):
        restoring.check_open(connection, release_id, spec["continual"]["first"], same)
        renewals.check_open(connection, same)
    return sorted(same, key=night_number)


def night_number(one: Entry) -> int:
    """Number of a reserved night in its series."""
    return int(one.payload["spec"]["calibration"]["continual"]["night"])


def drawn_nights(connection: sa.Connection, release_id: str, spec: Mapping[str, Any]) -> list[DrawnNight]:
    """Nights of a release's series other than its own that were committed, by number."""
    drawings = list[DrawnNight]()
    for one in nights(connection, release_id, spec):
        state = lookups.find(connection, str(one.charge_id))[1]
        if one.release_id == release_id or state not in (State.COMMITTED, State.RELEASED):
            continue
        details = lookups.payload(connection, str(one.charge_id), state) if state is State.RELEASED else {}
        drawings.append(DrawnNight(one, details))
    return drawings


def check_turn(connection: sa.Connection, release_id: str, spec: Mapping[str, Any]) -> list[Entry]:
    """Refuse a night while it is not the next one; the nights drawn before it.

    Raises
    ------
    LedgerError
        An earlier night was committed and is not released, a later date was drawn, or the number is taken.
    """
    drawings = drawn_nights(connection, release_id, spec)
    unfinished = next((one.reserved for one in drawings if not one.released), None)
    if unfinished is not None:
        raise refusals.unfinished_night(str(unfinished.release_id))
    # Dates of one form, so that their order as text is their order in time.
    later = next((one.reserved for one in drawings if str(one.reserved.release_id) > release_id), None)
    if later is not None:
        raise refusals.night_passed(str(later.release_id))
    # A number is used once, at the commit: drawn again under another key, its loss would be paid twice.
    if int(spec["calibration"]["continual"]["night"]) != len(drawings) + 1:
        raise refusals.another_night()
    return [one.reserved for one in drawings]


def check_commit(connection: sa.Connection, reserved: Entry) -> None:
    """Refuse to commit a night of a series while it is not the next; see :func:`check_turn`."""
    spec = reserved.payload["spec"]
    if "continual" in spec:
        check_turn(connection, str(reserved.release_id), spec)


def opening(found: Sequence[Entry]) -> Entry | None:
    """The night that paid for a series, among its nights."""
    return next((one for one in found if "continues" not in one.payload), None)


def paid_by(connection: sa.Connection, release_id: str, spec: Mapping[str, Any], night: Night) -> str | None:
    """Charge that pays for a new night of a series; None where it is the first and pays itself.

    Raises
    ------
    ReleaseConflict
        Another night of the series was planned otherwise.
    LedgerError
        The night does not come after all others, another came in between, or the one that pays has not committed.
    """
    series = nights(connection, release_id, spec)
    before = check_turn(connection, release_id, spec)
    if (before[-1].charge_id if before else None) != night.newest:
        raise refusals.another_night()
    if not series:
        return None
    first = opening(series)
    if first is None or lookups.find(connection, str(first.charge_id))[1] is State.RESERVED:
        raise refusals.not_opened(str((first or series[-1]).release_id))
    return str(first.charge_id)


def check_paid(
    connection: sa.Connection,
    known: Entry,
    dataset: str,
    charge: Chargeable,
    cap: Cap,
    night: Night | None,
    part: Part | None,
) -> None:
    """Refuse to go on with a charge that is booked to another budget or part, or below what the release costs.

    The ledger books no such charge; somebody who may add entries could.

    Raises
    ------
    LedgerError
        It is; or it says that another night paid, which did not.
    """
    payer = known
    if "continues" in known.payload:
        first = opening(nights(connection, str(known.release_id), known.payload["spec"])) if night else None
        if first is None or first.charge_id != known.payload["continues"]:
            raise refusals.underpaid(str(known.release_id))
        payer = first
    # One that says no part, or none that can be read, counts as of all records, which is more.
    other = known.part is not None if part is None else (known.of_part or part) != part
    if other or (known.dataset, payer.dataset) != (dataset, dataset) or not cap.covers(charge, payer.ticks):
        raise refusals.underpaid(str(known.release_id))

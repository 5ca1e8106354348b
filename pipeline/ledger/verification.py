"""Checks of the whole chain, from the first row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import approved
from blockveil.pipeline.ledger.approved import Approved
from blockveil.pipeline.ledger.entries import RENEWED, WITHDRAWN, State, Verification
from blockveil.pipeline.ledger.heads import Head
from blockveil.pipeline.ledger.schema import GENESIS, entry, row_hash

_AFTER: dict[str | None, tuple[str, ...]] = {
    None: (State.RESERVED,),
    State.RESERVED: (State.COMMITTED, State.VOID),
    State.COMMITTED: (State.RELEASED,),
    State.RELEASED: (WITHDRAWN,),
    WITHDRAWN: (),
    State.VOID: (),
}
_OF_NO_CHARGE = {
    "BUDGET": "budget",
    "CLOSED": "closing entry",
    "OPENED": "opening entry",
    "RESTORED": "word of an operator",
    "ATTESTED": "word of an operator",
    RENEWED: "renewal",
}
_TICKS = [column.name for column in entry.columns if column.name.endswith("_ticks")]

Row = Mapping[str, Any]


def verify_chain(rows: Iterable[Row], expected_head: str | Head | None) -> Verification:
    """Recompute every hash and replay every state change.

    Parameters
    ----------
    rows
        All rows by sequence.
    expected_head
        A head, or its hash, kept elsewhere; must still be in the chain.
    """
    problems: list[str] = []
    losses: list[str] = []
    approvals: list[Approved] = []
    previous, count, time = GENESIS, 0, ""
    replay, expectation = _Replay(), _Wanted(expected_head)
    for row in rows:
        count += 1
        if row["sequence"] != count:
            problems.append(f"row {count}: sequence is {row['sequence']}; a row is missing or out of order")
        if row["previous_hash"] != previous:
            problems.append(f"row {count}: does not continue the row before it")
        if _hash_of(row) != row["hash"]:
            problems.append(f"row {count}: content does not match its hash; it was edited")
        problems += [f"row {count}: {problem}" for problem in replay.problems(row)]
        losses += _loss(row)
        approvals += approved.signed_in(row, replay.first)
        previous, time = str(row["hash"]), str(row["time"])
        expectation.see(count, previous)
    return Verification(problems + expectation.problems(), previous, count, time, tuple(losses), tuple(approvals))


def _loss(row: Row) -> list[str]:
    """What a row says of charges that were forgotten before it."""
    try:
        reason = json.loads(row["payload"])["after_loss"] if row["kind"] == "BUDGET" else None
    except (ValueError, TypeError, KeyError, RecursionError):
        reason = None
    return [] if reason is None else [f"entry {row['sequence']} for '{row['dataset']}': {reason}"]


def _hash_of(row: Row) -> str | None:
    try:
        return row_hash(dict(row))
    except (TypeError, ValueError):  # something that no ledger writes
        return None


class _Wanted:
    """A head from elsewhere, looked for among the rows."""

    def __init__(self, head: str | Head | None) -> None:
        self._hash = head.hash if isinstance(head, Head) else head
        self._position = head.entries if isinstance(head, Head) else None
        self._found = self._hash is None or (self._hash == GENESIS and not self._position)

    def see(self, position: int, found: str) -> None:
        if found == self._hash and self._position in (None, position):
            self._found = True

    def problems(self) -> list[str]:
        missing = "the expected head is not in the chain: rows were cut off or rewritten"
        return [] if self._found else [missing]


class _Replay:
    """What each charge and each release may do next, and what it must give back.

    Attributes
    ----------
    first
        Hash of the first row, which names the ledger.
    """

    def __init__(self) -> None:
        self._reserved: dict[str, Row] = {}
        self._states: dict[str, str] = {}
        self._active: dict[str, str] = {}
        self._closed = False
        self.first = ""

    def problems(self, row: Row) -> list[str]:
        """What is wrong with the next row, beside its hash."""
        kind, ticks = str(row["kind"]), {name: row[name] or 0 for name in _TICKS}
        faults = [] if self._closed is (kind == "OPENED") else [f"{kind} may not follow here"]
        self.first = self.first or str(row["hash"])
        unapproved = approved.problem(row, self.first)
        faults += [] if unapproved is None else [unapproved]
        faults += [] if _has_its_part(row) else ["names a part of the records that it cannot be of"]
        self._closed = kind == "CLOSED"
        if kind in _OF_NO_CHARGE:
            return faults + ([f"a {_OF_NO_CHARGE[kind]} charges something"] if any(ticks.values()) else [])
        charge, release = str(row["charge_id"]), str(row["release_id"])
        faults += [] if kind in _AFTER.get(self._states.get(charge), ()) else [f"{kind} may not follow for this charge"]
        self._states[charge] = kind
        reserved = self._reserved.setdefault(charge, row)
        if (reserved["dataset"], reserved["release_id"]) != (row["dataset"], row["release_id"]):
            faults.append("names another release than the charge was reserved for")
        if not _fits(kind, ticks, reserved):
            faults.append("charges or gives back what it may not")
        if kind == State.RESERVED and self._active.setdefault(release, charge) != charge:
            faults.append("the release has another charge that was not given back")
        if kind == State.VOID and self._active.get(release) == charge:
            del self._active[release]
        return faults


def _has_its_part(row: Row) -> bool:
    """Whether a row names no part, or is a reservation that names one of its own data set."""
    text = row.get("part")
    part = Part.read(text) if isinstance(text, str) else None
    of_its_own = part is not None and part.dataset == str(row["release_id"]).partition("/")[0]
    return text is None or (row["kind"] == State.RESERVED and of_its_own)


def _fits(kind: str, ticks: Mapping[str, Any], reserved: Row) -> bool:
    try:
        if kind == State.RESERVED:
            return all(size >= 0 for size in ticks.values())
        if kind == State.VOID:
            return all(ticks[name] == -(reserved[name] or 0) for name in _TICKS)
        return not any(ticks.values())
    except TypeError:
        return False

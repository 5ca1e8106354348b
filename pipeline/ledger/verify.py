"""Checks of the whole chain, from the first row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.ledger.records import State, Verification
from pipeline.ledger.schema import GENESIS, row_hash

_AFTER: dict[str | None, tuple[str, ...]] = {
    None: (State.RESERVED,),
    State.RESERVED: (State.COMMITTED, State.VOID),
    State.COMMITTED: (State.RELEASED,),
    State.RELEASED: (),
    State.VOID: (),
}


def verify_chain(rows: Iterable[Mapping[str, Any]], expected_head: str | None) -> Verification:
    """Recompute every hash and replay every state change.

    Parameters
    ----------
    rows
        All rows by sequence.
    expected_head
        A head hash kept elsewhere; must still be in the chain.
    """
    problems: list[str] = []
    previous, count, states, seen = GENESIS, 0, dict[str, str](), set[str]()
    for row in rows:
        count += 1
        if row["sequence"] != count:
            problems.append(f"row {count}: sequence is {row['sequence']}; a row is missing or out of order")
        if row["previous_hash"] != previous:
            problems.append(f"row {count}: does not continue the row before it")
        if row_hash(dict(row)) != row["hash"]:
            problems.append(f"row {count}: content does not match its hash; it was edited")
        problems += _check_state(row, states, count)
        previous = row["hash"]
        seen.add(previous)
    if expected_head is not None and expected_head not in seen | {GENESIS}:
        problems.append("the expected head is not in the chain: rows were cut off or rewritten")
    return Verification(problems, previous, count)


def _check_state(row: Mapping[str, Any], states: dict[str, str], position: int) -> list[str]:
    if row["kind"] == "BUDGET":
        return []
    charge, kind = str(row["charge_id"]), str(row["kind"])
    allowed = kind in _AFTER[states.get(charge)]
    states[charge] = kind
    return [] if allowed else [f"row {position}: {kind} may not follow for this charge"]

"""A row at the end of the chain."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.budget.filter import NOTHING, Ticks
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.schema import GENESIS, entry, row_hash

_LAST = (
    sa.select(entry.c.sequence, entry.c.hash, entry.c.kind, entry.c.payload).order_by(entry.c.sequence.desc()).limit(1)
)
_ADDED = entry.insert()


def identifier() -> str:
    """Random name of a charge, or nonce of a row."""
    return os.urandom(16).hex()


def append(
    connection: sa.Connection,
    kind: str,
    dataset: str,
    payload: Mapping[str, Any],
    time: str,
    release_id: str | None = None,
    charge_id: str | None = None,
    ticks: Ticks = NOTHING,
    nonce: str | None = None,
    part: Part | None = None,
) -> Entry:
    """Add an entry inside a writing transaction.

    Raises
    ------
    LedgerError
        The ledger is closed.
    """
    last = connection.execute(_LAST).one_or_none()
    if last is not None and last.kind == "CLOSED" and kind != "OPENED":
        raise refusals.closed(json.loads(last.payload))
    row: dict[str, Any] = {
        "sequence": 1 if last is None else last.sequence + 1,
        "kind": str(kind),
        "dataset": dataset,
        "release_id": release_id,
        "charge_id": charge_id,
        "loss_ticks": ticks.loss,
        "sampler_ticks": ticks.sampler,
        "pure_ticks": ticks.pure,
        "failure_ticks": ticks.failure,
        "payload": canonical_json(payload).decode(),
        "time": time,
        "nonce": nonce or identifier(),
        "previous_hash": GENESIS if last is None else last.hash,
        "part": None if part is None else part.text,
    }
    row["hash"] = row_hash(row)
    connection.execute(_ADDED, row)
    return Entry.of(row)

"""Releases as run events that an OpenLineage catalogue reads; plain values, nothing private.

An event names the data set, the release, what it cost and the ledger's row. It holds no fingerprint, no path and no
specification.

**Source**: OpenLineage 2-0-2, ``RunEvent``: eventTime, producer, schemaURL, run and job are required; a run has one
START and one of COMPLETE, ABORT or FAIL.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from datetime import date
from importlib.metadata import version
from typing import Any

from blockveil.pipeline.ledger.entries import Entry, State
from blockveil.pipeline.ledger.grants import Grant

_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs"
_NOMINAL = "https://openlineage.io/spec/facets/1-0-1/NominalTimeRunFacet.json#/$defs/NominalTimeRunFacet"
_NAMESPACE = "blockveil"
_TYPES = {State.RESERVED: "START", State.RELEASED: "COMPLETE", State.VOID: "ABORT"}


def run_events(entries: Iterable[Entry], granted: Mapping[str, Grant] | None = None) -> list[dict[str, Any]]:
    """Return one event for each reservation, release and charge given back, in the ledger's order.

    Parameters
    ----------
    granted
        Budgets from before the entries, by name.
    """
    producer = f"urn:blockveil:{version('blockveil')}"
    budgets = dict(granted or {})
    reserved: dict[str, Entry] = {}
    events = []
    for entry in entries:
        if entry.kind == "BUDGET":
            budgets[entry.dataset] = Grant.of(entry.payload)
        if entry.kind == State.RESERVED:
            reserved[str(entry.charge_id)] = entry
        if entry.kind in _TYPES:
            charge = reserved.get(str(entry.charge_id))
            events.append(_event(entry, charge, budgets.get(entry.dataset), producer))
    return events


def _event(entry: Entry, charge: Entry | None, budget: Grant | None, producer: str) -> dict[str, Any]:
    release = str(entry.release_id)
    job, _, day = release.rpartition("/")
    facets = {"blockveil_privacy": _privacy(entry, charge, budget, producer)}
    if _is_date(day):
        facets["nominalTime"] = {
            "_producer": producer,
            "_schemaURL": _NOMINAL,
            "nominalStartTime": f"{day}T00:00:00Z",
        }
    published = [{"namespace": _NAMESPACE, "name": release}] if entry.kind == State.RELEASED else []
    return {
        "eventType": _TYPES[State(entry.kind)],
        "eventTime": entry.time,
        "producer": producer,
        "schemaURL": f"{_SPEC}/RunEvent",
        "run": {"runId": str(uuid.UUID(hex=entry.charge_id)), "facets": facets},
        "job": {"namespace": _NAMESPACE, "name": job or release},
        "inputs": [{"namespace": _NAMESPACE, "name": entry.dataset}],
        "outputs": published,
    }


def _privacy(entry: Entry, charge: Entry | None, budget: Grant | None, producer: str) -> dict[str, Any]:
    facet: dict[str, Any] = {
        "_producer": producer,
        "_schemaURL": f"{_SPEC}/RunFacet",
        "ledgerEntry": entry.sequence,
        "ledgerHash": entry.hash,
    }
    if charge is not None and budget is not None:
        epsilon = charge.ticks.epsilon(budget.cap.delta, budget.cap.accountant)
        facet |= {
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "delta": budget.cap.delta,
            "neighbours": budget.neighbours.value,
            "privacyUnit": budget.unit,
        }
    return facet


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True

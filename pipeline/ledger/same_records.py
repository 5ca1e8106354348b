"""Records that stand in the ledger already, found by their fingerprint: as another part, data set or budget.

The types of :mod:`.parts` make parts disjoint. This finds what they cannot: an ingest that kept the
same records under another value, and data sets whose budgets do not know of each other. Records that were stored
otherwise (another order, other columns, other chunks) have another fingerprint and are not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger import refusals
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.renewals import Renewals
from blockveil.pipeline.ledger.schema import entry
from blockveil.pipeline.ledger.sums import not_void, plain_text

_MOST = 5
"""Releases that are named."""

_OF_CHARGES = sa.select(entry).where(entry.c.kind == "RESERVED", not_void(entry))
_SAYING = (
    sa.select(entry)
    .where(entry.c.kind == "RESERVED", entry.c.payload.contains(sa.bindparam("text"), escape="/"), not_void(entry))
    .order_by(entry.c.sequence.desc())
)


def note(
    connection: sa.Connection, release_id: str, budget: str, spec: Mapping[str, Any], part: Part | None
) -> dict[str, Any]:
    """What a reservation says of other data sets and budgets under which its records stand; empty where there are none.

    Parameters
    ----------
    release_id, budget
        The release, and the budget that pays for it.
    spec
        Its specification, with the fingerprint of its records.
    part
        Part of the records that it is of.

    Raises
    ------
    LedgerError
        The same records stand under another part of the same data set, or nobody can tell.
    """
    renewals = Renewals.read(connection)
    renewals.check_part(part)
    same = _of_records(connection, renewals, spec.get("data", {}).get("fingerprint"))
    dataset = _dataset(release_id)
    for one in same:
        other = one.of_part
        if part is not None and other is not None and part.dataset == other.dataset and part != other:
            raise refusals.other_part(str(one.release_id), other)
    elsewhere = [one for one in same if (_dataset(str(one.release_id)), one.dataset) != (dataset, budget)]
    others = [{"release": one.release_id, "budget": one.dataset} for one in elsewhere[:_MOST]]
    return {"same_records": others} if others else {}


def warning(reserved: Entry) -> str | None:
    """What a reservation warns of, in one line; None where it warns of nothing."""
    releases = reserved.payload.get("same_records")
    if not releases:
        return None
    others = ", ".join(f"'{one['release']}' (budget '{one['budget']}')" for one in releases)
    if all(one["budget"] == reserved.dataset for one in releases):
        return f"The same records stand in the ledger for {others}; both are charged to this budget"
    return (
        f"The same records stand in the ledger for {others}. Nobody adds up what they lose under two budgets: where "
        "data sets share people, name one budget in [release] of each"
    )


def _dataset(release_id: str) -> str:
    return release_id.partition("/")[0]


def _of_records(connection: sa.Connection, renewals: Renewals, fingerprint: Any) -> list[Entry]:
    """RESERVED entries of charges that are not void, of records with a fingerprint, newest first."""
    if not isinstance(fingerprint, str):
        return []
    pattern = canonical_json({"fingerprint": fingerprint}).decode()[1:-1]
    rows = list(connection.execute(_SAYING, {"text": plain_text(pattern)}).mappings())
    renewed = renewals.charges_of(fingerprint)
    rows += connection.execute(_OF_CHARGES.where(entry.c.charge_id.in_(renewed))).mappings() if renewed else []
    entries = {str(row["charge_id"]): Entry.of(dict(row)) for row in rows}.values()
    same = [one for one in entries if renewals.is_of(one, fingerprint)]
    return sorted(same, key=lambda one: one.sequence, reverse=True)

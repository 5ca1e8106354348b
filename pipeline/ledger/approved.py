"""Who approved a charge, as its entry says."""

from __future__ import annotations

from blockveil.pipeline.ledger.entries import Entry

_BY = ", approved by "


def with_approver(attempt: str, approver: str | None) -> str:
    """Name of an attempt, with the name of who approved it."""
    return attempt if approver is None else f"{attempt}{_BY}{approver}"


def approval_words(reserved: Entry) -> str:
    """Who approved a charge, by its RESERVED entry, in words."""
    name = str(reserved.payload.get("attempt", "")).partition(_BY)[2]
    return f"by {name}; the name was typed, and nothing shows whose it is" if name else "none is recorded"

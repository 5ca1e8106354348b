"""What a certificate states: releases that were checked, and what the ledger says of them and of their budget.

Nothing is certified that does not agree with the ledger: the entry that paid for a release, and the digest with which
it was sealed, must be those that the release names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from blockveil.pipeline.base.errors import LedgerError, StoreError
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.ledger import BudgetStatus, Entry, Ledger, State
from blockveil.pipeline.ledger.approved import approval_words
from blockveil.pipeline.ledger.entries import WITHDRAWN
from blockveil.pipeline.ledger.grants import granted_words
from blockveil.pipeline.ledger.guessing import Together
from blockveil.pipeline.report.facts import Rows


@dataclass(frozen=True)
class Certified:
    """A release that was checked.

    Attributes
    ----------
    place
        Where it was read.
    attributes
        What it states of itself.
    checked
        What was checked, and what was found.
    not_checked
        What was not.
    """

    place: Location
    attributes: Mapping[str, Any]
    checked: Rows
    not_checked: str

    @property
    def release_id(self) -> str:
        """``dataset/name/date``."""
        return str(self.attributes["release_id"])


@dataclass(frozen=True)
class Paid:
    """What a ledger says of a release.

    Attributes
    ----------
    release_id
        ``dataset/name/date``.
    entry
        Number and hash of the entry that paid for it.
    digest
        Digest with which it was sealed; empty for what another program drew.
    approval
        Who approved it, in words.
    withdrawn
        When and why it was withdrawn; None where it stands.
    """

    release_id: str
    entry: tuple[int, str]
    digest: str
    approval: str
    withdrawn: str | None


@dataclass(frozen=True)
class Account:
    """A budget and what was released from it.

    Attributes
    ----------
    status
        The budget.
    together
        What a guess reaches with all of its releases.
    grants
        Each grant: time, and what was granted by whom.
    paid
        Its releases by their ids, in the order in which they were paid for.
    """

    status: BudgetStatus
    together: Together
    grants: Rows
    paid: Mapping[str, Paid]

    @classmethod
    def of(cls, ledger: Ledger, account: str) -> Account:
        """Read a budget; LedgerError where there is no such budget, or the chain is broken."""
        ledger.head()  # which refuses a broken chain: nothing is certified by it
        status, entries = ledger.budget(account), ledger.history(account)
        grants = [(entry.time, _granted(entry)) for entry in entries if entry.kind == "BUDGET"]
        return cls(status, Together.of(status), grants, _paid(entries))

    def within(self, since: date | None, until: date | None) -> list[Paid]:
        """Releases of the nights from one date to another, both included; None leaves a side open."""
        return [
            each
            for each in self.paid.values()
            if (since is None or _night(each) >= since.isoformat())
            and (until is None or _night(each) <= until.isoformat())
        ]

    def check(self, release: Certified) -> Paid:
        """What the ledger says of a release.

        Raises
        ------
        LedgerError
            The ledger does not know it, or knows it with another entry or other values.
        StoreError
            It was withdrawn.
        """
        charge, entry = self.paid.get(release.release_id), release.attributes["ledger"]
        if charge is None or charge.entry != (entry["sequence"], entry["row_hash"]):
            raise _unlike(release, "the entry that it names is not the one that the ledger has for it")
        if charge.withdrawn is not None:
            raise StoreError(
                f"{release.release_id} was withdrawn {charge.withdrawn}",
                "A release that was withdrawn is not certified",
                "Tell whoever has this copy that it was withdrawn",
            )
        if charge.digest != release.attributes["output_digest"]:
            raise _unlike(release, "the ledger sealed it with other values")
        return charge


def _unlike(release: Certified, how: str) -> LedgerError:
    return LedgerError(
        f"{release.release_id}: {how}",
        "A certificate states what the ledger and the release agree on",
        "Run `blockveil ledger verify`, and compare the release with a copy from elsewhere",
    )


def _night(paid: Paid) -> str:
    return paid.release_id.rpartition("/")[2]


def _granted(entry: Entry) -> str:
    grant = entry.payload
    loss = f"; after a loss: {grant['after_loss']}" if "after_loss" in grant else ""
    what = f"epsilon {grant['epsilon']:g} at delta {grant['delta']:g}, {grant['neighbours']}, {grant['unit']}"
    return f"{what}{granted_words(grant)}{loss}"


def _paid(entries: Sequence[Entry]) -> dict[str, Paid]:
    """Releases that were sealed, with what withdrew them."""
    kinds: dict[str | None, dict[str, Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.charge_id, {})[entry.kind] = entry
    releases = {}
    for each in kinds.values():
        sealed = each.get(State.RELEASED)
        if sealed is None:
            continue
        reserved, committed, withdrawn = each[State.RESERVED], each[State.COMMITTED], each.get(WITHDRAWN)
        digest = str(sealed.payload["output_digest"])
        releases[str(sealed.release_id)] = Paid(
            str(sealed.release_id),
            (committed.sequence, committed.hash),
            digest if len(digest) == 64 else "",
            approval_words(reserved.payload),
            None if withdrawn is None else f"on {withdrawn.time[:10]}: {withdrawn.payload['reason']}",
        )
    return releases

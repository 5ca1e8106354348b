"""How the plan of a release that an earlier version began was written down, so that it is finished under its digest.

The ledger pins a release by the digest of its plan. What a later version writes down besides, or words otherwise, must
not make the same plan another one; so the plan of a release, or of a night of a series, that has an entry already is
written as that entry is.

* Plans of version 0.1.0 say nothing of the whole numbers of a map (``map``). Another linear algebra library could give
  a release that was begun then another map, as it could then; what is begun now is refused in that case.
* Whether a sensitivity is attained (``sensitivity_exact``) decides no number of a release. What the entry says stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.plan.nights import InLedger


@dataclass(frozen=True)
class Begun:
    """What an entry of the ledger has of a plan's calibration.

    Attributes
    ----------
    mapped
        Whether it names the whole numbers of a map.
    exact
        What it says of whether the sensitivity is attained; None where it says nothing.
    """

    mapped: bool
    exact: bool | None

    @classmethod
    def of(cls, calibration: Mapping[str, Any]) -> Begun:
        """Read it from the calibration of a plan, or of a specification in the ledger."""
        return cls("map" in calibration, calibration.get("sensitivity_exact"))

    def written(self, calibration: dict[str, Any]) -> dict[str, Any]:
        """The same calibration as the entry has it."""
        found = {name: value for name, value in calibration.items() if self.mapped or name != "map"}
        if self.exact is not None and "sensitivity_exact" in found:
            found["sensitivity_exact"] = self.exact
        return found


def specification(ledger: Ledger, account: str, release_id: str, first: date | None) -> Mapping[str, Any] | None:
    """What the ledger has of a release that is not void, or of a night of its series; None where it has nothing.

    Parameters
    ----------
    ledger
        Where it is looked up; one that nobody has made yet holds nothing.
    account
        Name of the budget that pays.
    release_id
        Of the release.
    first
        The first of the nights that share its charge; None where it is charged alone.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    owner = release_id.rpartition("/")[0]
    for entry in standing(ledger, account):
        if entry.release_id == release_id:
            return _spec(entry)
        if first is not None and _owner(entry) == owner and _first(entry) == first.isoformat():
            return _spec(entry)
    return None


def series_begun(ledger: Ledger, account: str, release_id: str, first: date) -> InLedger | None:
    """How the ledger has the nights that share a charge with a release; None where none of them has an entry.

    Parameters
    ----------
    ledger, account, release_id, first
        As for :func:`specification`.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    owner = release_id.rpartition("/")[0]
    found = [
        entry for entry in standing(ledger, account) if _owner(entry) == owner and _first(entry) == first.isoformat()
    ]
    if not found:
        return None
    chained = "chain" in _spec(found[0])["calibration"]["continual"]
    own = next((entry for entry in found if entry.release_id == release_id), None)
    if own is not None:
        return InLedger(chained, int(_spec(own)["calibration"]["continual"]["night"]))
    drawn = {entry.charge_id for entry in ledger.history(dataset=account) if entry.kind == State.COMMITTED}
    return InLedger(chained, 1 + sum(entry.charge_id in drawn for entry in found))


def standing(ledger: Ledger, account: str) -> list[Entry]:
    """RESERVED entries of releases whose charges are not void."""
    entries = ledger.history(dataset=account) if ledger.exists() else []
    void = {entry.charge_id for entry in entries if entry.kind == State.VOID}
    kept = (entry for entry in entries if entry.kind == State.RESERVED and entry.charge_id not in void)
    return [entry for entry in kept if entry.release_id is not None]


def _owner(entry: Entry) -> str:
    return str(entry.release_id).rpartition("/")[0]


def _first(entry: Entry) -> str | None:
    found: str | None = _spec(entry).get("continual", {}).get("first")
    return found


def _spec(entry: Entry) -> Mapping[str, Any]:
    found: Mapping[str, Any] = entry.payload["spec"]
    return found

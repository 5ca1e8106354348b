"""Refusals in words: what was asked, what stands against it, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.base.errors import LedgerError, ReleaseConflict
from blockveil.pipeline.budget.parts import Part
from blockveil.pipeline.ledger.difference import differences
from blockveil.pipeline.ledger.entries import Verification


def conflict(release_id: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> ReleaseConflict:
    """Refusal of a release that exists with another specification."""
    lines = differences(old, new)
    summary = "; ".join(lines[:6]) + ("; ..." if len(lines) > 6 else "")
    return ReleaseConflict(
        f"'{release_id}' exists with another specification ({summary})",
        "The same noise must never meet other data or another config, so a release is never redone differently",
        "Restore what changed to resume it, or release under another name or date (a new charge)",
        lines,
    )


def other_series(release_id: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> ReleaseConflict:
    """Refusal of a night that is planned otherwise than the nights whose charge it would share."""
    lines = differences(_common(old), _common(new)) or ["the version of a program or library"]
    summary = "; ".join(lines[:6]) + ("; ..." if len(lines) > 6 else "")
    return ReleaseConflict(
        f"'{release_id}' shares its charge with this night and was planned otherwise ({summary})",
        "Nights that share a charge share one plan, to the last digit",
        "Restore what changed, or plan new nights under another continual.first (a new charge)",
        lines,
    )


def _common(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification without what belongs to one night."""
    calibration = {name: value for name, value in spec["calibration"].items() if name != "grid_standard_deviation"}
    shared = ("cover", "weights", "squared_norm")
    calibration["continual"] = {name: value for name, value in calibration["continual"].items() if name in shared}
    left_out = ("release_id", "data", "calibration", "continual")
    continual = {name: value for name, value in spec["continual"].items() if name != "windows"}
    rest = {name: value for name, value in spec.items() if name not in left_out}
    return {**rest, "calibration": calibration, "continual": continual}


def another_night() -> LedgerError:
    """Refusal of a night whose records were compared with a night that is no longer the newest."""
    return LedgerError(
        "Another night of the same charge was reserved or given back meanwhile",
        "The records of a night are compared with those of the night before",
        "Run again",
    )


def night_passed(newest: str) -> LedgerError:
    """Refusal of a night before the newest one."""
    return LedgerError(
        f"'{newest}' comes after this night and exists already",
        "Nights that share a charge are released in order, each with the records of those before",
        "Leave this night out, at no cost, and run a later one",
    )


def unfinished_night(release_id: str) -> LedgerError:
    """Refusal of a night after one that was committed and is not released."""
    return LedgerError(
        f"'{release_id}', a night of the same charge, was committed and is not released",
        "Each night is read with the published results of those before",
        f"Run the config for the date of '{release_id}' again, which costs nothing, then this one",
    )


def not_opened(release_id: str) -> LedgerError:
    """Refusal of a night while the one that pays for it may still give its charge back."""
    return LedgerError(
        f"'{release_id}', which pays for this night, has not committed its charge",
        "A night that costs nothing needs a charge that stands",
        f"Finish '{release_id}' first, or give it back with `blockveil ledger admin void` and run again",
    )


def not_released(release_id: str, state: str | None) -> LedgerError:
    """Refusal to withdraw what was not released."""
    return LedgerError(
        f"'{release_id}' " + ("has no charge in this ledger" if state is None else f"is {state}"),
        "Only a release whose entry is RELEASED can be withdrawn",
        "Run `blockveil ledger show` to see where it stands; a run that stopped after its commit is finished first",
    )


def older_copy(sequence: int) -> LedgerError:
    """Refusal of a ledger that lacks what this account has seen of it on this machine."""
    return LedgerError(
        f"Entry {sequence}, which this account saw last on this machine, is not in this ledger",
        "An older copy of a ledger has forgotten charges, and nights would be drawn a second time under them",
        "Restore the newest copy. Where there is none, run `blockveil ledger admin reconcile CONFIG`, which "
        "books what is missing and ends the series that were open",
    )


def given_back(release_id: str) -> LedgerError:
    """Refusal to commit a charge that is void."""
    return LedgerError(
        f"The charge of '{release_id}' was given back by another attempt",
        "Noise is drawn only for a charge that stands",
        "Run again",
    )


def not_committed(release_id: str) -> LedgerError:
    """Refusal to release what was not committed, or was released otherwise."""
    return LedgerError(
        f"'{release_id}' cannot be marked as released",
        "Only a committed charge is released, once, with one output",
        "Run `blockveil ledger show` to see where it stands",
    )


def no_mark() -> LedgerError:
    """Refusal of a ledger with entries that this account has never seen on this machine."""
    return LedgerError(
        "This account has never used this ledger on this machine, and the ledger has entries",
        "An older copy of a ledger has forgotten charges, and nothing here would show it",
        "Run `blockveil ledger admin attest CONFIG --by NAME --why REASON` if no older copy was put back; else "
        "`blockveil ledger admin reconcile CONFIG`",
    )


def has_mark() -> LedgerError:
    """Refusal to attest what a mark shows."""
    return LedgerError(
        "This account knows this ledger on this machine, and nothing is missing",
        "What an operator says counts only where nothing else shows it",
        "Go on",
    )


def no_entries() -> LedgerError:
    """Refusal to say something of a ledger that nobody has used."""
    return LedgerError(
        "The ledger has no entries",
        "Nothing was spent before a budget was granted",
        "If there was a ledger, restore it first; else run `blockveil ledger grant`",
    )


def series_closed(sequence: int) -> LedgerError:
    """Refusal of a new night of a series that was open when an older copy was put back."""
    return LedgerError(
        f"Entry {sequence} says that an older copy of the ledger was put back, and this night's series began before",
        "Which nights of it were drawn since is not known, and a number that is drawn twice is paid twice",
        "Plan new nights under another continual.first (a new charge)",
    )


def lost_night(release_id: str) -> LedgerError:
    """Refusal of a release whose charge an older copy of the ledger had lost."""
    return LedgerError(
        f"'{release_id}' was released before an older copy of the ledger was put back",
        "Its charge is booked, and its noise is never drawn again",
        "Release under another name or date (a new charge)",
    )


def withdrawn(release_id: str, reason: str) -> LedgerError:
    """Refusal of a release that was withdrawn."""
    return LedgerError(
        f"'{release_id}' was withdrawn: {reason}",
        "A withdrawn release is not published again, and what it spent remains spent",
        "Release under another name or date (a new charge) once the cause is cured",
    )


def broken(found: Verification) -> LedgerError:
    """Refusal of a chain that does not verify."""
    more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
    return LedgerError(
        f"The ledger does not verify: {found.problems[0]}{more}",
        "Every row continues the one before it and is never changed",
        "Stop releasing, keep the file, and compare it with its backup",
    )


def underpaid(release_id: str) -> LedgerError:
    """Refusal to go on with a charge that the ledger would not have booked."""
    return LedgerError(
        f"The charge of '{release_id}' is not what this release costs, or not of this budget or part of the records",
        "A release goes on only with a charge that pays for it",
        "Run `blockveil ledger verify`, find who added the entry, and give it back with `blockveil ledger admin void`",
    )


def no_part(rule: str) -> LedgerError:
    """Refusal of a charge of a part of the records."""
    return LedgerError(
        "This release cannot be charged as one of a part of the records",
        rule,
        "Leave data.partition_by out: it is then charged as a release of all records",
    )


def other_part(release_id: str, part: Part) -> LedgerError:
    """Refusal of records that were charged as another part of the same data set."""
    return LedgerError(
        f"The same records were charged as {part.words} for '{release_id}'",
        "Parts of a data set have no record in common; of disjoint parts only the largest charge counts",
        "Correct ingest.partition, or leave data.partition_by out: the release is then charged as one of all records",
    )


def two_charges(release_id: str) -> LedgerError:
    """Refusal of a release with two charges that both stand."""
    return LedgerError(
        f"'{release_id}' has two charges that stand",
        "A release has one charge",
        "Run `blockveil ledger verify`; both count as spent",
    )


def not_storable() -> LedgerError:
    """Refusal of a charge whose parts are too large for the ledger's whole numbers."""
    return LedgerError(
        "This charge is too large to be booked",
        "A mu squared, a pure loss, a failure and a sampler's distance are whole numbers below 2^63 of their units, "
        "which for a distance is 2^-42",
        "Use a sampler that is closer to its law, or a smaller loss",
    )


def closed(payload: Mapping[str, Any]) -> LedgerError:
    """Refusal of any entry in a ledger that was closed."""
    if payload.get("copy"):
        return LedgerError(
            "This ledger is a copy, for reading",
            "Two ledgers of one data set would spend its budget twice",
            "Use the ledger that it was copied from",
        )
    return LedgerError(
        "This ledger was closed: it goes on at another address",
        "Two ledgers of one data set would spend its budget twice",
        "Let output.ledger refer to the new address; `blockveil ledger show` tells when it was closed",
    )


def not_handed_over() -> LedgerError:
    """Refusal to go on with an export whose ledger is still in use, or was closed for another address."""
    return LedgerError(
        "The export was not closed for this address, so another ledger may go on with the same budgets",
        "Two ledgers of one data set would spend its budget twice",
        "Export again with `--close-for` and this address as it is given here, or import with `--as-copy` to read only",
    )


def closed_elsewhere() -> LedgerError:
    """Refusal to close a ledger that was closed already."""
    return LedgerError(
        "The ledger was closed already, for another address or as a copy",
        "One ledger goes on where another was closed",
        "Export it without `--close-for`, and import it at the address that it was closed for",
    )


def same_place() -> LedgerError:
    """Refusal to close a ledger for its own address."""
    return LedgerError(
        "The ledger cannot be closed for its own address",
        "It goes on at another one",
        "Give the address of a new ledger",
    )


def nothing_to_load() -> LedgerError:
    """Refusal of an import without entries."""
    return LedgerError("The file holds no entries", "An import is the whole of a ledger", "Export the ledger again")


def not_empty() -> LedgerError:
    """Refusal of an import into a ledger that has entries."""
    return LedgerError(
        "The ledger has entries already",
        "Entries are imported into a new ledger only, for each continues the one before it",
        "Give the path of a file that does not exist, or an empty database",
    )


def renewed_meanwhile() -> LedgerError:
    """Refusal of a charge whose digests are under a key that an erasure has replaced."""
    return LedgerError(
        "The key of this ledger's digests of records was replaced while the release began",
        "All of them are under one key, which an erasure replaces",
        "Run again",
    )


def lost_part(release_id: str) -> LedgerError:
    """Refusal of a part of a data set where records of another part cannot be compared."""
    return LedgerError(
        f"The key of digests was lost, and records of '{release_id}', which was of another part, are in no store that "
        "is still there",
        "Parts of a data set have no record in common, and nothing shows any more whether these records were charged "
        "as that part",
        "Leave data.partition_by out: the release is then charged as one of all records",
    )


def series_key_lost(sequence: int) -> LedgerError:
    """Refusal of a new night of a series whose earlier records cannot be compared."""
    return LedgerError(
        f"Entry {sequence} says that the key of digests was lost, and this night's series began before",
        "A night that continues others is of their records and more, which nothing shows any more",
        "Plan new nights under another continual.first (a new charge)",
    )


def night_meanwhile() -> LedgerError:
    """Refusal of a renewal that would leave behind digests of a charge."""
    return LedgerError(
        "A release began while the ledger's digests of records were renewed",
        "They are renewed as a whole",
        "Run again when the release has ended",
    )

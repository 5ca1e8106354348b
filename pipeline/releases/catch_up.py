"""Which nights are due although their time has passed: those that were begun, and those that were missed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from blockveil.pipeline.config import ReleaseSection
from blockveil.pipeline.config.deployments_file import Missed
from blockveil.pipeline.ledger import Ledger, State


@dataclass(frozen=True)
class Due:
    """A night that should run now.

    Attributes
    ----------
    night
        Its logical date.
    why
        Reason, in words.
    """

    night: date
    why: str


def due(
    nights: Sequence[date],
    charges: Mapping[date, State],
    at_work: Collection[date | None],
    missed: Missed,
    fresh: Collection[date] = (),
) -> list[Due]:
    """Nights to run, oldest first.

    Parameters
    ----------
    nights
        Logical dates of the schedule, up to now.
    charges
        Where the ledger stands for each night that has a charge; void ones left out.
    at_work
        Nights that have a planned, waiting or running run.
    missed
        What becomes of nights that never began.
    fresh
        Those of the nights that are not late enough to count as missed.
    """
    found = [
        Due(night, "it was begun; finishing it costs nothing more")
        for night, state in charges.items()
        if state is not State.RELEASED and night not in at_work
    ]
    wanted = {"skip": [], "latest": sorted(nights)[-1:], "all": nights}[missed]
    found += [
        Due(night, "it was missed, and is charged like any night")
        for night in sorted({*wanted, *fresh})
        if night not in charges and night not in at_work
    ]
    return sorted(found, key=lambda each: each.night)


def charges_of(ledger: Ledger, release: ReleaseSection) -> dict[date, State]:
    """Where the charges of a release's nights stand, void ones left out."""
    found: dict[date, State] = {}
    for entry in ledger.history(release.account):
        owner, _, day = (entry.release_id or "").rpartition("/")
        if owner != f"{release.dataset}/{release.name}":
            continue
        night = date.fromisoformat(day)
        if entry.kind == State.VOID:
            found.pop(night, None)
        else:
            found[night] = State(entry.kind)
    return found


def last_released(charges: Mapping[date, State]) -> date | None:
    """Newest night that is released, or None."""
    return max((night for night, state in charges.items() if state is State.RELEASED), default=None)

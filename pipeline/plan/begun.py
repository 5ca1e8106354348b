"""How the ledger has a release that was begun, so that it is planned as it was begun and finished under its digest.

The ledger pins a release by the digest of its plan. What a later version writes down besides, or words otherwise, must
not make the same plan another one; so the plan of a release, or of a night of a series, that has an entry already is
written as that entry is. It is read before the release is planned, which is then planned once.

* Plans of version 0.1.0 say nothing of the whole numbers of a map (``map``). Another linear algebra library could give
  a release that was begun then another map, as it could then; what is begun now is refused in that case.
* Whether a sensitivity is attained (``sensitivity_exact``) decides no number of a release. What the entry says stands.
* Which of the nights of a series a night is follows from those that were released before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.plan.nights import InLedger, Series


@dataclass(frozen=True)
class Begun:
    """What the ledger has of a release, or of the nights that share its charge.

    Attributes
    ----------
    mapped
        Whether the entry names the whole numbers of a map.
    exact
        What the entry says of whether the sensitivity is attained; None where it says nothing.
    night
        Which of the nights that share a charge it is; None where it is charged alone.
    calibration
        Numbers of the plan that stands; None where nothing stands yet.
    """

    mapped: bool = True
    exact: bool | None = None
    night: InLedger | None = None
    calibration: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, calibration: Mapping[str, Any], night: InLedger | None = None) -> Begun:
        """Read it from the calibration of a specification in the ledger."""
        return cls("map" in calibration, calibration.get("sensitivity_exact"), night, calibration)

    def has(self, calibration: Mapping[str, Any], series: Series | None) -> bool:
        """Whether nothing stands yet, or what stands is a plan's, of the release or of another night of its series.

        Parameters
        ----------
        calibration
            Numbers of the plan.
        series
            Its nights that share a charge; None where it is charged alone.
        """
        if self.calibration is None:
            return True
        if series is not None:
            return bool(series.digest == self.calibration.get("continual", {}).get("series"))
        return digest(calibration) == digest(self.calibration)

    def written(self, calibration: dict[str, Any]) -> dict[str, Any]:
        """The same calibration as the entry has it."""
        found = {name: value for name, value in calibration.items() if self.mapped or name != "map"}
        if self.exact is not None and "sensitivity_exact" in found:
            found["sensitivity_exact"] = self.exact
        return found


def begun_of(ledger: Ledger, config: ReleaseConfig, release_id: str) -> Begun | None:
    """How a ledger has a release; None where it has nothing of it that is not void, and no night shares its charge.

    Parameters
    ----------
    ledger
        Where it is looked up; one that nobody has made yet holds nothing.
    config
        Config of the release.
    release_id
        ``dataset/name/logical date``.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    account, section = config.release.account, config.continual
    if section is None:
        own = standing(ledger, account, release_id)
        return Begun.of(_spec(own[0])["calibration"]) if own else None
    owner, first = release_id.rpartition("/")[0], section.first.isoformat()
    found = standing(ledger, account)
    series = [entry for entry in found if _owner(entry) == owner and _first(entry) == first]
    known = series or [entry for entry in found if entry.release_id == release_id]
    # Whichever date runs first is the first night.
    night = _night(ledger, account, series, release_id) if series else InLedger(chained=False, number=1)
    return Begun.of(_spec(known[0])["calibration"], night) if known else Begun(night=night)


def _night(ledger: Ledger, account: str, series: list[Entry], release_id: str) -> InLedger:
    """Which night of a series a release is; ``series`` are the nights that stand."""
    chained = "chain" in _spec(series[0])["calibration"]["continual"]
    own = next((entry for entry in series if entry.release_id == release_id), None)
    if own is not None:
        return InLedger(chained, int(_spec(own)["calibration"]["continual"]["night"]))
    drawn = {entry.charge_id for entry in ledger.history(dataset=account) if entry.kind == State.COMMITTED}
    return InLedger(chained, 1 + sum(entry.charge_id in drawn for entry in series))


def standing(ledger: Ledger, account: str, release_id: str | None = None) -> list[Entry]:
    """RESERVED entries of an account's releases, or of one of them, whose charges are not void.

    Parameters
    ----------
    ledger
        Where they are looked up; one that nobody has made yet holds none.
    account
        Name of the budget that pays.
    release_id
        Of one release; None for all.

    Raises
    ------
    LedgerError
        The ledger cannot be read.
    """
    entries = ledger.history(dataset=account, release_id=release_id) if ledger.exists() else []
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

"""A plan as the ledger has it: which night of its charge it is, and whether it was charged already.

The ledger is read before the release is planned, which is then planned once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from blockveil.pipeline.base.errors import LedgerError, StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.restoring import is_lost
from blockveil.pipeline.plan.earlier_shape import EarlierShape, earlier_shape, is_withdrawn
from blockveil.pipeline.plan.planning import Begun, Plan, make_plan, release_id


def plan_begun(loaded: LoadedConfig, logical_date: date, ledger: Ledger) -> Plan:
    """Plan a release as a ledger has it: which of the nights of its charge it is, and whether it was charged already.

    Parameters
    ----------
    loaded, logical_date
        As for :func:`.planning.make_plan`.
    ledger
        Where the release may have been begun.

    Raises
    ------
    ConfigError
        As :func:`.planning.make_plan`.
    LedgerError
        The ledger cannot be read.
    StoreError
        What may pass keeps the release from being read that it learns from.
    """
    return make_plan(loaded, logical_date, begun_of(ledger, loaded, release_id(loaded.config, logical_date)))


def plan_ahead(loaded: LoadedConfig, logical_date: date, ledger: Ledger) -> Plan:
    """Plan a release for somebody who wants to know of it, with the release that its night would learn from.

    Parameters
    ----------
    loaded, logical_date
        As for :func:`.planning.make_plan`.
    ledger
        Where releases before are; one that cannot be read tells of none.

    Raises
    ------
    ConfigError
        As :func:`.planning.make_plan`.
    """
    try:
        earlier = earlier_shape(loaded, ledger, release_id(loaded.config, logical_date))
    except (LedgerError, StoreError):
        earlier = None
    return make_plan(loaded, logical_date, Begun(earlier=earlier))


def as_begun(plan: Plan, ledger: Ledger) -> Plan:
    """The plan as a ledger has it; the same object where it was planned so.

    What it was planned to learn from stays while nobody has begun it, for a person may have approved it so; but never a
    release that was withdrawn since.

    Raises
    ------
    LedgerError, StoreError
        As :func:`plan_begun`.
    """
    state = begun_of(ledger, plan.loaded, plan.release_id, plan.begun)
    if state == (plan.begun or Begun()):
        return plan
    return make_plan(plan.loaded, plan.logical_date, state)


def begun_of(ledger: Ledger, loaded: LoadedConfig, release_id: str, known: Begun | None = None) -> Begun:
    """How a ledger has a release.

    Parameters
    ----------
    ledger
        Where it is looked up; one that nobody has made yet holds nothing.
    loaded
        Config of the release.
    release_id
        ``dataset/name/logical date``.
    known
        How the ledger had it when it was planned; None where it was planned without one.

    Raises
    ------
    LedgerError, StoreError
        As :func:`plan_begun`.
    """
    account, section = loaded.config.release.account, loaded.config.continual
    if section is None:
        own = reserved_entries(ledger, account, release_id)
        if own:
            earlier = _spec(own[-1]).get("calibration", {}).get("learning", {}).get("earlier")
            return Begun(charged=True, earlier=None if earlier is None else EarlierShape.of(earlier))
        stands = known is not None and not (known.earlier and is_withdrawn(ledger, known.earlier.release_id))
        return Begun(earlier=known.earlier if known and stands else earlier_shape(loaded, ledger, release_id))
    owner, first = release_id.rpartition("/")[0], section.first.isoformat()
    reservations = reserved_entries(ledger, account)
    series = [entry for entry in reservations if _owner(entry) == owner and _first(entry) == first]
    own = [entry for entry in reservations if entry.release_id == release_id]
    # Whichever date runs first is the first night.
    night = _night(ledger, account, series, release_id) if series else 1
    return Begun(night, charged=bool(own))


def _night(ledger: Ledger, account: str, series: list[Entry], release_id: str) -> int:
    """Which night of a series a release is; ``series`` are the nights that stand."""
    own = next((entry for entry in series if entry.release_id == release_id), None)
    if own is not None:
        return int(_spec(own)["calibration"]["continual"]["night"])
    commitments = {entry.charge_id for entry in ledger.history(dataset=account) if entry.kind == State.COMMITTED}
    return 1 + sum(entry.charge_id in commitments for entry in series)


def reserved_entries(ledger: Ledger, account: str, release_id: str | None = None) -> list[Entry]:
    """RESERVED entries of an account's releases, or of one of them, whose charges are not void and whose plan is known.

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
    valid = (entry for entry in entries if entry.kind == State.RESERVED and entry.charge_id not in void)
    return [entry for entry in valid if entry.release_id is not None and not is_lost(entry)]


def _owner(entry: Entry) -> str:
    return str(entry.release_id).rpartition("/")[0]


def _first(entry: Entry) -> str | None:
    first: str | None = _spec(entry).get("continual", {}).get("first")
    return first


def _spec(entry: Entry) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = entry.payload["spec"]
    return spec

"""What a release works with: its budget, keys and output, the charge that it holds, and what it comes to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path

from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import BudgetStatus, Charge, Ledger, State, refusals
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.restoring import is_lost
from blockveil.pipeline.plan.begun_plans import as_begun, plan_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.growing import Growth
from blockveil.pipeline.releases.keys import NoiseKeys, open_keys
from blockveil.pipeline.releases.publishing import Draft, Published, draft
from blockveil.pipeline.releases.signing import signer

_RESERVED_AT_MOST = timedelta(hours=24)
"""After this time another release of the budget gives back what a dead run had reserved."""


@dataclass(frozen=True, eq=False)
class Workspace:
    """Where a release keeps its budget, keys and output."""

    plan: Plan
    ledger: Ledger
    root: Path

    @classmethod
    def planned(cls, loaded: LoadedConfig, logical_date: date) -> Workspace:
        """Open the ledger that a config names, and plan the release as the ledger has it already.

        Raises
        ------
        ConfigError
            The release cannot be planned.
        LedgerError
            The ledger cannot be read.
        """
        ledger = Ledger(loaded.ledger_url)
        return cls(plan_begun(loaded, logical_date, ledger), ledger, loaded.output_root)

    @classmethod
    def open(cls, plan: Plan) -> Workspace:
        """The same of a plan that was made without the ledger; it is planned anew only where the ledger has another.

        Raises
        ------
        LedgerError
            The ledger cannot be read.
        """
        loaded, ledger = plan.loaded, Ledger(plan.loaded.ledger_url)
        return cls(as_begun(plan, ledger), ledger, loaded.output_root)

    @cached_property
    def keys(self) -> NoiseKeys:
        """The key store that the config names, opened when a step first needs it."""
        return open_keys(self.plan.loaded)

    @property
    def is_sent(self) -> bool:
        """Whether readers find its releases in an object store."""
        return self.plan.config.output.upload is not None

    def draft(self, charge: Charge) -> AbstractContextManager[Draft]:
        """Begin the release where readers do not look, to be signed where the config says so."""
        return draft(self.root, self.plan.release_id, charge.charge_id, signer(self.plan.loaded))

    def budget(self) -> BudgetStatus:
        """What the data set's budget has left."""
        return self.ledger.budget(self.plan.config.release.account)

    def expire(self) -> list[str]:
        """Give back reservations of the same budget whose runs died long ago; their release ids.

        A reservation is kept while its key exists (its attempt may commit, or a person must look); so is a resumed one.
        """
        plan = self.plan
        own = self.ledger.find(plan.release_id)
        try:
            kept = {*self.keys.list(), "" if own is None else own.charge_id}
        except OSError:  # whether a key exists is not known
            return []
        before = (datetime.now(UTC) - _RESERVED_AT_MOST).isoformat(timespec="seconds")
        return self.ledger.expire(plan.config.release.account, before, kept.__contains__)


@dataclass(frozen=True, eq=False)
class Reservation:
    """A held or committed charge and the data it is for.

    Attributes
    ----------
    charge
        The ledger's charge.
    dataset
        The opened records.
    resumed
        What an earlier attempt had reached, in words, or None for a new charge.
    published
        The release that an earlier attempt published, or None.
    growth
        Of a night that shares a charge, what it needs of the nights before it.
    """

    charge: Charge
    dataset: Dataset
    resumed: str | None
    published: Published | None
    growth: Growth | None = None


@dataclass(frozen=True)
class Outcome:
    """A finished release: public facts only."""

    release_id: str
    path: Path
    pointer: Path
    output_digest: str
    charge_id: str
    resumed: str | None


def standing(workspace: Workspace) -> Entry | None:
    """RESERVED entry of the release's charge; None where no charge stands.

    Raises
    ------
    LedgerError
        An older copy of the ledger had lost the release.
    """
    charge = workspace.ledger.find(workspace.plan.release_id)
    if charge is None:
        return None
    rows = workspace.ledger.history(release_id=workspace.plan.release_id)
    (row,) = (one for one in rows if (one.charge_id, one.kind) == (charge.charge_id, State.RESERVED))
    if is_lost(row):
        raise refusals.lost_night(workspace.plan.release_id)
    return row


def resumed_from(charge: Charge, published: Published | None) -> str:
    """What an earlier attempt at a release had reached, in words."""
    if charge.state == "RELEASED":
        return "this release is complete already; nothing was computed, drawn or charged again"
    if published is not None:
        return "an earlier attempt had published this release; only the ledger entry was missing"
    if charge.state == "COMMITTED":
        return "an earlier attempt had committed the charge; the same noise is drawn again at no further cost"
    return "an earlier attempt had reserved the budget; nothing had been drawn"

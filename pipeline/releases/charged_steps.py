"""The steps of a night as plain functions: reserve, measure, publish, seal, or abandon; :mod:`.night` is their order.

The commit row holds a check value of the key, so an attempt that lost a race can never draw with another key.

Of nights that share a charge, the first holds and commits it for all. Each later night is a charge of nothing with a
key of its own, for records that begin with those of the nights before (:mod:`.growing`).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError, KeyLost
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.config.bounds_file import content_of
from blockveil.pipeline.data.datasets import Dataset, open_records
from blockveil.pipeline.data.released import result_digest
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.ledger import Charge, Ledger, State, refusals
from blockveil.pipeline.ledger.entries import WITHDRAWN, Entry
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.ledger.restoring import is_lost
from blockveil.pipeline.plan import signed_approval
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.plan.vetting import require_allowed
from blockveil.pipeline.releases import destination, lineage, lost_ledger, outputs, publishing
from blockveil.pipeline.releases.compute import Compute, Tell
from blockveil.pipeline.releases.contents import LedgerDigests
from blockveil.pipeline.releases.growing import Growth, growth_of
from blockveil.pipeline.releases.keys import NoiseKeys, open_keys, secret_of
from blockveil.pipeline.releases.measurement import measurement_of
from blockveil.pipeline.releases.publishing import Published, Staged
from blockveil.pipeline.releases.training_steps import Hear, unheard

_log = logging.getLogger(__name__)

_RESERVED_AT_MOST = timedelta(hours=24)
"""After this time another release of the budget gives back what a dead run had reserved."""


@dataclass(frozen=True, eq=False)
class Books:
    """What nights of a config are booked in: the ledger, and the key store that the config names."""

    loaded: LoadedConfig
    ledger: Ledger

    @cached_property
    def keys(self) -> NoiseKeys:
        """The key store that the config names, opened when a step first needs it."""
        return open_keys(self.loaded)

    def expire(self, release_id: str) -> list[str]:
        """Give back reservations of a release's budget whose runs died long ago; their release ids.

        A reservation is kept while its key exists (its attempt may commit, or a person must look); so is that of the
        release itself.
        """
        own = self.ledger.find(release_id)
        try:
            in_use = {*self.keys.list(), "" if own is None else own.charge_id}
        except OSError:  # whether a key exists is not known
            return []
        before = (datetime.now(UTC) - _RESERVED_AT_MOST).isoformat(timespec="seconds")
        return self.ledger.expire(self.loaded.config.release.account, before, in_use.__contains__)

    def standing(self, release_id: str) -> Entry | None:
        """RESERVED entry of a release's charge; None where no charge stands.

        Raises
        ------
        LedgerError
            An older copy of the ledger had lost the release.
        """
        charge = self.ledger.find(release_id)
        if charge is None:
            return None
        rows = self.ledger.history(release_id=release_id)
        (row,) = (one for one in rows if (one.charge_id, one.kind) == (charge.charge_id, State.RESERVED))
        if is_lost(row):
            raise refusals.lost_night(release_id)
        return row


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


def reserve(plan: Plan, books: Books, attempt: str) -> Reservation:
    """Open the data, fingerprint it and hold the budget.

    Parameters
    ----------
    plan, books
        The release, as its ledger has it, and its ledger and keys.
    attempt
        Name of this attempt, for the ledger's record.

    Raises
    ------
    BlockveilError
        Something unvetted is not allowed, an officer must sign first, bounds were not paid for, the data cannot be read
        or does not fit, the budget does not hold the charge, the release exists with other data or config, or the
        ledger has forgotten one. Nothing is spent then.
    """
    ledger, root = books.ledger, plan.loaded.output_root
    require_allowed(plan.loaded)
    publishing.sweep_staging(root, plan.release_id)
    lost_ledger.require_none(plan.loaded, ledger)
    _require_paid(plan.loaded, ledger)
    reserved = books.standing(plan.release_id)
    contents = LedgerDigests.of(ledger, books.keys)  # before the records: an erasure is then seen
    _enter(plan, begun=reserved is not None)
    dataset = contents.as_charged(open_records(plan.loaded), reserved)
    books.expire(plan.release_id)
    growth = None
    if plan.series is not None:
        growth = growth_of(plan, plan.series, ledger, root, dataset, contents)
        dataset = growth.dataset
    fingerprint = growth.fingerprint if growth else contents.fingerprint(dataset, reserved)
    spec = plan.spec(fingerprint, growth.history if growth else None, dataset.part)
    destination.require_places(plan.loaded, root, plan.release_id)
    charge = ledger.reserve(
        ChargeRequest(
            release_id=plan.release_id,
            dataset=plan.config.release.account,
            spec=spec,
            spec_digest=digest(spec),
            charge=plan.charge,
            neighbours=plan.neighbours,
            unit=plan.config.privacy.unit,
            attempt=attempt,
            approval=signed_approval.required(plan, ledger, dataset.stated),
            records=dataset.stated,
            night=growth.night if growth else None,
            part=dataset.part,
            stored=contents.described(plan.loaded, dataset),
            generation=contents.renewals.generation,
        )
    )
    if charge.warning is not None:
        _log.warning("%s: %s", plan.release_id, charge.warning)
    try:
        published = destination.find_published(plan.loaded, root, plan.release_id, charge.charge_id)
        if published is None:
            contents.require_whole(reserved)
    except BaseException as error:
        # Another ledger paid for what is published, or it is damaged: nothing may be drawn beside it.
        with suppress(Exception):  # the first failure is the one to show
            ledger.void_if_reserved(charge.charge_id, type(error).__name__)
        raise
    return Reservation(charge, dataset, None if charge.is_new else _resumed_from(charge, published), published, growth)


def _require_paid(loaded: LoadedConfig, ledger: Ledger) -> None:
    """Refuse bounds from a release that this ledger has not charged and sealed.

    Its report would claim too much. One that the ledger knows with other content, or as withdrawn, is refused too.
    """
    for key, shape in loaded.config.query.geometries.items():
        if not isinstance(shape, BoxGeometry) or shape.bounds_release is None:
            continue
        history = ledger.history(release_id=shape.bounds_release)
        released = [each for each in history if each.kind == State.RELEASED]
        content = content_of(loaded, key, shape)
        if released and all(each.payload["output_digest"] != content for each in released):
            raise ConfigError(
                f"query.{key}.bounds: the file is of another release {shape.bounds_release} than the ledger's",
                "A file of bounds states the content of the release that paid for them",
                "Write it again with blockveil public bounds read, from the release that this ledger charged",
            )
        if any(each.kind == WITHDRAWN for each in history):
            raise ConfigError(
                f"query.{key}.bounds: the release {shape.bounds_release} was withdrawn",
                "What a withdrawn release says is not to be used",
                "Release bounds anew, or write lower and upper of each feature from public knowledge",
            )
        if not released:
            raise ConfigError(
                f"query.{key}.bounds: the ledger has no release {shape.bounds_release}",
                "Bounds that the records gave are paid for by a release in the ledger that pays for this one",
                "Make that release with this ledger, or write lower and upper of each feature from public knowledge",
            )


def _resumed_from(charge: Charge, published: Published | None) -> str:
    """What an earlier attempt at a release had reached, in words."""
    if charge.state == "RELEASED":
        return "this release is complete already; nothing was computed, drawn or charged again"
    if published is not None:
        return "an earlier attempt had published this release; only the ledger entry was missing"
    if charge.state == "COMMITTED":
        return "an earlier attempt had committed the charge; the same noise is drawn again at no further cost"
    return "an earlier attempt had reserved the budget; nothing had been drawn"


def _enter(plan: Plan, *, begun: bool) -> None:
    """Let erasures know of the release; none begins while one is unfinished."""
    store = plan.loaded.store
    if isinstance(store, Path):
        from blockveil.pipeline.data.ingest import release_list  # Arrow: help pages do without

        release_list.enter(store, plan.loaded.path, required=plan.series is not None)
        if not begun:
            release_list.require_erased(store)


def measure(
    plan: Plan, books: Books, reservation: Reservation, compute: Compute, tell: Tell, hear: Hear = unheard
) -> Staged:
    """Compute the exact sum, commit the charge, draw the noise and stage the release.

    Parameters
    ----------
    plan, books, reservation
        The release, its ledger and keys, and its charge.
    compute
        Runs the graphs.
    tell
        Receives progress in the user's words.
    hear
        Receives what is public of the steps of a training so far.

    Raises
    ------
    BlockveilError
        Bad data or a lost cluster before the commit (nothing drawn), or a failure after it (a re-run resumes).
    """
    dataset, handle = reservation.dataset, reservation.charge.charge_id
    if reservation.charge.state == "RESERVED":
        outputs.require_publishable(plan, reservation.charge, dataset)
    ages = None if reservation.growth is None else reservation.growth.ages
    measurement = measurement_of(plan, dataset, handle, ages, compute, tell, hear)
    measurement.exact()
    dataset.check_unchanged()  # the sum must be of the data that the charge is for
    charge, key = _commit(books, reservation.charge, tell)
    with ExitStack() as installed:
        installed.callback(compute.forget, handle)
        measurement.draw(key)
        with publishing.draft(plan.loaded.output_root, plan.release_id, handle, Signer.of(plan.loaded)) as draft:
            small = measurement.close(draft)
            # The part of a worker that died after the commit is read again. Of other records, the release would mix
            # two states of a record, and could count one twice: the sensitivity is that of a single state.
            dataset.check_unchanged(committed=True)
            tell("closing the release", None)
            staged = draft.finish(outputs.attributes(measurement.plan, charge, small, dataset))
            installed.close()  # here, so that whatever ends it leaves nothing beside the release
            return staged


def _commit(books: Books, reserved: Charge, tell: Tell) -> tuple[Charge, NoiseKey]:
    """Make the key, then make the charge irrevocable; only the holder of the committed key may go on."""
    tell("committing the charge", None)
    charge_id, new = reserved.charge_id, reserved.state == "RESERVED"
    secret = secret_of(books.keys, charge_id, new=new)
    if secret is None:
        raise _lost(reserved.release_id)
    charge = books.ledger.commit(charge_id, key_check=_check_value(secret))
    if charge.key_check != _check_value(secret):
        if new:
            # Another attempt committed, published and destroyed its key; ours was never used.
            books.keys.destroy(charge_id)
        raise _lost(reserved.release_id)
    return charge, NoiseKey.derive(secret, bytes.fromhex(charge.spec_digest))


def _check_value(secret: bytes) -> str:
    """A public commitment to the key: reveals nothing of a 256-bit secret, and two keys never share one."""
    return hmac.new(secret, b"blockveil key check", hashlib.sha256).hexdigest()


def _lost(release_id: str) -> KeyLost:
    return KeyLost(
        f"The noise key of '{release_id}' is gone although its charge is committed",
        "Noise is drawn once, with the committed key",
        "If another attempt has just finished, run again; else restore the key store, or release another date "
        "(of nights that share a charge: plan new ones under another continual.first)",
    )


def publish(plan: Plan, staged: Staged) -> Published:
    """Make the staged release visible at once; the same bits may be published again without effect."""
    return publishing.publish(plan.loaded.output_root, plan.release_id, staged)


def seal(books: Books, reservation: Reservation, published: Published) -> Outcome:
    """Destroy the key, and mark the charge as released."""
    charge_id, release_id = reservation.charge.charge_id, reservation.charge.release_id
    publishing.sweep_staging(books.loaded.output_root, release_id)
    books.keys.destroy(charge_id)
    result = result_digest(published.path) if reservation.growth else None
    books.ledger.released(charge_id, published.output_digest, published.path.name, result)
    lineage.tell(books.loaded, books.ledger, reservation.charge)
    return Outcome(
        release_id,
        published.path,
        published.pointer,
        published.output_digest,
        charge_id,
        reservation.resumed,
    )


def abandon(books: Books, reservation: Reservation, reason: str) -> bool:
    """After a failure: give the budget back if nothing was drawn.

    Returns
    -------
    True if the charge is void, False if it is committed and stands.
    """
    voided = books.ledger.void_if_reserved(reservation.charge.charge_id, reason)
    if voided:
        books.keys.destroy(reservation.charge.charge_id)
    lineage.tell(books.loaded, books.ledger, reservation.charge)
    return voided

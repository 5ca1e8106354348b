"""What becomes of a ledger whose key of digests was lost: the way out where no copy of the key is left.

Nobody can tell any more which records a charge was for. So a new key is made, and each store of the ledger that is
still there is digested under it, with all records that it has had. That finds records which are charged again as
another part, or under another budget. Whatever cannot be found so is refused:

* a reservation is given back, and a charge that was committed stands: what was not published is never drawn;
* a series ends, for its next night must continue records that nothing shows;
* a part is charged as all records where records of another part of its data set are in no store that is still there.

An operator states the loss, and the ledger keeps it for ever. Killed at any step, the same command finishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex

from blockveil.pipeline.base.errors import LedgerError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.ledger import Ledger, refusals
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.grants import named_grant
from blockveil.pipeline.ledger.renewals import KeyLoss, Renewal, Renewals
from blockveil.pipeline.releases.contents import key_in_use, key_name
from blockveil.pipeline.releases.keys import NoiseKeys, content_keys, open_keys
from blockveil.pipeline.releases.renewing import by_newest_store, identities_of, opened_store, standing_of


@dataclass(frozen=True)
class KeyReplacement:
    """What was done where a key was lost.

    Attributes
    ----------
    sequence
        Number of the entry that says so.
    given_back
        Releases whose reservations were given back.
    parts
        A release of each part of which some records are in no store that is still there.
    """

    sequence: int
    given_back: tuple[str, ...]
    parts: tuple[str, ...]

    def __str__(self) -> str:
        """Lines for a person."""
        lines = [f"Entry {self.sequence}: the ledger goes on under a new key. Series that were begun are ended."]
        lines += [f"Given back, for nothing was drawn: {release_id}" for release_id in self.given_back]
        lines += [
            f"The records of {release_id} are not all in a store that is still there: other parts of its data set are "
            "charged as all records, without data.partition_by"
            for release_id in self.parts
        ]
        return "\n".join(lines)


def replace_lost_key(loaded: LoadedConfig, by: str, why: str, gone: Sequence[str] = ()) -> KeyReplacement:
    """Make a new key for the digests of a ledger whose key was lost, and digest all its stores.

    Parameters
    ----------
    loaded
        Config that names the ledger and the key store.
    by, why
        Who states that the key was lost, and what happened: a line each.
    gone
        Stores that are gone for good.

    Raises
    ------
    LedgerError
        The key is there, nothing stands under it, a line is empty, or the ledger cannot be changed.
    StoreError
        A store of the ledger, or the key store, cannot be read.
    """
    grant, ledger, keys = named_grant(by, why), Ledger(loaded.ledger_url), open_keys(loaded)
    first, renewals = ledger.first(), ledger.renewals()
    if not first:
        raise refusals.no_entries()
    if renewals.check_value is None or key_in_use(first, renewals, keys) is not None:
        raise LedgerError(
            "The key of this ledger's digests of records is not lost",
            "A new key lets nobody compare records with those of earlier charges, so it is made only where one is lost",
            "Go on",
        )
    new = ContentKey(content_keys(keys).create(key_name(first, renewals.generation + 1)))
    digests, parts = _digested(ledger, new, gone)
    renewal = Renewal(token_hex(16), new.check_value, digests, loss=KeyLoss(grant["granted_by"], grant["why"], parts))
    given_back = ledger.renew(renewal, renewals)
    _destroy(keys, first, renewals, [charge_id for _, charge_id in given_back])
    released = tuple(release_id for release_id, _ in given_back)
    return KeyReplacement(ledger.renewals().key_lost, released, tuple(parts.values()))


def _destroy(keys: NoiseKeys, first: str, seen: Renewals, charges: Sequence[str]) -> None:
    """Destroy what lay in place of the key, and the noise keys of reservations that were given back."""
    content_keys(keys).destroy(key_name(first, seen.generation))
    for charge_id in charges:
        keys.destroy(charge_id)


def _digested(
    ledger: Ledger, new: ContentKey, gone: Sequence[str]
) -> tuple[dict[str, dict[str, str | list[str]]], dict[str, str]]:
    """Digests of each store for the newest charge of each name, and parts with records that are in no store."""
    standing = [one for one in standing_of(ledger.history()) if "stored" in one.payload]
    digests, still_there = dict[str, dict[str, str | list[str]]](), set[str]()
    for (store, array), charges in by_newest_store(standing).items():
        if store in gone:
            continue
        stored = opened_store(store, array, erased=False)
        contract = Contract.of(stored)
        store_id = None if contract is None else contract.store_id  # None, too, of one that no ingest made
        theirs = [one for one in charges if one.payload["stored"].get("store_id") == store_id]
        any_of: list[str] = [new.fingerprint(one) for one in identities_of(stored)] if theirs else []
        digests |= {str(one.charge_id): {"any_of": any_of} for one in _newest_of_each(theirs)}
        still_there |= {str(one.charge_id) for one in theirs}
    lost = [one for one in standing if one.part is not None and str(one.charge_id) not in still_there]
    return digests, {str(one.part): str(one.release_id) for one in lost}


def _newest_of_each(charges: Sequence[Entry]) -> list[Entry]:
    """The newest charge of each name, part and budget: the others are of the same store and say nothing else."""
    newest = {(str(one.release_id).rpartition("/")[0], one.part, one.dataset): one for one in charges}
    return list(newest.values())

"""What an erasure does in the ledgers of the releases that read a store: a new key for all digests, the old destroyed.

Digests under the old key are of records that are gone. Each digest that stands in a ledger, and is of records of a
store of that ledger as they are, is booked beside the one that takes its place. A store that cannot be read stops the
erasure before anything is destroyed. A night that is unfinished, and began with records that are erased, stops it too:
it could not be finished any more. From its reservation to its seal the ledger holds the records for it, and a charge
that is reserved while an erasure looks is refused, or refuses the erasure, by the ledger's transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blockveil.pipeline.base.errors import BlockveilError, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.fingerprint import fingerprint, prefixes
from blockveil.pipeline.data.grown_rows import GrownRows
from blockveil.pipeline.data.history import ends_of, histories
from blockveil.pipeline.data.ingest import release_list
from blockveil.pipeline.data.ingest.finishing import StoreChange
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.sparse_store import Stored, open_rows
from blockveil.pipeline.data.stores import unreadable
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import Entry, state_of
from blockveil.pipeline.ledger.renewals import Renewal
from blockveil.pipeline.releases.contents import LedgerDigests, key_name
from blockveil.pipeline.releases.keys import NoiseKeys, content_keys, open_keys

_NAMES = ("fingerprint", "history")


@dataclass(frozen=True)
class ReleaseLedgers:
    """Ledgers of the releases of a store (:class:`.finishing.Ledgers`).

    Attributes
    ----------
    more
        Configs of further releases, which read a copy of the store or could not enter themselves beside it.
    gone
        Configs and stores that are gone for good, and are passed over.
    """

    more: Sequence[Path] = ()
    gone: Sequence[str] = ()

    def check(self, releases: Sequence[Path], change: StoreChange) -> None:
        """See :class:`.finishing.Ledgers`."""
        for one in self._opened(releases):
            one.digests(change)

    def book(self, releases: Sequence[Path], renewal_id: str, change: StoreChange) -> None:
        """See :class:`.finishing.Ledgers`."""
        for one in self._opened(releases):
            if renewal_id not in one.contents.renewals.names:
                one.renew(renewal_id, change)

    def has(self, releases: Sequence[Path], renewal_id: str) -> bool:
        """See :class:`.finishing.Ledgers`."""
        return any(renewal_id in one.contents.renewals.names for one in self._opened(releases))

    def destroy(self, releases: Sequence[Path], renewal_id: str) -> None:
        """See :class:`.finishing.Ledgers`."""
        for one in self._opened(releases):
            names = one.contents.renewals.names
            if renewal_id in names:
                content_keys(one.keys).destroy(key_name(one.ledger.first(), names.index(renewal_id)))

    def _opened(self, releases: Sequence[Path]) -> Iterator[_OpenedLedger]:
        """Each ledger once."""
        first_entries = set[str]()
        for path in dict.fromkeys(releases):
            if path.resolve() in {Path(one).resolve() for one in self.gone}:
                continue
            try:
                loaded = load_config(path)
                ledger = Ledger(loaded.ledger_url)
                first = ledger.first() if ledger.exists() else ""
            except BlockveilError as error:
                raise _unreadable(f'The config "{path.name}" of a release of these records', error) from None
            if first and first not in first_entries:
                first_entries.add(first)
                keys = open_keys(loaded)
                yield _OpenedLedger(ledger, keys, LedgerDigests.of(ledger, keys), tuple(self.gone))


@dataclass(frozen=True)
class _OpenedLedger:
    """A ledger with its key store and its digests."""

    ledger: Ledger
    keys: NoiseKeys
    contents: LedgerDigests
    gone: tuple[str, ...]

    def renew(self, renewal_id: str, change: StoreChange) -> None:
        """Book the digests under a new key."""
        renewals = self.contents.renewals
        new = ContentKey(content_keys(self.keys).create(key_name(self.ledger.first(), renewals.generation + 1)))
        digests, erased = self.digests(change, new)
        self.ledger.renew(Renewal(renewal_id, new.check_value, digests, erased), renewals)

    def digests(
        self, change: StoreChange, new: ContentKey | None = None
    ) -> tuple[dict[str, dict[str, str | list[str]]], list[str]]:
        """Digests under a new key of the records of all charges, and charges of records to erase; else a check.

        Raises
        ------
        LedgerError
            A night that began with records to erase is unfinished.
        StoreError
            Another store of the ledger cannot be read.
        """
        digests, erased = dict[str, dict[str, str | list[str]]](), list[str]()
        entries, keys = self.ledger.history(), (self.contents.key, new or self.contents.key)
        states = {charge: state_of(each) for charge, each in _by_charge(entries).items()}
        renewals = self.contents.renewals
        standing = [one for one in standing_of(entries) if renewals.is_comparable(one) or renewals.any_of(one)]
        own = [one for one in standing if _is_of(one, change)]
        replaced, gone = _changed(change, self._wanted(own), keys)
        for one in own:
            digests[str(one.charge_id)] = self._renewed(one, replaced)
            if not gone.isdisjoint(self._digests(one).values()):
                erased.append(str(one.charge_id))
                self._require_finished(one, states[one.charge_id])
        for (store, array), theirs in by_newest_store([one for one in standing if one not in own]).items():
            if store not in self.gone:
                same = _unchanged(opened_store(store, array), self._wanted(theirs), keys)
                digests |= {str(one.charge_id): self._renewed(one, same) for one in theirs}
        return {charge: each for charge, each in digests.items() if each}, erased

    def _digests(self, reserved: Entry) -> dict[str, str]:
        in_use = {name: self.contents.renewals.now(reserved, name) for name in _NAMES}
        return {name: digest for name, digest in in_use.items() if digest is not None}

    def _wanted(self, charges: Sequence[Entry]) -> dict[str, set[str]]:
        return {name: {self._digests(one).get(name, "") for one in charges} - {""} for name in _NAMES}

    def _renewed(self, reserved: Entry, replaced: Mapping[str, str]) -> dict[str, str | list[str]]:
        any_of = [replaced[one] for one in self.contents.renewals.any_of(reserved) if one in replaced]
        exact = {name: replaced[one] for name, one in self._digests(reserved).items() if one in replaced}
        return {**exact, "any_of": any_of} if any_of else {**exact}

    def _require_finished(self, reserved: Entry, state: State) -> None:
        if state is State.RELEASED:
            return
        if state is State.COMMITTED and self.keys.read(str(reserved.charge_id)) is None:
            return  # published, and only its entry is missing, or its key is lost: no records finish it
        remedy = f"Run the config of '{reserved.release_id}' for its date again, which costs nothing more"
        if state is State.RESERVED:
            remedy += f", or give its charge back with `blockveil ledger admin void CONFIG {reserved.release_id}`"
        raise LedgerError(
            f"'{reserved.release_id}' began with records that are to be erased, and is {state}",
            "A night is finished with the records that its charge is for",
            f"{remedy}; then erase",
        )


def _by_charge(entries: Sequence[Entry]) -> dict[str | None, list[Entry]]:
    by_charge = dict[str | None, list[Entry]]()
    for one in entries:
        by_charge.setdefault(one.charge_id, []).append(one)
    return by_charge


def standing_of(entries: Sequence[Entry]) -> list[Entry]:
    """Reservations of charges that were not given back, in order."""
    states = {charge: state_of(each) for charge, each in _by_charge(entries).items()}
    return [one for one in entries if one.kind == State.RESERVED and states[one.charge_id] is not State.VOID]


def _is_of(reserved: Entry, change: StoreChange) -> bool:
    """Whether a charge is of records of the store, or of a copy of it, which has its random name."""
    store, contract = reserved.payload.get("stored", {}), Contract.of(change.before)
    store_id = None if contract is None else contract.store_id
    return "store_id" in store and store["store_id"] == store_id


def _changed(
    change: StoreChange, wanted: Mapping[str, set[str]], keys: tuple[ContentKey, ContentKey]
) -> tuple[dict[str, str], set[str]]:
    """What takes the place of digests of the store, and which of them are of records of which some are erased."""
    old, new = keys
    pairs = list(zip(prefixes(change.before), prefixes(change.after), strict=True))
    first = next((count for count, (one, other) in enumerate(pairs) if one != other), len(pairs))
    rows = [
        ([old.fingerprint(one) for one, _ in pairs], [new.fingerprint(other) for _, other in pairs]),
    ]
    if wanted["history"]:
        ends = [array.manifest.borders[1:] for array in (change.before, change.after)]
        rows.append((histories(change.before, old, ends[0]), histories(change.after, new, ends[1])))
    replaced = {one: other for before, after in rows for one, other in zip(before, after, strict=True)}
    return replaced, {one for before, _ in rows for one in before[first:]}


def _unchanged(array: Stored, wanted: Mapping[str, set[str]], keys: tuple[ContentKey, ContentKey]) -> dict[str, str]:
    """What takes the place of digests of the records of another store, which stay as they are."""
    old, new = keys
    replaced = {old.fingerprint(one): new.fingerprint(one) for one in identities_of(array)}
    ends = sorted({*ends_of(array, old, wanted["history"]).values()})  # nothing is read where no series is of it
    return replaced | dict(zip(histories(array, old, ends), histories(array, new, ends), strict=True))


def identities_of(array: Stored) -> list[str]:
    """Identities of all records that a store has had: of one that grows, before each append too."""
    return prefixes(array) if isinstance(array, GrownRows) else [fingerprint(array)]


def by_newest_store(charges: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Charges by the store that the newest release of their name was of: a store may have been moved."""
    newest = dict[str, tuple[str, str]]()
    for one in charges:
        if (store := one.payload.get("stored")) is not None:
            newest[_owner(one)] = store["store"], store["array"]
    by_store = dict[tuple[str, str], list[Entry]]()
    for one in charges:
        if _owner(one) in newest:
            by_store.setdefault(newest[_owner(one)], []).append(one)
    return by_store


def _owner(reserved: Entry) -> str:
    return str(reserved.release_id).rpartition("/")[0]


def opened_store(store: str, array: str, *, erased: bool = True) -> Stored:
    """A store whose records stand in a ledger.

    Parameters
    ----------
    store, array
        Its address, and the array.
    erased
        Whether no erasure may be unfinished in it.

    Raises
    ------
    StoreError
        It cannot be read, or an erasure is unfinished.
    """
    location: Any = store if "://" in store else Path(store)
    label = f'The store "{store.rpartition("/")[2]}", which stands in the same ledger'
    if erased and isinstance(location, Path):
        release_list.require_erased(location)
    try:
        return open_rows(location, array, label)
    except BlockveilError as error:
        failure: BlockveilError = _unreadable(label, error)
    except Exception as error:  # noqa: BLE001 - a reader of foreign files may raise anything
        failure = unreadable(label, error)
    raise failure


def _unreadable(what: str, error: BlockveilError) -> StoreError:
    return StoreError(
        f"{what} cannot be read: {error.value}",
        "All digests of records in a ledger, of all its stores, are under one key, and are replaced together; nothing "
        "was changed",
        "Put it back, or run again with --deleted-store PATH if it is gone for good",
    )

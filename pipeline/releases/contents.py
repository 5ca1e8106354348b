"""The key under which a ledger has digests of records, and what became of digests under keys before it.

One key serves all stores of a ledger, so that records which stand under another part or data set are found. It is a
secret of the key store, made when the first release needs it. The number of renewals in the ledger names the key in
use, so a process that read the ledger before an erasure cannot book a digest under the key that is destroyed: the
ledger refuses a charge of another number.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from blockveil.pipeline.base.errors import DataError, KeyLost
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.datasets import Dataset
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.entries import Entry
from blockveil.pipeline.ledger.renewals import Renewals
from blockveil.pipeline.releases.keys import NoiseKeys, content_keys, secret_of


@dataclass(frozen=True, repr=False)
class LedgerDigests:
    """Digests of records as a ledger has them.

    Attributes
    ----------
    key
        The key in use.
    renewals
        Which digest took the place of which.
    """

    key: ContentKey
    renewals: Renewals

    def __repr__(self) -> str:
        """Show nothing."""
        return "LedgerDigests()"

    @classmethod
    def of(cls, ledger: Ledger, keys: NoiseKeys) -> LedgerDigests:
        """Those of a ledger and the key store of its releases; its first key is made here.

        Raises
        ------
        KeyLost
            The key in use is not in the key store.
        LedgerError, StoreError
            The ledger or the key store cannot be read.
        """
        renewals, first = ledger.renewals(), ledger.first()
        key = key_in_use(first, renewals, keys)
        if key is None:
            raise KeyLost(
                "The key of what the ledger says of records is not in the key store",
                "Without it nobody knows which records earlier nights were of",
                "Restore the folder content of the key store, as it was after the last erasure. If no copy is left, "
                "run `blockveil ledger admin replace-key CONFIG --by NAME --why REASON`, which ends open series",
            )
        return cls(key, renewals)

    def as_charged(self, dataset: Dataset, reserved: Entry | None) -> Dataset:
        """Records as they were when a charge was reserved, where others were appended since.

        Parameters
        ----------
        dataset
            The records as they are.
        reserved
            Entry of a charge that stands; None where there is none.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        fingerprint = None if reserved is None else self.renewals.now(reserved, "fingerprint")
        return dataset if fingerprint is None else dataset.as_of(fingerprint, self.key)

    def fingerprint(self, dataset: Dataset, reserved: Entry | None) -> str:
        """Fingerprint of records, as a charge that stands has it where it is of the same ones.

        Where the key of its digests was lost, it is taken for the same, and nothing but what was published is its
        release (:meth:`require_whole`).
        """
        fingerprint = self.key.fingerprint(dataset.fingerprint)
        if reserved is None:
            return fingerprint
        comparable = self.renewals.is_comparable(reserved)
        if comparable and self.renewals.now(reserved, "fingerprint") != fingerprint:
            return fingerprint
        return str(reserved.payload["spec"]["data"]["fingerprint"])

    def described(self, loaded: LoadedConfig, dataset: Dataset) -> dict[str, str]:
        """Where an erasure finds records, and what tells the key of their digests: for the ledger alone."""
        store_id = {} if dataset.store_id is None else {"store_id": dataset.store_id}
        place = {"store": str(loaded.store), "array": loaded.config.data.array, **store_id}
        return {**place, "check": self.key.check_value}

    def require_whole(self, reserved: Entry | None) -> None:
        """Refuse to draw the noise of a charge for records that are not, or may not be, those that it was reserved for.

        Raises
        ------
        DataError
            Some of its records were erased.
        KeyLost
            The key of its digests was lost.
        """
        if reserved is not None and not self.renewals.is_comparable(reserved):
            raise KeyLost(
                "The key of digests was lost after this night had begun",
                "Which records its charge is for is not known any more; the charge stands",
                "Release another date, or another name (a new charge)",
            )
        if reserved is not None and reserved.charge_id in self.renewals.erased:
            raise DataError(
                "Some of the records with which this night began were erased",
                "A night is finished with the records that its charge is for, or not at all",
                "Give its charge back with `blockveil ledger admin void` if it is RESERVED, and run again; if it is "
                "COMMITTED, release another date",
            )


def key_in_use(first: str, renewals: Renewals, keys: NoiseKeys) -> ContentKey | None:
    """The key under which a ledger has digests of records, made where it is the first; None where it is lost.

    Parameters
    ----------
    first
        Hash of the ledger's first entry.
    renewals
        What the ledger says of its keys.
    keys
        Key store of its releases.

    Raises
    ------
    StoreError
        The key store cannot be used.
    """
    keys, name = content_keys(keys), key_name(first, renewals.generation)
    # Made unless it is there: one that another process has just made may not be on the disk yet, and a charge whose
    # digests are under a key that a lost power takes could not be finished.
    secret = secret_of(keys, name, new=renewals.check_value is None)
    key = None if secret is None else ContentKey(secret)
    return key if key is None or renewals.check_value in (None, key.check_value) else None


def key_name(first: str, generation: int) -> str:
    """Name of a key in the key store, by the first entry of the ledger and the number of renewals."""
    return hashlib.sha256(f"blockveil content key {first} {generation}".encode()).hexdigest()[:32]

"""Digests of stored records under a private key, as they stand in a ledger: without it nobody can test a guess.

A fingerprint and a history are functions of all records, so whoever has all but one could try what the last one was.
One key serves all stores of a ledger, so that equal records have equal digests. It lies in the ledger's key store, and
an erasure replaces and destroys it (:mod:`blockveil.pipeline.releases.renewing`): what the old digests were of can then
not be tested by anybody.

**Source**: keyed BLAKE2b as in RFC 7693.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

_BYTES = 32


class ContentKey:
    """Digests of records under a key.

    The secret is 32 bytes of the operating system's randomness.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES:
            raise ValueError("a key has 32 bytes")
        self._secret = secret

    def __repr__(self) -> str:
        """Show nothing."""
        return "ContentKey()"

    @property
    def check_value(self) -> str:
        """What tells this key from others, and nothing else of it."""
        return str(self._begun("check").hexdigest())

    def fingerprint(self, identity: str) -> str:
        """Digest of records by their identity (:mod:`.fingerprint`): 64 hexadecimal digits."""
        total = self._begun("fingerprint")
        total.update(identity.encode())
        return str(total.hexdigest())

    def history(self, dtype: np.dtype[Any], features: int) -> Any:
        """A digest that takes in records in their order, by ``update``; ``hexdigest`` is their history so far."""
        total = self._begun("history")
        total.update(f"{dtype.str} {features}\n".encode())
        return total

    def _begun(self, use: str) -> Any:
        return hashlib.blake2b(key=self._secret, digest_size=_BYTES, person=use.encode())

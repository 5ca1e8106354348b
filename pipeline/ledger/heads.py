"""A ledger's head, kept elsewhere: what the last row was at some moment, so that a later truncation shows.

A head that is signed also shows who vouches for it: a key that the ledger's machine does not have is best.

**Source**: Ed25519 as in RFC 8032; HMAC as in RFC 2104.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from blockveil.pipeline.base import ed25519
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import LedgerError

_SHORTEST_SECRET = 32
_FIELDS = {"entries": int, "hash": str, "time": str, "root": str, "withdrawn": list}
_SIGNED = {"algorithm": str, "signature": str}


@dataclass(frozen=True)
class Head:
    """The last row of a ledger.

    Attributes
    ----------
    entries
        Number of rows.
    hash
        Hash of the last one.
    time
        Its time, UTC as ISO text; empty where there is no row.
    root
        Root of the tree over the hashes of all rows (:mod:`.inclusion`).
    withdrawn
        Hashes of the entries that paid for releases which were withdrawn.
    algorithm, signature
        ``ed25519`` or ``hmac-sha256`` and the signature in hexadecimal digits; empty where it is not signed.
    """

    entries: int
    hash: str
    time: str
    root: str
    withdrawn: tuple[str, ...]
    algorithm: str = ""
    signature: str = ""

    def signed(self, key: str) -> Head:
        """Return the same head with a signature.

        Parameters
        ----------
        key
            An Ed25519 private key in PEM, or a secret text of at least 32 characters for HMAC.

        Raises
        ------
        LedgerError
            The key is none of these.
        """
        if not _is_pem(key):
            return replace(self, algorithm="hmac-sha256", signature=_mac(key, self._message()).hex())
        private = ed25519.private_key(key)
        if private is None:
            raise _bad_key("an Ed25519 private key in PEM, without a passphrase")
        return replace(self, algorithm="ed25519", signature=private.sign(self._message()).hex())

    def check(self, key: str | None) -> None:
        """Refuse a head whose signature is missing, wrong, or cannot be checked.

        Parameters
        ----------
        key
            The Ed25519 public key in PEM, or the secret of HMAC; None for a head without a signature.

        Raises
        ------
        LedgerError
            It is signed and there is no key, or the other way round; or the signature is not of this key.
        """
        if key is None and not self.algorithm:
            return
        if key is None:
            raise LedgerError(
                "The head is signed, and no key is given to check it with",
                "A signature that is not checked protects nothing",
                "Give --key, a reference to the public key or to the secret",
            )
        if not self._matches(key):
            raise LedgerError(
                "The head does not carry a signature of this key" if self.algorithm else "The head is not signed",
                "With a key, only a head that was signed with it counts",
                "Take the head from where it was kept, and check the key",
            )

    def _matches(self, key: str) -> bool:
        try:
            signature = bytes.fromhex(self.signature)
        except ValueError:
            return False
        if self.algorithm == "hmac-sha256" and not _is_pem(key):
            return hmac.compare_digest(_mac(key, self._message()), signature)
        if self.algorithm != "ed25519" or not _is_pem(key):
            return False
        try:
            _public_key(key).verify(signature, self._message())
        except InvalidSignature:
            return False
        return True

    def _message(self) -> bytes:
        return canonical_json({"what": "blockveil ledger head", **self._statement()})

    def _statement(self) -> dict[str, Any]:
        rooted = {"root": self.root, "withdrawn": list(self.withdrawn)}
        return {"entries": self.entries, "hash": self.hash, "time": self.time, **rooted}

    def to_json(self) -> str:
        """One line of JSON, to be kept elsewhere."""
        signature = {"algorithm": self.algorithm, "signature": self.signature} if self.algorithm else {}
        return canonical_json({**self._statement(), **signature}).decode()

    @classmethod
    def from_json(cls, text: str) -> Head:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        LedgerError
            It is something else.
        """
        try:
            tree = json.loads(text)
        except ValueError:
            tree = None
        if isinstance(tree, dict) and tree.keys() in (_FIELDS.keys(), (_FIELDS | _SIGNED).keys()):
            right = all(type(value) is (_FIELDS | _SIGNED)[name] for name, value in tree.items())
            if right and all(map(is_hash, [tree["hash"], tree["root"], *tree["withdrawn"]])):
                return cls(**tree | {"withdrawn": tuple(tree["withdrawn"])})
        raise LedgerError(
            "The head is not readable",
            "It is a hash of 64 hexadecimal digits, or the JSON that `blockveil ledger head` prints",
            "Take it from where it was kept",
        )


def is_hash(text: object) -> bool:
    """Whether something is the text of a row's hash."""
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _is_pem(key: str) -> bool:
    """Whether a key is in PEM, also below a comment: the text of a public key must never count as a secret."""
    return "-----BEGIN" in key


def _mac(secret: str, message: bytes) -> bytes:
    if len(secret) < _SHORTEST_SECRET:
        raise _bad_key(f"a secret of at least {_SHORTEST_SECRET} characters, or an Ed25519 key in PEM")
    return hmac.new(secret.encode(), message, hashlib.sha256).digest()


def _public_key(pem: str) -> Ed25519PublicKey:
    key = ed25519.public_key(pem)
    if key is None:
        raise _bad_key("an Ed25519 key in PEM")
    return key


def _bad_key(wanted: str) -> LedgerError:
    return LedgerError("The key is not usable (it is not shown)", f"It must be {wanted}", "Correct what is referred to")

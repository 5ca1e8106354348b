"""Keys that sign what is published or kept elsewhere.

**Source**: RFC 8032. A signature is a function of key and message, so that a resumed run signs as the first did.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def private_key(pem: str) -> Ed25519PrivateKey | None:
    """Private key of a text in PEM without a passphrase; None where it is something else."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def public_key(pem: str) -> Ed25519PublicKey | None:
    """Public key of a text in PEM, of the key itself or of its private key; None where it is something else."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        private = private_key(pem)
        return None if private is None else private.public_key()
    return key if isinstance(key, Ed25519PublicKey) else None


def fingerprint_of(raw_key: bytes) -> str:
    """Short name of a public key: the first digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(raw_key).hexdigest()[:32]


def raw(key: Ed25519PublicKey) -> bytes:
    """The 32 bytes of a public key."""
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)

"""The private key of one store that grows: whatever is kept beside it about identifiers, rows and files is under it.

An erased unit must find its rows used up for ever, so what tells that cannot be digested anew when the unit is gone.
Without the key nothing of it can be recomputed from a guess: files of units and rows are encrypted as a whole, each
from a random number of its own, so that neither a content nor a place in the order of units shows; the state is
encrypted and authenticated; digests that stand in the store are keyed. Who holds the key can test a guess.

The key is 32 bytes of the operating system's randomness in a file of mode 0600 beside the store. It stands in no config
and is never replaced: without it nobody knows what was taken in.

**Source**: AES-256 in the modes CTR and GCM as in NIST SP 800-38A and 38D; keyed BLAKE2b as in RFC 7693.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_bytes
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.canonical import canonical_json

NAME = "identity"
"""File of the key in the folder of the state."""

_UNFINISHED = "unfinished.new"
_OF_VERSION_1_0 = "identity.new"
"""What version 1.0 leaves where it is killed while it makes the key."""

_BYTES, _NONCE, _BLOCK = 32, 12, 16


class IdentityKey:
    """Keyed digests and encryption for what is kept beside a store."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != _BYTES:
            raise ValueError("a key has 32 bytes")
        self._secret = secret

    def __repr__(self) -> str:
        """Show nothing."""
        return "IdentityKey()"

    @classmethod
    def load(cls, folder: Path) -> IdentityKey:
        """The key in a folder; OSError or ValueError where there is none, or it is damaged."""
        with os.fdopen(os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            return cls(stream.read())

    @classmethod
    def load_or_create(cls, folder: Path) -> IdentityKey:
        """The key in a private folder, drawn where the folder is new; it is on the disk when this returns.

        Raises
        ------
        OSError, ValueError
            It is damaged, cannot be made, or is gone from a folder that holds something under it.
        """
        if set(os.listdir(folder)) <= {_UNFINISHED, _OF_VERSION_1_0}:
            replace_private(folder / NAME, token_bytes(_BYTES))
            durable.sync(folder.parent)
        return cls.load(folder)

    def digest(self, value: Any) -> str:
        """Keyed digest of plain JSON values: 64 hexadecimal digits."""
        return hashlib.blake2b(canonical_json(value), key=self._subkey("digest"), digest_size=32).hexdigest()

    def digest_of_bytes(self, content: bytes) -> str:
        """Keyed digest of bytes: 64 hexadecimal digits."""
        return hashlib.blake2b(content, key=self._subkey("bytes"), digest_size=32).hexdigest()

    @property
    def store_id(self) -> str:
        """Random name of the store: 32 hexadecimal digits, which tell nothing of the key."""
        return self._subkey("store").hex()[:32]

    def sealed(self, content: bytes) -> bytes:
        """Encrypt and authenticate a content."""
        nonce = token_bytes(_NONCE)
        return nonce + AESGCM(self._subkey("state")).encrypt(nonce, content, None)

    def unsealed(self, sealed: bytes) -> bytes:
        """What was sealed; ValueError where it was not sealed with this key, or changed since."""
        try:
            return AESGCM(self._subkey("state")).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except InvalidTag:
            pass
        raise ValueError("not sealed with this key")

    def encrypted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Encrypt a long content piece by piece; :class:`EncryptedFile` reads any stretch of it."""
        nonce = token_bytes(_BLOCK)
        yield nonce
        encryptor = self._cipher(nonce, 0).encryptor()
        for piece in pieces:
            yield encryptor.update(piece)

    def decrypted(self, nonce: bytes, start: int, content: bytes) -> bytes:
        """A stretch of what :meth:`encrypted` gave, ``content``, that begins ``start`` bytes behind the nonce."""
        skipped = start % _BLOCK
        decryptor = self._cipher(nonce, start // _BLOCK).decryptor()
        return decryptor.update(bytes(skipped) + content)[skipped:]

    def _cipher(self, nonce: bytes, block: int) -> Cipher[CTR]:
        counter = (int.from_bytes(nonce, "big") + block) % 2**128
        return Cipher(AES256(self._subkey("files")), CTR(counter.to_bytes(_BLOCK, "big")))

    def _subkey(self, use: str) -> bytes:
        return hashlib.blake2b(use.encode(), key=self._secret, digest_size=32, person=b"blockveil ids").digest()


class EncryptedFile:
    """An open file of :meth:`IdentityKey.encrypted`, of which stretches are read.

    The folder of the file holds the key.
    """

    def __init__(self, file: Path) -> None:
        self._key = IdentityKey.load(file.parent)
        self._stream = open(file, "rb")  # noqa: SIM115 - closed by the caller's `with`
        self._nonce = self._stream.read(_BLOCK)

    def __enter__(self) -> EncryptedFile:
        """Read inside of a ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._stream.close()

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return content_bytes(os.fstat(self._stream.fileno()).st_size)

    def read(self, start: int, count: int) -> bytes:
        """A stretch of the content."""
        self._stream.seek(_BLOCK + start)
        return self._key.decrypted(self._nonce, start, self._stream.read(count))


def content_bytes(size: int) -> int:
    """Bytes of content in an encrypted file of some bytes."""
    return max(0, size - _BLOCK)


def open_private(file: Path) -> Any:
    """A new file, or one of an attempt that was killed, that nobody else may read."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb")


def replace_private(file: Path, content: bytes) -> None:
    """Replace a file that nobody else may read; it is on the disk when this returns."""
    unfinished = file.with_name(_UNFINISHED)
    with open_private(unfinished) as stream:
        stream.write(content)
    durable.sync(unfinished)
    unfinished.replace(file)
    durable.sync(file.parent)

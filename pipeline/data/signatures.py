"""Signatures of releases: whose a release is, for whoever has the public key from elsewhere.

What is signed is all that the release states of itself, the digest of its values included. The signature stands among
these attributes, so that a copy of the release has it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from blockveil.pipeline.base import ed25519
from blockveil.pipeline.base.canonical import canonical_json
from blockveil.pipeline.base.errors import ConfigError

if TYPE_CHECKING:
    from blockveil.pipeline.config import LoadedConfig

ATTRIBUTE = "signature"
"""Name of a release's attribute."""

_ALGORITHM = "ed25519"


@dataclass(frozen=True)
class Signer:
    """Signs releases.

    Attributes
    ----------
    key
        Never shown.
    """

    key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Signer | None:
        """What signs the releases of a config; None where they are not signed.

        Raises
        ------
        ConfigError
            What the config refers to is no such key. It is not shown.
        """
        # Takes long to import, and who verifies a release reads no config.
        from blockveil.pipeline.config.secrets import read_secret

        reference = loaded.config.output.signing_key
        if reference is None:
            return None
        key = ed25519.private_key(read_secret("output.signing_key", reference, loaded.base))
        if key is None:
            raise ConfigError(
                "output.signing_key: what it refers to is not usable (it is not shown)",
                "It must be an Ed25519 private key in PEM, without a passphrase",
                "Make one with `openssl genpkey -algorithm ed25519`",
            )
        return cls(key)

    def signature(self, attributes: Mapping[str, Any]) -> dict[str, str]:
        """Signature of what a release states, as plain JSON: algorithm, public key and signature."""
        return {
            "algorithm": _ALGORITHM,
            "public_key": ed25519.raw(self.key.public_key()).hex(),
            "signature": self.key.sign(_message(attributes)).hex(),
        }


def signer_of(attributes: Mapping[str, Any]) -> Ed25519PublicKey | None:
    """Public key with which a release was signed; None where it is not signed.

    Raises ValueError where the signature does not fit what the release states.
    """
    signature = attributes.get(ATTRIBUTE)
    if signature is None:
        return None
    try:
        if signature["algorithm"] != _ALGORITHM:
            raise ValueError("the signature is of another kind than Ed25519")
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature["public_key"]))
        key.verify(bytes.fromhex(signature["signature"]), _message(attributes))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        failure = ValueError("the signature does not fit what the release states")
    else:
        return key
    raise failure


def fingerprint(key: Ed25519PublicKey) -> str:
    """Short name of a public key: the first digits of the SHA-256 of its 32 bytes."""
    return ed25519.fingerprint_of(ed25519.raw(key))


def _message(attributes: Mapping[str, Any]) -> bytes:
    content = {name: value for name, value in attributes.items() if name != ATTRIBUTE}
    return canonical_json({"what": "blockveil release", "stated": content})

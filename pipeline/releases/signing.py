"""Whether releases of a config are signed, and with which key."""

from __future__ import annotations

from blockveil.pipeline.base import ed25519
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.data.signatures import Signer


def signer(loaded: LoadedConfig) -> Signer | None:
    """Return what signs the releases of a config; None where they are not signed.

    Raises
    ------
    ConfigError
        What the config refers to is no such key. It is not shown.
    """
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
    return Signer(key)

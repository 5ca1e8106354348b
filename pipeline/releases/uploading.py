"""Whether and with which credentials the releases of a config are sent to an object store, and what was sent before."""

from __future__ import annotations

import tomllib
from pathlib import Path

from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.secrets import read_secret
from blockveil.pipeline.data.signatures import Signer
from blockveil.pipeline.releases import publishing
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.destination import KEY, Destination
from blockveil.pipeline.releases.publishing import Published


def destination_of(loaded: LoadedConfig) -> Destination | None:
    """Where the releases of a config are sent, or None; ConfigError where its credentials cannot be read."""
    output = loaded.config.output
    if output.upload is None:
        return None
    return Destination(output.upload, credentials("output.upload_credentials", output.upload_credentials, loaded.base))


def credentials(key: str, reference: str | None, base: Path) -> dict[str, str] | None:
    """Settings of a client that a reference stands for, or None where none is given.

    Parameters
    ----------
    key
        How the reference is called where it was written, for messages.
    reference
        ``env:NAME`` or ``file:PATH`` of lines ``NAME = "VALUE"``.
    base
        Folder that a relative path starts from.

    Raises
    ------
    ConfigError
        There is nothing where it points, or something else. No value is shown.
    """
    if reference is None:
        return None
    try:
        found = tomllib.loads(read_secret(key, reference, base))
    except tomllib.TOMLDecodeError:
        found = {}
    if found and all(isinstance(value, str) for value in found.values()):
        return found
    raise ConfigError(
        f"{key}: what it refers to does not hold credentials (it is not shown)",
        'They are lines NAME = "VALUE", such as aws_access_key_id = "..."',
        "Correct it",
    )


def require_places(loaded: LoadedConfig, root: Path, release_id: str) -> None:
    """Check, before anything is paid for, that a release can be written, signed, and sent where it is to be.

    Parameters
    ----------
    loaded
        Config of the release.
    root, release_id
        As for :func:`.publishing.find_published`.

    Raises
    ------
    ConfigError
        As :meth:`.Signer.of`.
    StoreError
        As :func:`.publishing.require_place` and :meth:`.Destination.require`.
    """
    publishing.require_place(root, release_id)
    Signer.of(loaded)
    place = destination_of(loaded)
    if place is not None:
        place.require(release_id)


def send(loaded: LoadedConfig, published: Published, tell: Tell) -> None:
    """Send a published release, where it is to be; raises as :meth:`Destination.send`.

    Parameters
    ----------
    loaded
        Config of the release.
    published
        The release in ``output.root``.
    tell
        Receives progress in the user's words.
    """
    place = destination_of(loaded)
    if place is not None:
        place.send(published, lambda share: tell("sending the release", share))


def find_published(loaded: LoadedConfig, root: Path, release_id: str, charge_id: str) -> Published | None:
    """Return a release if it is published in ``output.root`` or was sent, from where it is brought back.

    Parameters
    ----------
    loaded
        Config of the release.
    root, release_id, charge_id
        As for :func:`.publishing.find_published`.

    Raises
    ------
    StoreError
        The release is damaged, or was paid for by another charge, or the object store refuses.
    """
    place = destination_of(loaded)
    found = publishing.find_published(root, release_id, charge_id)
    if place is None:
        return found
    seen = place.pointer(release_id)
    if seen is None:
        return found
    if seen.get("ledger", {}).get("charge_id") != charge_id:
        raise StoreError(
            f"release {release_id} was sent to {KEY}, but under another charge",
            "A published release never changes, and its ledger entry must be in this ledger",
            f"Check that {KEY} and output.ledger belong together",
        )
    return found or place.bring_back(root, release_id)

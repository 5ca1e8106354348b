"""Bounds that a config takes from a release: the ledger must know that release, or its report would claim too much."""

from __future__ import annotations

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.config.bounds_file import content_of
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.ledger.entries import WITHDRAWN


def require_paid(loaded: LoadedConfig, ledger: Ledger) -> None:
    """Refuse bounds from a release that this ledger has not charged and sealed.

    Parameters
    ----------
    loaded
        Config of the release to be made.
    ledger
        The ledger that pays for it.

    Raises
    ------
    ConfigError
        It names a file of bounds whose release the ledger does not know as released, or knows with other content.
    LedgerError
        The ledger cannot be read.
    """
    for key, shape in loaded.config.query.geometries.items():
        if not isinstance(shape, BoxGeometry) or shape.bounds_release is None:
            continue
        history = ledger.history(release_id=shape.bounds_release)
        released = [each for each in history if each.kind == State.RELEASED]
        content = content_of(loaded, key, shape)
        if released and all(each.payload["output_digest"] != content for each in released):
            raise ConfigError(
                f"query.{key}.bounds: the file is of another release {shape.bounds_release} than the ledger's",
                "A file of bounds states the content of the release that paid for them",
                "Write it again with blockveil public bounds read, from the release that this ledger charged",
            )
        if any(each.kind == WITHDRAWN for each in history):
            raise ConfigError(
                f"query.{key}.bounds: the release {shape.bounds_release} was withdrawn",
                "What a withdrawn release says is not to be used",
                "Release bounds anew, or write lower and upper of each feature from public knowledge",
            )
        if not released:
            raise ConfigError(
                f"query.{key}.bounds: the ledger has no release {shape.bounds_release}",
                "Bounds that the records gave are paid for by a release in the ledger that pays for this one",
                "Make that release with this ledger, or write lower and upper of each feature from public knowledge",
            )

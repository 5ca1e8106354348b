"""Releases with mechanisms and queries of other packages: refused unless the config allows it, and named everywhere."""

from __future__ import annotations

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig, ReleaseConfig
from blockveil.pipeline.config.secrets import is_of_another_package


def unvetted_words(config: ReleaseConfig) -> str | None:
    """What a release rests on that nobody has checked with this product; None where there is nothing of that kind."""
    parts = [each.facts for each in config.unvetted]
    if not parts:
        return None
    names = ", ".join(f'{each["table"]} "{each["kind"]}" of {each["package"]} {each["version"]}' for each in parts)
    return f"unvetted: {names}; whether its guarantee holds was not checked with this product"


def require_allowed(loaded: LoadedConfig) -> None:
    """Refuse to release with what is unvetted, unless the config allows it.

    Raises
    ------
    ConfigError
        The config names a kind of another package, or its ledger or its keys are kept by one, without
        ``allow_unvetted = true``.
    """
    words = unvetted_words(loaded.config)
    if words is None and is_of_another_package(loaded.ledger_url):
        words = "unvetted: another package keeps its ledger; that no charge is forgotten was not checked"
    if words is None and loaded.keys_root is None:
        words = "unvetted: another package keeps its noise keys; whether they stay secret was not checked"
    if words is not None and not loaded.config.release.allow_unvetted:
        raise ConfigError(
            f"This release is {words}",
            "A release with an unvetted mechanism, query, ledger or key store says so in its config",
            "Review the package, then set allow_unvetted = true in [release], or choose what the product has",
        )

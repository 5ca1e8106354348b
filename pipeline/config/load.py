"""From a TOML file and overrides to a validated config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.permissions import COMPANIONS, beside
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.bounds_file import with_bounds
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.loaded import DIRECTIONS, SHAPE, LoadedConfig, Override, pinned_digest
from blockveil.pipeline.config.mechanism_sections import AllocatedSection
from blockveil.pipeline.config.model import ReleaseConfig
from blockveil.pipeline.config.toml import as_toml, parse_toml, read_toml
from blockveil.pipeline.config.unvetted import named_by
from blockveil.pipeline.sections.fields import REFERENCES
from blockveil.pipeline.sections.geometry_section import EllipsoidGeometry

_NO_OVERRIDES: Mapping[str, str] = MappingProxyType({})


def load_config(
    path: str | os.PathLike[str],
    overrides: Mapping[str, str] = _NO_OVERRIDES,
    allowed_prefixes: tuple[str, ...] | None = None,
) -> LoadedConfig:
    """Read and validate a config.

    Parameters
    ----------
    path
        TOML file.
    overrides
        Dotted keys and their values, each written as a TOML value.
    allowed_prefixes
        Tables or keys that overrides may touch; None allows all.

    Raises
    ------
    ConfigError
        The file cannot be read or parsed, or a key is unknown, missing or has a value that is not allowed.
    """
    file = Path(path)
    tree = read_toml(file)
    # An override may not bring in code: only the file, which somebody has reviewed, names kinds of other packages.
    model = ReleaseConfig.naming(named_by(tree))
    changes: list[Override] = []
    for key, text in overrides.items():
        _check_allowed(key, allowed_prefixes)
        changes.append(Override(key, text, _set(tree, key, _toml_value(key, text))))
    source = file.name if not overrides else f"{file.name} or its overrides"
    path = absolute(file, "The config")
    config = validated(model, with_bounds(tree, path.parent), source, None if overrides else file)
    return replace(_resolved(LoadedConfig(config, path)), overrides=tuple(changes))


def load_tables(tables: Mapping[str, Any], folder: Path) -> LoadedConfig:
    """Validate a config that a program gives as nested tables, as :func:`load_config` does a file.

    Raises
    ------
    ConfigError
        A value is none that a TOML file could hold, or as for a file.
    """
    tree = with_bounds(as_toml(tables), absolute(folder, IN_PROGRAM))
    config = validated(ReleaseConfig.naming(named_by(tree)), tree, IN_PROGRAM)
    return _resolved(LoadedConfig(config, absolute(folder / IN_PROGRAM, IN_PROGRAM)))


IN_PROGRAM = "the given tables"
"""What messages call a config that a program gives."""


def _check_allowed(key: str, prefixes: tuple[str, ...] | None) -> None:
    if prefixes is None or any(key == prefix or key.startswith(prefix + ".") for prefix in prefixes):
        return
    raise ConfigError(
        f"{key} may not be overridden here",
        f"Overrides may touch only {', '.join(prefixes) or 'nothing'}",
        "Change it in the config file, where it is reviewed",
    )


def _toml_value(key: str, text: str) -> Any:
    try:
        table = parse_toml(f"value = {text}".encode(errors="surrogateescape"), key)
    except ConfigError:
        table = {}
    # A line break in the text could smuggle in further keys.
    if table.keys() != {"value"}:
        raise ConfigError(
            f"{key}: the override {text[:60]!r} is not one TOML value",
            "Overrides are written as in the config file",
            f"""Put text in quotes, such as {key}='"text"'""",
        )
    return table["value"]


def _set(tree: dict[str, Any], key: str, value: Any) -> Any:
    """Lay a value over a tree; returns what was there, None where nothing was."""
    *tables, last = key.split(".")
    node: Any = tree
    for name in tables:
        node = node.setdefault(name, {}) if isinstance(node, dict) else None
    if not isinstance(node, dict) or not all((*tables, last)):
        raise ConfigError(
            f"{key} cannot be overridden",
            "An override names a key in a table, such as compute.memory_gib",
            "Change it in the config file",
        )
    previous = node.get(last)
    node[last] = value
    return previous


def _resolved(loaded: LoadedConfig) -> LoadedConfig:
    """Check what needs paths, and pin matrix files by their digests so that they are part of the release."""
    _check_private_places(loaded)
    config = loaded.config
    pinned: dict[str, Any] = {}
    geometry, mechanism = config.query.geometries.get("geometry"), config.mechanism
    if isinstance(geometry, EllipsoidGeometry) and geometry.shape != "diagonal":
        digest = pinned_digest(loaded, SHAPE, geometry.shape, geometry.shape_sha256)
        shape = geometry.model_copy(update={"shape_sha256": digest})
        pinned["query"] = config.query.model_copy(update={"geometry": shape})
    if isinstance(mechanism, AllocatedSection) and mechanism.directions is not None:
        digest = pinned_digest(loaded, DIRECTIONS, mechanism.directions, mechanism.directions_sha256)
        pinned["mechanism"] = mechanism.model_copy(update={"directions_sha256": digest})
    return replace(loaded, config=config.model_copy(update=pinned)) if pinned else loaded


def _check_private_places(loaded: LoadedConfig) -> None:
    """The folder of releases is meant to be shared; keys, the ledger and the records must not lie in it."""
    root, store = loaded.output_root, loaded.store
    if isinstance(store, Path) and (store.is_relative_to(root) or root.is_relative_to(store)):
        raise ConfigError(
            "data.store and output.root lie in one another",
            "Whoever may read releases must not read records",
            "Name another folder as output.root, and move the releases there",
        )
    for key, place in (("output.keys", loaded.keys_root), ("output.ledger", loaded.ledger_path)):
        if place is not None and place.is_relative_to(root):
            raise ConfigError(
                f"{key} lies inside output.root",
                "Keys and the ledger are private, and output.root is what others may read",
                f"Move {key} beside output.root",
            )
    events, ledger = loaded.config.output.lineage, loaded.ledger_path
    if events is None or events.startswith(REFERENCES) or ledger is None:
        return
    # SQLite loses its locks on a file of its own that the process opens and closes beside it.
    if loaded.resolve(events, "output.lineage") in {beside(ledger, ending) for ending in ("", *COMPANIONS)}:
        raise ConfigError(
            "output.lineage names the ledger",
            "Events are added to a file of their own, and only SQLite opens the ledger",
            "Name another file",
        )

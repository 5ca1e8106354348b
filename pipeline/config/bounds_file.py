"""A file of bounds that a charged release gave, and how a config takes the bounds of its features from it.

``[query.geometry] bounds = "bounds.toml"`` names the file. Features that the config lists without ``lower`` or
``upper`` get theirs from it, by name; where the config lists none, it has those of the file. The file is pinned by its
SHA-256, which decides the release like the bounds themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.config.explain import validated
from blockveil.pipeline.config.loaded import LoadedConfig
from blockveil.pipeline.config.toml import parse_toml
from blockveil.pipeline.sections.fields import Bound, Label, Section, unique_names
from blockveil.pipeline.sections.geometry_section import BoxGeometry, repeated

_MOST_BYTES = 64 * 2**20
_RULE = "A file of bounds is what blockveil public bounds read has written"
_REMEDY = "Write it with blockveil public bounds read, from a release that blockveil public bounds draft begins"
_SHAPES = ("geometry", "left", "right")
_NAME = r"[a-z0-9][a-z0-9-]{0,62}"

ReleaseId = Annotated[str, StringConstraints(pattern=rf"^{_NAME}/{_NAME}/[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BoundedFeature(Section):
    """Bounds of one column."""

    name: Label
    """the name of the feature"""
    lower: Bound
    """the public lower bound, in the feature's unit"""
    upper: Bound
    """the public upper bound, in the feature's unit"""


class BoundsFile(Section):
    """What a file of bounds holds."""

    release: ReleaseId
    """the release that paid for the bounds, as dataset/name/date"""
    content_sha256: Digest
    """the SHA-256 of that release's content"""
    features: Annotated[tuple[BoundedFeature, ...], Field(min_length=1), AfterValidator(unique_names)]
    """one table a column"""

    def text(self, comments: tuple[str, ...] = ()) -> str:
        """The file as TOML, with comments above it."""
        lines = [*(f"# {line}" for line in comments), f'release = "{self.release}"']
        lines += [f'content_sha256 = "{self.content_sha256}"', "features = ["]
        for each in self.features:
            name = json.dumps(each.name, ensure_ascii=False)  # a TOML string, for a label has no control characters
            lines.append(f"    {{ name = {name}, lower = {each.lower!r}, upper = {each.upper!r} }},")
        return "\n".join([*lines, "]", ""])


def with_bounds(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The content of a config with the bounds of the file that it names, and the file's digest and release.

    What is wrong in it otherwise is left to its validation.

    Raises
    ------
    ConfigError
        The file cannot be read, is something else, differs from its pin, or lacks a feature.
    """
    query = tree.get("query")
    if not isinstance(query, dict):
        return tree
    filled = {key: _filled(key, query[key], folder) for key in _SHAPES if _names_a_file(query.get(key))}
    return {**tree, "query": {**query, **filled}} if filled else tree


def content_of(loaded: LoadedConfig, key: str, shape: BoxGeometry) -> str:
    """SHA-256 of the content of the release that the bounds of a shape come from, as its file states it.

    Parameters
    ----------
    loaded
        The config.
    key
        Key of the shape in ``[query]``.
    shape
        A shape that names a file of bounds.

    Raises
    ------
    ConfigError
        The file is gone, or has changed since the config was loaded.
    """
    bounds, digest = _read(loaded.path.parent, f"query.{key}.bounds", str(shape.bounds))
    if digest != shape.bounds_sha256:
        raise ConfigError(
            f"query.{key}.bounds: the file changed meanwhile", "A pinned file must not change", "Plan again"
        )
    return bounds.content_sha256


def _names_a_file(shape: Any) -> bool:
    return isinstance(shape, dict) and isinstance(shape.get("bounds"), str) and shape.get("kind") == "box"


def _filled(table: str, shape: dict[str, Any], folder: Path) -> dict[str, Any]:
    bounds, digest = _read(folder, f"query.{table}.bounds", shape["bounds"])
    for key, value in (("bounds_sha256", digest), ("bounds_release", bounds.release)):
        if shape.get(key, value) != value:
            raise ConfigError(
                f'query.{table}.{key} is not that of "{shape["bounds"][:60]}"',
                "A pinned file must not change",
                f'Restore the file, or set {key} = "{value}"',
            )
    features = _features(table, shape, bounds)
    return {**shape, "bounds_sha256": digest, "bounds_release": bounds.release, "features": features}


def _features(table: str, shape: dict[str, Any], found: BoundsFile) -> Any:
    """Features as the config lists them, with the bounds that they lack."""
    intervals = {each.name: {"lower": each.lower, "upper": each.upper} for each in found.features}
    features = repeated(shape.get("features", [{"name": name} for name in intervals]))
    if not isinstance(features, list | tuple) or not all(isinstance(each, dict) for each in features):
        return features
    for each in features:
        if not {"lower", "upper"} <= each.keys() and each.get("name") not in intervals:
            raise ConfigError(
                f'query.{table}.features: "{str(each.get("name"))[:60]}" has no bounds',
                "Its release gave none for it, and the config declares none",
                "Write lower and upper from public knowledge, or ask for its histogram too",
            )
    return [{**intervals.get(each.get("name", ""), {}), **each} for each in features]


def _read(folder: Path, key: str, name: str) -> tuple[BoundsFile, str]:
    path = absolute(folder / name, key)
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = os.strerror(getattr(error, "errno", None) or 0)
        problem = f'{key}: "{name[:60]}" cannot be read ({reason})'
        failure = durable.unreadable(error, ConfigError(problem, _RULE, _REMEDY))
    else:
        tree = parse_toml(content, name, _RULE)
        return validated(BoundsFile, tree, name[:60]), hashlib.sha256(content).hexdigest()
    raise failure

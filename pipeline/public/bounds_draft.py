"""The config of a release of histograms, drafted from that of a release whose bounds are wanted, or are to be checked.

A config whose bounds are wanted need not be complete: its features may lack them, which is why somebody drafts this. Of
one that has bounds, the histograms may have these as edges, and so tell what share of each column's values is clipped.
The draft has the config's records, privacy and places, and takes a share of its guarantee. Nothing but the two configs
is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from blockveil.pipeline.base.errors import ConfigError, guard
from blockveil.pipeline.config import BoxFeature, Geometry, PointFeature, load_config
from blockveil.pipeline.config.explain import explain
from blockveil.pipeline.config.model import ReleaseConfig
from blockveil.pipeline.config.toml import read_toml, toml_lines

DIGITS = 10
"""Binary digits by which columns are counted: a thousandth of a value is told apart."""

_LONGEST_NAME = 63
_WANTED, _CLIPPED = "bounds", "clipped"
"""What follows the name of a release in that of its histograms."""
_TABLES = ("release", "data", "query", "privacy", "mechanism", "compute", "cluster", "output")


def bounds_draft(config: Path, share: float, powers: tuple[int, int]) -> str:
    """Config of a release of histograms, as text; it belongs into the folder of the other.

    Parameters
    ----------
    config
        Config of the release whose bounds are wanted. Features that have both are not counted, unless all have them.
    share
        Share of mu squared of that release's guarantee, above 0 and below 1.
    powers
        Least and greatest power of two that borders bins.

    Raises
    ------
    ConfigError
        The config cannot be read, has no columns, or lacks what every release declares; or the share is out of range.
    """
    _check_share(share)
    tree = read_toml(config)
    features = {"powers": list(powers), "digits": DIGITS, "features": _features(_table(tree, "query"))}
    return _checked(_drafted(tree, share, _WANTED, features), config.name, share)


def clipped_draft(config: Path, share: float) -> str:
    """Config of a release that tells what share of each column's values lies outside the bounds of a config.

    The config is complete, and each column has bounds.

    Raises
    ------
    ConfigError
        The config cannot be read, or has columns without bounds of their own; or the share is out of range.
    """
    _check_share(share)
    query = load_config(config).config.query
    bounds = [each for shape in query.geometries.values() for each in _bounded(shape)]
    if tuple(each["name"] for each in bounds) != query.columns or not all(map(isfinite, chain(*_edges(bounds)))):
        raise ConfigError(
            "Not all columns of the config have bounds of their own",
            "A clipped value is one outside the bounds of its column",
            "Give a config of records in a box, a ball or an ellipsoid by its axes",
        )
    return _checked(_drafted(read_toml(config), share, _CLIPPED, {"features": bounds}), config.name, share)


def _bounded(shape: Geometry) -> list[dict[str, Any]]:
    """Features of a shape, each with its bounds as edges."""
    features: Sequence[BoxFeature | PointFeature] = shape.features
    spans = zip(features, shape.spans(), strict=True)
    return [{"name": feature.name, "edges": [float(low), float(high)]} for feature, (low, high) in spans]


def _edges(bounds: list[dict[str, Any]]) -> Iterator[list[float]]:
    return (each["edges"] for each in bounds)


def _check_share(share: float) -> None:
    if not 0.0 < share < 1.0:
        raise ConfigError(
            f"share is {share:g}", "It is a share of the guarantee, above 0 and below 1", "Give for instance 0.02"
        )


def _checked(drafted: dict[str, Any], source: str, share: float) -> str:
    guard(lambda: ReleaseConfig.model_validate(drafted), lambda error: explain(error, drafted, source), ValidationError)
    return _text(drafted, source, share)


def _drafted(tree: Mapping[str, Any], share: float, what: str, bins: dict[str, Any]) -> dict[str, Any]:
    query, privacy, release = (_table(tree, name) for name in ("query", "privacy", "release"))
    name = f"{str(release.get('name', ''))[: _LONGEST_NAME - len(what) - 1]}-{what}"
    earlier = privacy.get("share", 1.0)
    drafted = {
        "release": {**release, "name": name},
        # A part of the records shares no guarantee: bounds are those of all of them.
        "data": {key: value for key, value in _table(tree, "data").items() if key != "partition_by"},
        "query": {
            "kind": "column-histograms",
            "rows_at_most": query.get("rows_at_most"),
            "missing": "refuse" if query.get("missing") == "refuse" else "drop",
            **bins,
        },
        "privacy": {**privacy, "share": share * earlier if isinstance(earlier, int | float) else earlier},
        "mechanism": {"kind": "gaussian"},
        **{key: dict(tree[key]) for key in ("compute", "cluster", "output") if isinstance(tree.get(key), dict)},
    }
    drafted.get("compute", {}).pop("density_at_most", None)
    return drafted


def _table(tree: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = tree.get(name)
    return dict(table) if isinstance(table, dict) else {}


def _features(query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns of the records; those whose bounds are known are not counted, unless the bounds of all are."""
    candidates: list[Any] = []
    for key in ("geometry", "left", "right"):
        features = _table(query, key).get("features")
        candidates += features if isinstance(features, list) else []
    axes = query.get("axes")
    candidates += axes if isinstance(axes, list) else []
    target = _table(query, "model").get("target")
    candidates += [target] if isinstance(target, dict) else []
    if not candidates:
        raise ConfigError(
            "The config names no columns",
            "The histograms are of the features that a release has",
            'List them under query.geometry.features, such as { name = "age" }; they need no bounds for this',
        )
    tables = [each for each in candidates if isinstance(each, dict)]
    # Each column asked for adds noise to all of them.
    complete = [{"lower", "upper"} <= each.keys() for each in tables]
    return [
        {key: each[key] for key in ("name", "count") if key in each}
        | ({"histogram": False} if is_known and not all(complete) else {})
        for each, is_known in zip(tables, complete, strict=True)
    ]


def _text(drafted: dict[str, Any], source: str, share: float) -> str:
    rest = drafted["privacy"]["share"] / share * (1.0 - share)
    lines = [
        f"# Where do the values of the columns of {source} lie? A noisy histogram of each.",
        f"# It takes {100.0 * share:.4g} % of mu squared of that guarantee; with share = {rest:.6g} there, both",
        "# releases keep it together, and without they add up in the budget.",
    ]
    for name in _TABLES:
        if name in drafted:
            lines += ["", f"[{name}]", *toml_lines(drafted[name])]
    return "\n".join([*lines, ""])

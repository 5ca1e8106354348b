"""Changes of bounds, norm, origin and features that give less noise, each with its price."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from blockveil.pipeline.accuracy.priced_change import PricedChange
from blockveil.pipeline.config import BoxGeometry, LoadedConfig
from blockveil.pipeline.plan.excess_noise import longest_norm, with_norm, with_section
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.sections.query_sections import OneShapeSection

_FEW = 0.1
"""Share of values that are not zero in records of many zeros, where none is declared."""


def bound_changes(plan: Plan) -> Iterator[PricedChange]:
    """Narrower bounds, a bound of the norm, and distances from zero."""
    query = plan.config.query
    shape = query.geometries.get("geometry")
    if isinstance(shape, BoxGeometry) and not (shape.origin == "zero" and _off_zero(shape)):
        yield PricedChange(
            "all bounds half as wide, about their middle",
            "values outside the new bounds are clipped to them",
            _with_shape(plan.loaded, {"features": tuple(_halved(feature) for feature in shape.features)}),
        )
    norm = longest_norm(plan) if isinstance(query, OneShapeSection) and len(query.columns) > 1 else None
    if norm is not None and isinstance(shape, BoxGeometry):
        half = float(f"{norm / 2.0:.3g}")
        yield PricedChange(
            f"a norm bound of {half:g} beside the box, half of the distance of its furthest corner",
            _of_a_norm(shape),
            with_norm(plan.loaded, half),
            f"query.geometry.norm_at_most={half:g}",
        )
        yield from _mostly_zeros(plan, shape)


def _of_a_norm(shape: BoxGeometry) -> str:
    """What a bound of the norm costs; where zero is a bound it counts as far from the middle."""
    if shape.origin == "zero":
        return "records further than that from zero are pulled nearer; those of few or small values lose nothing"
    far = any(0.0 in (feature.lower, feature.upper) for feature in shape.features)
    zeros = "; zero is a bound here, and extreme too" if far else ""
    return (
        "records further than that from the middle of the box are pulled nearer; those with few extreme values lose "
        f"nothing{zeros}"
    )


def _mostly_zeros(plan: Plan, shape: BoxGeometry) -> Iterator[PricedChange]:
    """Distances from zero in place of the middle, where records of many zeros are short."""
    holds_zero = all(feature.lower <= 0.0 <= feature.upper for feature in shape.features)
    off_middle = any(feature.lower + feature.upper != 0.0 for feature in shape.features)
    if shape.origin == "zero" or not holds_zero or not off_middle:
        return
    declared = plan.config.compute.density_at_most
    share = _FEW if declared is None else declared
    ends = math.hypot(*(max(-feature.lower, feature.upper) for feature in shape.features))
    norm = float(f"{math.sqrt(share) * ends:.3g}")
    yield PricedChange(
        f'origin = "zero" with a norm bound of {norm:g}, the norm of records with {100.0 * share:g} % of their values '
        "at a bound and zeros elsewhere",
        "records further than that from zero are pulled nearer to it, so that it is for records of many zeros",
        _with_shape(plan.loaded, {"origin": "zero", "norm_at_most": norm}),
    )


def _off_zero(shape: BoxGeometry) -> bool:
    """Whether narrower bounds about the middle would no longer hold the origin."""
    return any(not feature.lower <= 0.0 <= feature.upper for feature in map(_halved, shape.features))


def _halved(feature: Any) -> Any:
    middle, quarter = (feature.lower + feature.upper) / 2.0, (feature.upper - feature.lower) / 4.0
    narrower = {"lower": middle - quarter, "upper": middle + quarter}
    if feature.impute is not None:
        narrower["impute"] = min(max(feature.impute, narrower["lower"]), narrower["upper"])
    return feature.model_copy(update=narrower)


def _with_shape(loaded: LoadedConfig, update: dict[str, Any]) -> LoadedConfig:
    shape = loaded.config.query.geometries["geometry"].model_copy(update=update)
    return with_section(loaded, "query", {"geometry": shape})


def feature_changes(plan: Plan) -> Iterator[PricedChange]:
    """Half of the features."""
    query = plan.config.query
    if not isinstance(query, OneShapeSection) or len(query.columns) < 4:
        return
    fewer = (len(query.columns) + 1) // 2
    yield PricedChange(
        f"the first {fewer} of the {len(query.columns)} features",
        f"nothing is released of the other {len(query.columns) - fewer}; any {fewer} features do",
        with_features(plan.loaded, fewer),
    )


def with_features(loaded: LoadedConfig, count: int) -> LoadedConfig:
    """The config with the first features alone."""
    shape = loaded.config.query.geometries["geometry"]
    return _with_shape(loaded, {"features": shape.features[:count]})

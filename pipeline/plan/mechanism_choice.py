"""From the ``[mechanism]`` of a config to the mechanism."""

from __future__ import annotations

from typing import Any

from blockveil.engine.mechanisms.auto import Auto, Metric
from blockveil.engine.mechanisms.contract import Importance, Mechanism, NotApplicable
from blockveil.engine.mechanisms.declaration import ErrorAim, Parameter, PerFeature, PrecisionShares
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.mechanisms.published.buckets import Dawa
from blockveil.engine.mechanisms.published.mvg_noise import Allocation
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.config.mechanism_sections import (
    AllocatedSection,
    AutoSection,
    Binary,
    Least,
    SharesSection,
    SubspaceSection,
    Uniform,
)


def mechanism_of(config: ReleaseConfig) -> Mechanism | Exponential | Dawa | Auto:
    """Mechanism that a config names, with its parameters.

    Raises
    ------
    NotApplicable
        A parameter makes no sense for the query.
    """
    section = config.mechanism
    if isinstance(section, AutoSection):
        if any(getattr(shape, "learn", None) for shape in config.query.geometries.values()):
            # The one mechanism whose noise has an ellipsoid by axes.
            return ShapedGaussian(Importance("relative-error" if section.minimise == "relative" else "absolute-error"))
        return Auto(_metric(config, section.minimise))
    declaration = section.declaration
    if declaration is None:
        raise NotApplicable(
            f'"{section.kind}" declares no mechanism; choose one that `blockveil study mechanisms` lists'
        )
    arguments = {each.key: _argument(config, each) for each in declaration.parameters}
    mechanism: Mechanism | Exponential | Dawa = declaration.built(**arguments)
    return mechanism


def _argument(config: ReleaseConfig, parameter: Parameter) -> Any:
    """What a config gives for a parameter, as the mechanism takes it."""
    value = getattr(config.mechanism, parameter.key)
    match parameter.values:
        case ErrorAim():
            return importance_of(config, value)
        case PerFeature():
            return None if value is None else config.query.by_side(value)
        case PrecisionShares() if isinstance(config.mechanism, AllocatedSection):
            return _allocation(config, config.mechanism)
    return value


def importance_of(config: ReleaseConfig, aim: str | dict[str, float]) -> Importance:
    """The error to make small, with importances by row and column of the answer."""
    if isinstance(aim, str):
        return Importance(aim)
    rows, columns = config.query.by_side(aim)
    return Importance("weights", rows, columns)


def _allocation(config: ReleaseConfig, chosen: AllocatedSection) -> Allocation:
    columns, declared_ = chosen.names(config.query.columns), chosen.allocation
    if chosen.directions is not None and not config.query.in_one_shape:
        raise NotApplicable("directions are those of records in one shape; leave them out for this query")
    if isinstance(declared_, Uniform):
        return Allocation("uniform")
    if not config.query.in_one_shape:
        raise NotApplicable('an allocation by feature is for rows and second moments; set allocation.kind = "uniform"')
    if isinstance(declared_, Binary):
        important = tuple(float(name in declared_.important) for name in columns)
        return Allocation("binary", important, declared_.share)
    by_feature = declared_.shares if isinstance(declared_, SharesSection) else declared_.signal
    return Allocation(declared_.kind, tuple(float(by_feature[name]) for name in columns))


def _metric(config: ReleaseConfig, least: Least) -> Metric:
    if isinstance(least, SubspaceSection):
        spectrum = tuple(float(least.variance[name]) for name in config.query.columns)
        return Metric("subspace", spectrum=spectrum, leading=least.dimension)
    if isinstance(least, str):
        return Metric(least)
    return Metric("weighted", importance_of(config, least))

"""From the ``[mechanism]`` of a config to the mechanism."""

from __future__ import annotations

from engine.mechanisms.contract import Importance, Mechanism
from engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from pipeline.config import ReleaseConfig
from pipeline.config import mechanisms as declared
from pipeline.config.queries import OuterProductsQuery, RowsQuery


def mechanism_of(config: ReleaseConfig) -> Mechanism:
    """Mechanism that a config names, with its parameters."""
    chosen = config.mechanism
    if isinstance(chosen, declared.ShapedGaussian):
        return ShapedGaussian(importance_of(config, chosen.optimise_for))
    return Gaussian()


def importance_of(config: ReleaseConfig, aim: str | dict[str, float]) -> Importance:
    """The error to make small, with importances by row and column of the answer."""
    if isinstance(aim, str):
        return Importance(aim)
    rows, columns = sides(config, aim)
    return Importance("weights", rows, columns)


def sides(config: ReleaseConfig, values: dict[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values by feature, in order, for the rows and the columns of the answer; empty where a side is free."""
    query = config.query
    ordered = tuple(float(values[name]) for name in query.columns)
    if isinstance(query, OuterProductsQuery):
        split = len(query.left.features)
        return ordered[:split], ordered[split:]
    return ((), ordered) if isinstance(query, RowsQuery) else (ordered, ordered)

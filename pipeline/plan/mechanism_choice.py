"""From the ``[mechanism]`` of a config to the mechanism."""

from __future__ import annotations

from blockveil.engine.mechanisms.auto import Auto, Metric
from blockveil.engine.mechanisms.contract import Importance, Mechanism, NotApplicable
from blockveil.engine.mechanisms.counts.buckets import Dawa
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.mechanisms.directions.exponential import Exponential
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.mechanisms.laplace import Laplace, WholeLaplace
from blockveil.engine.mechanisms.published.matrix_noise import Allocation, ClassicGaussian, ExactMvg, Imgm, Mgm, Mvg
from blockveil.engine.mechanisms.published.subspace_noise import AnalyzeGauss, ModSulq
from blockveil.pipeline.config import ReleaseConfig
from blockveil.pipeline.config import mechanism_sections as declared
from blockveil.pipeline.config.query_sections import CountsSection, GradientsSection, OuterProductsSection, RowsSection


def mechanism_of(config: ReleaseConfig) -> Mechanism | Exponential | Dawa | Auto:
    """Mechanism that a config names, with its parameters.

    Raises
    ------
    NotApplicable
        A parameter makes no sense for the query.
    """
    match config.mechanism:
        case declared.ShapedGaussianSection() as chosen:
            return ShapedGaussian(importance_of(config, chosen.optimise_for))
        case declared.LaplaceSection() as chosen:
            return Laplace(importance_of(config, chosen.optimise_for))
        case declared.WholeLaplaceSection():
            return WholeLaplace()
        case declared.ClassicGaussianSection():
            return ClassicGaussian()
        case declared.MgmSection():
            return Mgm()
        case declared.MatrixMechanismSection():
            return MatrixMechanism()
        case declared.HierarchicalSection() as chosen:
            return Hierarchical(chosen.noise, chosen.branching)
        case declared.DawaSection() as chosen:
            return Dawa(chosen.partition_share)
        case declared.ImgmSection() as chosen:
            return Imgm(*_sides(config, chosen.shape)) if chosen.shape is not None else Imgm()
        case declared.MvgSection() as chosen:
            return Mvg(chosen.theorem, chosen.zeta, _allocation(config, chosen))
        case declared.ExactMvgSection() as chosen:
            return ExactMvg(_allocation(config, chosen))
        case declared.AnalyzeGaussSection():
            return AnalyzeGauss()
        case declared.ModSulqSection():
            return ModSulq()
        case declared.ExponentialSection():
            return Exponential()
        case declared.AutoSection() as chosen:
            return Auto(_metric(config, chosen.minimise))
    return Gaussian()


def importance_of(config: ReleaseConfig, aim: str | dict[str, float]) -> Importance:
    """The error to make small, with importances by row and column of the answer."""
    if isinstance(aim, str):
        return Importance(aim)
    rows, columns = _sides(config, aim)
    return Importance("weights", rows, columns)


def _sides(config: ReleaseConfig, values: dict[str, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values by feature, in order, for the rows and the columns of the answer; empty where a side is free."""
    query = config.query
    if isinstance(query, CountsSection):
        raise NotApplicable("all cells of a grid are alike; leave out what is given by feature")
    if isinstance(query, GradientsSection):
        raise NotApplicable("a gradient is bounded as a whole; leave out what is given by feature")
    ordered = tuple(float(values[name]) for name in query.columns)
    if isinstance(query, OuterProductsSection):
        split = len(query.left.features)
        return ordered[:split], ordered[split:]
    return ((), ordered) if isinstance(query, RowsSection) else (ordered, ordered)


def _allocation(config: ReleaseConfig, chosen: declared.MvgSection | declared.ExactMvgSection) -> Allocation:
    columns, declared_ = chosen.names(config.query.columns), chosen.allocation
    if chosen.directions is not None and isinstance(
        config.query, OuterProductsSection | GradientsSection | CountsSection
    ):
        raise NotApplicable("directions are those of records in one shape; leave them out for this query")
    if isinstance(declared_, declared.Uniform):
        return Allocation("uniform")
    if isinstance(config.query, OuterProductsSection | GradientsSection | CountsSection):
        raise NotApplicable('an allocation by feature is for rows and second moments; set allocation.kind = "uniform"')
    if isinstance(declared_, declared.Binary):
        important = tuple(float(name in declared_.important) for name in columns)
        return Allocation("binary", important, declared_.share)
    by_feature = declared_.shares if isinstance(declared_, declared.SharesSection) else declared_.signal
    return Allocation(declared_.kind, tuple(float(by_feature[name]) for name in columns))


def _metric(config: ReleaseConfig, least: declared.Least) -> Metric:
    if isinstance(least, declared.SubspaceSection):
        spectrum = tuple(float(least.variance[name]) for name in config.query.columns)
        return Metric("subspace", spectrum=spectrum, leading=least.leading)
    if isinstance(least, str):
        return Metric(least)
    return Metric("weighted", importance_of(config, least))

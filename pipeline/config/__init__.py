"""The config of one release: a TOML file, validated into frozen models, every private decision explicit.

``load_config`` reads and checks it, ``release_world`` gives the part that decides the release.
"""

from pipeline.config.geometry import (
    AxisFeature,
    BallGeometry,
    BoxFeature,
    BoxGeometry,
    EllipsoidGeometry,
    Geometry,
    PointFeature,
)
from pipeline.config.load import load_config
from pipeline.config.loaded import LoadedConfig, release_world
from pipeline.config.model import (
    Address,
    Cluster,
    ComputeSection,
    DataSection,
    Gaussian,
    LocalCluster,
    Mechanism,
    OutputSection,
    PrivacySection,
    QuerySection,
    ReleaseConfig,
    ReleaseSection,
    ShapedGaussian,
    Threads,
)

__all__ = [
    "Address",
    "AxisFeature",
    "BallGeometry",
    "BoxFeature",
    "BoxGeometry",
    "Cluster",
    "ComputeSection",
    "DataSection",
    "EllipsoidGeometry",
    "Gaussian",
    "Geometry",
    "LoadedConfig",
    "LocalCluster",
    "Mechanism",
    "OutputSection",
    "PointFeature",
    "PrivacySection",
    "QuerySection",
    "ReleaseConfig",
    "ReleaseSection",
    "ShapedGaussian",
    "Threads",
    "load_config",
    "release_world",
]

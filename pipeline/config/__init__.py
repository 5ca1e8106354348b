"""The config of one release: a TOML file, validated into frozen models, every private decision explicit.

``load_config`` reads and checks it, ``release_world`` gives the part that decides the release.
"""

from blockveil.pipeline.config.load import load_config
from blockveil.pipeline.config.loaded import LoadedConfig, release_world
from blockveil.pipeline.config.model import (
    Address,
    Cluster,
    ClusterClass,
    ComputeSection,
    DataSection,
    LocalCluster,
    OutputSection,
    PrivacySection,
    ReleaseConfig,
    ReleaseSection,
    Threads,
)
from blockveil.pipeline.sections.geometry_section import (
    AxisFeature,
    BallGeometry,
    BoxFeature,
    BoxGeometry,
    EllipsoidGeometry,
    Geometry,
    PointFeature,
)

__all__ = [
    "Address",
    "AxisFeature",
    "BallGeometry",
    "BoxFeature",
    "BoxGeometry",
    "Cluster",
    "ClusterClass",
    "ComputeSection",
    "DataSection",
    "EllipsoidGeometry",
    "Geometry",
    "LoadedConfig",
    "LocalCluster",
    "OutputSection",
    "PointFeature",
    "PrivacySection",
    "ReleaseConfig",
    "ReleaseSection",
    "Threads",
    "load_config",
    "release_world",
]

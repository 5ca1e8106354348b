"""Libraries that analysis offers its results in, imported when they are asked for: none of them is required."""

from __future__ import annotations

import importlib
from typing import Any

from blockveil.pipeline.base.errors import ConfigError

_ANALYSIS = 'pip install "blockveil[analysis]"; or use Release.array'
_NETCDF = 'pip install "blockveil[netcdf]"; or choose parquet'
_LIBRARIES = {
    "pandas": ("Labelled tables are pandas objects", _ANALYSIS),
    "xarray": ("Labelled arrays of any number of axes are xarray objects", _ANALYSIS),
    "h5netcdf": ("NetCDF files are written with it", _NETCDF),
    "h5py": ("NetCDF files are written with it", _NETCDF),
}
"""What each is for, how it is installed, and what does without it."""


def library(name: str) -> Any:
    """Import a library by its name; ConfigError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    rule, remedy = _LIBRARIES[name]
    raise ConfigError(f"The package {name} cannot be imported", rule, f"Install it with: {remedy}")

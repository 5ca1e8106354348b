"""Libraries that analysis offers its results in, imported when they are asked for: none of them is required."""

from __future__ import annotations

import importlib
from typing import Any

from blockveil.pipeline.base.errors import ConfigError

EXTRA = "blockveil[analysis]"
"""What installs them."""

_NETCDF = 'pip install "blockveil[netcdf]"; or choose parquet'


def pandas() -> Any:
    """The library of labelled tables; raises as :func:`_imported`."""
    return _imported("pandas", "Labelled tables are pandas objects")


def xarray() -> Any:
    """The library of labelled arrays; raises as :func:`_imported`."""
    return _imported("xarray", "Labelled arrays of any number of axes are xarray objects")


def h5netcdf() -> Any:
    """The library of NetCDF files; raises as :func:`_imported`."""
    return _imported("h5netcdf", "NetCDF files are written with it", _NETCDF)


def h5py() -> Any:
    """The library of HDF5 files, on which NetCDF files rest; raises as :func:`_imported`."""
    return _imported("h5py", "NetCDF files are written with it", _NETCDF)


def _imported(name: str, rule: str, remedy: str = f'pip install "{EXTRA}"; or use Release.array') -> Any:
    """A library by its name.

    Raises ConfigError where it is not installed.

    Parameters
    ----------
    name
        What is imported.
    rule
        What it is for.
    remedy
        How it is installed, and what does without it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    raise ConfigError(f"The package {name} cannot be imported", rule, f"Install it with: {remedy}")

"""Libraries that analysis offers its results in, imported when they are asked for: none of them is required."""

from __future__ import annotations

import importlib
from typing import Any

from blockveil.pipeline.base.errors import ConfigError

EXTRA = "blockveil[analysis]"
"""What installs them."""


def pandas() -> Any:
    """The library of labelled tables; raises as :func:`_imported`."""
    return _imported("pandas", "Labelled tables are pandas objects")


def xarray() -> Any:
    """The library of labelled arrays; raises as :func:`_imported`."""
    return _imported("xarray", "Labelled arrays of any number of axes are xarray objects")


def _imported(name: str, rule: str) -> Any:
    """A library by its name.

    Raises
    ------
    ConfigError
        It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        pass
    raise ConfigError(
        f"The package {name} cannot be imported", rule, f'Install it with: pip install "{EXTRA}"; or use Release.array'
    )

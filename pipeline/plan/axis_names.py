"""Names of axes that a reader or an exporter of the release uses itself: refused, so that what is paid for is readable.

An axis gives its name to a dimension of arrays and to a column of exported tables. In NetCDF and xarray an array of the
same name gives labels to it.
"""

from __future__ import annotations

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import ReleaseConfig

_DIMENSIONS = frozenset(("row", "column", "block", "cell", "residual", "axis", "feature", "bin", "tile", "entry"))
_ARRAYS = frozenset(("counts", "counts_integer", "tables", "bucket", "running_total"))
_TAKEN = _DIMENSIONS | _ARRAYS | {"value", "standard_deviation"}
"""Dimensions of other arrays, columns of tables beside the axes, and arrays."""

_STARTS = ("strategy_", "workload_", "bucket_", "first_and_end", "axis_", "marginal_", "table_", "residual_", "last_")
_ENDS = ("_edge", "_edges", "_standard_deviation", "_")
"""A name that ends in "_" is taken for the second axis along another one."""


def require_own_names(config: ReleaseConfig) -> None:
    """Refuse an axis whose name a release, its tables or its files use for something else, in whatever case.

    Raises
    ------
    ConfigError
        There is one; the message names it.
    """
    before: set[str] = set()
    for axis in getattr(config.query, "axes", ()):
        name = axis.name.casefold()
        if name in before:
            raise _refusal(axis.name, "differs from another axis by its case alone, which many readers ignore")
        before.add(name)
        if name in _TAKEN or name.startswith(_STARTS) or name.endswith(_ENDS):
            raise _refusal(axis.name, "is a name that releases and their exports use themselves")
        if "/" in name or name in (".", ".."):
            raise _refusal(axis.name, "stands for a path in NetCDF and HDF5")


def _refusal(name: str, why: str) -> ConfigError:
    return ConfigError(
        f'query.axes: "{name}" {why}',
        "An axis gives its name to a dimension of the release, and to a column of exported tables",
        "Call it otherwise; columns of the records are taken in their order, whatever the axes are called",
    )

"""Attributes by which other writers say that stored numbers are not the values: the CF conventions, as xarray has them.

A reader of the bare array would take packed integers, offsets of dates and marks of missing values for values. Nothing
is decoded here: an array that says such a thing is refused by the name of the attribute.

**Source**: NetCDF Climate and Forecast (CF) metadata conventions 1.11, sections 2.5, 4.4 and 8.1.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import zarr

from blockveil.pipeline.base.errors import DataError

_PACKED = ("scale_factor", "add_offset", "_Unsigned")
_MISSING = ("_FillValue", "missing_value", "valid_range", "valid_min", "valid_max")


def require_plain(array: zarr.Array[Any], name: str) -> None:
    """Refuse an array whose stored numbers stand for other values, or for missing ones.

    Raises
    ------
    DataError
        It has such an attribute; the message names it.
    """
    attributes, kind = dict(array.attrs), np.dtype(array.dtype)
    for key in _PACKED:
        if key in attributes:
            raise _refusal(name, key, "values are packed: each is another number than the stored one")
    for key in _MISSING:
        if key in attributes and not (key in _MISSING[:2] and _is_nan(attributes[key], kind)):
            raise _refusal(name, key, "some stored numbers stand for missing values")
    units = attributes.get("units")
    if isinstance(units, str) and " since " in units:
        raise _refusal(name, "units", "values are times, counted from a date")
    # In format 2 the fill value itself is xarray's mark of a missing value, where xarray wrote the array.
    masked = array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in attributes
    fill = array.metadata.fill_value
    if masked and fill is not None and not _is_nan(fill, kind):
        raise _refusal(name, "fill_value", "some stored numbers stand for missing values")


def _refusal(name: str, key: str, what: str) -> DataError:
    return DataError(
        f'{name}: its attribute "{key}" says that {what}',
        "Stored numbers are taken as they are, so that a release is of what its bounds are of",
        "Decode the array and write it again without that attribute; with xarray: open it, clear the variable's "
        "encoding, and save it as floats with NaN for what is missing",
    )


def _is_nan(value: Any, kind: np.dtype[Any]) -> bool:
    """Whether a mark of missing values is NaN, which a missing value of floats is anyway."""
    if kind.kind != "f":
        return False
    try:
        if isinstance(value, str) and value.lower() != "nan":  # in format 3 xarray writes its bytes, little-endian
            content = base64.b64decode(value, validate=True)
            return len(content) in (4, 8) and bool(np.isnan(np.frombuffer(content, f"<f{len(content)}")[0]))
        return math.isnan(float(value))
    except (TypeError, ValueError):
        return False

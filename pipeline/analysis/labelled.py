"""Arrays of a release as pandas and xarray objects, with the names of features and cells on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.analysis import optional
from blockveil.pipeline.report.matrix import Shown, names_of_sides

Names = Sequence[str] | None
"""Names along an axis; None where it is numbered."""


def axis_names(release: Shown, axis: str, length: int) -> list[str] | None:
    """Names along an axis of a release; None where it has none.

    Parameters
    ----------
    release
        The release.
    axis
        Name of the axis; ``feature_`` is the second axis along ``feature``.
    length
        Number of entries along it.
    """
    labels = release.arrays.get(axis.rstrip("_"))
    texts = (
        array
        for name, array in release.arrays.items()
        if tuple(release.dimensions.get(name, ())) == (axis,) and np.dtype(array.dtype).kind in "OTU"
    )
    array = labels if labels is not None and np.dtype(labels.dtype).kind in "OTU" else next(texts, None)
    if array is None or tuple(array.shape) != (length,):
        return names_of_sides(release.arrays, axis, length)
    return [str(name) for name in np.asarray(array[...])]


def axes_of(release: Shown, name: str) -> tuple[str, ...]:
    """Names of the axes of an array; numbered where the release has none."""
    rank = len(release.arrays[name].shape)
    dimensions = tuple(release.dimensions.get(name, ()))
    return dimensions if len(dimensions) == rank else tuple(f"{name}_axis_{i + 1}" for i in range(rank))


def table(values: NDArray[Any], axes: Sequence[str], names: Sequence[Names]) -> Any:
    """Values with their labels: a number, a Series, or a DataFrame.

    Raises ConfigError where pandas is not installed.

    Parameters
    ----------
    values
        Numbers of any shape.
    axes
        Name of each axis.
    names
        Names along each axis.

    Returns
    -------
    A float for no axis, a Series for one or for more than two (with as many index levels), a DataFrame for two.
    """
    if values.ndim == 0:
        return values.item()
    pd = optional.library("pandas")
    indices = [
        pd.RangeIndex(length, name=axis) if along is None else pd.Index(along, name=axis, dtype=object)
        for axis, along, length in zip(axes, names, values.shape, strict=True)
    ]
    if values.ndim == 1:
        return pd.Series(values, index=indices[0])
    if values.ndim == 2:
        return pd.DataFrame(values, index=indices[0], columns=indices[1])
    return pd.Series(values.ravel(), index=pd.MultiIndex.from_product(indices))


def dataset(release: Shown) -> Any:
    """All arrays of a release as one xarray Dataset, with coordinates on every named axis, and its attributes.

    Raises ConfigError where xarray is not installed.
    """
    xr = optional.library("xarray")
    variables: dict[str, Any] = {}
    coordinates: dict[str, Any] = {}
    for name, array in release.arrays.items():
        axes = axes_of(release, name)
        variables[name] = (axes, np.asarray(array[...]))
        for axis, length in zip(axes, array.shape, strict=True):
            along = axis_names(release, axis, int(length))
            if along is not None:
                coordinates[axis] = (axis, np.asarray(along, dtype=object))
    data_variables = {name: value for name, value in variables.items() if name not in coordinates}
    return xr.Dataset(data_variables, coordinates, plain(release.attributes))


def plain(value: Any) -> Any:
    """A copy of plain JSON values, so that whoever changes it changes nothing else."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value

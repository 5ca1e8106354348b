"""The shape of least noise for records that come from a public list: a price list, a code book, a catalogue.

Noise in an ellipsoid E that holds the list about its origin is ``E / mu^2`` for a sum, and E of least weighted trace is
therefore the shape for which no Gaussian noise that is private for the list has less error. It is found by duality,
with a proof of how far from least it is (:mod:`.duality`). Nothing private rests on any of
this: records are clipped into whatever ellipsoid a config declares.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Ellipsoid, GeometryError
from blockveil.engine.shapes.box_noise import box_variances
from blockveil.engine.shapes.duality import Solution, least_covariance
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, StoreError, guard

Array = NDArray[np.float64]
Origin = Literal["midpoint", "mean", "zero"]

_GAP = 1e-3
_ROOM = 1.0 + 1e-3
"""Records that are rounded to 16 bits stay within an ellipsoid this much larger, up to a thousand features."""

_MOST_WORK = 10**9
"""Records times squared features; minutes at most."""


@dataclass(frozen=True, eq=False)
class ListedShape:
    """An ellipsoid that holds a list, and what it is worth.

    Attributes
    ----------
    matrix
        E, shape (d, d), raw units squared.
    features
        Names in column order.
    origin
        Centre, raw units, shape (d,).
    records
        Number of different records on the list.
    gap
        By how much, at most, the error of a sum exceeds the least of any Gaussian noise that hides a record, relative.
    of_box_sum, of_box_moment
        Squared error of a sum and of a second moment (add-remove) over that in the box around the list, each feature
        relative to its spread on the list.
    """

    matrix: Array
    features: tuple[str, ...]
    origin: Array
    records: int
    gap: float
    of_box_sum: float
    of_box_moment: float

    def rows(self, name: str) -> list[tuple[str, str]]:
        """Lines for a reader: how to declare it, and whether to."""
        centre = ", ".join(
            f"{{ name = {json.dumps(feature)}, origin = {value:.17g} }}"
            for feature, value in zip(self.features, self.origin, strict=True)
        )
        return [
            ("List", f"{self.records:,} different records of {len(self.features)} features"),
            ("Geometry", f'kind = "ellipsoid", shape = "{name}"'),
            ("Features", centre),
            ("Rows, sums", f"squared error {self.of_box_sum:.3g} of that in the box around the list"),
            (
                "Second moment",
                f"squared error {self.of_box_moment:.3g} of that in the box around the list (add-remove)",
            ),
            ("Least", f"a sum's error is at most {self.gap:.2%} above that of any Gaussian noise that hides a record"),
            ("Budget", "nothing, if the list is public: it must not be made from the records"),
        ]


def shape_of_list(file: Path, origin: Origin) -> ListedShape:
    """Ellipsoid of least noise that holds every record of a public list.

    Parameters
    ----------
    file
        ``.npy`` with an array of shape (n, d), or ``.csv`` with a line of names and a line of numbers for each record.
    origin
        Its centre, from the list: the midpoint of each feature's range, the mean, or zero.

    Raises
    ------
    ConfigError
        The list is not usable, too large, or lies in a plane through the origin.
    StoreError
        The file cannot be read.
    """
    names, values = _read(file)
    n, d = values.shape
    least, largest = values.min(axis=0), values.max(axis=0)
    _require_a_shape(names, n, largest > least)
    centres = {"midpoint": (least + largest) / 2.0, "mean": values.mean(axis=0), "zero": np.zeros(d)}
    centre = centres[origin]
    scale = values.std(axis=0)
    changes = (values - centre) / scale

    def fitted() -> tuple[Solution, Array]:
        design = least_covariance(changes, np.ones(d), 1.0, _GAP)
        if design.core.shape[0] < d:
            raise GeometryError("its records lie in a plane through the origin")
        matrix = design.covariance * np.outer(scale, scale) * _ROOM
        Ellipsoid(centre, matrix).coordinates()
        return design, matrix

    design, matrix = guard(
        fitted,
        lambda error: ConfigError(
            "this list gives no ellipsoid",
            str(error),
            "Choose another origin, or leave out features that others determine",
        ),
        ValueError,
    )
    of_sum, of_moment = _noise_beside_the_box(design.covariance, np.max(np.abs(changes), axis=0))
    gap = _ROOM * design.total / design.lower_bound - 1.0
    return ListedShape(matrix, names, centre, n, gap, of_sum, of_moment)


def _require_a_shape(names: tuple[str, ...], n: int, varies: NDArray[np.bool_]) -> None:
    """Refuse a list that is too large, or has a feature that does not vary."""
    d = len(names)
    if n * d * d > _MOST_WORK:
        raise ConfigError(
            f"the list has {n:,} records of {d:,} features",
            f"Records times squared features may be {_MOST_WORK:,}",
            "Leave out records inside the others, or declare a box",
        )
    if not np.all(varies):
        raise ConfigError(
            f'"{names[int(np.argmin(varies))]}" is the same in every record of the list',
            "A feature that does not vary needs no noise and has no shape",
            "Leave it out",
        )


def _noise_beside_the_box(covariance: Array, widths: Array) -> tuple[float, float]:
    """Variance of the noise of a sum and of a second moment in the ellipsoid, relative to that in the box around it."""
    # A box's second moment has the noise of the ellipsoid of these axes around it, of loss one as the list's own.
    axes = box_variances(widths, np.ones(len(widths)), 1.0)
    of_box = float(np.sum(axes)) ** 2 + float(np.sum(axes**2))
    trace, squares = float(np.trace(covariance)), float(np.sum(covariance**2))
    return _ROOM * trace / float(np.sum(widths)) ** 2, _ROOM**2 * (trace**2 + squares) / of_box


def _read(file: Path) -> tuple[tuple[str, ...], Array]:
    """Names and different records, shape (n, d)."""
    try:
        if file.suffix == ".npy":
            values = np.load(file, allow_pickle=False)
            names = tuple(f"feature{i}" for i in range(1, values.shape[1] + 1)) if values.ndim == 2 else ()
        else:
            with file.open(encoding="utf-8-sig", newline="") as lines:
                head, *rest = csv.reader(lines)
            names, values = tuple(head), np.array(rest, dtype=np.float64)
    except OSError as error:
        failure: ConfigError | StoreError = durable.store_error(error, "the list cannot be read")
    except (ValueError, csv.Error):
        failure = _unusable()
    else:
        if values.ndim != 2 or values.size == 0 or len(names) != values.shape[1] or values.dtype.kind not in "fiu":
            raise _unusable()
        records = np.unique(values.astype(np.float64), axis=0)
        if not np.all(np.isfinite(records)) or float(np.max(np.abs(records))) > 1e100:
            raise _unusable()
        return names, records
    raise failure


def _unusable() -> ConfigError:
    return ConfigError(
        "the list is no table of finite numbers",
        "It is an .npy array of records by features, or a .csv file with a line of names and numbers below",
        "Write it so, codes as numbers",
    )

"""Directions of noise from a published release: its principal directions, which cost nothing beyond its own charge.

A release of some directions alone is completed to a basis by any directions orthogonal to them.

Directions are orthonormal where each feature is divided by its declared scale: half width of a box about the origin,
radius of a ball, semi-axis of an ellipsoid. That is how a config that declares the same shape takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Box
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.data.released import OpenRelease, open_release

Array = NDArray[np.float64]

_MOST = 4096
"""Features of a matrix of 2**24 entries. Noise along directions of a larger one cannot be planned, since it needs the
whole answer in one task."""


@dataclass(frozen=True, eq=False)
class NoiseDirections:
    """Principal directions and how much lies along them.

    Attributes
    ----------
    matrix
        Orthonormal, shape (d, d), one direction a column, the strongest first.
    strength
        What the release has along each, at least zero, shape (d,), in squared scales a record (relative, for sums).
    source
        Identifier of the release.
    """

    matrix: Array
    strength: Array
    source: str

    def rows(self, name: str) -> list[tuple[str, str]]:
        """Lines for a reader: how to declare them."""
        total = float(np.sum(self.strength))
        shares = np.cumsum(self.strength) / total
        enough = int(np.searchsorted(shares, 0.9)) + 1
        return [
            ("From", self.source),
            ("Mechanism", f'directions = "{name}", directions_source = "{self.source}"'),
            ("Geometry", "declare the same shape as the release; an allocation names direction1, direction2, ..."),
            ("Strength", f"{enough} of {self.strength.size} directions carry 90 % of what was released"),
            ("Budget", "the release has been charged; the directions themselves cost nothing"),
        ]


def principal_directions(release: Path) -> NoiseDirections:
    """Eigenvectors of a published covariance or second moment, right singular vectors of rows, or published directions.

    Raises
    ------
    ConfigError
        The release holds none of these, its shape is a matrix that it does not hold, its noise exceeds it, or it has
        more than 4,096 features.
    StoreError
        The release cannot be read.
    """
    source = open_release(release)
    scale = _scale(source.attributes["query"].get("geometry", {}))
    if scale.size > _MOST:
        raise ConfigError(
            f"This release has {scale.size:,} features",
            f"All directions are computed of at most {_MOST:,}, for noise along each of them",
            "blockveil public eigenpairs gives the leading directions of a release of any size",
        )
    if source.attributes.get("matrix") == "directions":
        return _completed(source, scale)
    values, vectors = np.linalg.eigh(_moment(source) / np.outer(scale, scale))
    if not values[-1] > 0:
        raise ConfigError(
            "This release gives no directions", "Its noise exceeds its matrix", "Use a release with a larger epsilon"
        )
    strength = np.maximum(values[::-1], 0.0)
    return NoiseDirections(_signed(vectors[:, ::-1]), strength, str(source.attributes["release_id"]))


def _completed(release: OpenRelease, scale: Array) -> NoiseDirections:
    """Published directions first, orthonormal in scaled units; the rest of the space after them."""
    directions = release.arrays["directions"][...] / scale[:, None]
    basis = np.linalg.qr(directions, mode="complete")[0]
    strength = np.concatenate([np.ones(directions.shape[1]), np.zeros(scale.size - directions.shape[1])])
    return NoiseDirections(_signed(basis), strength, str(release.attributes["release_id"]))


def _signed(vectors: Array) -> Array:
    """A direction has no sign: its largest entry is made positive, so that the file does not depend on the library."""
    signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])])
    signed: Array = vectors * signs
    return signed


def _moment(release: OpenRelease) -> Array:
    arrays, kind = release.arrays, release.attributes.get("matrix")
    if kind in ("covariance", "second_moment"):
        matrix: Array = arrays[str(kind)][...]
        return (matrix + matrix.T) / 2.0
    if kind == "rows":
        centred = arrays["rows"][...] - np.asarray(release.attributes["origin"])
        noise = np.mean(arrays["rows_standard_deviation"][...] ** 2, axis=0)
        unbiased: Array = centred.T @ centred / centred.shape[0] - np.diag(noise)
        return unbiased
    raise ConfigError(
        "This release gives no directions",
        "Directions are those of a covariance, a second moment, rows or published directions",
        "Name such a release",
    )


def _scale(geometry: dict[str, Any]) -> Array:
    """Unit of each feature in which directions are orthonormal."""
    features = geometry.get("features", [])
    match geometry.get("kind"):
        case "box":
            lower, upper = (np.array([feature[key] for feature in features]) for key in ("lower", "upper"))
            origin = (lower + upper) / 2.0 if geometry["origin"] == "midpoint" else np.zeros_like(lower)
            return Box(lower, upper, origin).half_widths
        case "ball":
            return np.full(len(features), float(geometry["radius"]))
        case "ellipsoid" if geometry.get("shape") == "diagonal":
            return np.array([feature["semi_axis"] for feature in features])
    raise ConfigError(
        "This release gives no directions",
        "Its shape must be a box, a ball or an ellipsoid with semi-axes, which say what a unit of each feature is",
        "Name such a release",
    )

"""A public shape from a published release: the charged way to let noise follow the data.

The release was paid for when it was made, so whatever is computed from it costs nothing more. A later release that
declares the shape as its ellipsoid has noise of least total for records of that covariance; the two charges add up in
the ledger like any others.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.shapes import adapted
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, guard
from blockveil.pipeline.releases.publishing import ReleaseInMemory, read_release


@dataclass(frozen=True, eq=False)
class Adapted:
    """A shape and what it is for.

    Attributes
    ----------
    matrix
        E of the ellipsoid, shape (d, d), raw units squared.
    features
        Names in column order.
    origin
        Where the ellipsoid should be centred, raw units, shape (d,).
    saving
        Expected squared error of a second moment with this shape over that with the ball that holds it.
    floor
        Least eigenvalue that the shape follows, relative to the largest.
    raised
        Number of directions that were raised to it.
    source
        Identifier of the release.
    """

    matrix: NDArray[np.float64]
    features: tuple[str, ...]
    origin: NDArray[np.float64]
    saving: float
    floor: float
    raised: int
    source: str

    def rows(self, name: str) -> list[tuple[str, str]]:
        """Lines for a reader: how to declare it."""
        centre = ", ".join(
            f'{{ name = "{feature}", origin = {value:.6g} }}'
            for feature, value in zip(self.features[:3], self.origin[:3], strict=True)
        )
        return [
            ("From", self.source),
            ("Geometry", f'kind = "ellipsoid", shape = "{name}"'),
            ("Features", centre + (", ..." if len(self.features) > 3 else "")),
            ("Directions", f"{self.raised} of {len(self.features)} are raised to the floor of {self.floor:g}"),
            ("Noise", f"a second moment's squared error is {self.saving:.3g} of that in the ball around it"),
            ("Budget", "the release has been charged; the shape itself costs nothing"),
        ]


def adapted_shape(release: Path, headroom: float, floor: float = adapted.FLOOR) -> Adapted:
    """Shape of least noise for records like those of a release.

    Parameters
    ----------
    release
        Folder of a published covariance or second moment.
    headroom
        Largest admissible distance of a record from the origin, in typical distances; positive.
    floor
        Eigenvalues of the released matrix below this share of the largest are raised to it; between 1e-12 and 1.

    Raises
    ------
    ConfigError
        The release holds no covariance or second moment, or its noise exceeds it, or headroom or floor is out of range.
    StoreError
        The release cannot be read.
    """
    if not 0.0 < headroom < 1e6:
        raise ConfigError(
            f"headroom is {headroom:g}", "It is a positive number of typical distances", "Give for instance 3"
        )
    if not adapted.LEAST_FLOOR <= floor <= 1.0:
        raise ConfigError(
            f"floor is {floor:g}", "It is a share of the largest eigenvalue, 1e-12 to 1", "Give for instance 0.001"
        )
    source = read_release(release)
    matrix, origin = _moment(source)
    variance = np.diagonal(matrix)
    # Each feature counts relative to its own released spread, so that units do not matter.
    importance = 1.0 / np.maximum(variance, 1e-6 * float(np.max(np.abs(variance))) + 1e-300)
    shape = headroom**2 * guard(
        lambda: adapted.adapted_shape(matrix, importance, floor),
        lambda error: ConfigError("This release gives no shape", str(error), "Use a release with a larger epsilon"),
        ValueError,
    )
    scale = np.sqrt(np.outer(importance, importance))
    axes, values = np.linalg.eigvalsh(shape * scale), np.linalg.eigvalsh((matrix + matrix.T) / 2.0 * scale)
    raised = int(np.count_nonzero(values < floor * values[-1]))
    m = axes.size
    saving = (np.sum(axes) ** 2 + np.sum(axes**2)) / (m * (m + 1) * axes[-1] ** 2)
    names = tuple(str(name) for name in source.arrays["feature"])
    return Adapted(shape, names, origin, float(saving), floor, raised, str(source.attributes["release_id"]))


def save_matrix(matrix: NDArray[np.float64], output: Path) -> None:
    """Write a public matrix as an .npy file that does not exist yet.

    Raises
    ------
    ConfigError
        The name does not end in .npy.
    StoreError
        The file exists or cannot be written.
    """
    if output.suffix != ".npy":
        raise ConfigError(f'"{output.name}" has no .npy name', "A config finds a matrix by that name", "Rename it")
    stream = io.BytesIO()
    np.save(stream, matrix, allow_pickle=False)
    durable.write_new(output, stream.getvalue(), "the matrix", "Such a matrix is part of a release's identity")


def _moment(release: ReleaseInMemory) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariance about the released mean, or second moment a record about the declared origin."""
    arrays, attributes = release.arrays, release.attributes
    kind = attributes.get("matrix")
    if kind == "covariance":
        return arrays["covariance"], arrays["mean"]
    if kind == "second_moment":
        rows = float(attributes["query"]["rows_at_most"])
        return arrays["second_moment"] / rows, np.asarray(attributes["origin"], dtype=np.float64)
    raise ConfigError(
        "This release gives no shape", "A shape is made from a covariance or a second moment", "Name such a release"
    )

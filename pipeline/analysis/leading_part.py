"""Leading eigenvalues and directions of a released matrix of any size, read by tiles, beside what noise alone gives."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from blockveil.engine.estimates.noisy_moments import Array
from blockveil.pipeline.analysis import labelled
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.showing import FactSheet
from blockveil.pipeline.base.written_numbers import number
from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.matrix import Shown
from blockveil.pipeline.report.papers import Picture
from blockveil.pipeline.report.pictures import eigenvalues
from blockveil.pipeline.report.spectrum import leading_subspace

MOST = 500
"""Directions of one call: memory is some 16 bytes for each of them, each feature, and each of at most twelve passes."""

_NOTE = (
    "In 95 of 100 releases noise alone has no eigenvalue above the noise floor, which is a bound for the whole matrix, "
    "in products of its units: a direction below it may be noise. What pca and the report say is tested direction by "
    "direction, and in units of the noise, and may find more."
)


@dataclass(frozen=True, eq=False)
class Eigenpairs(FactSheet):
    """Leading eigenvalues and directions of a release.

    Attributes
    ----------
    release
        What they were computed from.
    features
        Names of the features.
    values
        Eigenvalues of the released matrix, descending, shape (k,), in products of the features' units.
    vectors
        Their directions, orthonormal, shape (d, k); the largest entry of each is positive.
    errors
        An eigenvalue of the released matrix lies within this of each value, shape (k,): of the computation, not of the
        noise.
    noise_floor
        Largest eigenvalue that noise alone has in 95 of 100 releases; infinite where none is known.
    """

    release: Shown = field(repr=False)
    features: tuple[str, ...]
    values: Array
    vectors: Array = field(repr=False)
    errors: Array
    noise_floor: float

    @property
    def variances(self) -> Any:
        """Eigenvalues, a Series: variances along the directions, of a second moment sums of squares."""
        return labelled.table(self.values, ("component",), (self._names,))

    @property
    def directions(self) -> Any:
        """Unit directions: a DataFrame, one row each."""
        return labelled.table(self.vectors.T, ("component", "feature"), (self._names, self.features))

    @property
    def above_noise(self) -> int:
        """How many of the values noise alone does not reach."""
        return int((self.values - self.errors > self.noise_floor).sum())

    @property
    def factor(self) -> Array:
        """F with ``F F'`` the positive semi-definite part of the released matrix along these directions, shape (d, k).

        Without the directions below the noise floor: ``factor[:, :above_noise]``.
        """
        factor: Array = self.vectors * np.sqrt(np.maximum(self.values, 0.0))
        return factor

    @property
    def picture(self) -> Picture:
        """Eigenvalues beside what noise alone gives."""
        text = (
            f"The {self.values.size} leading eigenvalues of the released matrix, from {number(float(self.values[0]))} "
            f"to {number(float(self.values[-1]))}. In 95 of 100 releases noise alone has none above "
            f"{number(self.noise_floor)}; {self.above_noise} of these {self._are} above that."
        )
        unit = "in products of the features' units"
        return eigenvalues(self.values, self.noise_floor, "eigenvalue", unit, text, signed=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything for other programs, as one .npz file that does not exist yet.

        It holds ``values``, ``errors``, ``directions`` and ``factor``, whose columns belong to the directions,
        ``above_noise``, ``noise_floor``, ``features`` and ``release_id``.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        ConfigError
            Its name does not end in .npz.
        StoreError
            It exists or cannot be written.
        """
        file = Path(path)
        if file.suffix != ".npz":
            raise ConfigError(f'"{file.name}" has no .npz name', "The file holds several arrays", "Rename it")
        stream = io.BytesIO()
        np.savez(
            stream,
            values=self.values,
            errors=self.errors,
            directions=self.vectors,
            factor=self.factor,
            above_noise=self.above_noise,
            noise_floor=self.noise_floor,
            features=np.array(self.features),
            release_id=str(self.release.attributes.get("release_id")),
        )
        durable.write_new(file, stream.getvalue(), "the directions", "A file is not replaced")

    @property
    def _are(self) -> str:
        return "is" if self.above_noise == 1 else "are"

    @property
    def _names(self) -> list[str]:
        return [f"component {i + 1}" for i in range(self.values.size)]

    def rows(self) -> list[tuple[str, str]]:
        """Eigenvalues beside the noise floor."""
        rows = [("Noise floor", number(self.noise_floor)), ("Above it", f"{self.above_noise} of {self.values.size}")]
        for name, value in zip(self._names, self.values, strict=True):
            rows.append((name, number(value) + ("" if value > self.noise_floor else "   may be noise")))
        return [*rows, ("Noise", _NOTE)]

    @property
    def _title(self) -> str:
        return f"Leading directions, from {self.release.attributes.get('release_id')}"


def leading_part(release: Shown, features: tuple[str, ...], k: int) -> Eigenpairs:
    """Leading eigenvalues and directions of a release's matrix, by a few passes over its tiles.

    Raises ConfigError where the matrix is not symmetric, or k is out of range.

    Parameters
    ----------
    release
        A release whose matrix is symmetric.
    features
        Names of its features.
    k
        How many, between 1 and the number of features, and at most :data:`MOST`.
    """
    facts = Facts(release)
    matrix = facts.matrix
    if not matrix.symmetric:
        raise ConfigError(
            f"The {facts.label} of this release are no symmetric matrix",
            "Leading directions are those of a covariance or a second moment",
            "Open such a release",
        )
    most = min(matrix.shape[0], MOST)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise ConfigError(
            f"{k!r} is no number of directions of this release", f"It lies between 1 and {most}", "Correct it"
        )
    scan, ones = facts.scan, np.ones(matrix.shape[0])
    floor = scan.noise_norm
    subspace = leading_subspace(matrix, ones, ones, int(k), floor=floor)
    largest = subspace.vectors[np.abs(subspace.vectors).argmax(axis=0), np.arange(subspace.values.size)]
    vectors = subspace.vectors * np.where(largest < 0.0, -1.0, 1.0)
    return Eigenpairs(release, features, subspace.values, vectors, subspace.errors, floor)

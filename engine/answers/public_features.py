"""Public maps of records to features, one record at a time: random Fourier features, and oriented gradients of images.

A float matrix product depends on how many records are multiplied at once. A feature that followed it would have other
bits in another batch, and a statistic over a batch would let one record move the features of others. Here products are
of integers that are exact in float64 in any order, sums have one order, and all else is elementwise IEEE arithmetic. So
the features of a record are a function of that record and of the map alone, on every machine.

=================== ====================================================== =====================
map                 feature                                                bounds
=================== ====================================================== =====================
Fourier features    ``cos(w'x / width + b)``, w about normal, b uniform    -1 to 1
oriented gradients  votes of a cell's gradients for a direction, over the  0 to 1
                    root of those in the 3 x 3 cells about it
=================== ====================================================== =====================

**Source**: Rahimi and Recht, 2007 (random Fourier features); Dalal and Triggs, 2005 (histograms of oriented gradients),
here with votes that fall linearly with the distance from a direction.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.models import PublicMap

Array = NDArray[np.float64]

_STEPS = 2.0**20
_TERMS = 11
_SUMMED = 12
"""Uniform numbers in a draw that is about normal: their sum has variance one."""


@dataclass(frozen=True)
class FourierFeatures:
    """Random Fourier features of values within public bounds; their mean product is near a Gaussian kernel.

    Attributes
    ----------
    lower, upper
        Bounds of each value; those beyond count as the nearest. The map sees values between -1 and 1.
    count
        Number of features.
    width
        Of the kernel ``exp(-|x - y|^2 / (2 width^2))``, in the units of what the map sees.
    seed
        Any text: it fixes the map, which is public.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    count: int
    width: float
    seed: str

    def of(self, values: Array) -> Array:
        """Features of some records, shape (n, values) to (n, count); values are finite."""
        low, high = (np.array(side, np.float64) for side in (self.lower, self.upper))
        coordinates = np.clip((values - (low + high) / 2.0) / ((high - low) / 2.0), -1.0, 1.0)
        turns, phases = self._map
        return cosine_of_turns(turns.forward(np.rint(coordinates * _STEPS), _STEPS) + phases)

    @cached_property
    def _map(self) -> tuple[PublicMap, Array]:
        """Directions in turns for a unit, and phases in turns."""
        size = len(self.lower)
        words = np.frombuffer(
            hashlib.shake_256(b"blockveil fourier 1 " + self.seed.encode()).digest(
                4 * self.count * (size * _SUMMED + 1)
            ),
            "<u4",
        ).reshape(self.count, -1)
        # Whole numbers until the last division, so that every machine has the same.
        sums = words[:, 1:].reshape(self.count, size, _SUMMED).astype(np.uint64).sum(axis=2).astype(np.float64)
        normal = sums / 2.0**32 - _SUMMED / 2.0
        return PublicMap.of(normal / (2.0 * math.pi * self.width)), words[:, 0].astype(np.float64) / 2.0**32


@dataclass(frozen=True)
class OrientedGradients:
    """Directions of the edges in each cell of an image, whatever its brightness and contrast.

    Attributes
    ----------
    height, width
        Of an image, in pixels, row by row.
    cell
        Side of a cell, in pixels; it divides height and width.
    directions
        Number of directions in half a turn.
    contrast
        Length of a gradient, in the image's own units, below which edges count less.
    """

    height: int
    width: int
    cell: int
    directions: int
    contrast: float

    @property
    def count(self) -> int:
        """Number of features: by row and column of the cell, and by direction."""
        return self.height // self.cell * (self.width // self.cell) * self.directions

    def of(self, values: Array) -> Array:
        """Features of some images, shape (n, height width) to (n, count); values are finite."""
        images = values.reshape(-1, self.height, self.width)
        votes = self._votes(images)
        rows, columns = self.height // self.cell, self.width // self.cell
        cells = np.zeros((len(images), rows, columns, self.directions))
        for down in range(self.cell):  # one order of sums
            for right in range(self.cell):
                cells += votes[:, down :: self.cell, right :: self.cell]
        energy = np.zeros((len(images), rows + 2, columns + 2))
        for direction in range(self.directions):
            energy[:, 1:-1, 1:-1] += cells[..., direction] * cells[..., direction]
        around = np.full((len(images), rows, columns), (self.contrast * self.cell) ** 2)
        for down in range(3):
            for right in range(3):
                around += energy[:, down : down + rows, right : right + columns]
        histograms = cells / np.sqrt(around)[..., None]
        return np.minimum(histograms, 1.0).reshape(len(images), self.count)

    def _votes(self, images: Array) -> Array:
        """Votes of each pixel, shape (n, height, width, directions)."""
        across, down = np.zeros_like(images), np.zeros_like(images)
        across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
        down[:, 1:-1] = images[:, 2:] - images[:, :-2]
        length = np.sqrt(across * across + down * down)
        turns = np.arange(self.directions) / (2.0 * self.directions)
        x, y = cosine_of_turns(turns), cosine_of_turns(turns - 0.25)
        # A direction half a turn away is the same; a vote falls to nothing where the next direction is.
        nearest = float(cosine_of_turns(np.array([1.0 / (2.0 * self.directions)]))[0])
        votes = np.empty((*images.shape, self.directions))
        for direction in range(self.directions):
            along = np.abs(across * x[direction] + down * y[direction])
            votes[..., direction] = np.maximum(along - nearest * length, 0.0) / (1.0 - nearest)
        return votes


def cosine_of_turns(turns: Array) -> Array:
    """``cos(2 pi t)`` within 4e-15, for whole turns and fractions of one; elementwise, the same on every machine."""
    # cos(2 pi |r|) = sin(2 pi (1/4 - |r|)) with |r| <= 1/2, so the angle is within a quarter of a turn.
    quarter = 0.25 - np.abs(turns - np.rint(turns))
    angle = quarter * (2.0 * math.pi)
    square = angle * angle
    series = np.full_like(angle, 1.0)
    for k in range(_TERMS, 0, -1):
        series = 1.0 - series * square / ((2 * k) * (2 * k + 1))
    return np.asarray(np.clip(series * angle, -1.0, 1.0))

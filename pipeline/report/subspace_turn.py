"""How far the leading subspace of one release has turned from that of another, beside what their noise turns it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import subspace_angles

from blockveil.pipeline.report.facts import Facts
from blockveil.pipeline.report.matrix import Array, ReleasedMatrix
from blockveil.pipeline.report.scan import noise_units
from blockveil.pipeline.report.spectrum import Subspace, leading_subspace

_DIRECTIONS = 10
_KNOWN = 30


@dataclass(frozen=True, eq=False)
class Turn:
    """How far the leading subspace has turned.

    Attributes
    ----------
    dimension
        Directions compared: those that stand out from the noise in both releases, at most ten; 0 where there are none.
    angle
        Largest principal angle, in degrees.
    noise_angle
        Root mean square of the angle's sine (over all directions) that noise alone causes, as an angle in degrees,
        first order in the noise.
    """

    dimension: int
    angle: float
    noise_angle: float


def joint_units(a: ReleasedMatrix, b: ReleasedMatrix) -> tuple[Array, Array]:
    """Units of both noises together by row and by column."""
    mine, theirs = noise_units(a)[1], noise_units(b)[1]
    # A column's unit is the root of the deviation where symmetric: row times column is the deviation.
    power = 4.0 if a.symmetric else 2.0
    joint = (mine**power + theirs**power) ** (1.0 / power)
    return (joint if a.symmetric else np.ones(a.shape[0])), joint


def turn(a: Facts, b: Facts) -> Turn:
    """Compare the leading subspaces along the columns, in units of both noises together."""
    units = joint_units(a.matrix, b.matrix)
    power = 4.0 if a.matrix.symmetric else 2.0
    share = float(np.mean((noise_units(a.matrix)[1] / units[1]) ** power))
    most = min(_KNOWN, *a.matrix.shape)
    one, other = (leading_subspace(facts.matrix, *units, most) for facts in (a, b))
    level = max(a.scan.noise_level, b.scan.noise_level)
    k = min(_DIRECTIONS, *(int((subspace.values > level).sum()) for subspace in (one, other)))
    if k == 0 or k == a.matrix.shape[1]:
        return Turn(0, 0.0, 0.0)
    angle = float(np.max(subspace_angles(one.vectors[:, :k], other.vectors[:, :k])))
    squares = share * _noise_sine(one, k, a.matrix) + (1.0 - share) * _noise_sine(other, k, a.matrix)
    return Turn(k, math.degrees(angle), math.degrees(math.asin(min(1.0, math.sqrt(squares)))))


def _noise_sine(found: Subspace, leading: int, matrix: ReleasedMatrix) -> float:
    """Expected squared sine distance that noise of unit size causes, first order: sum of variance / gap^2.

    Directions beyond those known are taken to have the last known value, the nearest that they can be.
    """
    values = np.concatenate([found.values, np.full(matrix.shape[1] - found.values.size, found.values[-1])])
    inside, outside = values[:leading, None], values[None, leading:]
    with np.errstate(divide="ignore"):
        if matrix.symmetric:
            # Off the diagonal of the rotated noise: half the variance of a diagonal entry, which is the unit.
            terms = 0.5 / (inside - outside) ** 2
        else:
            terms = (inside**2 + outside**2) / (inside**2 - outside**2) ** 2
    return float(np.sum(np.minimum(terms, 1.0)))

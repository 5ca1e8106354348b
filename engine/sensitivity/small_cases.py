"""Small problems with their worst neighbours, which every kind of query states in its file ``worst_neighbours.py``.

An audit attacks the pairs, and the catalogue tries the problems: a mechanism serves a query if it finds in a problem of
it the abilities that it needs. Integers of records that fill a box within a ball, or a turned cube, are those of the
released quantiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.records.geometry import Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.rotation import along

LARGEST = 2**11 - 1
"""Integer that stands for coordinate one."""

ROWS = 20
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE

BASIS = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0
"""Three directions that are no features."""

Pairs = Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True, eq=False)
class SmallCase:
    """A small problem of a query, with the integer answers of neighbours.

    Attributes
    ----------
    query
        As a config names it.
    problem
        With few features, cells or records.
    pairs
        Answers of neighbours, a worst pair among them; empty where an audit has cases of its own.
    along_directions
        Whether the record is seen along directions other than the features.
    """

    query: str
    problem: Problem
    pairs: Pairs = ()
    along_directions: bool = False


def clip_in_a_ball(low: float, norm: float) -> Quantiser:
    """Quantiser of three features between ``low`` and one, of records of at most this norm."""
    box = Box([low] * 3, np.ones(3), np.zeros(3), norm)
    return Quantiser(box.coordinates(), LARGEST, False, None)


def in_a_ball(clip: Quantiser) -> NDArray[np.float64]:
    """Integers of records that fill the box or the ball, shape (27, 3)."""
    return clip.quantise(np.array(list(product((1.0, 0.0, -1.0), repeat=3))))


def clip_along(directions: NDArray[np.float64]) -> Quantiser:
    """Quantiser of a cube of three features, seen along directions."""
    cube = Box(-np.ones(3), np.ones(3), np.zeros(3))
    return Quantiser(along(cube.coordinates(), directions), LARGEST, False, None)


def corners_along(clip: Quantiser) -> NDArray[np.float64]:
    """Integers of all corners of the cube, shape (8, 3)."""
    return clip.quantise(np.array(list(product((-1.0, 1.0), repeat=3))))

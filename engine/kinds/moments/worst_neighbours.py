"""Second moments and covariances of three features, and the records that move them most."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from blockveil.engine.kinds.moments import rotated
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.small_cases import (
    ADD,
    BASIS,
    LARGEST,
    REPLACE,
    ROWS,
    SmallCase,
    clip_along,
    clip_in_a_ball,
    corners_along,
    in_a_ball,
)

_NONE = np.zeros((3, 3))


def worst_neighbours() -> list[SmallCase]:
    """Return records in a box, in a box within a ball, and in a turned cube, against none and against each other."""
    units, ones, signs = np.array([1.0, 3.0, 0.5]), np.full(3, LARGEST), np.array([1, -1, 1]) * LARGEST
    cube = np.outer(ones, ones)
    # A record with a constant in front, at the ends of one feature or more.
    counted = [np.outer(record, record) for record in np.tri(4)[1:] * LARGEST]
    boxed = (
        SecondMoment(Body.CUBE, units, ADD, LARGEST, ROWS, False),
        SecondMoment(Body.CUBE, units, REPLACE, LARGEST, ROWS, False),
        SecondMoment(Body.CUBE, units, ADD, LARGEST, ROWS, True),
    )
    return [
        SmallCase("second-moment", boxed[0], [(cube, _NONE)]),
        # The first is the worst in L2; a record at the far end that moves to the origin is worse in L1.
        SmallCase("second-moment", boxed[1], [(cube, np.outer(signs, signs)), (cube, _NONE)]),
        SmallCase("covariance", boxed[2], [(moment, np.zeros((4, 4))) for moment in counted]),
        *_in_a_ball(),
        *_along_directions(),
    ]


def _in_a_ball() -> list[SmallCase]:
    about = clip_in_a_ball(-1.0, 1.25)
    moments = [np.outer(record, record) for record in in_a_ball(about)]
    added, replaced = (
        SecondMoment(about.coordinates.body, np.ones(3), relation, LARGEST, ROWS, False) for relation in (ADD, REPLACE)
    )
    return [
        SmallCase("second-moment", added, [(moment, _NONE) for moment in moments]),
        SmallCase("second-moment", replaced, list(combinations(moments, 2))),
    ]


def _along_directions() -> list[SmallCase]:
    clip = clip_along(BASIS)
    moments = [np.outer(corner, corner) for corner in corners_along(clip)]
    added, replaced = (rotated.second_moment(clip, relation, ROWS) for relation in (ADD, REPLACE))
    return [
        SmallCase("second-moment", added, [(moment, _NONE) for moment in moments], along_directions=True),
        SmallCase("second-moment", replaced, list(combinations([*moments, _NONE], 2)), along_directions=True),
    ]

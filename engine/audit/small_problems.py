"""Small problems of every query for audits, each with the integer answers of neighbours, a worst pair among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from blockveil.engine.audit import table_cases
from blockveil.engine.audit.bounds import Array
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.histograms.problem import Histograms
from blockveil.engine.kinds.moments import rotated as rotated_moments
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.quantiles.problem import Quantiles
from blockveil.engine.kinds.rows import rotated as rotated_rows
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.sensitivity.rotation import along
from blockveil.engine.workloads.workload import AllRange, Kronecker, Total

K = 2**11 - 1
_ROWS = 20
RANGES = (Kronecker(Total(1), AllRange(8)),)
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE

Pairs = Sequence[tuple[Array, Array]]

BASIS = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0], [2.0, -2.0, 1.0]]) / 3.0
_CUBE = Box(-np.ones(3), np.ones(3), np.zeros(3))


def small_problems() -> Sequence[tuple[Problem, Pairs]]:
    """Small problems, each with the integer answers of neighbours, a worst pair among them."""
    units = np.array([1.0, 3.0, 0.5])
    ones, signs = np.full(3, K), np.array([K, -K, K])
    cube = np.outer(ones, ones)
    cell, other = np.zeros((2, 3)), np.zeros((2, 3))
    cell[0, 0] = other[1, 2] = 1.0
    bins, last = np.eye(3)[[0, 0, 0]], np.eye(3)[[2, 2, 1]]
    parts = [np.array(part)[:, None] for part in list(product((1.0, 0.0), repeat=3))[:-1]]
    row = np.vstack([ones, np.zeros(3)])
    line = np.eye(8)[:, None, :]
    # A record with a constant in front, at the ends of one feature or more.
    counted = [np.outer(record, record) for record in np.tri(4)[1:] * K]
    return (
        (SecondMoment(Body.CUBE, units, ADD, K, _ROWS, False), [(cube, np.zeros((3, 3)))]),
        (
            SecondMoment(Body.CUBE, units, REPLACE, K, _ROWS, False),
            # The first is the worst in L2; a record at the far end that moves to the origin is worse in L1.
            [(cube, np.outer(signs, signs)), (cube, np.zeros((3, 3)))],
        ),
        (SecondMoment(Body.CUBE, units, ADD, K, _ROWS, True), [(moment, np.zeros((4, 4))) for moment in counted]),
        (Rows(Body.CUBE, units, REPLACE, K, 2), [(row, -row)]),
        *_in_a_ball(),
        (
            OuterProducts(Body.BALL, Body.CUBE, np.ones(2), units, ADD, K, _ROWS),
            [(np.outer([K, 0], ones), np.zeros((2, 3)))],
        ),
        (Totals(Body.CUBE, units, ADD, K, _ROWS), [(np.array([[K, K, -K, K]]), np.zeros((1, 4)))]),
        (Totals(Body.CUBE, units, REPLACE, K, _ROWS), [(signs[None, :], -signs[None, :])]),
        (Counts((2, 3), ADD, _ROWS), [(cell, np.zeros((2, 3)))]),
        (Counts((2, 3), REPLACE, _ROWS), [(cell, other)]),
        # A record in the first bin of every column, against none, and against one that is in the last ones; and records
        # that have no value in some columns.
        (Histograms((3, 3, 2), ADD, _ROWS), [(bins * part, np.zeros((3, 3))) for part in parts]),
        (
            Histograms((3, 3, 2), REPLACE, _ROWS),
            [(bins * part, last * other) for part in parts for other in (np.zeros((3, 1)), *parts)],
        ),
        *map(_quantiles, (ADD, REPLACE)),
        *table_cases.problems(_ROWS),
        (Counts((1, 8), ADD, _ROWS, RANGES), [(line[0], np.zeros((1, 8)))]),
        (Counts((1, 8), REPLACE, _ROWS, RANGES), [(line[0], line[7])]),
    )


def _quantiles(relation: Neighbours) -> tuple[Problem, Pairs]:
    """Records in any cells of two columns, some of them without a value."""
    problem = Quantiles((3, 4), relation, _ROWS, complete=False, tail=0.45)
    cells = [np.arange(4) == np.array(each)[:, None] for each in product(range(-1, 3), range(-1, 4))]
    records = [problem.answers(each.astype(np.int64)).astype(np.float64) for each in cells]
    if relation is REPLACE:
        return problem, list(combinations(records, 2))
    return problem, [(record, np.zeros(problem.shape)) for record in records]


def _in_a_ball() -> Sequence[tuple[Problem, Pairs]]:
    """Records in a box within a ball: the integers of records that fill either, from the released quantiser."""
    boxes = [Box([low] * 3, np.ones(3), np.zeros(3), norm) for low, norm in ((-1.0, 1.25), (0.0, 1.0))]
    clips = [Quantiser(box.coordinates(), K, False, None) for box in boxes]
    signed, positive = (clip.quantise(np.array(list(product((1.0, 0.0, -1.0), repeat=3)))) for clip in clips)
    moments = [np.outer(k, k) for k in signed]
    rows = [np.vstack([k, np.zeros(3)]) for k in positive]
    about, above = (clip.coordinates.body for clip in clips)
    ones = np.ones(3)
    return (
        (SecondMoment(about, ones, ADD, K, _ROWS, False), [(moment, np.zeros((3, 3))) for moment in moments]),
        (SecondMoment(about, ones, REPLACE, K, _ROWS, False), list(combinations(moments, 2))),
        (Rows(above, ones, REPLACE, K, 2), list(combinations(rows, 2))),
        (Totals(above, ones, REPLACE, K, _ROWS, widths=ones), list(combinations(positive[:, None, :], 2))),
    )


def problems_along_directions() -> Sequence[tuple[Problem, Pairs]]:
    """Records in a cube seen along directions: the integers of all its corners, from the released quantiser."""
    clip = clip_along(BASIS)
    corners = clip.quantise(np.array(list(product((-1.0, 1.0), repeat=3))))
    moments = [np.outer(corner, corner) for corner in corners] + [np.zeros((3, 3))]
    rows = [np.vstack([corner, np.zeros(3)]) for corner in corners]
    return (
        (rotated_moments.second_moment(clip, ADD, _ROWS), [(moment, np.zeros((3, 3))) for moment in moments[:-1]]),
        (rotated_moments.second_moment(clip, REPLACE, _ROWS), list(combinations(moments, 2))),
        (rotated_rows.rows(clip, REPLACE, 2), list(combinations(rows, 2))),
    )


def clip_along(directions: Array) -> Quantiser:
    """Quantiser of a cube of three features, seen along directions."""
    return Quantiser(along(_CUBE.coordinates(), directions), K, False, None)

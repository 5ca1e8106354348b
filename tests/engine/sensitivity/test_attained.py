"""Where a sensitivity is called exact some neighbours are that far apart, and where none are it is an upper bound."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.records.geometry import Ball, Body, Box, reaches_both_ends
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.workloads.workload import AllRange, Kronecker, Prefix, Total
from blockveil.testing.mechanism import ADD, REPLACE, K, attained

BOXES = {
    "even": Box([-1.0, -3.0], [1.0, 3.0], [0.0, 0.0]),
    "midpoint": Box([0.1, -7.0], [1.3, 2.0], [(0.1 + 1.3) / 2, -2.5]),
    "positive": Box([0.0, 0.0], [1.0, 3.0], [0.0, 0.0]),
    "nearly positive": Box([0.0, -0.001], [1.0, 1.0], [0.0, 0.0]),
    "uneven": Box([-0.2, -3.0], [1.0, 1.0], [0.0, 0.0]),
    "uneven in a ball": Box([-0.2, -3.0], [1.0, 1.0], [0.0, 0.0], 1.1),
    "even in a ball": Box([-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], 1.2),
    "positive in a ball": Box([0.0, 0.0], [1.0, 1.0], [0.0, 0.0], 1.2),
    "ball": Ball([0.0, 0.0], 2.0),
    "one even feature": Box([-2.0], [2.0], [0.0]),
    "one uneven feature": Box([-1.0], [2.0], [0.0]),
}
SPREADS = {"equal": [1.0, 1.0], "uneven": [1.0, 0.6], "very uneven": [1.0, 0.2]}


def ends_of(coordinates):
    """Least and largest coordinates of a box, as a question declares them."""
    ends = Quantiser(coordinates, K, False, None).ends
    return None if ends is None else (ends[0] / K, ends[1] / K)


@cache
def ends_of_shape(shape):
    return ends_of(shape.coordinates())


def inside(shape, records):
    """Coordinates of the nearest admissible records, or of some: clipped to the whole ends, then to the norm."""
    c = shape.coordinates()
    if isinstance(shape, Ball):
        return records / np.maximum(1.0, np.linalg.norm(records, axis=-1, keepdims=True))
    raw = np.clip(records, *ends_of_shape(shape)) * c.scale
    if shape.norm_at_most is not None:
        length = np.linalg.norm(raw, axis=-1, keepdims=True)
        raw = raw * np.minimum(1.0, shape.norm_at_most / np.maximum(length, 1e-300))
    return raw / c.scale


def furthest(shape, change, relation, norm):
    """Largest distance that a search over pairs of records finds, from all corners and axes on.

    One coordinate after the other is put at its best value: furthest pairs are at corners in all but one.
    """
    d = shape.origin.size
    points = np.array(list(product((1.0, -1.0, 0.0), repeat=d if relation is ADD else 2 * d)))

    def size(points):
        y, z = inside(shape, points[..., :d]), None if relation is ADD else inside(shape, points[..., d:])
        return np.linalg.norm(change(y, z).reshape(*points.shape[:-1], -1), norm, axis=-1)

    for axis in [*range(points.shape[1]), *range(points.shape[1])]:
        points = moved(size, points, axis)
    return float(np.max(size(points)))


def moved(size, points, axis):
    """The points with one coordinate at the best of all its values, to 1e-11."""
    around, width = np.zeros((len(points), 1)), 1.0
    while width > 1e-11:
        tried = np.repeat(points[:, None], 22, axis=1)  # the last is the point as it is
        tried[:, :-1, axis] = np.clip(around + width * np.linspace(-1.0, 1.0, 21), -1.0, 1.0)
        points = tried[np.arange(len(points)), np.argmax(size(tried), axis=1)]
        around, width = points[:, axis : axis + 1], width / 5
    return points


def moment(spread, constant):
    def change(y, z):
        def of(v):
            if constant:
                v = np.concatenate([np.full((*v.shape[:-1], 1), constant), v], axis=-1)
            return v[..., :, None] * v[..., None, :]

        return (of(y) - (0.0 if z is None else of(z))) / np.outer(spread, spread)

    return change


def check(said, found):
    """No pair is further apart than the bound, and where it is called exact one is as far."""
    assert found <= said.bound * (1.0 + 1e-9)
    assert found >= said.attained * (1.0 - 1e-9), "some pair is as far apart as is said"
    if said.exact:
        assert found >= said.bound * (1.0 - 1e-9)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("size", SPREADS.values(), ids=SPREADS.keys())
@pytest.mark.parametrize("shape", BOXES.values(), ids=BOXES.keys())
def test_of_second_moments(shape, size, augmented, relation):
    c = shape.coordinates()
    free = np.array(size[: c.dimension])
    sizes = np.concatenate([[0.8], free]) if augmented else free
    even, ends = reaches_both_ends(c, K), ends_of(c)
    problem = SecondMoment(c.body, c.scale, relation, K, 10, augmented, even=even, ends=ends)
    said = problem.l2(problem.spread(sizes, sizes))
    check(said, furthest(shape, moment(sizes, 1.0 if augmented else 0.0), relation, 2))


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("size", SPREADS.values(), ids=SPREADS.keys())
@pytest.mark.parametrize("shape", BOXES.values(), ids=BOXES.keys())
def test_of_rows(shape, size, norm):
    c = shape.coordinates()
    sizes = np.array(size[: c.dimension])
    problem = Rows(c.body, c.scale, REPLACE, K, 1, even=reaches_both_ends(c, K), ends=ends_of(c))
    said = getattr(problem, f"l{norm}")(problem.spread(np.ones(1), sizes))
    check(said, furthest(shape, lambda y, z: (y - z) / sizes, REPLACE, norm))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("left", ["one even feature", "one uneven feature", "positive"])
@pytest.mark.parametrize("right", ["even", "positive", "uneven", "nearly positive"])
def test_of_outer_products(left, right, relation):
    shapes = BOXES[left], BOXES[right]
    c = [shape.coordinates() for shape in shapes]
    even = any(reaches_both_ends(side, K) for side in c)
    bodies, (one, other) = (c[0].body, c[1].body, c[0].scale, c[1].scale), map(ends_of, c)
    problem = OuterProducts(*bodies, relation, K, 10, even=even, left_ends=one, right_ends=other)
    p = c[0].dimension
    corners = [inside(shape, np.array(list(product((-1.0, 0.0, 1.0), repeat=shape.origin.size)))) for shape in shapes]
    products = np.einsum("ai,bj->abij", *corners).reshape(-1, p, c[1].dimension)
    others = np.zeros_like(products[:1]) if relation is ADD else products
    # The distance is convex in each of the four factors, so that corners of boxes suffice.
    found = np.max(np.linalg.norm(products[:, None] - others, axis=(2, 3)))
    check(problem.l2(problem.spread(np.ones(p), np.ones(c[1].dimension))), found)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("mechanism", [Hierarchical("gaussian", 2), Hierarchical("laplace", 3), MatrixMechanism()])
@pytest.mark.parametrize("cells", [(1, 8), (3, 4), (1, 2)])
def test_of_strategies(cells, mechanism, relation):
    """Every record that is added, and every one that is replaced by another or leaves the table."""
    asked = (Kronecker(AllRange(cells[0]) if cells[0] > 1 else Total(1), Prefix(cells[1])),)
    problem = Counts(cells, relation, 1000, asked)
    design = mechanism.design(problem, ApproxDP(0.5, 1e-6))
    check(design.sensitivity, attained(problem, design))


def of(name, build, known):
    c = BOXES[name].coordinates()
    return build(c, reaches_both_ends(c, K), ends_of(c) if known else None)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["nearly positive", "uneven", "one uneven feature"])
def test_a_box_that_is_uneven_about_its_origin_is_exact_by_its_ends_and_an_upper_bound_without(name, known):
    def rows(c, even, ends):
        problem = Rows(c.body, c.scale, REPLACE, K, 1, even=even, ends=ends)
        return problem.l2(problem.spread(np.ones(1), np.ones(c.dimension)))

    def moments(c, even, ends):
        problem = SecondMoment(c.body, c.scale, REPLACE, K, 10, False, even=even, ends=ends)
        return problem.l2(problem.spread(np.ones(c.dimension), np.ones(c.dimension)))

    def products(c, even, ends):
        problem = OuterProducts(
            c.body, c.body, c.scale, c.scale, REPLACE, K, 10, even=even, left_ends=ends, right_ends=ends
        )
        return problem.l2(problem.spread(np.ones(c.dimension), np.ones(c.dimension)))

    assert of(name, rows, known).exact == known
    # Both factors of this box have features that are differently uneven, which leaves an upper bound.
    assert of(name, products, known).exact == (known and name == "one uneven feature")
    # One feature cannot be longer than at its far end, whatever is there at the other.
    assert of(name, moments, known).exact == (known or name == "one uneven feature")


@pytest.mark.parametrize("name", ["even", "midpoint"])
def test_a_box_that_is_even_about_its_origin_is_exact_to_rounding(name):
    c = BOXES[name].coordinates()
    assert reaches_both_ends(c, K)
    problem = Rows(c.body, c.scale, REPLACE, K, 1, even=True)
    assert problem.l2(problem.spread(np.ones(1), np.ones(2))).exact
    assert Body.CUBE is c.body

"""Principal directions, from a noisy matrix or drawn alone: what of them follows from what is released beside them."""

from __future__ import annotations

import numpy as np

from blockveil.pipeline.verification.checked_arrays import CLOSE, DEVIATION, CheckedArrays
from blockveil.pipeline.verification.stated_grid import Values
from blockveil.pipeline.verification.stated_numbers import stated_count

_STEP = 2.0**-40
"""Entries of directions are whole numbers of it."""

_MOST_FEATURES = 1024
"""Features up to which eigenvalues are computed."""

_LONG = f"of more than {_MOST_FEATURES:,} features, whose eigenvalues take too long"


def drawn(check: CheckedArrays) -> None:
    """Of directions that are drawn alone; parameters and errors as :func:`.released_counts.cells`."""
    geometry = check.query["geometry"]
    check.names("feature", geometry)
    directions = _directions(check)
    width = directions.shape[0]
    # An entry of a uniform unit vector has variance 1 / d.
    check.of(f"directions{DEVIATION}", directions.shape)
    check.constant(f"directions{DEVIATION}", (width**-0.5, width**-0.5))


def leading(check: CheckedArrays) -> None:
    """Of those of a noisy matrix; parameters and errors as :func:`drawn`."""
    directions = _directions(check)
    width, count = directions.shape
    rest = ("eigenvalues", "expected_squared_sine_distance")
    if width > _MOST_FEATURES or f"second_moment{DEVIATION}" not in check.arrays:
        for name in rest:
            check.skip(name, _LONG)
        return
    moment = check.read("second_moment", (width, width))
    values, vectors = np.linalg.eigh(moment)
    values, vectors = values[::-1], vectors[:, ::-1]
    check.sums_to("eigenvalues", values)
    largest = float(np.max(np.abs(values)))
    off = np.abs(moment @ directions - directions * values[:count])
    check.require("directions", bool(np.all(off <= (CLOSE + width * _STEP) * largest)))
    variance = check.read(f"second_moment{DEVIATION}", (width, width)) ** 2
    check.sums_to(rest[1], np.asarray(_sine_distance(variance, values, vectors, count)))


def _directions(check: CheckedArrays) -> Values:
    """Unit directions that are orthogonal to each other."""
    features, count = len(check.query["geometry"]["features"]), stated_count(check.query, "directions")
    directions = check.read("directions", (features, count))
    check.texts("direction", [f"direction {number}" for number in range(1, count + 1)])
    apart = np.abs(directions.T @ directions - np.eye(count))
    whole = bool(np.array_equal(directions / _STEP, np.rint(directions / _STEP)))
    check.require("directions", whole and bool(np.all(apart <= 4.0 * features * _STEP)))
    return directions


def _sine_distance(variance: Values, values: Values, vectors: Values, count: int) -> float:
    """Expected squared sine distance of the leading directions, first order in the noise.

    ``Var v'Nw = sum over k, l of v_k^2 w_l^2 S_kl + v_k v_l w_k w_l S_kl``, without the second part where k = l, for
    independent entries of variances S; over the squared gap of two eigenvalues, at most one each.
    """
    distance, own = 0.0, np.diagonal(variance)
    others = vectors[:, count:]
    for place in range(count):
        products = vectors[:, place, None] * others
        noise = (vectors[:, place] ** 2) @ variance @ others**2 + np.einsum("kj,kj->j", products, variance @ products)
        noise = np.maximum(noise - own @ products**2, 0.0)
        gaps = values[place] - values[count:]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(gaps > 0.0, noise / gaps**2, np.inf)
        distance += float(np.sum(np.minimum(terms, 1.0)))
    return min(distance, float(min(count, values.size - count)))

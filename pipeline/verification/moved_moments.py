"""How far one record moves a second moment or a covariance: pairs of records that are written down, and simple bounds.

Write y for a record over the sizes of the noise, with the constant one in front of a covariance. A record that is added
moves the answer by ``yy'``, one that is replaced by ``yy' - zz'``, of squared Frobenius norm ``|y|^4 + |z|^4 - 2
(y.z)^2``. Weights of both are rounded down for what some records do, and up for what no records can, which is right
because every entry counts by the product of two of them.

**Bounds**, each by a line:

* add-remove: ``|y|^2`` is largest where ``sum weights k^2`` is (:mod:`.stated_shapes`).
* replace-one: ``2 M^2``, M the largest ``|y|^2``, since ``(y.z)^2`` is not negative. In a box no feature of which has
  two signs, entries of ``yy'`` and ``zz'`` have one sign, so that they differ by no more than the larger, which is
  largest at the far corner: ``M^2`` less the constant's entry, which stays. In a ball ``yy' - zz' = D (p aa' - q bb')
  D`` with orthonormal a, b, with p and q in [0, 1], D the roots of the weights: at most ``(a'D^2a)^2 + (b'D^2b)^2``.
  Neither term exceeds the largest weight, nor do both together the two largest (Ky Fan, 1949), so that it is at most
  the sum of these two squared.
* Laplace noise has the L1 norm of the distinct entries: ``(|y|_1^2 + |y|_2^2) / 2``, and twice that, without the
  constant's entry, for two records.
* A diagonal with noise of its own: see :mod:`.moved_diagonals`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from blockveil.pipeline.verification.stated_numbers import UNIT_BITS, Moved, Numbers, Weights
from blockveil.pipeline.verification.stated_shapes import Shape

Pair = tuple[Numbers, Numbers]
"""Two records, each with its constant coordinate if there is one."""

_MOST_SUMMED = 128
"""Features up to which each entry is looked at by itself."""

_MOST_TRIED = 256
"""Features up to which more pairs are tried than a few."""

_ROUNDS = 3
"""How often both records are improved, feature after feature."""

_PARTS = 32
"""Into how many parts the way between two ends is divided, to try records between them."""


def frobenius(shape: Shape, weights: Weights, lead: int, *, replaced: bool, unscaled: bool) -> Moved:
    """In Frobenius norm; or, with noise as large off the diagonal as on it, of one triangle with the diagonal.

    Parameters
    ----------
    shape
        Of a record.
    weights
        Squared inverse sizes of the noise by row, the constant's first.
    lead
        Number of constant coordinates, 0 or 1.
    replaced
        Whether a record is replaced; else it is added or removed.
    unscaled
        Whether it is the triangle.
    """
    if replaced:
        distances = [_apart(pair, weights.least, unscaled) for pair in pairs(shape, weights.least, lead)]
        return _moved(shape, max(distances), _bound_apart(shape, weights.most, lead), 2)
    record = with_constant(shape, shape.furthest(weights.least[lead:]), lead)
    squares = [w * k * k for w, k in zip(weights.least, record, strict=True)]
    least = sum(squares) ** 2
    if unscaled:
        least = (least + sum(square * square for square in squares)) // 2
    bound = _longest(shape, weights.most, lead) ** 2
    if unscaled and shape.box:
        # Every entry, also on the diagonal, is largest at the furthest ends.
        bounds = with_constant(shape, shape.bounds, lead)
        diagonal = sum((w * k * k) ** 2 for w, k in zip(weights.most, bounds, strict=True))
        bound = (bound + diagonal + 1) // 2
    return _moved(shape, least, bound, 2)


def entries(shape: Shape, inverse: Weights, lead: int, *, replaced: bool) -> Moved:
    """In the L1 norm of the distinct entries; parameters as for :func:`frobenius`, but inverse sizes not squared."""
    record = shape.furthest_sum(inverse.least[lead:])
    least = _triangle(with_constant(shape, record, lead), inverse.least)
    squares = Weights([w * w for w in inverse.least], [w * w for w in inverse.most])
    constant = (inverse.most[0] * shape.largest) ** 2 * lead
    whole = inverse.most[0] * shape.largest * lead + shape.most_sum(inverse.most[lead:])
    bound = (whole**2 + constant + shape.most(squares.most[lead:])) // 2 + 1
    if not replaced:
        return _moved(shape, least**2, bound**2, 1)
    # One record at the origin leaves all but the constant's entry.
    least -= (inverse.least[0] * shape.largest) ** 2 * lead
    if len(inverse.least) <= _MOST_SUMMED:
        neighbours = pairs(shape, squares.least, lead)
        least = max(least, *(_entries_apart(pair, inverse.least) for pair in neighbours))
    # Without rounding the constant's entry stays, so that it may be left out.
    bound -= (inverse.least[0] * shape.largest) ** 2 * lead
    return _moved(shape, least**2, (bound if shape.box and shape.one_sided else 2 * bound) ** 2, 1)


def pairs(shape: Shape, weights: Numbers, lead: int) -> Iterator[Pair]:
    """Pairs of records that are far apart in some shapes."""
    own = weights[lead:]
    furthest = shape.furthest(own)
    for first, second in _without_constant(shape, own, furthest, weights[0] * shape.largest**2 * lead):
        yield with_constant(shape, first, lead), with_constant(shape, second, lead)


def with_constant(shape: Shape, record: Numbers, lead: int) -> Numbers:
    """A record behind the constant coordinate."""
    return [shape.largest] * lead + list(record)


def _without_constant(shape: Shape, own: Numbers, furthest: Numbers, constant: int) -> Iterator[Pair]:
    yield furthest, [0] * shape.features
    if shape.turned:
        return
    yield furthest, shape.besides(furthest, own)
    if shape.high:
        turned = _turned_signs(own, furthest, shape.opposite(furthest), constant)
        yield furthest, turned
        yield from _on_the_way(shape, own, furthest)
        if shape.box and shape.features <= _MOST_TRIED:
            opposite = shape.opposite(furthest)
            far = [m if 2 * abs(m) >= abs(k) else k for k, m in zip(furthest, opposite, strict=True)]
            for second in (turned, _turned_signs(own, furthest, far, constant), opposite, [0] * shape.features):
                yield _improved(shape, own, (furthest, second), constant)
        return
    yield furthest, shape.opposite(furthest)
    if shape.features > 1:
        # From along the second axis to the far end of the first: a quarter of a circle, by its chord and by points.
        one, other = sorted(range(shape.features), key=lambda i: -own[i])[:2]
        for part in range(_PARTS + 1):
            along, across = part, _PARTS - part
            length = (along * along + across * across) ** 0.5 * (1.0 + 1e-9)
            record = shape.axis(one, -int(shape.radius * along / length))
            yield furthest, _with(record, other, int(shape.radius * across / length))


def _turned_signs(own: Numbers, furthest: Numbers, opposite: Numbers, constant: int) -> Numbers:
    """A record with features of another, largest first, where that leaves less of the product of both."""
    candidate, scalar_product = list(furthest), constant
    for feature in sorted(range(len(own)), key=lambda i: -own[i] * furthest[i] ** 2):
        ways = (own[feature] * furthest[feature] * record[feature] for record in (furthest, opposite))
        same, turned = ways
        if abs(scalar_product + turned) < abs(scalar_product + same):
            candidate[feature] = opposite[feature]
            scalar_product += turned
        else:
            scalar_product += same
    return candidate


def _on_the_way(shape: Shape, own: Numbers, furthest: Numbers) -> Iterator[Pair]:
    """All features at their other ends, but for one that outweighs them together: it goes a part of the way."""
    parts = [w * k * k for w, k in zip(own, furthest, strict=True)]
    feature = max(range(shape.features), key=parts.__getitem__)
    if not shape.box or 2 * parts[feature] <= sum(parts) or shape.features > _MOST_TRIED:
        return
    opposite, low, high = shape.opposite(furthest), shape.low[feature], shape.high[feature]
    for part in range(_PARTS + 1):
        yield furthest, _with(opposite, feature, low + (high - low) * part // _PARTS)


def _improved(shape: Shape, own: Numbers, pair: Pair, constant: int) -> Pair:
    """Both records at an end or at the origin of each feature, wherever they are further apart, one after the other."""
    first, second = (list(record) for record in pair)
    a, b, product = (
        constant + sum(w * k * m for w, k, m in zip(own, one, other, strict=True))
        for one, other in ((first, first), (second, second), (first, second))
    )
    for _ in range(_ROUNDS):
        for feature, weight in enumerate(own):
            ends = (shape.low[feature], 0, shape.high[feature])
            k, m = first[feature], second[feature]
            a, b, product = a - weight * k * k, b - weight * m * m, product - weight * k * m
            ways = (
                (a + weight * k * k, b + weight * m * m, product + weight * k * m, k, m) for k in ends for m in ends
            )
            best = max(ways, key=lambda way: way[0] * way[0] + way[1] * way[1] - 2 * way[2] * way[2])
            a, b, product, first[feature], second[feature] = best
    return first, second


def _with(record: Numbers, feature: int, value: int) -> Numbers:
    copy = list(record)
    copy[feature] = value
    return copy


def _apart(pair: Pair, weights: Numbers, unscaled: bool) -> int:
    """Squared distance of the answers of two records, in units of ``K^4 2^320``."""
    first, second = pair
    a = sum(w * k * k for w, k in zip(weights, first, strict=True))
    b = sum(w * k * k for w, k in zip(weights, second, strict=True))
    product = sum(w * k * m for w, k, m in zip(weights, first, second, strict=True))
    squared_distance = a * a + b * b - 2 * product * product
    if not unscaled:
        return squared_distance
    diagonal = sum((w * (k * k - m * m)) ** 2 for w, k, m in zip(weights, first, second, strict=True))
    return (squared_distance + diagonal) // 2


def _triangle(record: Numbers, inverse: Numbers) -> int:
    parts = [w * abs(k) for w, k in zip(inverse, record, strict=True)]
    return (sum(parts) ** 2 + sum(part * part for part in parts)) // 2


def _entries_apart(pair: Pair, inverse: Numbers) -> int:
    first, second = ([w * k for w, k in zip(inverse, record, strict=True)] for record in pair)
    return sum(
        abs(first[i] * first[j] - second[i] * second[j]) for i in range(len(first)) for j in range(i, len(first))
    )


def _longest(shape: Shape, weights: Numbers, lead: int) -> int:
    """No record has a larger ``|y|^2``."""
    return weights[0] * shape.largest**2 * lead + shape.most(weights[lead:])


def _bound_apart(shape: Shape, weights: Numbers, lead: int) -> int:
    longest = _longest(shape, weights, lead)
    bound = 2 * longest**2
    if shape.box and shape.one_sided:
        # The constant's weight is one too large by rounding at most.
        bound = min(bound, longest**2 - (max(weights[0] - 1, 0) * shape.largest**2 * lead) ** 2)
    if not shape.high and not lead:
        two = sorted(weights)[-2:]
        bound = min(bound, sum(w * w for w in two) * shape.largest**4)
    return bound


def _moved(shape: Shape, least: int, most: int, power: int) -> Moved:
    """From squares, in squared units of K^2 and of the weights, whose bits are counted once or twice."""
    unit = (shape.largest**2 << (UNIT_BITS * 2 // power)) ** 2
    return Moved(Fraction(least, unit), Fraction(most, unit))

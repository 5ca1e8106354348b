"""How far one record moves sums of records, the records themselves, and sums of outer products.

A record that is added moves a sum by its coordinates, with the one that it adds to the count, and one that is replaced
by a difference of two. Of an outer product ``ab'`` both norms are the products of those of a and of b, and two of
them are at most twice the largest apart; or once, where no feature has two signs, so that no entry has.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from blockveil.pipeline.verification.stated_numbers import UNIT_BITS, Moved, Numbers, Weights
from blockveil.pipeline.verification.stated_shapes import Shape


def summed(shape: Shape, weights: Weights, power: int, *, counted: bool, replaced: bool) -> Moved:
    """Of sums, or of one row of records.

    Parameters
    ----------
    shape
        Of a record.
    weights
        Inverse sizes of the noise to the power, the count's first where there is one.
    power
        2 for the L2 norm, 1 for the L1 norm.
    counted
        Whether the count is asked for.
    replaced
        Whether a record is replaced; else it is added or removed.
    """
    lead = int(counted)
    own = Weights(weights.least[lead:], weights.most[lead:])
    first = _far(shape, own.least, power)
    constant = shape.largest**power * lead
    if not replaced:
        least = weights.least[0] * constant + _length(first, own.least, power)
        most = weights.most[0] * constant + _longest(shape, own.most, power)
        return _moved(shape, least, most, power)
    second = shape.opposite(first)
    lengths = [_length(_difference(first, other), own.least, power) for other in (second, _besides(shape, first, own))]
    # Two records are at most twice as far apart as one of them is from the origin.
    most = 2**power * _longest(shape, own.most, power)
    widest = shape.widest(own.most, power)
    return _moved(shape, max(lengths), most if widest is None else min(most, widest), power)


def multiplied(shapes: Sequence[Shape], weights: Sequence[Weights], power: int, *, replaced: bool) -> Moved:
    """Of outer products; shapes and weights of both factors, else as for :func:`summed`."""
    far = [_far(shape, own.least, power) for shape, own in zip(shapes, weights, strict=True)]
    lengths = [_length(record, own.least, power) for record, own in zip(far, weights, strict=True)]
    least = lengths[0] * lengths[1]
    most = 1
    for shape, own in zip(shapes, weights, strict=True):
        most *= _longest(shape, own.most, power)
    if replaced:
        # One factor stays, and the other goes to the far side.
        for this, other in ((0, 1), (1, 0)):
            apart = _difference(far[this], shapes[this].opposite(far[this]))
            least = max(least, _length(apart, weights[this].least, power) * lengths[other])
        most *= 1 if all(shape.one_sided and shape.box for shape in shapes) else 2**power
    unit = 1
    for shape in shapes:
        unit *= shape.largest**power << UNIT_BITS
    return Moved(Fraction(least, unit) ** (2 // power), Fraction(most, unit) ** (2 // power))


def _far(shape: Shape, weights: Numbers, power: int) -> Numbers:
    return shape.furthest(weights) if power == 2 else shape.furthest_sum(weights)


def _besides(shape: Shape, record: Numbers, own: Weights) -> Numbers:
    return shape.besides(record, own.least)


def _longest(shape: Shape, weights: Numbers, power: int) -> int:
    return shape.most(weights) if power == 2 else shape.most_sum(weights)


def _difference(first: Numbers, second: Numbers) -> Numbers:
    return [k - m for k, m in zip(first, second, strict=True)]


def _length(record: Numbers, weights: Numbers, power: int) -> int:
    return sum(w * abs(k) ** power for w, k in zip(weights, record, strict=True))


def _moved(shape: Shape, least: int, most: int, power: int) -> Moved:
    unit = shape.largest**power << UNIT_BITS
    return Moved(Fraction(least, unit) ** (2 // power), Fraction(most, unit) ** (2 // power))

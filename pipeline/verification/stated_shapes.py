"""Records that a stated shape admits, in whole steps: some of the furthest ones, and how far none can be.

A record is a list of integers k, of which K stands for one coordinate. In a box they lie between the ends of each
feature, in a ball ``|k|_2 <= K``, and in a box within a ball ``sum (share_i k_i)^2 <= K^2`` too. Rounding decides which
integers a record can become, so the records here keep a distance of it: an end that lies between two integers is the
nearer one to the origin, and a ball is smaller by half a step for each feature. What bounds all records is rounded the
other way. Weights are whole numbers of ``2**-160``, so that all sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.stated_numbers import Numbers, sizes

_UNSURE = 1e-6
"""Steps by which an end may be off its float; a nearer one decides no rounding."""

_HALVINGS = 60

_MUCH = 10
"""A tenth of a record's length is much of it."""

_SUMS = 1.0 + 1e-9
"""More than the roundings of a sum of a few ten thousand floats."""


@dataclass(frozen=True)
class Shape:
    """Where a record may be.

    Attributes
    ----------
    largest
        K.
    features
        d.
    low, high
        Ends of a box that records reach, integers by feature; empty in a ball.
    within
        Ends of a box that no record passes: low ones, then high ones.
    shares
        Half widths over the largest norm of a box within a ball; empty elsewhere.
    turned
        Whether a box is seen along directions that the release does not state.
    """

    largest: int
    features: int
    low: Numbers = ()
    high: Numbers = ()
    within: tuple[Numbers, Numbers] = ((), ())
    shares: Sequence[float] = ()
    turned: bool = False

    @property
    def box(self) -> bool:
        """Whether each feature has its own ends, and nothing else bounds a record."""
        return bool(self.high) and not self.shares and not self.turned

    @property
    def one_sided(self) -> bool:
        """Whether no feature has two signs, so that neither has a product of two of them."""
        low, high = self.within
        return bool(high) and not self.turned and (all(k >= 0 for k in low) or all(k <= 0 for k in high))

    @property
    def radius(self) -> int:
        """Length that integers of a record in a ball surely reach."""
        return max(0, self.largest - math.isqrt(self.features) - 1)

    @property
    def ends(self) -> Numbers:
        """The further end of each feature of a box, with its sign."""
        return [high if high >= -low else low for low, high in zip(self.low, self.high, strict=True)]

    @property
    def bounds(self) -> Numbers:
        """Largest absolute integer of each feature."""
        if not self.high or self.turned:
            return [self.largest] * self.features
        return [max(-low, high) for low, high in zip(*self.within, strict=True)]

    def furthest(self, weights: Numbers) -> Numbers:
        """A record of nearly the largest ``sum weights k^2``."""
        if self.box:
            return self.ends
        if self.shares:
            return self._fill([w / share**2 for w, share in zip(_scaled(weights), self.shares, strict=True)])
        # Along the feature that counts most; also along directions, which reach one in it, whatever they are.
        return self.axis(max(range(self.features), key=weights.__getitem__))

    def furthest_sum(self, weights: Numbers) -> Numbers:
        """A record of nearly the largest ``sum weights |k|``."""
        if self.box:
            return self.ends
        if self.turned:
            return self.furthest(weights)
        rates = _scaled(weights)
        if not self.shares:
            length = math.sqrt(math.fsum(rate * rate for rate in rates)) * _SUMS
            return [int(self.radius * rate / length) for rate in rates]
        # Lagrange: share k is the smaller of its end and a level times the rate over the share, for some level.
        gains = [rate / share for rate, share in zip(rates, self.shares, strict=True)]
        ends = [share * abs(end) for share, end in zip(self.shares, self.ends, strict=True)]

        def lengths(level: float) -> list[float]:
            return [min(end, level * gain) for end, gain in zip(ends, gains, strict=True)]

        low, high = 0.0, max(ends) / min(gain for gain in gains if gain > 0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            inside = math.fsum(each * each for each in lengths(middle)) * _SUMS <= self.radius**2
            low, high = (middle, high) if inside else (low, middle)
        signs = [1 if end >= 0 else -1 for end in self.ends]
        return [sign * int(each / share) for sign, each, share in zip(signs, lengths(low), self.shares, strict=True)]

    def axis(self, feature: int, length: int | None = None) -> Numbers:
        """A record that only one feature has a part in."""
        record = [0] * self.features
        reached = self.largest - 1 if self.turned else self.radius
        record[feature] = reached if length is None else length
        return record

    def opposite(self, record: Numbers) -> Numbers:
        """A record on the other side, as far as it goes; the origin where there is none."""
        if not self.high or self.turned:
            return [-k for k in record] if not self.high else [0] * self.features
        if self.shares:  # no longer than the record itself
            return [max(low, min(high, -k)) for low, high, k in zip(self.low, self.high, record, strict=True)]
        # Where a record is at the origin, both ends are as good as each other.
        return [low if k >= 0 else high for low, high, k in zip(self.low, self.high, record, strict=True)]

    def besides(self, record: Numbers, weights: Numbers) -> Numbers:
        """A record within a ball that has no part in the features of which a record has much."""
        if not self.shares:
            return [0] * self.features
        much = [_MUCH * share * abs(k) > self.radius for share, k in zip(self.shares, record, strict=True)]
        free_weights = [0 if each else w for w, each in zip(weights, much, strict=True)]
        return self._fill([w / share**2 for w, share in zip(_scaled(free_weights), self.shares, strict=True)])

    def most(self, weights: Numbers) -> int:
        """No record has a larger ``sum weights k^2``."""
        bound = sum(w * k * k for w, k in zip(weights, self.bounds, strict=True))
        if not self.high:
            return max(weights) * self.largest**2
        if not self.shares:
            return bound
        # A fractional knapsack: the features of most gain fill the ball first, and the last one fills what is left.
        gains = sorted(zip(_scaled(weights), self.shares, self.bounds, strict=True), key=lambda e: -e[0] / e[1] ** 2)
        room, parts = float(self.largest) ** 2, list[float]()
        for gain, share, end in gains:
            filled = min(room, (share * end) ** 2)
            parts.append(gain / share**2 * filled)
            room -= filled
        # What is left of the ball is off by a rounding of all of it for each feature, and each part by a few.
        return min(bound, math.ceil(math.fsum(parts) * self._rounded_up * max(weights)))

    def most_sum(self, weights: Numbers) -> int:
        """No record has a larger ``sum weights |k|``."""
        bound = sum(w * k for w, k in zip(weights, self.bounds, strict=True))
        shares = self.shares or ([] if self.high else [1.0] * self.features)
        if not shares:
            return bound
        # Cauchy and Schwarz.
        gains = (rate / share for rate, share in zip(_scaled(weights), shares, strict=True))
        length = math.sqrt(math.fsum(gain * gain for gain in gains))
        return min(bound, math.ceil(self.largest * length * self._rounded_up * max(weights)))

    @property
    def _rounded_up(self) -> float:
        return 1.0 + (self.features + 16) * 2.0**-52

    def widest(self, weights: Numbers, power: int) -> int | None:
        """No two records are further apart, in ``sum weights |k - l|^power``; None where they may be twice as far."""
        if not self.high or self.turned:
            return None
        widths = (high - low for low, high in zip(*self.within, strict=True))
        return sum(w * (width if power == 1 else width * width) for w, width in zip(weights, widths, strict=True))

    def _fill(self, gains: Sequence[float]) -> Numbers:
        """A record in a ball that goes to the ends of the features of most gain first."""
        record, room = [0] * self.features, float(self.radius) ** 2
        ends = self.ends
        for feature in sorted(range(self.features), key=lambda i: -gains[i]):
            if gains[feature] <= 0.0 or room <= 0.0:
                break
            share, end = self.shares[feature], ends[feature]
            reached = min(abs(end), int(math.sqrt(room) / share))
            record[feature] = reached if end >= 0 else -reached
            room -= (share * reached) ** 2 * _SUMS
        return record


def _scaled(weights: Numbers) -> list[float]:
    """Weights over the largest of them."""
    largest = max(weights)
    return [each / largest for each in weights] if largest else [0.0] * len(weights)


def stated_shape(geometry: Mapping[str, Any], largest: int, mechanism: Mapping[str, Any], of: str = "") -> Shape:
    """Shape of a record, from what the query declares.

    Parameters
    ----------
    geometry
        As the release states it.
    largest
        K.
    mechanism
        As the release states it, which tells whether directions turn the records.
    of
        What stands before the name of the steps, of one factor of two.

    Raises
    ------
    KeyError, TypeError, ValueError
        It is not stated, or no shape.
    """
    kind, features = geometry["kind"], geometry["features"]
    if not features or kind not in ("box", "ball", "ellipsoid"):
        raise ValueError(kind)
    if kind != "box":
        return Shape(largest, len(features))
    lower, upper = (_all(features, key) for key in ("lower", "upper"))
    origin = (lower + upper) / 2.0 if geometry["origin"] == "midpoint" else np.zeros(lower.size)
    norm, shares = geometry.get("norm_at_most"), None
    if norm is not None:
        lower, upper = np.maximum(lower, origin - norm), np.minimum(upper, origin + norm)
    sides = upper - origin, origin - lower
    scale = np.maximum(*sides)
    if not np.all(np.isfinite(scale)) or not np.all(scale > 0.0) or min(map(np.min, sides)) < 0.0:
        raise ValueError("bounds")
    if norm is not None:
        shares = np.minimum(scale / norm, 1.0)
        shares = None if float(np.sum(shares**2)) <= 1.0 else shares
    outward = _beyond if "rounding" in mechanism else _passed
    steps = _stated_steps(mechanism, scale, largest, f"{of}steps_per_unit")
    inner, outer = ([_steps(side * steps, how, largest) for side in sides] for how in (_reached, outward))
    return Shape(
        largest,
        len(features),
        [-k for k in inner[1]],
        inner[0],
        ([-k for k in outer[1]], outer[0]),
        () if shares is None else shares.tolist(),
        "map" in mechanism,
    )


_Values = NDArray[np.float64]


def _stated_steps(mechanism: Mapping[str, Any], scale: _Values, largest: int, name: str) -> _Values:
    """Steps of a raw unit: K over a half width, or fewer where the release states them."""
    if name not in mechanism:
        return largest / scale
    steps = np.array(sizes(mechanism, name, scale.size))
    # The bound of the proof: with more, the half width of a feature would exceed the largest integer.
    if not np.all(steps * scale <= largest * (1.0 + 1e-9)):
        raise ValueError(name)
    return steps


def _all(features: Iterable[Mapping[str, Any]], key: str) -> _Values:
    return np.array([feature[key] for feature in features], dtype=np.float64)


def _reached(values: _Values) -> _Values:
    return np.floor(values + (0.5 - _UNSURE))


def _passed(values: _Values) -> _Values:
    return np.floor(values + (0.5 + _UNSURE))


def _beyond(values: _Values) -> _Values:
    """Where records have places of their own, so that a value may be rounded to either side."""
    return np.ceil(values - _UNSURE)


def _steps(values: _Values, how: Callable[[_Values], _Values], largest: int) -> list[int]:
    steps: list[int] = np.clip(how(values), 0, largest).astype(np.int64).tolist()
    return steps

"""Stages before the answer of a night that learned: each is held against what it states, and so is a learned shape.

A stage states its query and its mechanism as a release does, and its arrays begin with its name. All stages are charged
together: their mu add up in squares, and the distances of their samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import close
from blockveil.pipeline.verification.released_arrays import ArrayCheck
from blockveil.pipeline.verification.shortened_errors import diagonal
from blockveil.pipeline.verification.stated_grid import Values
from blockveil.pipeline.verification.stated_noise import row_loss
from blockveil.pipeline.verification.stated_numbers import stated_number
from blockveil.pipeline.verification.stated_sensitivity import moved

_BOUNDS, _PILOTS, _RINGS, _RANKS = "bounds", ("pilot", "nearer_pilot"), "rings", "ranks"
_ROUNDED = Fraction(1) + Fraction(1, 10**12)
_STANDS_OUT, _FALLS = 4.0, 0.66
_KNOWN, _REACH, _UNSEEN = 4.0, 4.0, 0.25
_LEAST, _LEAST_OF_SIZE, _LEAST_ABOUT_ZERO = 2.0**-12, 2.0**-40, 2.0**-100
"""Least standard deviation that is learned, in half widths; where bounds are, of the middle and mean and beside."""

Spread = tuple[Values, Values, Values]
"""Means, variances and the noise of these, in half widths about the middle of the declared box."""


def stage_failure(own: Mapping[str, Any], arrays: Mapping[str, Any], name: str) -> str | None:
    """What does not hold of one stage, in words; None where all does. Raises as :meth:`Stages.failure`.

    Parameters
    ----------
    own
        What the release states, with query and mechanism of the stage.
    arrays
        Stored arrays by name.
    name
        Of the stage; its arrays begin with it.
    """
    start, row = f"{name}_", row_loss(own)
    arrays = {key.removeprefix(start): each for key, each in arrays.items() if key.startswith(start)}
    change = moved(own, arrays)
    if row.part != "mu" or not 0.0 < row.size <= stated_number(own["mechanism"]["loss"], "mu") * (1.0 + 1e-12):
        return f"the noise of its {name} is less than its loss says"
    if (Fraction(stated_number(own["mechanism"], "sensitivity")) * _ROUNDED) ** 2 < change.least:
        return f"the sensitivity that its {name} states is below what some records change"
    ArrayCheck(own, arrays).run()
    return None


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of one release.

    Attributes
    ----------
    stated
        Attributes of the release.
    arrays
        Its stored arrays by name.
    """

    stated: Mapping[str, Any]
    arrays: Mapping[str, Any]

    @property
    def there(self) -> bool:
        """Whether it states any."""
        return "learned" in self.stated

    @property
    def last(self) -> dict[str, Any]:
        """Arrays of the answer alone; KeyError where it does not state which stages it has."""
        starts = tuple(f"{name}_" for name in self._names) if self.there else ()
        return {name: array for name, array in self.arrays.items() if not name.startswith(starts)}

    def failure(self) -> str | None:
        """What does not hold of the first stages, in words; None where all does.

        Raises
        ------
        OtherArray
            An array is another than its stage gives.
        KeyError, TypeError, ValueError, ArithmeticError, IndexError
            Something is not stated, or cannot be.
        """
        mu = distance = Fraction(0)
        if set(self.stated["learned"]["stages"]) != set(self._names):
            return "its stages are not those of a night that learns"
        for name in self._names:
            own = {key: each for key, each in self.stated.items() if key != "learned"}
            own |= self.stated["learned"]["stages"][name]
            if (failure := stage_failure(own, self.arrays, name)) is not None:
                return failure
            mu += Fraction(row_loss(own).size) ** 2
            distance += Fraction(stated_number(own["mechanism"]["loss"], "total_variation"))
        promise, mechanism = self.stated["guarantee"], self.stated["mechanism"]
        rows = Fraction(stated_number(promise["contribution"], "charged_rows"))
        mu = rows**2 * (mu + Fraction(row_loss(self.stated).size) ** 2)
        distance += Fraction(stated_number(mechanism["loss"], "total_variation"))
        if mu > Fraction(stated_number(promise["loss"], "mu")) ** 2 * _ROUNDED:
            return "its stages together lose more than it promises"
        if distance > Fraction(stated_number(promise["loss"], "total_variation")) * _ROUNDED:
            return "the samplers of its stages are further from their laws than it promises"
        if self._names == (_RANKS,):  # which say where quantiles are, and nothing of a shape
            return None
        if not self._shaped():
            return "its shape is not what its first stages give"
        return None if self._shortened() else "what shortening takes is not what its rings say"

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the stages that a night like this has."""
        if self.stated["query"]["kind"] == "quantiles":
            return (_RANKS,)
        return (_RINGS,) if "earlier" in self.stated["learned"] else (self._first, _PILOTS[1], _RINGS)

    def _shaped(self) -> bool:
        """Whether bounds, centre and axes follow from the stages before, and the radius is the end of a ring."""
        learned, shape = self.stated["learned"], self.stated["query"]["geometry"]
        if not self._nearer():
            return False
        if learned["domain"] == "box":
            return bool(shape == learned["declared_geometry"])
        if shape["kind"] != "ellipsoid" or shape["shape"] != "diagonal" or learned["domain"] != "ellipsoid":
            return False
        middle, half = self._box
        mean, variances = self._taken(self._earlier() if "earlier" in learned else self._by_pilots())
        axes = variances**0.25 if learned["for"] == "covariance" else np.sqrt(variances)
        raw = learned["for"] == "covariance" and learned["aim"] == "absolute-error"
        axes = axes / np.sqrt(half) if raw else axes
        axes = axes * np.sqrt(np.mean(variances / axes**2)) * half * float(learned["radius"])
        ends = [float(each) for each in learned["stages"][_RINGS]["query"]["axes"][0]["edges"][1:]]
        features = shape["features"]
        origin, lengths = (np.array([each[key] for each in features], np.float64) for key in ("origin", "semi_axis"))
        centre = middle + mean * half
        near = np.abs(origin - centre) <= 1e-9 * (np.abs(centre) + half)
        return bool(np.all(near) and close(lengths, axes) and float(learned["radius"]) in ends)

    def _nearer(self) -> bool:
        """Whether pilots are in the declared bounds, and in those that follow from the first of them.

        Bounds by counts are ends of their bins; which of these stand out is not computed anew.
        """
        if "earlier" in self.stated["learned"]:
            return True
        middle, half = self._box
        if self._by_counts:
            return self._at_ends(_bounds(self.stated["learned"]["stages"][_PILOTS[1]]["query"]["geometry"]))
        mean, variances = self._taken(self._seen(_PILOTS[0]))
        reach = _REACH * np.sqrt(variances)
        declared = -np.ones(half.size), np.ones(half.size)
        ends = declared, (np.maximum(mean - reach, -1.0), np.minimum(mean + reach, 1.0))
        for name, lower_upper in zip(_PILOTS, ends, strict=True):
            bounds = _bounds(self.stated["learned"]["stages"][name]["query"]["geometry"])
            for bound, end, of_square in zip(bounds, lower_upper, (0.0, 1.0), strict=True):
                own, squares = np.split(bound, 2)
                if not (np.all(np.abs(own - middle - end * half) <= 1e-9 * half) and np.all(squares == of_square)):
                    return False
        return True

    def _at_ends(self, stated: tuple[Values, Values]) -> bool:
        """Whether bounds that are not the declared ones are zero, or have as many binary digits as the counts."""
        middle, half = self._box
        digits = 2.0 ** (float(self.stated["learned"]["stages"][_BOUNDS]["query"]["digits"]) + 1.0)
        for bound, side, of_square in zip(stated, (-1.0, 1.0), (0.0, 1.0), strict=True):
            own, squares = np.split(bound, 2)
            whole = np.frexp(own)[0] * digits
            near = np.abs(np.rint(whole) - whole) <= 1e-9 * digits * (1.0 + np.abs(middle / np.where(own, own, 1.0)))
            declared = np.abs(own - middle - side * half) <= 1e-9 * half
            if not (np.all(near | declared) and np.all(squares == of_square)):
                return False
        lower, upper = (np.split(each, 2)[0] for each in stated)
        inside = (lower - middle >= -half * (1.0 + 1e-9)) & (upper - middle <= half * (1.0 + 1e-9)) & (lower < upper)
        return bool(np.all(inside))

    @property
    def _by_counts(self) -> bool:
        """Whether bounds were learned, by counts in the place of the first pilot."""
        return bool(self.stated["learned"]["declared_geometry"].get("learn_bounds", False))

    @property
    def _first(self) -> str:
        return _BOUNDS if self._by_counts else _PILOTS[0]

    @property
    def _box(self) -> tuple[Values, Values]:
        """Middle and half widths of the declared box."""
        lower, upper = _bounds(self.stated["learned"]["declared_geometry"])
        return (lower + upper) / 2.0, (upper - lower) / 2.0

    def _seen(self, pilot: str) -> Spread:
        """What a pilot saw."""
        middle, half = self._box
        own = tuple(
            np.split(each, 2)[0] for each in _bounds(self.stated["learned"]["stages"][pilot]["query"]["geometry"])
        )
        origin, scale = (own[0] + own[1]) / 2.0, (own[1] - own[0]) / 2.0
        mean, square = np.split(self._read(f"{pilot}_mean"), 2)
        noise = np.split(self._read(f"{pilot}_mean_standard_deviation"), 2)[1]
        share = (scale / half) ** 2
        return (mean - middle) / half, (square - ((mean - origin) / scale) ** 2) * share, noise * share

    def _by_pilots(self) -> Spread:
        """What the first pilot saw, and the nearer one where that did not stand out of its noise."""
        if self._by_counts:
            return self._seen(_PILOTS[1])
        first, nearer = (self._seen(name) for name in _PILOTS)
        significant = first[1] > _KNOWN * first[2]
        mean, variance, noise = (np.where(significant, one, other) for one, other in zip(first, nearer, strict=True))
        return mean, variance, noise

    def _earlier(self) -> Spread:
        """What an earlier release published."""
        middle, half = self._box
        mean, variance, noise, _ = np.array(self.stated["learned"]["earlier"]["features"], np.float64).T
        return (mean - middle) / half, variance / half**2, noise / half**2

    def _taken(self, spread: Spread) -> tuple[Values, Values]:
        """Centre and variances that axes follow from."""
        mean, variance, noise = spread
        centre, least = np.clip(mean, -1.0, 1.0), np.full(mean.size, _LEAST)
        if self._by_counts:
            middle, half = self._box
            least = _LEAST_ABOUT_ZERO + _LEAST_OF_SIZE * (np.abs(middle / half) + np.abs(centre))
        return centre, np.clip(np.clip(variance, 2.0 * noise, 1.0), least**2, 1.0)

    def _shortened(self) -> bool:
        """Whether what shortening takes is what pilots, rings and answer say."""
        learned = self.stated["learned"]
        if learned["domain"] == "box":
            return "clipped_variance" not in self.arrays
        edges = np.array(learned["stages"][_RINGS]["query"]["axes"][0]["edges"], np.float64)
        counts, noise = self._read("rings_counts"), self._read("rings_counts_standard_deviation")
        radius, width = float(learned["radius"]), self._box[1].size
        weights = np.where(edges[:-1] >= radius, edges[1:] * edges[:-1] - radius**2, 0.0)
        near = edges[:-1] < 2.0 * max(radius, 2.0 * np.sqrt(width))
        stands = counts > _STANDS_OUT * noise
        raw = near & (np.cumsum((stands & near)[::-1])[::-1] > 0)
        falls = np.where(near & ~raw & (weights > 0.0), _FALLS, 1.0).cumprod() * (near & ~raw & (weights > 0.0))
        lost = max(np.sum((weights * counts)[raw]), np.sqrt(np.sum((weights * noise)[raw] ** 2)))
        lost += np.sum((weights * counts)[~near & stands])
        if np.any(falls):
            begins = max(np.sum(falls * counts), np.sqrt(np.sum((falls * noise) ** 2))) / np.sum(falls**2)
            lost += begins * np.sum(weights * falls)
        public = self.stated["guarantee"]["neighbours"] == "replace-one"
        lost = lost / width / max(float(self._read("count")) if public else float(np.sum(counts)), 1.0)
        squares = self._squares(radius)
        bias = self._taken_of_answer(lost, squares) if "covariance" in self.arrays else (lost + _UNSEEN) * squares
        values = self._read("clipped_variance")
        return bool(np.all(np.isfinite(bias)) and np.allclose(values, bias, rtol=0.05, atol=1e-9 * np.max(bias)))

    def _taken_of_answer(self, lost: float, squares: Values) -> Values:
        """What is taken of the variances of the answer, by the share that is lost and the squares of the axes."""
        variances, noise = self._answer()
        size = np.maximum(variances, 2.0 * noise)
        usual = lost * size.size / np.sum(size / squares) * size
        likely = usual + _UNSEEN * size
        if "earlier" in self.stated["learned"]:
            likely = np.minimum(2.0 * likely, self._stated_before() * size)
        behind, doubt = self._behind_the_pilot(variances, noise)
        part = likely**2 / (likely**2 + doubt**2)
        expected = np.sqrt((part * behind) ** 2 + (1.0 - part) * likely**2)
        bias: Values = np.max([usual, expected, behind - 2.0 * doubt], axis=0)
        return bias

    def _squares(self, radius: float) -> Values:
        """Of the axes of the ellipsoid, for a radius of one."""
        lengths = np.array([float(each["semi_axis"]) for each in self.stated["query"]["geometry"]["features"]])
        squares: Values = (lengths / radius) ** 2
        return squares

    def _answer(self) -> tuple[Values, Values]:
        """Variances by the answer and the standard deviation of their noise."""
        variances, spread = (diagonal(self.arrays[f"covariance{end}"]) for end in ("", "_standard_deviation"))
        return variances, np.sqrt(np.maximum(spread**2 - self._read("clipped_variance") ** 2, 0.0))

    def _stated_before(self) -> Values:
        """Shares of variances that the earlier night stated."""
        _, before, of_before, clipped_variance = np.array(self.stated["learned"]["earlier"]["features"], np.float64).T
        shares: Values = clipped_variance / np.maximum(before, 2.0 * of_before)
        return shares

    def _behind_the_pilot(self, variances: Values, noise: Values) -> tuple[Values, Values]:
        """How far the answer falls behind what was seen in bounds that shorten nothing, and the noise of that."""
        if "earlier" in self.stated["learned"] or self._by_counts:
            return np.zeros(noise.size), np.full(noise.size, np.inf)
        half = self._box[1] ** 2
        _, before, of_pilot = self._seen(_PILOTS[0])
        return np.maximum(before * half - variances, 0.0), np.hypot(of_pilot * half, noise)

    def _read(self, name: str) -> Values:
        return np.asarray(self.arrays[name][...], np.float64)


def _bounds(shape: Mapping[str, Any]) -> tuple[Values, Values]:
    lower, upper = (np.array([each[key] for each in shape["features"]], np.float64) for key in ("lower", "upper"))
    return lower, upper

"""Stages before the answer of a night that learned its shape: each is held against what it states, and so is the shape.

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
from blockveil.pipeline.verification.stated_grid import Values
from blockveil.pipeline.verification.stated_noise import row_loss
from blockveil.pipeline.verification.stated_numbers import stated_number
from blockveil.pipeline.verification.stated_sensitivity import moved

_NAMES = "pilot", "rings"
_ROUNDED = Fraction(1) + Fraction(1, 10**12)
_STANDS_OUT = 4.0
_OF_PRODUCTS = 0.45
_LEAST = 2.0**-24
"""Least variance that is learned, in squared half widths."""


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
        """Arrays of the answer alone."""
        starts = tuple(f"{name}_" for name in _NAMES)
        return {name: array for name, array in self.arrays.items() if not (self.there and name.startswith(starts))}

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
        for name in _NAMES:
            own = {key: each for key, each in self.stated.items() if key != "learned"}
            own |= self.stated["learned"]["stages"][name]
            row, found = row_loss(own), moved(own)
            if row.part != "mu" or not 0.0 < row.size <= stated_number(own["mechanism"]["loss"], "mu") * (1.0 + 1e-12):
                return f"the noise of its {name} is less than its loss says"
            if (Fraction(stated_number(own["mechanism"], "sensitivity")) * _ROUNDED) ** 2 < found.least:
                return f"the sensitivity that its {name} states is below what some records change"
            arrays = {key.removeprefix(f"{name}_"): each for key, each in self.arrays.items() if key.startswith(name)}
            ArrayCheck(own, arrays).run()
            mu += Fraction(row.size) ** 2
            distance += Fraction(stated_number(own["mechanism"]["loss"], "total_variation"))
        promise, mechanism = self.stated["guarantee"], self.stated["mechanism"]
        rows = Fraction(stated_number(promise["contribution"], "charged_rows"))
        mu = rows**2 * (mu + Fraction(row_loss(self.stated).size) ** 2)
        distance += Fraction(stated_number(mechanism["loss"], "total_variation"))
        if mu > Fraction(stated_number(promise["loss"], "mu")) ** 2 * _ROUNDED:
            return "its stages together lose more than it promises"
        if distance > Fraction(stated_number(promise["loss"], "total_variation")) * _ROUNDED:
            return "the samplers of its stages are further from their laws than it promises"
        if not self._shaped():
            return "its shape is not what its first stages give"
        return None if self._shortened() else "what shortening takes is not what its rings say"

    def _shaped(self) -> bool:
        """Whether centre and axes follow from the pilot, and the radius is the end of a ring."""
        learned, shape = self.stated["learned"], self.stated["query"]["geometry"]
        lower, upper = _bounds(learned["declared"])
        stages, width = learned["stages"], lower.size
        pilot_lower, pilot_upper = _bounds(stages["pilot"]["query"]["geometry"])
        same = np.array_equal(pilot_lower, np.append(lower, np.zeros(width)))
        same = same and np.array_equal(pilot_upper, np.append(upper, np.ones(width)))
        if learned["chosen"] == "box":
            return bool(same and shape == learned["declared"])
        if shape["kind"] != "ellipsoid" or shape["shape"] != "diagonal" or learned["chosen"] != "ellipsoid":
            return False
        middle, half = (lower + upper) / 2.0, (upper - lower) / 2.0
        mean = np.asarray(self.arrays["pilot_mean"][...], np.float64)
        noise = np.asarray(self.arrays["pilot_mean_standard_deviation"][...], np.float64)
        centre = np.clip(mean[:width], lower, upper)
        variance = mean[width:] - ((centre - middle) / half) ** 2
        variance = np.clip(np.clip(variance, 2.0 * noise[width:], 1.0), _LEAST, 1.0)
        aim = self.stated["learned"]["aim"]
        axes = np.sqrt(variance) if learned["for"] == "correlation" else variance**0.25
        axes = axes / np.sqrt(half) if learned["for"] == "covariance" and aim == "absolute-error" else axes
        axes = axes * np.sqrt(np.mean(variance / axes**2)) * half * float(learned["radius"])
        ends = [float(each) for each in stages["rings"]["query"]["axes"][0]["edges"][1:]]
        features = shape["features"]
        origin, lengths = (np.array([each[key] for each in features], np.float64) for key in ("origin", "semi_axis"))
        near = np.abs(origin - centre) <= 1e-9 * (np.abs(centre) + half)
        return bool(same and np.all(near) and close(lengths, axes) and float(learned["radius"]) in ends)

    def _shortened(self) -> bool:
        """Whether the share that shortening takes is what pilot, rings and answer say."""
        learned = self.stated["learned"]
        if learned["chosen"] == "box":
            return "shortened" not in self.arrays
        edges = np.array(learned["stages"]["rings"]["query"]["axes"][0]["edges"], np.float64)
        counts, noise = self._read("rings_counts"), self._read("rings_counts_standard_deviation")
        lower, upper = _bounds(learned["declared"])
        radius, width = float(learned["radius"]), lower.size
        near = (edges[:-1] >= radius) & (edges[:-1] < 2.0 * max(radius, 2.0 * np.sqrt(width)))
        taken = np.where(near | (counts > _STANDS_OUT * noise), counts, 0.0) * (edges[:-1] >= radius)
        weights = np.maximum(edges[1:] * edges[:-1] - radius**2, 0.0)
        lost = max(np.sum(weights * taken), np.sqrt(np.sum((weights * noise * near) ** 2)))
        lost = lost / width / max(float(self._read("pilot_count")), 1.0)
        half = ((upper - lower) / 2.0) ** 2
        mean, own = self._read("pilot_mean"), self._read("pilot_mean_standard_deviation")
        before = mean[width:] * half - (mean[:width] - (lower + upper) / 2.0) ** 2
        after, spread = (np.diagonal(self._read(f"covariance{end}")) for end in ("", "_standard_deviation"))
        return bool(np.isfinite(lost) and self._of_answer(lost, before, own[width:] * half, after, spread))

    def _of_answer(self, lost: float, before: Values, noise: Values, after: Values, spread: Values) -> bool:
        """Whether the share is the larger of that by the rings, and that by which variances fall behind the pilot's."""
        share = float(self._read("shortened"))
        size = np.array([float(each["semi_axis"]) for each in self.stated["query"]["geometry"]["features"]]) ** 2
        spread = np.sqrt(
            np.maximum(spread**2 - (_OF_PRODUCTS * share * size / self.stated["learned"]["radius"] ** 2) ** 2, 0.0)
        )
        both = np.hypot(noise, spread)
        known = before > 2.0 * both
        if not known.any():
            return share == 1.0
        weights = (before[known] / both[known]) ** 2
        behind = np.sum(weights * (1.0 - after[known] / before[known])) / np.sum(weights)
        return bool(np.isclose(share, max(lost, max(behind, 0.0) + np.sum(weights) ** -0.5), rtol=0.05, atol=1e-9))

    def _read(self, name: str) -> Values:
        return np.asarray(self.arrays[name][...], np.float64)


def _bounds(shape: Mapping[str, Any]) -> tuple[Values, Values]:
    lower, upper = (np.array([each[key] for each in shape["features"]], np.float64) for key in ("lower", "upper"))
    return lower, upper

"""Whether the arrays of a release are what noise of the stated size on the stated bounds gives.

Steps and standard deviations are recomputed (:mod:`.stated_grid`). What has additive noise must lie on whole steps,
which exact values almost never do. What follows from other arrays is computed from them. Where something cannot follow
from what a release holds, it is named with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import DEVIATION, CheckedArrays, close, kind_checks, slabs
from blockveil.pipeline.verification.stated_grid import WINDOW, StatedGrid, Values, same
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_rounding import stated_rounding

ULP = 2.0**-50
"""Relative rounding of some operations on floats."""


class ArrayCheck(CheckedArrays):
    """Arrays of one release, each looked at by its rule."""

    def run(self) -> None:
        """Look at all arrays that have a rule.

        Raises
        ------
        OtherArray
            One of them is another.
        KeyError
            The release does not state what its arrays follow from.
        TypeError, ValueError, ArithmeticError
            What it states cannot be.
        """
        self.skip("running_total", "kept for later nights, beside which it is read")
        self._rule(self)
        self._windows()
        self.finish()

    @property
    def _rule(self) -> Callable[[ArrayCheck], None]:
        """How the kind of its query looks at them; KeyError where it does not say."""
        kind = str(self.query["kind"])
        checks = kind_checks(kind)
        if "arrays" not in checks:
            raise KeyError(kind)
        rule: Callable[[ArrayCheck], None] = checks["arrays"]
        return rule

    def _windows(self) -> None:
        """Look at the arrays of the last nights alone, which have the names and rules of those of all nights."""
        series = self.mechanism.get("continual")
        matches = {name: re.fullmatch(r"last_(\d{1,5})_(.+)", name) for name in self.arrays if series is not None}
        windows = {int(match[1]) for match in matches.values() if match is not None}
        for window in sorted(windows):
            mechanism = {**self.mechanism, "continual": {**(series or {}), WINDOW: window}}
            own = {m[2]: self.arrays[m[0]] for m in matches.values() if m is not None and int(m[1]) == window}
            others = {name: array for name, array in self.arrays.items() if matches[name] is None}
            check = ArrayCheck({**self.stated, "mechanism": mechanism}, {**others, **own})
            self._rule(check)
            for name in own.keys() & set(check.checked):
                self.require(f"last_{window}_{name}", True)
            for name in own.keys() & check.reasons.keys():
                self.skip(f"last_{window}_{name}", check.reasons[name])

    def mixed(self, *names: str) -> bool:
        """Whether coordinates are mixtures of features by numbers that a release does not hold; skips these arrays."""
        geometry = self.query["geometry"]
        turned = "directions" in self.mechanism or geometry.get("shape", "diagonal") != "diagonal"
        if "map" not in self.mechanism or not turned:
            return False
        self.names("feature", geometry)
        for name in names:
            for ending in ("", DEVIATION, "_psd"):
                self.skip(f"{name}{ending}", "mixed by a matrix of which it states the digest alone")
        return True

    def rounded(
        self,
        grid: StatedGrid,
        sides: Sequence[Mapping[str, Any]],
        leads: tuple[int, int],
        *,
        products: bool = True,
    ) -> StatedGrid:
        """A grid with what rounding of records adds to its deviations.

        Parameters
        ----------
        grid
            Of the noise alone.
        sides
            Geometry of the records, by row and by column of the answer.
        leads
            Constant coordinates in front, by row and by column.
        products
            Whether the answer is a sum of products.
        """
        return replace(grid, rounding=stated_rounding(self.stated, sides, leads, products=products))

    def answer(
        self,
        name: str,
        grid: StatedGrid,
        scales: tuple[Values, Values],
        lead: int,
        beside: Callable[[slice], Values | float] = lambda part: 0.0,
    ) -> None:
        """A matrix of the answer, and the deviations of its noise and of what is beside it where they are stored.

        Parameters
        ----------
        name
            Of the array.
        grid
            Steps and deviations in integers.
        scales
            Raw units of a coordinate, by row and by column.
        lead
            Constant coordinates in front.
        beside
            What is added to the noise of some rows, in squares.
        """
        shape = scales[0].size, scales[1].size
        value, deviation = self.of(name, shape), None
        if f"{name}{DEVIATION}" in self.arrays:
            deviation = self.of(f"{name}{DEVIATION}", shape)
        columns = slice(lead, None)
        for (part,) in slabs(shape):
            rows, units = slice(part.start + lead, part.stop + lead), np.outer(scales[0][part], scales[1])
            low, high = (each * units for each in grid.steps(rows, columns))
            self.on_grid(name, np.asarray(value[part], np.float64), (low, high))
            if deviation is not None:
                more = beside(part)
                expected = (np.hypot(each * units, more) for each in grid.deviations(rows, columns))
                self.require(f"{name}{DEVIATION}", same(deviation[part], *expected))

    def count(self, grid: StatedGrid) -> tuple[float, float, float]:
        """Number of records, the deviation of its noise, and what means are divided by."""
        count, deviation = (float(self.read(name, ())) for name in ("count", f"count{DEVIATION}"))
        one = slice(0, 1)
        if replaces(self.stated):
            self.require("count", count == int(count) >= 0)
            self.require(f"count{DEVIATION}", deviation == 0.0)
        else:
            self.on_grid("count", np.array([[count]]), grid.steps(one, one))
            self.require(f"count{DEVIATION}", same([[deviation]], *grid.deviations(one, one)))
        return count, deviation, max(count, deviation, 1.0)

    def mean(
        self, origin: Values, noise: tuple[list[Values], list[Values]], of: tuple[float, float], beside: Values
    ) -> None:
        """Means of features.

        Parameters
        ----------
        origin
            Of the coordinates, raw units.
        noise
            Steps and deviations of the sums of features, least and largest of each.
        of
            Deviation of the count, and what means are divided by.
        beside
            What is added to the noise of each mean, in squares.
        """
        (steps, sums), (of_count, divisor) = noise, of
        mean = self.read("mean", origin.shape)
        shift = mean - origin
        error = 4.0 * ULP * (np.abs(mean) + np.abs(origin)) * divisor
        self.on_grid("mean", shift * divisor, (steps[0], steps[1]), error)
        expected = [np.hypot(np.sqrt(each**2 + (shift * of_count) ** 2) / divisor, beside) for each in sums]
        self.require(f"mean{DEVIATION}", close(self.read(f"mean{DEVIATION}", origin.shape), *expected))


def way_back(geometry: Mapping[str, Any]) -> tuple[Values, Values]:
    """Origin and raw units of one coordinate of each feature.

    Raises
    ------
    KeyError
        Coordinates are mixtures of features.
    """
    kind, features = geometry["kind"], geometry["features"]
    if kind == "box":
        lower, upper = (np.array([each[key] for each in features], np.float64) for key in ("lower", "upper"))
        origin = (lower + upper) / 2.0 if geometry["origin"] == "midpoint" else np.zeros(lower.size)
        if geometry.get("norm_at_most") is not None:
            norm = float(geometry["norm_at_most"])
            lower, upper = np.maximum(lower, origin - norm), np.minimum(upper, origin + norm)
        return origin, np.maximum(upper - origin, origin - lower)
    origin = np.array([each["origin"] for each in features], np.float64)
    if kind == "ball":
        return origin, np.full(origin.size, float(geometry["radius"]))
    if geometry["shape"] != "diagonal":
        raise KeyError("shape")
    return origin, np.array([each["semi_axis"] for each in features], np.float64)

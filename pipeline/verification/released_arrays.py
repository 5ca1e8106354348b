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

from blockveil.pipeline.verification.checked_arrays import CLOSE, DEVIATION, CheckedArrays, close, kind_checks, slabs
from blockveil.pipeline.verification.released_counts import cells
from blockveil.pipeline.verification.released_directions import drawn, leading
from blockveil.pipeline.verification.released_gradients import gradients
from blockveil.pipeline.verification.shortened_errors import ShortenedErrors
from blockveil.pipeline.verification.stated_grid import WINDOW, StatedGrid, Values, same
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_rounding import coordinate_units, stated_rounding
from blockveil.pipeline.verification.table_arrays import histograms, tables

_MOST_EIGENVALUES = 512
"""Features up to which eigenvalues are computed."""

_OF_FEATURES = ("second_moment", "covariance", "mean", "totals", "rows")
"""Arrays in the units of features."""

_ULP = 2.0**-50
_UNSCALED = ("analyze-gauss", "mod-sulq")


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
        """What is looked at by the kind of query, or by what the folder of a kind says; KeyError where nothing is."""
        kind = str(self.query["kind"])
        own: Callable[[ArrayCheck], None] | None = kind_checks(kind).get("arrays")
        return _RULES[kind] if own is None else own

    def _windows(self) -> None:
        """Look at the arrays of the last nights alone, which have the names and rules of those of all nights."""
        series = self.mechanism.get("continual")
        found = {name: re.fullmatch(r"last_(\d{1,5})_(.+)", name) for name in self.arrays if series is not None}
        windows = {int(match[1]) for match in found.values() if match is not None}
        for window in sorted(windows):
            mechanism = {**self.mechanism, "continual": {**(series or {}), WINDOW: window}}
            own = {m[2]: self.arrays[m[0]] for m in found.values() if m is not None and int(m[1]) == window}
            others = {name: array for name, array in self.arrays.items() if found[name] is None}
            check = ArrayCheck({**self.stated, "mechanism": mechanism}, {**others, **own})
            self._rule(check)
            for name in own.keys() & set(check.checked):
                self.require(f"last_{window}_{name}", True)
            for name in own.keys() & check.reasons.keys():
                self.skip(f"last_{window}_{name}", check.reasons[name])

    def moment(self, lead: int) -> None:
        """Of a second moment, or of a covariance with a constant coordinate in front."""
        geometry = self.query["geometry"]
        if _mixed(self):
            self._count(self.grid((lead + len(geometry["features"]),) * 2, lead)) if lead else None
            return
        origin, scale = way_back(geometry)
        scale = coordinate_units(self.stated, scale)
        self.names("feature", geometry)
        unscaled = self.mechanism["mechanism"] in _UNSCALED
        grid = self.grid((lead + scale.size,) * 2, lead, unscaled=unscaled)
        grid = self._rounded(grid, (geometry, geometry), (lead, lead))
        beside = ShortenedErrors(self, origin)
        self._kept_noise(grid, scale, lead)
        if "second_moment" in self.arrays:
            self._answer("second_moment", grid, (scale, scale), lead, beside.moments)
        if lead:
            self._ratios(grid, origin, scale, beside)
        for name in ("second_moment_psd", "covariance_psd"):
            self._positive(name)

    def totals(self) -> None:
        """Of count, totals and means."""
        geometry = self.query["geometry"]
        lead = 0 if replaces(self.stated) else 1
        if _mixed(self):
            self._count(self.grid((1, lead + len(geometry["features"]))))
            return
        origin, scale = way_back(geometry)
        scale = coordinate_units(self.stated, scale)
        self.names("feature", geometry)
        grid = self.grid((1, lead + scale.size))
        grid = self._rounded(grid, (geometry, geometry), (0, lead), products=False)
        count, of_count, divisor = self._count(grid)
        one, features = slice(0, 1), slice(lead, None)
        steps = [each[0] * scale for each in grid.steps(one, features)]
        sums = [each[0] * scale for each in grid.deviations(one, features)]
        value = self.read("totals", scale.shape)
        error = _ULP * (np.abs(value) + np.abs(count * origin))
        self.on_grid("totals", value - count * origin, (steps[0], steps[1]), error)
        found, shortened = self.read(f"totals{DEVIATION}", scale.shape), ShortenedErrors(self, origin).means
        expected = [np.sqrt(each**2 + (origin * of_count) ** 2 + (shortened * divisor) ** 2) for each in sums]
        self.require(f"totals{DEVIATION}", same(found, *expected))
        self._mean(origin, (steps, sums), (of_count, divisor), shortened)

    def rows(self) -> None:
        """Of records with noise each."""
        geometry = self.query["geometry"]
        if _mixed(self):
            return
        origin, scale = way_back(geometry)
        self.names("feature", geometry)
        grid = self.grid((1, scale.size))
        value, deviation = self.stored("rows", 2), self.stored(f"rows{DEVIATION}", 2)
        low, high = (each[0] * scale for each in grid.steps(slice(0, 1), slice(None)))
        expected = [each[0] * scale for each in grid.deviations(slice(0, 1), slice(None))]
        for part in slabs(value.shape):
            found = np.asarray(value[part], np.float64)
            error = _ULP * (np.abs(found) + np.abs(origin))
            self.on_grid("rows", found - origin, (low, high), error)
            self.require(f"rows{DEVIATION}", same(deviation[part], *expected))

    def outer(self) -> None:
        """Of sums of outer products."""
        sides = [self.query[side] for side in ("left", "right")]
        scales = [
            coordinate_units(self.stated, way_back(side)[1], of)
            for side, of in zip(sides, ("left_", "right_"), strict=True)
        ]
        for name, side in zip(("row", "column"), sides, strict=True):
            self.names(name, side)
        grid = self._rounded(self.grid((scales[0].size, scales[1].size)), sides, (0, 0))
        self._answer("outer_products", grid, (scales[0], scales[1]), 0)

    def _rounded(
        self,
        grid: StatedGrid,
        sides: Sequence[Mapping[str, Any]],
        leads: tuple[int, int],
        *,
        products: bool = True,
    ) -> StatedGrid:
        return replace(grid, rounding=stated_rounding(self.stated, sides, leads, products=products))

    def _answer(
        self,
        name: str,
        grid: StatedGrid,
        scales: tuple[Values, Values],
        lead: int,
        beside: Callable[[slice], Values | float] = lambda part: 0.0,
    ) -> None:
        """A matrix of the answer, and the deviations of its noise and of what is beside it where they are stored."""
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

    def _kept_noise(self, grid: StatedGrid, scale: Values, lead: int) -> None:
        """Numbers from which deviations of a large matrix are computed by its reader."""
        if "noise_of_a_step" not in self.arrays:
            return
        by_row = self.read("noise_by_row", (lead + scale.size,))
        self.require("noise_by_row", same(by_row, grid.rows * np.sqrt(grid.step)))
        self.require("noise_off_diagonal", same(self.read("noise_off_diagonal", ()), grid.beside))
        self.require("noise_of_a_step", same(self.read("noise_of_a_step", ()), grid.deviation / grid.integers))
        self.require("unit_by_row", same(self.read("unit_by_row", scale.shape), scale))
        if grid.rounding is not None:
            by_row, second = self.read("rounding_by_row", (lead + scale.size,)), self.read("rounding_second_order", ())
            self.require("rounding_by_row", same(by_row, grid.rounding.rows))
            self.require("rounding_second_order", same(second, grid.rounding.second_order))

    def _count(self, grid: StatedGrid) -> tuple[float, float, float]:
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

    def _mean(
        self, origin: Values, noise: tuple[list[Values], list[Values]], of: tuple[float, float], beside: Values
    ) -> None:
        """Means of features, from steps and deviations of their sums, and those of the count."""
        (steps, sums), (of_count, divisor) = noise, of
        mean = self.read("mean", origin.shape)
        shift = mean - origin
        error = 4.0 * _ULP * (np.abs(mean) + np.abs(origin)) * divisor
        self.on_grid("mean", shift * divisor, (steps[0], steps[1]), error)
        expected = [np.hypot(np.sqrt(each**2 + (shift * of_count) ** 2) / divisor, beside) for each in sums]
        self.require(f"mean{DEVIATION}", close(self.read(f"mean{DEVIATION}", origin.shape), *expected))

    def _ratios(self, grid: StatedGrid, origin: Values, scale: Values, beside: ShortenedErrors) -> None:
        """Count, means and covariances of an answer with a constant coordinate in front."""
        _, of_count, divisor = self._count(grid)
        first, features, d = slice(0, 1), slice(1, None), scale.size
        steps = [each[0] * scale for each in grid.steps(first, features)]
        sums = [each[0] * scale for each in grid.deviations(first, features)]
        self._mean(origin, (steps, sums), (of_count, divisor), beside.means)
        shift = self.read("mean", (d,)) - origin
        value, moment = self.of("covariance", (d, d)), self.arrays.get("second_moment")
        deviation = self.arrays.get(f"covariance{DEVIATION}")
        for (part,) in slabs((d, d)):
            found, product = np.asarray(value[part], np.float64), np.outer(shift[part], shift)
            units, rows = np.outer(scale[part], scale), slice(part.start + 1, part.stop + 1)
            if moment is None:
                low, high = (each * units for each in grid.steps(rows, features))
                mean = np.abs(shift) + np.abs(origin)
                error = 16.0 * _ULP * divisor * (np.abs(found) + np.outer(mean[part], mean))
                self.on_grid("covariance", (found + product) * divisor, (low, high), error)
                continue
            ratio = np.asarray(moment[part], np.float64) / divisor
            off = np.abs(found - (ratio - product)) - CLOSE * (np.abs(ratio) + np.abs(product))
            self.require("covariance", bool(np.all(off <= 0.0)))
            if deviation is not None:
                noise = _CovarianceNoise(shift, of_count, divisor, self._common(grid, scale))
                own = [each * units for each in grid.deviations(rows, features)]
                more = beside.covariances(part)
                near = [
                    np.hypot(noise.of(part, ratio, each, of_sums), more)
                    for each, of_sums in zip(own, sums, strict=True)
                ]
                self.require(f"covariance{DEVIATION}", close(deviation[part], *near))

    def _common(self, grid: StatedGrid, scale: Values) -> Values:
        """Covariance of the noise of each feature's own entry with that of the count."""
        if grid.own is None or grid.common is None:
            return np.zeros(scale.size)
        times, shared = grid.common
        own = np.diagonal(grid.steps(slice(None), slice(None))[0]) * grid.deviation
        found: Values = times[0] * shared * own[0] * own[1:] * scale**2
        return found

    def _positive(self, name: str) -> None:
        """A positive semi-definite version, where eigenvalues are few."""
        array = self.arrays.get(name)
        if array is None:
            return
        if array.shape[0] > _MOST_EIGENVALUES:
            self.skip(name, f"more than {_MOST_EIGENVALUES} features, whose eigenvalues take too long")
            return
        values = np.linalg.eigvalsh(np.asarray(array[...], np.float64))
        self.require(name, bool(values[0] >= -CLOSE * abs(values[-1])))


def _directions(check: ArrayCheck) -> None:
    if "concentration" in check.mechanism:
        drawn(check)
        return
    check.moment(0)
    leading(check)


def _mixed(check: CheckedArrays) -> bool:
    """Whether coordinates are mixtures of features by numbers that a release does not hold; says so of its arrays."""
    geometry = check.query["geometry"]
    turned = "directions" in check.mechanism or geometry.get("shape", "diagonal") != "diagonal"
    if "map" not in check.mechanism or not turned:
        return False
    check.names("feature", geometry)
    for name in _OF_FEATURES:
        for ending in ("", DEVIATION, "_psd"):
            check.skip(f"{name}{ending}", "mixed by a matrix of which it states the digest alone")
    return True


class _CovarianceNoise:
    """First-order standard deviations of covariances, ``dC = (dV - ds m' - m ds' + (2 m m' - V/n) dn) / n``."""

    def __init__(self, shift: Values, of_count: float, divisor: float, common: Values) -> None:
        self._shift, self._of_count, self._divisor, self._common = shift, of_count, divisor, common

    def of(self, part: slice, ratio: Values, own: Values, sums: Values) -> Values:
        """Of some rows: V/n, the deviations of V's entries, and those of all sums."""
        shift, rows = self._shift, np.arange(part.start, part.stop)
        variance = own**2 + np.outer(sums[part] ** 2, shift**2) + np.outer(shift[part] ** 2, sums**2)
        factor = 2.0 * np.outer(shift[part], shift) - ratio
        variance += factor**2 * self._of_count**2
        places = rows - part.start, rows
        # An entry of the diagonal takes the noise of one sum twice.
        variance[places] += 2.0 * shift[part] ** 2 * sums[part] ** 2 + 2.0 * factor[places] * self._common[part]
        found: Values = np.sqrt(np.maximum(variance, 0.0)) / self._divisor
        return found


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


_RULES: dict[str, Callable[[ArrayCheck], None]] = {
    "second-moment": lambda found: found.moment(0),
    "principal-directions": _directions,
    "covariance": lambda found: found.moment(1),
    "totals": ArrayCheck.totals,
    "rows": ArrayCheck.rows,
    "outer-products": ArrayCheck.outer,
    "counts": cells,
    "column-histograms": histograms,
    "marginals": tables,
    "gradients": gradients,
}

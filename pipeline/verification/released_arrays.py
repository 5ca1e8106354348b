"""Whether the arrays of a release are what noise of the stated size on the stated bounds gives.

Each array has a rule here, or is named as not checked. Steps and standard deviations are recomputed
(:mod:`.stated_grid`). What has additive noise must lie on whole steps, which exact values almost never do. What follows
from other arrays is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.stated_grid import StatedGrid, Values, on_steps, same, stated_grid
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_rounding import coordinate_units, stated_rounding

_SLAB = 2**20
"""Entries of a large array that are looked at together."""

_MOST_EIGENVALUES = 512
"""Features up to which eigenvalues are computed."""

_CLOSE = 1e-8
"""Relative distance of two ways to compute a result of several sums."""

_ULP = 2.0**-50
_DEVIATION = "_standard_deviation"
_UNSCALED = ("analyze-gauss", "mod-sulq")


class OtherArray(Exception):
    """An array is not what the release states; the text names it."""


class ArrayCheck:
    """Arrays of one release, each looked at by its rule.

    Parameters
    ----------
    stated
        Attributes of the release.
    arrays
        Its stored arrays by name.
    """

    def __init__(self, stated: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        self._stated, self._arrays, self.checked = stated, arrays, list[str]()

    @property
    def unchecked(self) -> list[str]:
        """Names of the arrays without a rule."""
        return sorted(set(self._arrays) - set(self.checked))

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
        mechanism, query = self._stated["mechanism"], self._stated["query"]
        if any(key in mechanism for key in ("strategy", "continual", "steps", "concentration", "map", "band")):
            return  # what is published is computed from several noisy numbers each
        if query.get("training") is not None or query["kind"] not in _RULES:
            return
        _RULES[query["kind"]](self)

    def moment(self, lead: int) -> None:
        """Of a second moment, or of a covariance with a constant coordinate in front."""
        geometry = self._stated["query"]["geometry"]
        origin, scale = way_back(geometry)
        scale = coordinate_units(self._stated, scale)
        self._names("feature", geometry)
        unscaled = self._stated["mechanism"]["mechanism"] in _UNSCALED
        grid = self._grid((lead + scale.size,) * 2, lead, unscaled=unscaled)
        grid = self._rounded(grid, (geometry, geometry), (lead, lead))
        self._kept_noise(grid, scale, lead)
        if "second_moment" in self._arrays:
            self._answer("second_moment", grid, (scale, scale), lead)
        if lead:
            self._ratios(grid, origin, scale)
        for name in ("second_moment_psd", "covariance_psd"):
            self._positive(name)

    def totals(self) -> None:
        """Of count, totals and means."""
        geometry = self._stated["query"]["geometry"]
        origin, scale = way_back(geometry)
        scale = coordinate_units(self._stated, scale)
        self._names("feature", geometry)
        lead = 0 if replaces(self._stated) else 1
        grid = self._grid((1, lead + scale.size), 0, unscaled=True)
        grid = self._rounded(grid, (geometry, geometry), (0, lead), products=False)
        count, of_count, divisor = self._count(grid)
        one, features = slice(0, 1), slice(lead, None)
        steps = [each[0] * scale for each in grid.steps(one, features)]
        sums = [each[0] * scale for each in grid.deviations(one, features)]
        value = self._of("totals", scale.shape)
        error = _ULP * (np.abs(value) + np.abs(count * origin))
        self._require("totals", on_steps(value - count * origin, (steps[0], steps[1]), error))
        found = self._of(f"totals{_DEVIATION}", scale.shape)
        expected = [np.sqrt(each**2 + (origin * of_count) ** 2) for each in sums]
        self._require(f"totals{_DEVIATION}", same(found, *expected))
        self._mean(origin, (steps, sums), (of_count, divisor))

    def rows(self) -> None:
        """Of records with noise each."""
        geometry = self._stated["query"]["geometry"]
        origin, scale = way_back(geometry)
        self._names("feature", geometry)
        grid = self._grid((1, scale.size), 0, unscaled=True)
        value, deviation = self._stored("rows", 2), self._stored(f"rows{_DEVIATION}", 2)
        low, high = (each[0] * scale for each in grid.steps(slice(0, 1), slice(None)))
        expected = [each[0] * scale for each in grid.deviations(slice(0, 1), slice(None))]
        for part in slabs(value.shape):
            found = np.asarray(value[part], np.float64)
            error = _ULP * (np.abs(found) + np.abs(origin))
            self._require("rows", on_steps(found - origin, (low, high), error))
            self._require(f"rows{_DEVIATION}", same(deviation[part], *expected))

    def outer(self) -> None:
        """Of sums of outer products."""
        sides = [self._stated["query"][side] for side in ("left", "right")]
        scales = [
            coordinate_units(self._stated, way_back(side)[1], of)
            for side, of in zip(sides, ("left_", "right_"), strict=True)
        ]
        for name, side in zip(("row", "column"), sides, strict=True):
            self._names(name, side)
        grid = self._rounded(self._grid((scales[0].size, scales[1].size), 0, unscaled=True), sides, (0, 0))
        self._answer("outer_products", grid, (scales[0], scales[1]), 0)

    def even(self, name: str) -> None:
        """Of counts that all have noise of one size, in an array of any shape."""
        if any(isinstance(self._stated["mechanism"][side], list) for side in ("row_spread", "column_spread")):
            return
        one = slice(0, 1)
        grid = self._grid((1, 1), 0, unscaled=True)
        low, high = (each[0] for each in grid.steps(one, one))
        value, deviation = self._stored(name, None), self._stored(f"{name}{_DEVIATION}", None)
        expected = [each[0] for each in grid.deviations(one, one)]
        for part in slabs(value.shape):
            self._require(name, on_steps(np.asarray(value[part], np.float64), (low, high)))
            self._require(f"{name}{_DEVIATION}", same(deviation[part], *expected))
        for each in (name, f"{name}{_DEVIATION}") if name == "tables" else ():
            self._in_parts(each)

    def _in_parts(self, whole: str) -> None:
        """Tables, each by itself, are parts of all their cells."""
        ending = whole.removeprefix("tables")
        count = len(self._stated["mechanism"]["tables"])
        names = [f"table_{number}{ending}" for number in range(1, count + 1)]
        found = [np.asarray(self._stored(name, None)[...]).ravel() for name in names]
        holds = np.array_equal(np.concatenate(found), np.asarray(self._arrays[whole][...]).ravel())
        for name in names:
            self._require(name, holds)

    def _grid(self, shape: tuple[int, int], lead: int, *, unscaled: bool) -> StatedGrid:
        return stated_grid(self._stated["mechanism"], shape, lead, unscaled=unscaled)

    def _rounded(
        self,
        grid: StatedGrid,
        sides: Sequence[Mapping[str, Any]],
        leads: tuple[int, int],
        *,
        products: bool = True,
    ) -> StatedGrid:
        return replace(grid, rounding=stated_rounding(self._stated, sides, leads, products=products))

    def _answer(self, name: str, grid: StatedGrid, scales: tuple[Values, Values], lead: int) -> None:
        """A matrix of the answer, and the deviations of its noise where they are stored."""
        shape = scales[0].size, scales[1].size
        value, deviation = self._of(name, shape, read=False), None
        if f"{name}{_DEVIATION}" in self._arrays:
            deviation = self._of(f"{name}{_DEVIATION}", shape, read=False)
        columns = slice(lead, None)
        for (part,) in slabs(shape):
            rows, units = slice(part.start + lead, part.stop + lead), np.outer(scales[0][part], scales[1])
            low, high = (each * units for each in grid.steps(rows, columns))
            self._require(name, on_steps(np.asarray(value[part], np.float64), (low, high)))
            if deviation is not None:
                expected = (each * units for each in grid.deviations(rows, columns))
                self._require(f"{name}{_DEVIATION}", same(deviation[part], *expected))

    def _kept_noise(self, grid: StatedGrid, scale: Values, lead: int) -> None:
        """Numbers from which deviations of a large matrix are computed by its reader."""
        if "noise_of_a_step" not in self._arrays:
            return
        by_row = self._of("noise_by_row", (lead + scale.size,))
        self._require("noise_by_row", same(by_row, grid.rows * np.sqrt(grid.step)))
        self._require("noise_off_diagonal", same(self._of("noise_off_diagonal", ()), grid.beside))
        self._require("noise_of_a_step", same(self._of("noise_of_a_step", ()), grid.deviation / grid.integers))
        self._require("unit_by_row", same(self._of("unit_by_row", scale.shape), scale))
        if grid.rounding is not None:
            by_row, second = self._of("rounding_by_row", (lead + scale.size,)), self._of("rounding_second_order", ())
            self._require("rounding_by_row", same(by_row, grid.rounding.rows))
            self._require("rounding_second_order", same(second, grid.rounding.second_order))

    def _count(self, grid: StatedGrid) -> tuple[float, float, float]:
        """Number of records, the deviation of its noise, and what means are divided by."""
        count, deviation = (float(self._of(name, ())) for name in ("count", f"count{_DEVIATION}"))
        one = slice(0, 1)
        if replaces(self._stated):
            self._require("count", count == int(count) >= 0)
            self._require(f"count{_DEVIATION}", deviation == 0.0)
        else:
            self._require("count", on_steps(np.array([[count]]), grid.steps(one, one)))
            self._require(f"count{_DEVIATION}", same([[deviation]], *grid.deviations(one, one)))
        return count, deviation, max(count, deviation, 1.0)

    def _mean(self, origin: Values, noise: tuple[list[Values], list[Values]], of: tuple[float, float]) -> None:
        """Means of features, from steps and deviations of their sums, and those of the count."""
        (steps, sums), (of_count, divisor) = noise, of
        mean = self._of("mean", origin.shape)
        shift = mean - origin
        error = 4.0 * _ULP * (np.abs(mean) + np.abs(origin)) * divisor
        self._require("mean", on_steps(shift * divisor, (steps[0], steps[1]), error))
        expected = [np.sqrt(each**2 + (shift * of_count) ** 2) / divisor for each in sums]
        self._require(f"mean{_DEVIATION}", close(self._of(f"mean{_DEVIATION}", origin.shape), *expected))

    def _ratios(self, grid: StatedGrid, origin: Values, scale: Values) -> None:
        """Count, means and covariances of an answer with a constant coordinate in front."""
        _, of_count, divisor = self._count(grid)
        first, features, d = slice(0, 1), slice(1, None), scale.size
        steps = [each[0] * scale for each in grid.steps(first, features)]
        sums = [each[0] * scale for each in grid.deviations(first, features)]
        self._mean(origin, (steps, sums), (of_count, divisor))
        shift = self._of("mean", (d,)) - origin
        value, moment = self._of("covariance", (d, d), read=False), self._arrays.get("second_moment")
        deviation = self._arrays.get(f"covariance{_DEVIATION}")
        for (part,) in slabs((d, d)):
            found, product = np.asarray(value[part], np.float64), np.outer(shift[part], shift)
            units, rows = np.outer(scale[part], scale), slice(part.start + 1, part.stop + 1)
            if moment is None:
                low, high = (each * units for each in grid.steps(rows, features))
                mean = np.abs(shift) + np.abs(origin)
                error = 16.0 * _ULP * divisor * (np.abs(found) + np.outer(mean[part], mean))
                self._require("covariance", on_steps((found + product) * divisor, (low, high), error))
                continue
            ratio = np.asarray(moment[part], np.float64) / divisor
            off = np.abs(found - (ratio - product)) - _CLOSE * (np.abs(ratio) + np.abs(product))
            self._require("covariance", bool(np.all(off <= 0.0)))
            if deviation is not None:
                noise = _CovarianceNoise(shift, of_count, divisor, self._common(grid, scale))
                own = [each * units for each in grid.deviations(rows, features)]
                near = [noise.of(part, ratio, each, beside) for each, beside in zip(own, sums, strict=True)]
                self._require(f"covariance{_DEVIATION}", close(deviation[part], *near))

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
        array = self._arrays.get(name)
        if array is None or array.shape[0] > _MOST_EIGENVALUES:
            return
        values = np.linalg.eigvalsh(np.asarray(array[...], np.float64))
        self._require(name, bool(values[0] >= -_CLOSE * abs(values[-1])))

    def _names(self, name: str, geometry: Mapping[str, Any]) -> None:
        found = [str(each) for each in np.asarray(self._stored(name, 1)[...]).tolist()]
        self._require(name, found == [str(feature["name"]) for feature in geometry["features"]])

    def _stored(self, name: str, axes: int | None) -> Any:
        found = self._arrays.get(name)
        if found is None or (axes is not None and len(found.shape) != axes):
            raise OtherArray(f"{name} is missing, or has another shape than follows from its query")
        return found

    def _of(self, name: str, shape: tuple[int, ...], *, read: bool = True) -> Any:
        found = self._stored(name, len(shape))
        if tuple(found.shape) != shape:
            raise OtherArray(f"{name} has another shape than follows from its query")
        return np.asarray(found[...], np.float64) if read else found

    def _require(self, name: str, holds: bool) -> None:
        if not holds:
            raise OtherArray(f"{name} is not what the stated noise and bounds give")
        if name not in self.checked:
            self.checked.append(name)


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
    return origin, np.array(geometry["semi_axes"], np.float64)


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices of rows with not too many entries each; all of an array without axes."""
    if not shape:
        yield ()
        return
    step = max(1, _SLAB // max(1, int(np.prod(shape[1:]))))
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])),)


def close(values: NDArray[Any], *expected: Values) -> bool:
    """Whether all values are near those of one of the expected arrays."""
    found = np.asarray(values, np.float64)
    fits = np.zeros(found.shape, bool)
    for each in expected:
        fits |= np.abs(found - each) <= _CLOSE * np.abs(each)
    return bool(np.all(fits))


_RULES: dict[str, Callable[[ArrayCheck], None]] = {
    "second-moment": lambda found: found.moment(0),
    "principal-directions": lambda found: found.moment(0),
    "covariance": lambda found: found.moment(1),
    "totals": ArrayCheck.totals,
    "rows": ArrayCheck.rows,
    "outer-products": ArrayCheck.outer,
    "counts": lambda found: found.even("counts"),
    "column-histograms": lambda found: found.even("histograms"),
    "marginals": lambda found: found.even("tables"),
}

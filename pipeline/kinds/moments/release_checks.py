"""Whether a release of second moments or covariances is what it states: how far a record moves it, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blockveil.pipeline.verification.checked_arrays import CLOSE, DEVIATION, close, slabs
from blockveil.pipeline.verification.moved_diagonals import own_diagonal
from blockveil.pipeline.verification.moved_moments import entries, frobenius
from blockveil.pipeline.verification.released_arrays import ULP, ArrayCheck, way_back
from blockveil.pipeline.verification.shortened_errors import ShortenedErrors
from blockveil.pipeline.verification.stated_grid import StatedGrid, Values, same
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import Moved, sizes, weights
from blockveil.pipeline.verification.stated_rounding import coordinate_units
from blockveil.pipeline.verification.stated_sensitivity import integers
from blockveil.pipeline.verification.stated_shapes import stated_shape

_MOST_EIGENVALUES = 512
"""Features up to which eigenvalues are computed."""

_UNSCALED = ("analyze-gauss", "mod-sulq")
"""Mechanisms whose noise is as large off the diagonal as on it."""


def _lead(stated: Mapping[str, Any]) -> int:
    """Constant coordinates that lead a record."""
    return int(stated["query"]["kind"] == "covariance")


def arrays(check: ArrayCheck) -> None:
    """Arrays of a release; errors as for :meth:`.released_arrays.ArrayCheck.run`."""
    geometry, lead = check.query["geometry"], _lead(check.stated)
    if check.mixed("second_moment", "covariance", "mean"):
        check.count(check.grid((lead + len(geometry["features"]),) * 2, lead)) if lead else None
        return
    origin, scale = way_back(geometry)
    scale = coordinate_units(check.stated, scale)
    check.names("feature", geometry)
    unscaled = check.mechanism["mechanism"] in _UNSCALED
    grid = check.grid((lead + scale.size,) * 2, lead, unscaled=unscaled)
    grid = check.rounded(grid, (geometry, geometry), (lead, lead))
    beside = ShortenedErrors(check, origin)
    _kept_noise(check, grid, scale, lead)
    if "second_moment" in check.arrays:
        check.answer("second_moment", grid, (scale, scale), lead, beside.moments)
    if lead:
        _ratios(check, grid, origin, scale, beside)
    for name in ("second_moment_psd", "covariance_psd"):
        _positive(check, name)


def _kept_noise(check: ArrayCheck, grid: StatedGrid, scale: Values, lead: int) -> None:
    """Numbers from which deviations of a large matrix are computed by its reader."""
    if "noise_of_a_step" not in check.arrays:
        return
    by_row = check.read("noise_by_row", (lead + scale.size,))
    check.require("noise_by_row", same(by_row, grid.rows * np.sqrt(grid.step)))
    check.require("noise_off_diagonal", same(check.read("noise_off_diagonal", ()), grid.beside))
    check.require("noise_of_a_step", same(check.read("noise_of_a_step", ()), grid.deviation / grid.integers))
    check.require("unit_by_row", same(check.read("unit_by_row", scale.shape), scale))
    if grid.rounding is not None:
        by_row, second = check.read("rounding_by_row", (lead + scale.size,)), check.read("rounding_second_order", ())
        check.require("rounding_by_row", same(by_row, grid.rounding.rows))
        check.require("rounding_second_order", same(second, grid.rounding.second_order))


def _ratios(check: ArrayCheck, grid: StatedGrid, origin: Values, scale: Values, beside: ShortenedErrors) -> None:
    """Count, means and covariances of an answer with a constant coordinate in front."""
    _, of_count, divisor = check.count(grid)
    first, features, d = slice(0, 1), slice(1, None), scale.size
    steps = [each[0] * scale for each in grid.steps(first, features)]
    sums = [each[0] * scale for each in grid.deviations(first, features)]
    check.mean(origin, (steps, sums), (of_count, divisor), beside.means)
    shift = check.read("mean", (d,)) - origin
    value, moment = check.of("covariance", (d, d)), check.arrays.get("second_moment")
    deviation = check.arrays.get(f"covariance{DEVIATION}")
    for (part,) in slabs((d, d)):
        covariance, product = np.asarray(value[part], np.float64), np.outer(shift[part], shift)
        units, rows = np.outer(scale[part], scale), slice(part.start + 1, part.stop + 1)
        if moment is None:
            low, high = (each * units for each in grid.steps(rows, features))
            mean = np.abs(shift) + np.abs(origin)
            error = 16.0 * ULP * divisor * (np.abs(covariance) + np.outer(mean[part], mean))
            check.on_grid("covariance", (covariance + product) * divisor, (low, high), error)
            continue
        ratio = np.asarray(moment[part], np.float64) / divisor
        off = np.abs(covariance - (ratio - product)) - CLOSE * (np.abs(ratio) + np.abs(product))
        check.require("covariance", bool(np.all(off <= 0.0)))
        if deviation is not None:
            noise = _CovarianceNoise(shift, of_count, divisor, _common(check, grid, scale))
            own = [each * units for each in grid.deviations(rows, features)]
            more = beside.covariances(part)
            near = [
                np.hypot(noise.of(part, ratio, each, of_sums), more) for each, of_sums in zip(own, sums, strict=True)
            ]
            check.require(f"covariance{DEVIATION}", close(deviation[part], *near))


def _common(check: ArrayCheck, grid: StatedGrid, scale: Values) -> Values:
    """Covariance of the noise of each feature's own entry with that of the count."""
    if grid.own is None or grid.common is None:
        return np.zeros(scale.size)
    times, shared = grid.common
    own = np.diagonal(grid.steps(slice(None), slice(None))[0]) * grid.deviation
    covariances: Values = times[0] * shared * own[0] * own[1:] * scale**2
    return covariances


def _positive(check: ArrayCheck, name: str) -> None:
    """A positive semi-definite version, where eigenvalues are few."""
    array = check.arrays.get(name)
    if array is None:
        return
    if array.shape[0] > _MOST_EIGENVALUES:
        check.skip(name, f"more than {_MOST_EIGENVALUES} features, whose eigenvalues take too long")
        return
    values = np.linalg.eigvalsh(np.asarray(array[...], np.float64))
    check.require(name, bool(values[0] >= -CLOSE * abs(values[-1])))


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
        deviations: Values = np.sqrt(np.maximum(variance, 0.0)) / self._divisor
        return deviations


def moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    """How far one record moves the answer; parameters and errors as for :func:`.moved_counts.cells`."""
    mechanism, replaced, lead = stated["mechanism"], replaces(stated), _lead(stated)
    shape = stated_shape(stated["query"]["geometry"], integers(stated, 2), mechanism)
    spread = sizes(mechanism, "row_spread", lead + shape.features)
    if mechanism["column_spread"] != "as by row":
        raise ValueError("column_spread")
    if mechanism.get("diagonal") is not None:
        if power != 2:
            raise ValueError("diagonal")
        return own_diagonal(shape, spread, lead, mechanism["diagonal"], replaced=replaced)
    if power == 1:
        return entries(shape, weights(spread, 1), lead, replaced=replaced)
    unscaled = mechanism["mechanism"] in _UNSCALED
    return frobenius(shape, weights(spread, 2), lead, replaced=replaced, unscaled=unscaled)


RELEASE_CHECKS = {"moved": moved, "arrays": arrays}

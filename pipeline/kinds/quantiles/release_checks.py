"""Whether a release of quantiles is what it states: how far a record moves it, and what follows from its noise.

The release holds the kernel b of each column's matrix in whole numbers: column k of the matrix is b moved down by k
places, where what leaves at the end comes back with the other sign. All of its columns are compared with the first one,
and no formula for them is used. Balances follow from counts up to cells, cells from their differences, and what was
measured is the product of the matrix and these. Where few cells were measured in place of the declared ones, their ends
are among those; which of them were chosen is not computed anew, as intervals hold for any.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.checked_arrays import CLOSE, DEVIATION, CheckedArrays
from blockveil.pipeline.verification.stated_grid import Values
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import Moved, least_size, stated_count

_MOST_SOLVED = 1024
"""Cells up to which the noise of a balance is recomputed."""

_MOST_CELLS, _LARGEST = 2**12, 2**20


def _kernels(stated: Mapping[str, Any], arrays: Mapping[str, Any]) -> list[NDArray[np.int64]]:
    """First column of each column's matrix, whole numbers; KeyError where the release does not hold them."""
    sizes = [int(size) for size in stated["mechanism"]["cells_by_column"]]
    kernels = np.asarray(arrays["measured_kernel"][...])
    if min(sizes) < 2 or max(sizes) > _MOST_CELLS or kernels.shape != (len(sizes), max(sizes)):
        raise ValueError("cells_by_column")
    if len(sizes) != len(stated["query"]["axes"]) or kernels.dtype.kind != "i" or np.abs(kernels).max() > _LARGEST:
        raise ValueError("measured_kernel")
    return [row[:size].astype(np.int64) for row, size in zip(kernels, sizes, strict=True)]


def _column(kernel: NDArray[Any], place: int) -> NDArray[Any]:
    return np.concatenate([-kernel[kernel.size - place :], kernel[: kernel.size - place]])


def _weight(stated: Mapping[str, Any]) -> int:
    """Weight of the number of values among what is measured; zero where it is public."""
    if stated["query"]["missing"] == "refuse" and replaces(stated):
        return 0
    return stated_count(stated["mechanism"], "count_weight")


def moved(stated: Mapping[str, Any], arrays: Mapping[str, Any], power: int) -> Moved:
    """How far one record moves what is measured; errors as for :func:`.stated_sensitivity.moved`.

    Parameters
    ----------
    stated
        Attributes of the release.
    arrays
        Its arrays by name.
    power
        2 for the L2 norm, 1 for the L1 norm.
    """
    mechanism, weight = stated["mechanism"], _weight(stated)
    complete, least, most = stated["query"]["missing"] == "refuse", 0, 0
    for kernel in _kernels(stated, arrays):
        one = int(np.sum(np.abs(kernel) ** power)) + weight**power
        if not replaces(stated):
            least, most = least + one, most + one
            continue
        pairs = max(int(np.sum(np.abs(kernel - _column(kernel, k)) ** power)) for k in range(1, kernel.size))
        # All pairs are as far apart as some pair with the first column: in squares, where signs do not matter.
        farthest = pairs if complete else max(pairs, one)
        least, most = least + farthest, most + (farthest if power == 2 else 2 * one)
    unit = Fraction(stated_count(mechanism, "unit"))
    size = Fraction(least_size(mechanism, "row_spread")) * Fraction(least_size(mechanism, "column_spread"))
    scale = 1 / (unit * size) ** 2
    return Moved(Fraction(least) ** (2 // power) * scale, Fraction(most) ** (2 // power) * scale)


def arrays(check: CheckedArrays) -> None:
    """Arrays of a release; errors as for :meth:`.released_arrays.ArrayCheck.run`."""
    kernels, axes = _kernels(check.stated, check.arrays), check.query["axes"]
    check.require("measured_kernel", True)
    check.texts("feature", [str(axis["name"]) for axis in axes])
    shares = np.array(check.query["probabilities"], np.float64)
    check.same_as("probability", shares)
    _cumulative(check, kernels)
    ends = _ends(check, [kernel.size for kernel in kernels])
    check.same_as("cell_lower", ends[0])
    check.same_as("cell_upper", ends[1])
    _quantiles(check, shares.size, (check.read("cell_lower", ends[0].shape), check.read("cell_upper", ends[1].shape)))


def _cumulative(check: CheckedArrays, kernels: list[NDArray[np.int64]]) -> None:
    """Numbers of values, and counts up to cells, with their errors."""
    shape = len(kernels), max(kernel.size for kernel in kernels)
    weight, unit = _weight(check.stated), stated_count(check.mechanism, "unit")
    grid, one = check.grid((shape[0], shape[1] + (weight > 0))), slice(0, 1)
    steps, noise = [each[0] for each in grid.steps(one, one)], float(grid.deviations(one, one)[0][0, 0])
    counts, values = check.read("cumulative", shape), check.read("values", shape[:1])
    of_values = noise * unit / weight if weight else 0.0
    if weight and check.query["missing"] == "drop":
        check.on_grid("values", values * weight / unit, (steps[0], steps[1]), CLOSE * np.abs(values))
    else:  # all columns have one number of values
        of_values /= np.sqrt(shape[0])
        check.require("values", bool(np.all(values == values[0])))
    check.sums_to(f"values{DEVIATION}", np.full(shape[0], of_values))
    deviations = np.zeros(shape)
    for row, kernel in enumerate(kernels):
        own = counts[row, : kernel.size] - values[row] / 2.0
        product = np.convolve(kernel / unit, np.diff(own, prepend=-own[-1]))
        answers = product[: kernel.size] - np.append(product[kernel.size :], 0.0)
        check.on_grid("cumulative", answers, (steps[0], steps[1]), 1e-10 * float(np.sum(np.abs(own))))
        if kernel.size <= _MOST_SOLVED:
            matrix = np.column_stack([_column(kernel, place) for place in range(kernel.size)]) / unit
            # Of the last border: half of the sum of all cells.
            solution = np.linalg.solve(matrix.T, np.full(kernel.size, 0.5))
            deviations[row, : kernel.size] = np.hypot(noise * np.linalg.norm(solution), of_values / 2.0)
    if shape[1] <= _MOST_SOLVED:
        check.sums_to(f"cumulative{DEVIATION}", deviations)
    else:
        check.skip(f"cumulative{DEVIATION}", f"not recomputed for more than {_MOST_SOLVED:,} cells")


def _ends(check: CheckedArrays, sizes: list[int]) -> tuple[Values, Values]:
    """Least and greatest value of each measured cell, of declared cells that it joins; NaN where a column has none."""
    shape, learned = (len(sizes), max(sizes)), "learned" in check.stated
    least, greatest = np.full(shape, np.nan), np.full(shape, np.nan)
    ends = check.read("last_cell", shape) if learned else np.broadcast_to(np.arange(shape[1]), shape)
    for row, (axis, size) in enumerate(zip(check.query["axes"], sizes, strict=True)):
        (low, high), last = _declared(axis), ends[row, :size].astype(np.int64)
        holds = np.all(np.diff(last, prepend=-1) > 0) and last[-1] == low.size - 1
        if learned:
            check.require("last_cell", bool(holds and np.all(ends[row] == np.append(last, [-1] * (shape[1] - size)))))
        else:
            check.require("cell_lower", bool(holds))
        least[row, :size], greatest[row, :size] = low[np.append(0, last[:-1] + 1)], high[last]
    return least, greatest


def _declared(axis: Mapping[str, Any]) -> tuple[Values, Values]:
    """Least and greatest value of each cell, as declared."""
    if axis.get("edges") is None and axis.get("lower") is None:
        codes = np.arange(min(int(axis["cells"]), _MOST_CELLS), dtype=np.float64)
        return codes, codes
    edges = axis.get("edges")
    if edges is None:
        edges = np.linspace(float(axis["lower"]), float(axis["upper"]), min(int(axis["cells"]), _MOST_CELLS) + 1)
    edges = np.asarray(edges, np.float64)
    return edges[:-1], edges[1:]


def _quantiles(check: CheckedArrays, shares: int, ends: tuple[Values, Values]) -> None:
    """Quantiles ascend within their intervals, which end where cells do."""
    names = "quantile", "quantile_lower", "quantile_upper"
    value, low, high = (check.read(name, (ends[0].shape[0], shares)) for name in names)
    check.require("quantile", bool(np.all((low <= value) & (value <= high)) and np.all(np.diff(value, axis=1) >= 0.0)))
    for name, bounds, each in (("quantile_lower", low, ends[0]), ("quantile_upper", high, ends[1])):
        holds = all(np.isin(bounds[row], each[row]).all() for row in range(bounds.shape[0]))
        check.require(name, holds)


RELEASE_CHECKS = {"moved": moved, "arrays": arrays}

"""Tables over chosen axes, and histograms of columns, with noise of their own or made of residuals.

**Residuals.** Measured is, for each set A of axes within a table, ``f_A`` times its residual, with noise of size s_A:
so the residual has noise ``s_A / f_A``, of which the part within the residuals counts. Along an axis of n cells this
part has variance ``1 - 1/n`` in each cell, and of an ordered axis the diagonal of ``(Q'Q)^+``. A cell of a table over T
takes the residual of A divided by the number of cells of T without A, and these parts are independent.

**Of histograms** a bin takes ``s_c / n_c`` of what bins differ in, times ``1 - 1/n_c`` in variance, and the total of
its column divided by n_c; that has ``(s_d / k)^2 (1 - 1/k) + (s_t / k)^2`` for k columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise, product

import numpy as np

from blockveil.pipeline.verification.checked_arrays import CLOSE, DEVIATION, CheckedArrays, OtherArray
from blockveil.pipeline.verification.released_counts import axes, even
from blockveil.pipeline.verification.stated_grid import Values, same
from blockveil.pipeline.verification.stated_numbers import bins_by_digits

_TILE = 128
"""Columns in which what is measured is laid out, at most."""

_MOST_SETS = 2**15
"""Sets of axes within tables, each counted for each table."""

_MOST_POWER = 300

Axes = tuple[int, ...]


def tables(check: CheckedArrays) -> None:
    """Of tables; parameters and errors as :func:`.released_counts.cells`."""
    along = axes(check)
    workload = [tuple(int(axis) for axis in table) for table in check.mechanism["tables"]]
    if not workload or any(not set(table) <= set(range(len(along))) for table in workload):
        raise ValueError("tables")
    shapes = [tuple(along[axis] for axis in table) for table in workload]
    whole = check.stored("tables", 1)
    if whole.shape != (sum(map(math.prod, shapes)),):
        raise OtherArray("tables has another shape than follows from its query")
    if "strategy" in check.mechanism:
        _residuals(check, along, workload)
    else:
        even(check, "tables")
    if "cell" in check.arrays:
        along_each = [
            [f"{axis['name']} {cell}" for cell in np.asarray(check.stored(f"axis_{number}", 1)[...]).tolist()]
            for number, axis in enumerate(check.query["axes"], start=1)
        ]
        labels = (product(*(along_each[axis] for axis in table)) for table in workload)
        check.texts("cell", [", ".join(names) for table in labels for names in table])
    for each in ("tables", f"tables{DEVIATION}"):
        _in_parts(check, each, shapes)
    for number, shape in enumerate(shapes, start=1):
        name = f"table_{number}_non_negative"
        values = check.read(name, shape)
        check.require(name, bool(np.all(values >= -CLOSE * max(1.0, float(np.max(values))))))


def _in_parts(check: CheckedArrays, whole: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Tables, each by itself, are parts of all their cells."""
    ending, flat, start = whole.removeprefix("tables"), np.asarray(check.stored(whole, 1)[...]), 0
    for number, shape in enumerate(shapes, start=1):
        name, size = f"table_{number}{ending}", math.prod(shape)
        part = np.asarray(check.of(name, shape)[...]).ravel()
        check.require(name, np.array_equal(part, flat[start : start + size]))
        start += size


def _residuals(check: CheckedArrays, along: tuple[int, ...], asked: Sequence[Axes]) -> None:
    """Of tables that are made of residuals."""
    if sum(2 ** len(table) for table in asked) > 16 * _MOST_SETS:
        raise ValueError("tables")
    within = {each for table in asked for k in range(len(table) + 1) for each in combinations(table, k)}
    sets = sorted(within, key=lambda each: (len(each), each))
    inside = np.array([[axis in each for axis in range(len(along))] for each in sets], np.float64)
    check.same_as("residual_axes", inside)
    factors, shares = _along_axes(check, along)
    largest = [math.prod(factors[axis][1] for axis in each) for each in sets]
    if min(largest) < 1:
        raise ValueError("cells")
    sizes = [math.prod(along[axis] for axis in each) for each in sets]
    width = min(_TILE, max(sizes))
    rows = [-(-size // width) for size in sizes]
    grid, row, noise_by_axes = check.grid((sum(rows), width)), 0, dict[Axes, float]()
    for each, count, own in zip(sets, rows, largest, strict=True):
        factor = math.prod(factors[axis][0] for axis in each) << (max(largest) // own).bit_length() - 1
        noise_by_axes[each] = float(grid.deviations(slice(row, row + 1), slice(0, 1))[0][0, 0]) / factor
        row += count
    name = f"residual{DEVIATION}"
    check.require(name, same(check.read(name, (len(sets),)), np.array([noise_by_axes[each] for each in sets])))
    deviations = []
    for table in asked:
        total: Values = np.zeros(tuple(along[axis] for axis in table))
        for each in (one for k in range(len(table) + 1) for one in combinations(table, k)):
            rest = math.prod(along[axis] for axis in table if axis not in each)
            part = np.array(noise_by_axes[each] ** 2 / rest**2)
            for axis in table:
                part = part[..., None] * (shares[axis] if axis in each else np.ones(1))
            total = total + part
        deviations.append(np.sqrt(total).ravel())
    check.sums_to(f"tables{DEVIATION}", np.concatenate(deviations))
    _agree(check, along, asked)


def _along_axes(check: CheckedArrays, along: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[Values]]:
    """Of each axis what its residual is multiplied by, its largest entry, and the variance of a cell's noise."""
    factors, shares = [(n, n - 1) for n in along], [np.full(n, 1.0 - 1.0 / n) for n in along]
    for strategy in check.mechanism["strategy"].get("ordered", ()):
        axis, unit = int(strategy["axis"]), int(strategy["unit"])
        if not 0 <= axis < len(along) or unit < 1:
            raise ValueError("axis")
        name = f"axis_{axis + 1}_strategy"
        measured = check.read(name, (along[axis], along[axis]))
        # Its digest is held against these numbers where the sensitivity is.
        check.require(name, bool(np.all(np.abs(measured.sum(axis=0)) <= CLOSE * np.max(np.abs(measured)))))
        inverse = np.linalg.pinv(measured)
        shares[axis] = np.sum(inverse**2, axis=1)
        factors[axis] = unit, round(float(np.max(np.abs(measured))) * unit)
    return factors, shares


def _agree(check: CheckedArrays, along: tuple[int, ...], asked: Sequence[Axes]) -> None:
    """Tables of one set of residuals have the same sums along the axes that they share."""
    flat, start, apart = np.asarray(check.stored("tables", 1)[...], np.float64), 0, list[tuple[Axes, Values]]()
    for table in asked:
        shape = tuple(along[axis] for axis in table)
        apart.append((table, flat[start : start + math.prod(shape)].reshape(shape)))
        start += math.prod(shape)
    size = float(np.max([np.sum(np.abs(values)) for _, values in apart]))
    holds = all(
        bool(np.all(np.abs(_over(*one, shared) - _over(*other, shared)) <= CLOSE * max(size, 1e-300)))
        for one, other in pairwise(apart)
        for shared in [tuple(axis for axis in one[0] if axis in other[0])]
    )
    check.require("tables", holds)


def _over(table: Axes, values: Values, shared: Axes) -> Values:
    sums: Values = values.sum(axis=tuple(place for place, axis in enumerate(table) if axis not in shared))
    return sums


def histograms(check: CheckedArrays) -> None:
    """Of histograms of columns; parameters and errors as :func:`.released_counts.cells`."""
    borders, names = list[tuple[Values, Values]](), list[str]()
    for feature in check.query["features"]:
        if feature.get("histogram") is False:
            continue
        names.append(str(feature["name"]))
        borders.append(_borders(check, feature))
        if check.query.get("digits") is not None and feature.get("edges") is None:
            names.append(f"{feature['name']}, digits")
            borders.append(_borders_by_digits(check))
    check.texts("feature", names)
    width = int(check.stored("bin_lower", 2).shape[1])
    sizes = [lower.size for lower, _ in borders]
    missing = check.query["missing"] == "count"
    if max(sizes) + missing != width:
        raise OtherArray("bin_lower has another shape than follows from its query")
    ends = np.full((2, len(names), width), np.nan)
    for place, ends_of_column in enumerate(borders):
        for side in (0, 1):
            ends[side, place, : sizes[place]] = ends_of_column[side]
    check.same_as("bin_lower", ends[0])
    check.same_as("bin_upper", ends[1])
    if "bin" in check.arrays:
        check.texts("bin", [_label(low, high) for low, high in zip(ends[0, 0], ends[1, 0], strict=True)])
    if "strategy" in check.mechanism:
        _of_residuals(check, sizes, missing)
    else:
        even(check, "histograms")


def _of_residuals(check: CheckedArrays, sizes: Sequence[int], missing: bool) -> None:
    columns, width = len(sizes), max(sizes) + missing
    bins = np.array(sizes, np.float64) + missing
    behind = -(-columns // width)
    grid = check.grid((columns + behind + 1, width))
    by_row = grid.deviations(slice(None), slice(0, 1))[0][:, 0]
    there = np.zeros((columns, width), bool)
    for place, size in enumerate(sizes):
        there[place, :size] = True
    there[:, width - missing :] = True
    within = by_row[:columns] / bins
    check.require("within" + DEVIATION, same(check.read("within" + DEVIATION, (columns,)), within))
    total = (by_row[columns] / columns) ** 2 * (1.0 - 1.0 / columns) + (by_row[-1] / columns) ** 2
    check.sums_to("values" + DEVIATION, np.full(columns, math.sqrt(total)))
    own = np.sqrt(within**2 * (1.0 - 1.0 / bins) + total / bins**2)
    check.sums_to("histograms" + DEVIATION, np.where(there, own[:, None], 0.0))
    counts = check.read("histograms", (columns, width))
    check.sums_to("values", counts.sum(axis=1), float(np.sum(np.abs(counts))))
    check.require("histograms", bool(np.all(counts[~there] == 0.0)))


def _borders(check: CheckedArrays, feature: dict[str, object]) -> tuple[Values, Values]:
    """Lower and upper ends of a column's bins, with one beyond either end."""
    declared = feature.get("edges")
    if declared is not None:
        edges = np.array(declared, np.float64)
        return np.append(-np.inf, edges), np.append(edges, np.inf)
    least, greatest = (int(power) for power in check.query["powers"])
    if not -_MOST_POWER <= least <= greatest <= _MOST_POWER:
        raise ValueError("powers")
    powers = np.ldexp(1.0, np.arange(least, greatest + 1))
    above, below = np.append(powers, np.inf), np.append(0.0, powers)
    return np.concatenate([-above[::-1], [0.0], below]), np.concatenate([-below[::-1], [0.0], above]) + 0.0


def _borders_by_digits(check: CheckedArrays) -> tuple[Values, Values]:
    """Ends of the bins of zero and of magnitudes between one and four."""
    cells = (bins_by_digits(check.query) - 1) // 2
    lower = np.concatenate([1.0 + np.arange(cells) / cells, 2.0 + np.arange(cells) * 2.0 / cells])
    return np.append(0.0, lower), np.concatenate([[0.0], lower[1:], [4.0]])


def _label(low: float, high: float) -> str:
    if np.isnan(low):
        return "missing"
    if low == high:
        return f"{low:.6g}"
    if np.isinf(low):
        return f"below {high:.6g}"
    return f"above {low:.6g}" if np.isinf(high) else f"{low:.6g} to {high:.6g}"

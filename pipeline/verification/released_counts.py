"""Counts in the cells of a grid, what was measured in their place, and sums of them, held against what is stated.

Of a strategy, whose coefficients a release holds or states, the measured answers lie on whole steps, and counts and all
their standard deviations follow by least squares, here with dense matrices. Buckets follow from their own numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.verification.checked_arrays import DEVIATION, CheckedArrays, OtherArray, slabs
from blockveil.pipeline.verification.stated_grid import WINDOW, StatedGrid, Values, laplace_deviation, same
from blockveil.pipeline.verification.stated_numbers import stated_count

_TILE = 128
"""Columns in which measured sums are laid out, at most."""

_MOST_SOLVED = 2048
"""Cells, or answers along an axis, up to which least squares are computed anew."""

_MOST_WORK = 2**31
"""Products of the standard deviations of all answers, up to which they are computed anew."""

_MANY = f"more than {_MOST_SOLVED:,} cells or answers, whose least squares take too long"
_LONG = "so many answers that their standard deviations take too long"

Intervals = NDArray[np.int64]
"""First and end cell of sums, half-open, shape (sums, 2)."""


@dataclass(frozen=True, eq=False)
class _Noise:
    """Noise of the counts of cells: their variances where it is independent, or a covariance of rows and of columns.

    Attributes
    ----------
    variances
        By cell, shape of the table; of independent noise.
    sides
        Covariances along rows and columns, of which that of the table is the product.
    whole
        Covariance of all cells.
    """

    variances: Values | None = None
    sides: tuple[Values, Values] | None = None
    whole: Values | None = None


def cells(check: CheckedArrays) -> None:
    """Of counts in the cells of a grid.

    Parameters
    ----------
    check
        Arrays of the release.

    Raises
    ------
    OtherArray
        One of them is another.
    KeyError, TypeError, ValueError, ArithmeticError
        What they follow from is not stated, or cannot be.
    """
    grid = axes(check)
    strategy = check.mechanism.get("strategy")
    if "steps" in check.mechanism:
        _buckets(check, grid)
    elif strategy is None:
        _independent(check, grid)
    elif "blocks_by_level" in strategy:
        _tree(check, grid, strategy)
    else:
        _product(check, grid)
    if WINDOW in check.mechanism.get("continual", {}):
        return
    counts = check.of("counts", grid)
    whole = check.of("counts_integer", grid)
    for part in slabs(grid):
        nearest = np.rint(np.maximum(np.asarray(counts[part], np.float64), 0.0))
        check.require("counts_integer", bool(np.array_equal(np.asarray(whole[part]), nearest)))


def axes(check: CheckedArrays) -> tuple[int, ...]:
    """Cells along each axis, whose names and edges are looked at; parameters and errors as :func:`cells`."""
    cell_counts = []
    for number, axis in enumerate(check.query["axes"], start=1):
        name = f"axis_{number}"
        edges = _edges(axis, int(check.stored(f"{name}_edges", 1).shape[0]) - 1)
        cell_counts.append(edges.size - 1)
        check.same_as(f"{name}_edges", edges)
        coded = axis.get("edges") is None and axis.get("lower") is None
        names = [f"{low:.6g} to {high:.6g}" for low, high in zip(edges, edges[1:], strict=False)]
        check.texts(name, [str(code) for code in range(edges.size - 1)] if coded else names)
    if list(check.mechanism["cells"]) != cell_counts:
        raise ValueError("cells")
    return tuple(cell_counts)


def _edges(axis: Mapping[str, Any], stored: int) -> Values:
    """Edges of the cells that are declared, of which as many are stored."""
    if axis.get("edges") is not None:
        return np.array(axis["edges"], np.float64)
    count = stated_count(axis, "cells")
    if count != stored:
        raise ValueError("cells")
    if axis.get("lower") is None:
        return np.arange(count + 1, dtype=np.float64)
    return np.linspace(float(axis["lower"]), float(axis["upper"]), count + 1)


def even(check: CheckedArrays, name: str, grid: StatedGrid | None = None) -> float:
    """Numbers of any shape that all have noise of one size; returns its standard deviation, errors as :func:`cells`."""
    if any(isinstance(check.mechanism[side], list) for side in ("row_spread", "column_spread")):
        raise ValueError("row_spread")
    one, grid = slice(0, 1), grid or check.grid((1, 1))
    low, high = (each[0] for each in grid.steps(one, one))
    value, expected = check.stored(name, None), [float(each[0, 0]) for each in grid.deviations(one, one)]
    check.of(f"{name}{DEVIATION}", tuple(value.shape))
    for part in slabs(value.shape):
        check.on_grid(name, np.asarray(value[part], np.float64), (low, high))
    check.constant(f"{name}{DEVIATION}", (expected[0], expected[1]))
    return expected[0]


def _independent(check: CheckedArrays, grid: tuple[int, ...]) -> None:
    deviation = even(check, "counts")
    if tuple(check.stored("counts", None).shape) != grid:
        raise OtherArray("counts has another shape than follows from its query")
    shared = check.query.get("workload")
    for number, cells_along in enumerate(grid if len(grid) > 2 else (), start=1):
        if shared:
            break
        rest = math.sqrt(math.prod(grid) / cells_along)
        others = tuple(axis for axis in range(len(grid)) if axis != number - 1)
        # Only their sums along all other axes are held, slab by slab.
        total, counts, start = np.zeros(cells_along), check.stored("counts", None), 0
        for part in slabs(grid):
            values = np.asarray(counts[part], np.float64)
            sums = values.sum(axis=others)
            if number == 1:
                total[start : start + sums.size] = sums
                start += sums.size
            else:
                total += sums
        size = float(np.max(np.abs(total), initial=0.0)) + deviation * rest
        check.sums_to(f"marginal_{number}", total, size)
        check.constant(f"marginal_{number}{DEVIATION}", (deviation * rest,) * 2)
    if shared:
        table = _table(grid)
        _answers(check, grid, _Noise(np.full(table, deviation**2)))


def _table(grid: Sequence[int]) -> tuple[int, int]:
    """Shape of a grid as a table."""
    return (1, grid[0]) if len(grid) == 1 else (math.prod(grid[:-1]), grid[-1])


def _product(check: CheckedArrays, grid: tuple[int, ...]) -> None:
    """Of a strategy along rows and one along columns."""
    table = _table(grid)
    sides = [
        np.asarray(check.stored(name, 2)[...], np.float64)
        for name in ("row_strategy", "column_strategy")
        if max(check.stored(name, 2).shape) <= _MOST_SOLVED
    ]
    shape = tuple(int(check.stored(name, 2).shape[0]) for name in ("row_strategy", "column_strategy"))
    for name, key in (("row_strategy", "rows"), ("column_strategy", "columns")):
        # Its digest is held against these numbers where the sensitivity is.
        check.require(name, list(check.stored(name, 2).shape) == list(check.mechanism["strategy"][key]["shape"]))
    wide = check.grid((shape[0], shape[1]))
    if np.ptp(wide.rows) > 0.0 or np.ptp(wide.columns) > 0.0:
        raise ValueError("row_spread")
    one = slice(0, 1)
    answers = check.of("strategy_answers", (shape[0], shape[1]))
    for part in slabs(answers.shape):
        check.on_grid("strategy_answers", np.asarray(answers[part], np.float64), wide.steps(one, one))
    low, high = (float(each[0, 0]) for each in wide.deviations(one, one))
    check.of(f"strategy{DEVIATION}", (shape[0], shape[1]))
    check.constant(f"strategy{DEVIATION}", (low, high))
    if len(sides) < 2:
        _unsolved(check, _MANY)
        return
    first, second = (_covariance(side) for side in sides)
    middle = sides[0].T @ np.asarray(answers[...], np.float64) @ sides[1]
    _solved(check, grid, (first @ middle @ second).reshape(table), _Noise(sides=(low * first, low * second)))


def _covariance(side: Values) -> Values:
    upper = np.linalg.qr(side, mode="r")
    root = np.linalg.inv(upper)
    covariance: Values = root @ root.T
    return covariance


def _tree(check: CheckedArrays, grid: tuple[int, ...], strategy: Mapping[str, Any]) -> None:
    """Of sums of nested blocks, level by level."""
    table, branching = _table(grid), stated_count(strategy, "branching")
    width, side, places, runs = min(_TILE, math.prod(table)), 1, list[Intervals](), list[tuple[int, int]]()
    for level in strategy["blocks_by_level"]:
        edges = [np.append(np.arange(0, length, side), length) for length in table]
        blocks = [each.size - 1 for each in edges]
        if list(level) != blocks or branching < 2:
            raise ValueError("blocks_by_level")
        first, second = (np.column_stack([each[:-1], each[1:]]) for each in edges)
        places.append(np.hstack([np.repeat(first, blocks[1], axis=0), np.tile(second, (blocks[0], 1))]))
        runs.append((math.prod(blocks), -(-math.prod(blocks) // width)))
        side *= branching
    where = np.concatenate(places)
    check.same_as("strategy_blocks", where.astype(np.float64))
    measured = check.grid((sum(rows for _, rows in runs), width))
    answers, row, start, variances = check.read("strategy_answers", (len(where),)), 0, 0, list[Values]()
    deviations = check.read(f"strategy{DEVIATION}", (len(where),))
    for count, rows in runs:
        one, part = (slice(row, row + 1), slice(0, 1)), slice(start, start + count)
        low, high = (float(each[0, 0]) for each in measured.deviations(*one))
        check.on_grid("strategy_answers", answers[part][None, :], measured.steps(*one))
        check.require(f"strategy{DEVIATION}", same(deviations[part], low, high))
        variances.append(np.full(count, low**2))
        row, start = row + rows, start + count
    if math.prod(table) > _MOST_SOLVED:
        _unsolved(check, _MANY)
        return
    inside = np.zeros((len(where), *table))
    for block, (top, bottom, left, right) in zip(inside, where.tolist(), strict=True):
        block[top:bottom, left:right] = 1.0
    flat = inside.reshape(len(where), -1)
    weighted = flat / np.concatenate(variances)[:, None]
    whole: Values = np.asarray(np.linalg.inv(flat.T @ weighted), np.float64)
    _solved(check, grid, (whole @ (weighted.T @ answers)).reshape(table), _Noise(whole=whole))


def _solved(check: CheckedArrays, grid: tuple[int, ...], counts: Values, noise: _Noise) -> None:
    """Counts by least squares, and the standard deviations of them and of all answers."""
    check.sums_to("counts", counts.reshape(grid))
    if noise.sides is not None:
        # Both have the standard deviation of an answer in them, so that the root is taken once.
        deviation = np.sqrt(np.outer(np.diagonal(noise.sides[0]), np.diagonal(noise.sides[1])))
    else:
        deviation = np.sqrt(np.diagonal(noise.whole if noise.whole is not None else np.eye(1)))
    check.sums_to(f"counts{DEVIATION}", deviation.reshape(grid))
    _answers(check, grid, noise)


def _unsolved(check: CheckedArrays, why: str) -> None:
    for name in check.arrays:
        if name in ("counts", f"counts{DEVIATION}") or re.fullmatch(rf"workload_\d+{DEVIATION}", name):
            check.skip(name, why)
    _answers(check, tuple(check.mechanism["cells"]), None)


def _buckets(check: CheckedArrays, grid: tuple[int, ...]) -> None:
    """Of buckets of cells, each with one noisy count that its cells share."""
    match = re.fullmatch(r"discrete Laplace of rate (\d{1,18})/(\d{1,18})", str(check.mechanism["steps"][1]["noise"]))
    if match is None or not int(match[1]) or not int(match[2]):
        raise ValueError("noise")
    deviation = laplace_deviation(int(match[1]), int(match[2]))
    numbers = np.asarray(check.of("bucket", grid)[...])
    counts = check.stored("bucket_counts", 1)
    value, count = np.asarray(counts[...], np.float64), int(counts.shape[0])
    in_range = bool(numbers.size) and np.issubdtype(numbers.dtype, np.integer)
    in_range = in_range and int(numbers.min()) == 0 and int(numbers.max()) == count - 1
    lengths = np.bincount(numbers.ravel(), minlength=count) if in_range else np.zeros(count)
    longest = stated_count(check.mechanism["steps"][0], "longest")
    check.require("bucket", in_range and bool(np.all((lengths >= 1) & (lengths <= longest))))
    check.require("bucket_counts", bool(np.array_equal(value, np.rint(value))))
    check.of(f"bucket_counts{DEVIATION}", (count,))
    check.constant(f"bucket_counts{DEVIATION}", (deviation, deviation))
    check.sums_to("counts", (value / lengths)[numbers], float(np.max(np.abs(value))))
    check.sums_to(f"counts{DEVIATION}", (deviation / lengths)[numbers])
    if check.query.get("workload"):
        if numbers.size * count > _MOST_WORK // 64:
            _unsolved(check, _LONG)
            return
        # Noise of one bucket is in all of its cells alike.
        share = np.zeros((count, numbers.size))
        share[numbers.ravel(), np.arange(numbers.size)] = deviation / lengths[numbers.ravel()]
        _answers(check, grid, _Noise(whole=share.T @ share))


def _answers(check: CheckedArrays, grid: tuple[int, ...], noise: _Noise | None) -> None:
    """Sums of cells that a workload asks for, with their errors; those that were too many are not stored."""
    table = _table(grid)
    counts = np.asarray(check.of("counts", grid)[...], np.float64).reshape(table)
    for number, (rows, columns) in enumerate(_workload(check.query.get("workload")), start=1):
        name = f"workload_{number}"
        if f"{name}_answers" not in check.arrays:
            continue
        down, across = _intervals(rows, table[0]), _intervals(columns, table[1])
        check.same_as(f"{name}_rows", down.astype(np.float64))
        check.same_as(f"{name}_columns", across.astype(np.float64))
        check.sums_to(f"{name}_answers", _summed(counts, down, across), float(np.sum(np.abs(counts))))
        if noise is None:
            check.skip(f"{name}{DEVIATION}", _MANY)
            continue
        variances = _variances(noise, table, down, across)
        if variances is None:
            check.skip(f"{name}{DEVIATION}", _LONG)
        else:
            check.sums_to(f"{name}{DEVIATION}", np.sqrt(np.maximum(variances, 0.0)))


def _variances(noise: _Noise, table: tuple[int, int], down: Intervals, across: Intervals) -> Values | None:
    if noise.variances is not None:
        return _summed(noise.variances, down, across)
    if noise.sides is not None:
        return np.outer(_of_sums(noise.sides[0], down), _of_sums(noise.sides[1], across))
    if noise.whole is None or len(down) * noise.whole.size > _MOST_WORK:
        return None
    whole = noise.whole.reshape(table * 2)
    strips = (whole[top:bottom, :, top:bottom].sum(axis=(0, 2)) for top, bottom in down.tolist())
    return np.array([_of_sums(strip, across) for strip in strips])


def _of_sums(covariance: Values, along: Intervals) -> Values:
    """Variances of sums of neighbours."""
    total = np.zeros((covariance.shape[0] + 1,) * 2)
    total[1:, 1:] = np.cumsum(np.cumsum(covariance, axis=0), axis=1)
    first, end = along[:, 0], along[:, 1]
    variances: Values = total[end, end] - total[first, end] - total[end, first] + total[first, first]
    return variances


def _summed(values: Values, down: Intervals, across: Intervals) -> Values:
    """Sums of a table within intervals of its rows and of its columns."""
    total = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    total[1:, 1:] = np.cumsum(np.cumsum(values, axis=0), axis=1)
    rows = total[down[:, 1]] - total[down[:, 0]]
    sums: Values = rows[:, across[:, 1]] - rows[:, across[:, 0]]
    return sums


def _workload(asked: Any) -> Sequence[tuple[Any, Any]]:
    """What is asked along rows and along columns by each product of a workload."""
    both: dict[str, Sequence[tuple[str, str]]] = {
        "marginals": (("cells", "total"), ("total", "cells"), ("total", "total")),
        "cells-and-total": (("cells", "cells"), ("total", "total")),
    }
    if asked is None:
        return []
    if isinstance(asked, str):
        return both.get(asked, ((asked, asked),))
    return [(product["rows"], product["columns"]) for product in asked]


def _intervals(along: Any, count: int) -> Intervals:
    index = np.arange(count, dtype=np.int64)
    match along:
        case "cells":
            return np.column_stack([index, index + 1])
        case "total":
            return np.array([[0, count]], np.int64)
        case "prefixes":
            return np.column_stack([np.zeros_like(index), index + 1])
        case "ranges":
            if count > _MOST_SOLVED:
                raise ValueError("ranges")
            low, high = np.triu_indices(count)
            return np.column_stack([low, high + 1])
    intervals = np.array(along["intervals"], np.int64).reshape(-1, 2)
    if np.any(intervals < 0) or np.any(intervals > count):
        raise ValueError("intervals")
    return intervals

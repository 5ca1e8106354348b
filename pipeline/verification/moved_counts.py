"""How far one record moves counts: of cells, of bins, of tables, of nested blocks, and of residuals of tables.

A record is in one cell, of each column or table, so adding it moves one number there by one, and replacing it two
numbers at most. Where sums of cells are measured in place of the cells, it moves one of them in each level.

**Residuals.** Measured is, for each set A of axes within a table, the product over its axes of ``n I - 11'``, times
the largest power of two with which its largest entry, a product of ``n - 1``, is at most that of any set. A record
adds a column of it, with the entry ``n - 1`` once and ``-1`` elsewhere along each axis: of squared length ``n (n - 1)``
there, times the square of the power. Columns of two cells of an axis have the product ``-n``: twice ``-(n - 1)``, and
``n - 2`` ones. So records that agree along the axes S and nowhere else are ``sum over A of 2 (prod n (n - 1) - prod (n
(n - 1) in S, -n elsewhere))`` over the squared size of the noise apart, in squares; all S are gone through where they
are not too many.

**Of histograms** ``n x - sum x`` of each column is measured, and of the k sums t of columns ``k t_c - sum t``, and
``sum t``. A value adds ``n (n - 1)``, in squares, one that leaves its bin for another ``2 n^2``; and r values, d more
on one side than on the other, ``k^2 r - k d^2`` and ``d^2``. For each r the columns that lose least by one value in
place of two are those of the worst pair, and d is the least or the largest that there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np

from blockveil.pipeline.verification.moved_strategies import Arrays, columns_of, product
from blockveil.pipeline.verification.stated_noise import replaces
from blockveil.pipeline.verification.stated_numbers import Moved, bins_by_digits, least_size, sizes, stated_count

Axes = Sequence[int]
"""Positions of axes."""

Products = tuple[int, int, int]
"""Squared lengths of two columns, and their scalar product."""

_TILE = 128
"""Columns in which measured sums are laid out, at most."""

_SIDES = "row_spread", "column_spread"

_MOST_SETS = 2**20
"""Sets of axes within all tables, each counted for each table."""

_MOST_PRODUCTS = 2**18
"""Most products that all pairs of records may need, for sets of axes."""


def cells(stated: Mapping[str, Any], arrays: Arrays, power: int) -> Moved:
    """Of counts in the cells of a grid, or of sums of blocks of them.

    Parameters
    ----------
    stated
        Attributes of the release.
    arrays
        Arrays of the release, of which those of a strategy are read.
    power
        2 for the L2 norm, 1 for the L1 norm.

    Raises
    ------
    KeyError
        A strategy is not among the arrays.
    TypeError, ValueError
        Something cannot be.
    """
    grid, mechanism = [_cells_along(axis) for axis in stated["query"]["axes"]], stated["mechanism"]
    if list(mechanism["cells"]) != grid:
        raise ValueError("cells")
    if "strategy" in mechanism:
        return _measured(grid, mechanism, arrays, power, replaces(stated))
    rows, columns = (_two_least(mechanism, key, other, math.prod(grid)) for key, other in (_SIDES, _SIDES[::-1]))
    products = sorted(row * column for row in rows for column in columns)
    # The other cell of a grid of one is no cell: the record is not counted.
    terms = products[: 2 if replaces(stated) and math.prod(grid) > 1 else 1]
    most = [products[0]] * len(terms)
    return Moved(_added(terms, power), _added(most, power))


def bins(stated: Mapping[str, Any], arrays: Arrays, power: int) -> Moved:
    """Of a histogram of each column, each with a bin beyond either end; parameters and errors as :func:`cells`."""
    if "strategy" in stated["mechanism"]:
        if power != 2:
            raise KeyError("strategy")
        return _histograms(stated["query"], stated["mechanism"], replaces(stated))
    columns = len(_sizes_of_histograms(stated["query"]))
    rows, along = sizes(stated["mechanism"], "row_spread", columns), stated["mechanism"]["column_spread"]
    along = sizes(stated["mechanism"], "column_spread", len(along) if isinstance(along, list) else 1)
    spread = [size for size in rows for _ in range(2 if replaces(stated) else 1)]
    return Moved(
        _added([size * max(along) for size in spread], power), _added([size * min(along) for size in spread], power)
    )


def tables(stated: Mapping[str, Any], arrays: Arrays, power: int) -> Moved:
    """Of marginal tables, or of what they are made of; parameters and errors as :func:`cells`."""
    query, mechanism = stated["query"], stated["mechanism"]
    along, workload = [_cells_along(axis) for axis in query["axes"]], [tuple(table) for table in mechanism["tables"]]
    if list(mechanism["cells"]) != along or not workload or workload != _asked(query, len(workload)):
        raise ValueError("tables")
    if "strategy" in mechanism:
        if power != 2:
            raise KeyError("strategy")
        return _residuals(along, workload, mechanism, arrays, replaces(stated))
    counts = [math.prod(along[axis] for axis in table) for table in workload]
    by_cell = mechanism["column_spread"]
    by_cell = sizes(mechanism, "column_spread", sum(counts)) if isinstance(by_cell, list) else None
    whole, start = least_size(mechanism, "row_spread"), 0
    least, most = [], []
    for count in counts:
        own = [least_size(mechanism, "column_spread")] if by_cell is None else by_cell[start : start + count]
        least += [whole * max(own)] * (2 if replaces(stated) else 1)
        most += [whole * min(own)] * (2 if replaces(stated) else 1)
        start += count
    return Moved(_added(least, power), _added(most, power))


def _cells_along(axis: Mapping[str, Any]) -> int:
    if axis.get("edges") is not None:
        return len(axis["edges"]) - 1
    return stated_count(axis, "cells")


def _added(found: Iterable[float], power: int) -> Fraction:
    """Squared norm of changes by one, over sizes."""
    return sum((1 / Fraction(size) ** power for size in found), Fraction(0)) ** (2 // power)


def _two_least(mechanism: Mapping[str, Any], key: str, other: str, count: int) -> list[float]:
    """Sizes of the two rows, or columns, of least noise, or of the only one."""
    if isinstance(mechanism[key], list):
        return sorted(sizes(mechanism, key, len(mechanism[key])))[:2]
    across = len(mechanism[other]) if isinstance(mechanism[other], list) else 1
    return [least_size(mechanism, key)] * (2 if count > across else 1)


def _measured(grid: Sequence[int], mechanism: Mapping[str, Any], arrays: Arrays, power: int, replaced: bool) -> Moved:
    strategy = mechanism["strategy"]
    if "blocks_by_level" in strategy:
        return _blocks(grid, mechanism, strategy, power, replaced)
    spread = [size for size, _ in _by_row(mechanism)]
    if power != 2 or len(set(spread)) != 1:
        raise KeyError("strategy")
    size = Fraction(spread[0]) * Fraction(least_size(mechanism, "column_spread"))
    return product(grid, mechanism, arrays, replaced=replaced).times(1 / size**2)


def _blocks(
    grid: Sequence[int], mechanism: Mapping[str, Any], strategy: Mapping[str, Any], power: int, replaced: bool
) -> Moved:
    shape, side = ([1, *grid] if len(grid) == 1 else grid), 1
    spread, width, noise_sizes = _by_row(mechanism), min(_TILE, math.prod(grid)), []
    for level in strategy["blocks_by_level"]:
        if list(level) != [-(-size // side) for size in shape]:
            raise ValueError("blocks_by_level")
        noise_sizes += [_taken(spread, -(-math.prod(level) // width))] * min(2 if replaced else 1, math.prod(level))
        side *= stated_count(strategy, "branching")
    sensitivity = _added([size * least_size(mechanism, "column_spread") for size in noise_sizes], power)
    return Moved(sensitivity, sensitivity)


def _residuals(
    along: Sequence[int], asked: Sequence[Axes], mechanism: Mapping[str, Any], arrays: Arrays, replaced: bool
) -> Moved:
    if sum(2 ** len(table) for table in asked) > _MOST_SETS:
        raise ValueError("tables")
    within = {axes for table in asked for k in range(len(table) + 1) for axes in combinations(table, k)}
    sets = sorted(within, key=lambda axes: (len(axes), axes))
    entries = [math.prod(along[axis] for axis in axes) for axes in sets]
    spread, width, column = _by_row(mechanism), min(_TILE, max(entries)), least_size(mechanism, "column_spread")
    factors, ordered = list[tuple[Axes, Fraction]](), _ordered(along, mechanism, arrays)
    tops = [ordered[axis][2] if axis in ordered else n - 1 for axis, n in enumerate(along)]
    highest = [math.prod(tops[axis] for axis in axes) for axes in sets]
    if min(highest) < 1:
        raise ValueError("cells")
    for axes, count, own in zip(sets, entries, highest, strict=True):
        size = Fraction(_taken(spread, -(-count // width))) * Fraction(column)
        multiple = 1 << (max(highest) // own).bit_length() - 1
        factors.append((axes, (multiple / size) ** 2))
    # Along each axis the squared length of the longest column, and the product of the two that are furthest apart.
    lengths = [ordered[axis][0] if axis in ordered else n * (n - 1) for axis, n in enumerate(along)]
    others = [ordered[axis][1] if axis in ordered else (n * (n - 1), n * (n - 1), -n) for axis, n in enumerate(along)]
    least, all_of_them = _added_up(factors, lengths), True
    if replaced:
        used = sorted({axis for table in asked for axis in table})
        all_of_them = not ordered and len(factors) << len(used) <= _MOST_PRODUCTS
        ways = range(len(used)) if len(factors) << len(used) <= _MOST_PRODUCTS else (0, 1)
        for same in chain.from_iterable(combinations(used, k) for k in ways):
            alike = [(lengths[axis],) * 3 if axis in same else others[axis] for axis in range(len(along))]
            first, second, both = (_added_up(factors, [each[k] for each in alike]) for k in range(3))
            # A record may also leave the tables, or enter them.
            least = max(least, first + second - 2 * both)
    return Moved(least, least if all_of_them else None)


def _histograms(query: Mapping[str, Any], mechanism: Mapping[str, Any], replaced: bool) -> Moved:
    bins = _sizes_of_histograms(query)
    if list(mechanism["strategy"]["bins_by_column"]) != bins:
        raise ValueError("bins_by_column")
    k, spread, column = len(bins), _by_row(mechanism), Fraction(least_size(mechanism, "column_spread"))
    rows = [_taken(spread, 1) for _ in bins]
    rows += [_taken(spread, -(-k // max(bins))), _taken(spread, 1)]
    weights = [1 / (Fraction(size) * column) ** 2 for size in rows]
    single = [n * (n - 1) * weight for n, weight in zip(bins, weights, strict=False)]
    both = [2 * n * n * weight * (replaced and n > 1) for n, weight in zip(bins, weights, strict=False)]
    within, worst = sum(both, Fraction(0)), Fraction(0)
    less = sorted(one - two for one, two in zip(single, both, strict=True))
    for r in range(k + 1):
        for d in (r % 2, r) if replaced else (r,):
            worst = max(worst, within + (k * k * r - k * d * d) * weights[-2] + d * d * weights[-1])
        within += less.pop() if less else 0
    return Moved(worst, worst)


def _sizes_of_histograms(query: Mapping[str, Any]) -> list[int]:
    """Bins of each histogram: of a column's edges and beyond either end; else of powers of two of either sign and zero,
    and of digits and zero where these are counted too.
    """
    missing, bin_counts = int(query["missing"] == "count"), list[int]()
    for feature in query["features"]:
        if feature.get("histogram") is False:
            continue
        if feature.get("edges") is not None:
            bin_counts.append(len(feature["edges"]) + 1 + missing)
            continue
        low, high = query["powers"]
        bin_counts.append(stated_count({"bins": 2 * (high - low) + 5}, "bins") + missing)
        if query.get("digits") is not None:
            bin_counts.append(bins_by_digits(query) + missing)
    return bin_counts


def _added_up(known: Sequence[tuple[Axes, Fraction]], factors: Sequence[int]) -> Fraction:
    """Weights of all sets of axes, each times the factors of its axes."""
    return sum((weight * math.prod(factors[axis] for axis in axes) for axes, weight in known), Fraction(0))


def _ordered(
    along: Sequence[int], mechanism: Mapping[str, Any], arrays: Arrays
) -> dict[int, tuple[int, Products, int]]:
    """Of each ordered axis the longest column's squared length, the furthest two columns, and the largest entry."""
    by_axis = dict[int, tuple[int, Products, int]]()
    for strategy in mechanism["strategy"].get("ordered", ()):
        axis = stated_count({"axis": strategy["axis"] + 1}, "axis") - 1
        name, unit = f"axis_{axis + 1}_strategy", stated_count(strategy, "unit")
        gram = columns_of(arrays, name, unit, strategy["sha256"])
        if axis >= len(along) or gram.shape != (along[axis], along[axis]):
            raise ValueError("axis")
        own = np.diagonal(gram)
        first, second = divmod(int(np.argmax(own[:, None] + own[None, :] - 2.0 * gram)), along[axis])
        largest = int(np.max(np.abs(arrays[name][...])) * unit)
        by_axis[axis] = int(np.max(own)), (int(own[first]), int(own[second]), int(gram[first, second])), largest
    if sorted(by_axis) != sorted(mechanism.get("ordered", ())):
        raise ValueError("ordered")
    return by_axis


def _by_row(mechanism: Mapping[str, Any]) -> list[tuple[float, int]]:
    """Sizes of the noise by row and how often each follows itself, the last one first."""
    runs = [(size, stated_count({"rows": count}, "rows")) for size, count in mechanism["row_spread"]]
    noise_sizes = sizes({"row_spread": [size for size, _ in runs]}, "row_spread", len(runs))
    return list(reversed(list(zip(noise_sizes, (count for _, count in runs), strict=True))))


def _taken(spread: list[tuple[float, int]], rows: int) -> float:
    """Size of the noise of the next rows, all of one size, which are taken away."""
    if not spread or spread[-1][1] < rows:
        raise ValueError("row_spread")
    size, repeats = spread.pop()
    if repeats > rows:
        spread.append((size, repeats - rows))
    return size


def _asked(query: Mapping[str, Any], tables: int) -> list[tuple[int, ...]]:
    """Axes of each of so many tables."""
    names = [axis["name"] for axis in query["axes"]]
    if query.get("tables") is None:
        ways = stated_count(query, "ways")
        return list(combinations(range(len(names)), ways)) if math.comb(len(names), ways) == tables else []
    return [tuple(sorted(names.index(name) for name in table)) for table in query["tables"]]

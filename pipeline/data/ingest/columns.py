"""From a batch of the source to rows of the store: each column encoded by its declaration, each row by itself.

Whether a row is dropped, and what it becomes, is a function of that row and of the config alone. So one record more or
less in the source is one row more or less here, and batches do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.public_features import FourierFeatures, OrientedGradients
from blockveil.pipeline.config.ingest_columns import (
    BinsColumn,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
)
from blockveil.pipeline.config.ingest_file import AggregatedRows, IngestConfig
from blockveil.pipeline.config.map_columns import CrossColumn, FourierColumn, GradientsColumn, OnnxColumn
from blockveil.pipeline.data.ingest.batches import ABSENT, UNKNOWN, Batch
from blockveil.pipeline.data.ingest.column_faults import Unfit
from blockveil.pipeline.data.ingest.networks import Network, networks

Flags = NDArray[np.bool_]
Rows = NDArray[Any]

_EXACT = {np.dtype(np.float32): 2**24, np.dtype(np.float64): 2**53}
"""Largest whole number below which all are held exactly."""


class Encoder:
    """Encodes batches.

    Raises
    ------
    ConfigError, MissingExtra
        As :class:`.networks.Network`.
    """

    def __init__(self, config: IngestConfig, folder: Path) -> None:
        # Rows that are still to be added up are kept in float64.
        aggregated = isinstance(config.unit, AggregatedRows)
        self.dtype = np.dtype(np.float64 if aggregated else config.ingest.dtype)
        self.width = len(config.outputs)
        self._columns = config.columns
        self._networks = networks(config, folder)
        self.matched: set[str] = set()
        """Columns of categories of which a value was in the list so far."""

    def encode(self, batch: Batch) -> tuple[Rows, Flags | None]:
        """Rows of the store and which of them to keep (None: all).

        Raises Unfit where a column does not hold what is declared, or holds what is to be refused.

        Returns
        -------
        Shape (rows, columns of the store) in C order, and shape (rows,).
        """
        rows = np.empty((batch.rows, self.width), self.dtype)
        dropped: Flags | None = None
        start = 0
        for column in self._columns:
            stop = start + len(column.outputs)
            gone = _encode(column, batch, rows[:, start:stop], self._networks)
            if isinstance(column, CategoryColumn) and column.name not in self.matched and _matched(column, batch):
                self.matched.add(column.name)
            if gone is not None:
                dropped = _either(dropped, gone)
            start = stop
        rows += 0  # equal values have equal bits: below zero by a sign alone is zero
        return rows, None if dropped is None else ~dropped


def _matched(column: CategoryColumn, batch: Batch) -> bool:
    """Whether a value of the batch is in the declared list."""
    return bool((batch.codes(column.name, column.categories) >= 0).any())


def _encode(column: Column, batch: Batch, out: Rows, made: Mapping[str, Network]) -> Flags | None:
    """Fill the columns of one declaration; return which rows to drop."""
    match column:
        case NumberColumn():
            return _numbers(column, batch, out)
        case IntegerColumn():
            return _whole(column, batch.whole, out)
        case BooleanColumn():
            return _whole(column, batch.flags, out)
        case CategoryColumn():
            return _categories(column, batch, out)
        case BinsColumn():
            return _bins(column, batch, out)
        case DateColumn():
            return _dates(column, batch, out)
    return _crossed(column, batch, out) if isinstance(column, CrossColumn) else _mapped(column, batch, out, made)


def _numbers(column: NumberColumn, batch: Batch, out: Rows) -> Flags | None:
    names = column.inputs
    values = batch.numbers(names)
    with np.errstate(over="ignore"):
        out[...] = values
    if np.isfinite(out).all():
        return None
    missing = np.logical_not(np.isfinite(values))
    _refuse(
        names,
        ~np.isfinite(out) & ~missing,
        f"holds a number beyond {out.dtype}",
        "The store's type must hold every number; choose float64",
    )
    return _settle(column.missing, names, missing, out, "holds a missing or infinite value")


def _whole(
    column: IntegerColumn | BooleanColumn, read: Callable[..., tuple[NDArray[np.int64], Flags | None]], out: Rows
) -> Flags | None:
    names = column.inputs
    values, missing = read(names)
    _check_exact(names, values, out.dtype)
    out[...] = values
    if missing is None:
        return None
    constant = column.missing
    if not isinstance(constant, str):
        _check_exact(names[:1], np.array([[int(constant)]], np.int64), out.dtype)
    return _settle(constant, names, missing, out, "holds a missing value")


def _check_exact(names: tuple[str, ...], values: NDArray[np.int64], dtype: np.dtype[Any]) -> None:
    if dtype.kind == "f":
        low, high = -_EXACT[dtype], _EXACT[dtype]
        rule = f"The store's type must hold every whole number exactly; {dtype} does up to {high}"
    else:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        rule = f"The store's type must hold every whole number; {dtype} ends at {high}"
    if values.size and not (low <= int(values.min()) and int(values.max()) <= high):
        _refuse(names, (values < low) | (values > high), f"holds a whole number beyond {dtype}", rule)


def _categories(column: CategoryColumn, batch: Batch, out: Rows) -> Flags | None:
    codes = batch.codes(column.name, column.categories)
    dropped: Flags | None = None
    absent = codes == ABSENT
    if column.missing == "unknown":
        codes[absent] = UNKNOWN
    elif absent.any():
        dropped = _settle(column.missing, (column.name,), absent[:, None], None, "holds a missing value")
    unknown = codes == UNKNOWN
    if unknown.any():
        if column.unknown == "other":
            codes[unknown] = len(column.categories)
        elif column.unknown != "zeros":
            problem = "holds a category that is not in the list"
            gone = _settle(column.unknown, (column.name,), unknown[:, None], None, problem)
            dropped = _either(dropped, gone)
    _place(column, codes, out)
    return dropped


def _bins(column: BinsColumn, batch: Batch, out: Rows) -> Flags | None:
    values = batch.numbers([column.name])[:, 0].astype(np.float64)
    name, edges = (column.name,), np.array(column.edges)
    dropped: Flags | None = None
    missing = np.isnan(values)
    if missing.any():
        dropped = _settle(column.missing, name, missing[:, None], values[:, None], "holds a missing value")
        values = np.where(np.isnan(values), edges[0], values)  # of dropped rows; any bin will do
    outside = (values < edges[0]) | (values > edges[-1])
    if column.outside != "clip" and outside.any():
        gone = _settle(column.outside, name, outside[:, None], None, "holds a number beyond the edges")
        dropped = _either(dropped, gone)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
    _place(column, bins, out)
    return dropped


def _dates(column: DateColumn, batch: Batch, out: Rows) -> Flags | None:
    days, missing = batch.days(column.name)
    dropped: Flags | None = None
    if missing is not None:
        dropped = _settle(column.missing, (column.name,), missing[:, None], None, "holds a missing value")
    if column.since is not None:
        day_numbers = days - np.datetime64(column.since, "D").astype(np.int64)
        if missing is not None:
            day_numbers[missing] = 0  # of dropped rows; any number will do
        _check_exact((column.name,), day_numbers[:, None], out.dtype)
        out[:, 0] = day_numbers
    elif column.extract == "weekday":
        _place(column, (days + _FIRST_WEEKDAY) % 7, out)
    else:
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        _place(column, months % 12, out)
    return dropped


def _crossed(column: CrossColumn, batch: Batch, out: Rows) -> Flags | None:
    cells, valid = np.zeros(batch.rows, np.int64), np.ones(batch.rows, np.bool_)
    dropped: Flags | None = None
    for each in column.columns:
        codes = batch.codes(each.name, each.categories)
        absent = codes == ABSENT
        if absent.any():
            gone = _settle(column.missing, (each.name,), absent[:, None], None, "holds a missing value")
            dropped = _either(dropped, gone)
        valid &= codes >= 0
        cells = cells * len(each.categories) + codes
    out[...] = 0
    which = np.flatnonzero(valid)
    out[which, cells[which]] = 1
    return dropped


def _taken(column: FourierColumn | GradientsColumn | OnnxColumn, batch: Batch) -> tuple[Rows, Flags | None]:
    """What a map takes, shape (rows, inputs) in float64, and which rows to drop."""
    values = batch.numbers(column.inputs).astype(np.float64)
    missing = ~np.isfinite(values)
    if not missing.any():
        return values, None
    dropped = _settle(column.missing, column.inputs, missing, None, "holds a missing or infinite value")
    return np.where(missing, 0.0, values), dropped  # of dropped rows; any number will do


def _mapped(
    column: FourierColumn | GradientsColumn | OnnxColumn, batch: Batch, out: Rows, networks: Mapping[str, Network]
) -> Flags | None:
    values, dropped = _taken(column, batch)
    feature_map = networks[column.name] if isinstance(column, OnnxColumn) else _map_of(column)
    # The features of a record are a function of it alone, so that pieces change nothing.
    piece = max(1, _PIECE // (values.shape[1] * getattr(column, "directions", 1) + out.shape[1]))
    for start in range(0, batch.rows, piece):
        out[start : start + piece] = feature_map.of(values[start : start + piece])
    if not isinstance(column, OnnxColumn):
        return dropped
    lacking: Flags = np.logical_not(np.isfinite(out).all(axis=1))  # where the network gave no number
    if dropped is not None:
        lacking &= np.logical_not(dropped)
    if lacking.any():
        gone = _settle(column.missing, (column.name,), lacking[:, None], None, "has features that are no numbers")
        dropped = _either(dropped, gone)
    return dropped


@lru_cache(maxsize=16)
def _map_of(column: FourierColumn | GradientsColumn) -> FourierFeatures | OrientedGradients:
    """The map of a declaration, made once."""
    if isinstance(column, GradientsColumn):
        return OrientedGradients(column.height, column.width, column.cell, column.orientations, column.contrast)
    lower = tuple(float(each.lower) for each in column.columns for _ in each.names)
    upper = tuple(float(each.upper) for each in column.columns for _ in each.names)
    return FourierFeatures(lower, upper, column.features, column.bandwidth, column.seed)


_PIECE = 2**21
"""Numbers of a map in memory at once."""

_FIRST_WEEKDAY = 3
"""Code of the weekday of 1970-01-01, a Thursday."""


def _place(column: CategoryColumn | BinsColumn | DateColumn, codes: NDArray[Any], out: Rows) -> None:
    if column.encode == "code":
        _check_exact((column.name,), np.array([[int(codes.max(initial=0))]], np.int64), out.dtype)
        out[:, 0] = codes
        return
    out[...] = 0
    rows = np.flatnonzero(codes >= 0)
    out[rows, codes[rows]] = 1


def _settle(policy: Any, names: tuple[str, ...], found: Flags, out: Rows | None, problem: str) -> Flags | None:
    """Refuse, drop or replace by a constant what was found; shape (rows, columns of the source)."""
    if policy == "refuse":
        _refuse(names, found, problem, 'Its policy is "refuse"')
    if policy == "drop":
        gone: Flags = np.asarray(found.any(axis=1))
        return gone
    if out is not None:
        out[found] = policy
    return None


def _refuse(names: tuple[str, ...], found: Flags, problem: str, rule: str) -> None:
    columns = found.any(axis=0)
    if columns.any():
        raise Unfit(names[int(np.argmax(columns))], problem, rule)


def _either(one: Flags | None, other: Flags | None) -> Flags | None:
    if one is None or other is None:
        return other if one is None else one
    return np.logical_or(one, other)

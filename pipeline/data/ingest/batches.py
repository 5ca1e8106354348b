"""A batch of rows of a source, as columns of one of a few kinds, whatever format it comes from.

An error here names what is expected of a column and never a value: :class:`.Unfit` is turned into a message with file
and column by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from blockveil.pipeline.base.spelling import REMEDIES, RULES, PartType, UnitType, is_canonical
from blockveil.pipeline.data.ingest.column_faults import Unfit
from blockveil.pipeline.data.ingest.identifiers import canonical, is_text, type_name, whole_floats

_DIVIDED = "Records are divided by a column of its declared type: text, whole numbers or dates"

_WORD = 8  # bytes

UNKNOWN, ABSENT = -1, -2
"""Codes of a category that is not in the list, and of a missing value."""

Floats = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Batch(Protocol):
    """Adjacent rows of one file."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def numbers(self, names: Sequence[str]) -> Floats:
        """Shape (rows, columns), float32 or float64; NaN stands for a missing value."""

    def whole(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """Shape (rows, columns) and where values are missing, if any are."""

    def flags(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """The same as :meth:`whole`, for 0 and 1 alone."""

    def codes(self, name: str, categories: Sequence[str] | Sequence[int]) -> Whole:
        """Shape (rows,): position in the list, UNKNOWN or ABSENT."""

    def days(self, name: str) -> tuple[Whole, Flags | None]:
        """Days since 1970-01-01, shape (rows,), and where dates are missing, if any are; shape (rows,)."""

    def identifiers(self, name: str, kind: UnitType) -> pa.Array:
        """Identifiers of units in their one form (:mod:`.identifiers`); null for a missing one."""

    def spellings(self, name: str, kind: PartType) -> pa.Array:
        """The one spelling of each value of a type, as text; null if missing."""

    def taken(self, keep: Flags) -> Batch:
        """Some of the rows."""


class TableBatch:
    """Rows of a table with named columns."""

    def __init__(self, columns: Mapping[str, pa.Array], rows: int) -> None:
        self._columns, self.rows = columns, rows

    def numbers(self, names: Sequence[str]) -> Floats:
        """See :class:`Batch`."""
        columns = [self._number(name) for name in names]
        single = all(column.dtype == np.float32 for column in columns)
        matrix = np.empty((self.rows, len(names)), np.float32 if single else np.float64)
        for position, column in enumerate(columns):
            matrix[:, position] = column
        return matrix

    def whole(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`."""
        return self._integers(names, self._integer)

    def flags(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`."""
        values, missing = self._integers(names, self._flag)
        return _checked_flags(names, values), missing

    def codes(self, name: str, categories: Sequence[str] | Sequence[int]) -> Whole:
        """See :class:`Batch`."""
        column = self._decoded(name)
        textual = isinstance(categories[0], str)
        if textual:
            if not is_text(column.type):
                raise Unfit(name, f"is of type {type_name(column.type)}", "Categories of text need a column of text")
            column = column.cast(pa.large_string())
        else:
            column = self._integer(name, column)
        value_set = pa.array(categories, pa.large_string() if textual else pa.int64())
        indices = pc.index_in(column, value_set=value_set).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
        codes: Whole = indices.astype(np.int64)
        if column.null_count:
            codes[_nulls(column)] = ABSENT
        return codes

    def days(self, name: str) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`."""
        days, missing = self._integers([name], self._days)
        return days[:, 0], None if missing is None else missing[:, 0]

    def identifiers(self, name: str, kind: UnitType) -> pa.Array:
        """See :class:`Batch`."""
        return canonical(name, self._columns[name], kind)

    def spellings(self, name: str, kind: PartType) -> pa.Array:
        """See :class:`Batch`."""
        column = self._decoded(name)
        if is_text(column.type):
            texts = column.cast(pa.large_string())
            if not all(is_canonical(text, kind) for text in pc.drop_null(pc.unique(texts)).to_pylist()):
                raise Unfit(name, f'holds another spelling than that of type "{kind}"', RULES[kind], REMEDIES[kind])
            return texts
        if kind == "whole":
            column = self._integer(name, column, _DIVIDED)
        elif kind == "text" or not pa.types.is_date32(column.type):
            raise Unfit(name, f'is of type {type_name(column.type)}, declared "{kind}"', _DIVIDED)
        else:
            column = _calendar_days(name, column).cast(pa.int32()).cast(pa.date32())
        return column.cast(pa.large_string())

    def taken(self, keep: Flags) -> TableBatch:
        """See :class:`Batch`."""
        mask = pa.array(keep)
        return TableBatch({name: column.filter(mask) for name, column in self._columns.items()}, int(keep.sum()))

    def _decoded(self, name: str) -> pa.Array:
        column = self._columns[name]
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def _number(self, name: str) -> NDArray[Any]:
        column = self._columns[name]
        kind = column.type
        real = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if not (real or pa.types.is_null(kind)):
            raise Unfit(name, f"is of type {type_name(kind)}", "A number needs a column of whole or real numbers")
        if pa.types.is_decimal(kind):
            column = column.cast(pa.string())  # read as a text it is rounded once, as elsewhere
        if not pa.types.is_float32(kind):
            # Not "safe": a whole number beyond 2^53 is rounded to the nearest float64, as any real number is.
            column = pc.cast(column, pa.float64(), safe=False)
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers

    def _integer(self, name: str, column: pa.Array | None = None, rule: str = "") -> pa.Array:
        column = self._columns[name] if column is None else column
        kind = column.type
        if pa.types.is_floating(kind) and not rule:
            return whole_floats(name, column)
        if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
            raise Unfit(name, f"is of type {type_name(kind)}", rule or "Whole numbers need a column of whole numbers")
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            pass
        problem = "holds a number that is not whole, or is beyond 64 bits"
        raise Unfit(name, problem, "Whole numbers lie between -2^63 and 2^63 - 1")

    def _flag(self, name: str) -> pa.Array:
        column = self._columns[name]
        return column.cast(pa.int64()) if pa.types.is_boolean(column.type) else self._integer(name)

    def _days(self, name: str) -> pa.Array:
        column = self._decoded(name)
        kind = column.type
        if is_text(kind):
            return _written_days(name, column.cast(pa.large_string()))
        # The day of a moment depends on the zone in which it is asked for.
        if not pa.types.is_date(kind) and not (pa.types.is_timestamp(kind) and kind.tz is None):
            raise Unfit(name, f"is of type {type_name(kind)}", _DATED)
        return _calendar_days(name, column)

    def _integers(self, names: Sequence[str], read: Any) -> tuple[Whole, Flags | None]:
        integers = np.empty((self.rows, len(names)), np.int64)
        missing: Flags | None = None
        for position, name in enumerate(names):
            column = read(name)
            if column.null_count:
                missing = np.zeros(integers.shape, np.bool_) if missing is None else missing
                missing[:, position] = _nulls(column)
                column = column.fill_null(0)
            integers[:, position] = column.to_numpy(zero_copy_only=False)
        return integers, missing


class MatrixBatch:
    """Rows of arrays put side by side.

    Parts are of shape (rows, columns); places are the positions of columns in the whole row.
    """

    def __init__(self, parts: Sequence[NDArray[Any]], places: Mapping[str, int]) -> None:
        self._parts, self._places = [_native(part) for part in parts], places
        self._starts = np.cumsum([0, *(part.shape[1] for part in parts)])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self._parts[0].shape[0])

    def numbers(self, names: Sequence[str]) -> Floats:
        """See :class:`Batch`."""
        values = self._values(names)
        if values.dtype.kind not in "iuf":
            raise Unfit(names[0], f"is of type {values.dtype}", "A number needs an array of whole or real numbers")
        return values.astype(np.float32 if values.dtype == np.float32 else np.float64, copy=False)

    def whole(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`; floats that are whole numbers are taken too, NaN stands for a missing value."""
        return self._integers(names, "Whole numbers need an array of whole numbers")

    def flags(self, names: Sequence[str]) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`."""
        values, missing = self._integers(names, "A boolean needs an array of booleans, or of 0 and 1", "b")
        return _checked_flags(names, values), missing

    def codes(self, name: str, categories: Sequence[str] | Sequence[int]) -> Whole:
        """See :class:`Batch`."""
        values = self._values([name])
        textual = isinstance(categories[0], str)
        if textual != (values.dtype.kind in "UT"):
            raise Unfit(name, f"is of type {values.dtype}", "Categories and column must both be text or whole numbers")
        if textual:
            table = TableBatch({name: pa.array(values[:, 0].tolist(), pa.large_string())}, self.rows)
            return table.codes(name, categories)
        whole, missing = self.whole([name])
        codes = TableBatch({name: pa.array(whole[:, 0])}, self.rows).codes(name, categories)
        if missing is not None:
            codes[missing[:, 0]] = ABSENT
        return codes

    def days(self, name: str) -> tuple[Whole, Flags | None]:
        """See :class:`Batch`; arrays hold dates as text."""
        values = self._values([name])
        if values.dtype.kind not in "UT":
            raise Unfit(name, f"is of type {values.dtype}", _DATED)
        return TableBatch({name: pa.array(values[:, 0].tolist(), pa.large_string())}, self.rows).days(name)

    def identifiers(self, name: str, kind: UnitType) -> pa.Array:
        """See :class:`Batch`."""
        values = self._values([name])[:, 0]
        if values.dtype.kind in "UT":
            return canonical(name, pa.array(values.tolist(), pa.large_string()), kind)
        if values.dtype.itemsize > _WORD:
            raise Unfit(name, f"is of type {values.dtype}", "Units are texts, or numbers of at most 64 bits")
        return canonical(name, pa.array(values), kind)

    def spellings(self, name: str, kind: PartType) -> pa.Array:
        """See :class:`Batch`; floats stand for the whole numbers that they hold exactly."""
        values = self._values([name])
        if values.dtype.kind == "f":
            # Beyond, two whole numbers of another file are one float here: a record would have two spellings.
            most = 2.0 ** (np.finfo(values.dtype).nmant + 1)
            exact = np.all(np.isnan(values) | (np.abs(values) < most), axis=0)
            problem = f"holds a number that {values.dtype} does not hold exactly"
            _check_all(exact, [name], problem, f"Whole numbers in such an array lie between -{most:.0f} and {most:.0f}")
        if values.dtype.kind in "UT":
            texts = pa.array(values[:, 0].tolist(), pa.large_string())
            return TableBatch({name: texts}, self.rows).spellings(name, kind)
        whole, missing = self._integers([name], _DIVIDED)
        column = pa.array(whole[:, 0], mask=None if missing is None else missing[:, 0])
        return TableBatch({name: column}, self.rows).spellings(name, kind)

    def taken(self, keep: Flags) -> MatrixBatch:
        """See :class:`Batch`."""
        return MatrixBatch([part[keep] for part in self._parts], self._places)

    def _values(self, names: Sequence[str]) -> NDArray[Any]:
        """Columns by name: a view where they are adjacent in one array."""
        places = np.array([self._places[name] for name in names])
        first, last = int(places[0]), int(places[-1])
        part = int(np.searchsorted(self._starts, first, side="right")) - 1
        start = int(self._starts[part])
        if last < int(self._starts[part + 1]) and np.array_equal(places, np.arange(first, first + places.size)):
            return self._parts[part][:, first - start : last - start + 1]
        return np.concatenate([self._values([name]) for name in names], axis=1)

    def _integers(self, names: Sequence[str], rule: str, also: str = "") -> tuple[Whole, Flags | None]:
        values = self._values(names)
        if values.dtype.kind not in "iuf" + also:
            raise Unfit(names[0], f"is of type {values.dtype}", rule)
        missing: Flags | None = None
        if values.dtype.kind == "f":
            gone = np.isnan(values)
            if gone.any():
                missing, values = gone, np.where(gone, 0.0, values)
            fits = np.all((values == np.rint(values)) & (np.abs(values) < np.float64(2.0**63)), axis=0)
            _check_all(fits, names, "holds a number that is not whole", rule)
        elif values.dtype == np.uint64:
            fits = np.all(values < np.uint64(2**63), axis=0)
            _check_all(fits, names, "holds a number beyond 64 bits", "Whole numbers lie between -2^63 and 2^63 - 1")
        whole: Whole = values.astype(np.int64)
        return whole, missing


def _native(part: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in this machine's order of bytes: Arrow knows no other, and it is part of a type's equality."""
    return part if part.dtype.isnative else part.astype(part.dtype.newbyteorder("="))


def having(batch: Batch, name: str, text: str, kind: PartType) -> Flags:
    """Which rows have a value of that spelling in a column: a function of each row by itself; shape (rows,)."""
    mask: Flags = pc.fill_null(pc.equal(batch.spellings(name, kind), text), False).to_numpy(zero_copy_only=False)
    return mask


def _check_all(fits: NDArray[np.bool_], names: Sequence[str], problem: str, rule: str) -> None:
    if not fits.all():
        raise Unfit(names[int(np.argmin(fits))], problem, rule)


def _checked_flags(names: Sequence[str], values: Whole) -> Whole:
    fits = np.all((values == 0) | (values == 1), axis=0)
    _check_all(fits, names, "holds a number other than 0 and 1", "A boolean is true or false, or 1 or 0")
    return values


_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of a time in a second."""

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH

_DATED = "A date needs a column of dates, of times without a time zone, or of texts such as 2026-11-20"
_WRITTEN = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,9})?)?)?$"


def _written_days(name: str, column: pa.Array) -> pa.Array:
    """Days since 1970-01-01 of dates as text, also where a time of the day follows; null for a missing one."""
    if pc.all(pc.match_substring_regex(column, _WRITTEN)).as_py() is not False:
        try:
            return _checked_days(name, pc.utf8_slice_codeunits(column, 0, 10).cast(pa.date32()).cast(pa.int32()))
        except pa.ArrowInvalid:
            pass
    # Raised outside the handler: the text of what was caught quotes the value.
    raise Unfit(name, "holds a text that is not a date", _DATED)


def _calendar_days(name: str, column: pa.Array) -> pa.Array:
    """Days since 1970-01-01 of dates and of times without a zone; null for a missing or an infinite one."""
    kind = column.type
    date32 = pa.types.is_date32(kind)
    raw = column.cast(pa.int32()).cast(pa.int64()) if date32 else column.cast(pa.int64())
    end = 2**31 - 1 if date32 else 2**63 - 1  # how databases write that a date is infinite
    raw = pc.if_else(pc.or_(pc.greater_equal(raw, end), pc.less_equal(raw, -end)), pa.scalar(None, pa.int64()), raw)
    unit = 1 if date32 else 86_400 * _UNITS["ms" if pa.types.is_date64(kind) else kind.unit]
    days = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False) // unit
    return _checked_days(name, pa.array(days, mask=_nulls(raw)))


def _checked_days(name: str, days: pa.Array) -> pa.Array:
    if pc.any(pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))).as_py():
        raise Unfit(name, "holds a date beyond the years 1 to 9999", "Dates are those of the calendar of programs")
    return days


def _nulls(column: pa.Array) -> Flags:
    mask: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return mask

"""Types of databases that a driver gives as another one: corrected where that is exact, else refused by their own name.

An amount of money comes as a count of cents, an object identifier as a signed integer, and an integer of 128 bits
without a sign as minus one. What a column of such a type is called stays with it, so that no kind of column takes it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_DUCKDB_REFUSED = frozenset({"UHUGEINT", "JSON", "TIME WITH TIME ZONE"})

_POSTGRES_INTEGERS = frozenset({"int2", "int4", "int8"})

_POSTGRES_EPOCH_DAYS = 10_957
"""Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts and which its driver adds, also to infinity."""


def of_duckdb(column: pa.Array, kind: str) -> pa.Array:
    """A column of a result of DuckDB."""
    return _named(column, kind) if kind in _DUCKDB_REFUSED else column


def of_postgres(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column of a result of PostgreSQL."""
    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if pa.types.is_integer(column.type) and kind not in _POSTGRES_INTEGERS:
        return _named(column, kind)
    if kind == "bpchar":  # char(n) is padded with blanks, which mean nothing there
        return pc.utf8_rtrim(column.cast(pa.string()), " ")
    if isinstance(column.type, pa.OpaqueType) and column.type.type_name == "numeric":
        return _floats(column.storage)
    return _without_infinity(column)


def _named(column: pa.Array, kind: str) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.opaque(column.type, kind, "database"), column)


def _floats(texts: pa.Array) -> pa.Array:
    """Decimals of any length, which come as texts, as float64; what is beyond that is refused as a type of its own."""
    floats = pc.cast(texts, pa.float64())
    beyond = pc.and_(pc.is_inf(floats), pc.invert(pc.match_substring(texts, "inf", ignore_case=True)))
    return _named(texts, "numeric with a number beyond float64") if pc.any(beyond).as_py() else floats


def _without_infinity(column: pa.Array) -> pa.Array:
    """Null where the driver has moved an infinite date or time by the years between the epochs, beyond its type."""
    if pa.types.is_date32(column.type):
        raw, shift = column.cast(pa.int32()), _POSTGRES_EPOCH_DAYS
    elif pa.types.is_timestamp(column.type):
        raw, shift = column.cast(pa.int64()), _POSTGRES_EPOCH_DAYS * 86_400_000_000
    else:
        return column
    half = 2 ** (raw.type.bit_width - 1)
    moved_ends = [shift - half, shift - 1 - half]  # the largest number wraps to the smallest ones
    infinite = pc.is_in(raw, pa.array(moved_ends, raw.type))
    return pc.if_else(infinite, pa.scalar(None, column.type), column)

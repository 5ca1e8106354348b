"""Rows of a table that come late: those that it has now and that are not stored, whatever their date.

Rows are compared by what is read of them, all columns of the config together with that of the unit, by digests of 128
bits. How often each is in the table decides, not where it stands.

**Claim.** Let T_k be the rows of the dates that are over at the k-th append, each as often as the table has it then. As
long as no append is refused, the first k appends have taken in T_k, each row once. If two histories of the table differ
by rows of one unit, then what each append takes in differs by rows of that unit alone; if they differ by one row that
was written and then stayed, and each row is a unit, by that row in one append alone.

**Proof.** The k-th append is refused unless T_(k-1) is in T_k, and else takes in what is in T_k beyond it: so by
induction T_k. Of a row r it takes in as many as there are more of it than before, ``T_k(r) - T_(k-1)(r)``, which is a
function of how often r was in the table, and of nothing else. A row holds its unit, so these are the same for all rows
of other units. A row that stays moves ``T_k(r)`` by one from some k on, and so one of these differences. Which of
several equal rows is taken changes nothing. QED.

Two different rows count as one if their digests agree: of n rows some two do with a probability below ``n^2 / 2^129``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from blockveil.pipeline.data.ingest.units import DIGEST, Digests

Blocks = NDArray[np.uint64]
"""Sixteen bytes for each value of a column, shape (rows, 2)."""

_MISSING, _WHOLE, _REAL, _DATE, _TIME, _OTHER = range(6)
_LARGEST_WHOLE = 2.0**62


def digests_of(batch: pa.RecordBatch) -> Digests:
    """Digest of each row of a batch, shape (rows,): of all its columns, in their order."""
    if not batch.num_rows:
        return np.empty(0, DIGEST)
    content = np.concatenate([_blocks(column) for column in batch.columns], axis=1).tobytes()
    width = len(content) // batch.num_rows
    digests = b"".join(
        hashlib.blake2b(content[start : start + width], digest_size=16, person=b"blockveil row 1").digest()
        for start in range(0, len(content), width)
    )
    return np.frombuffer(digests, DIGEST)


def _blocks(column: pa.Array) -> Blocks:
    """What a value is, and of which kind; a whole number is the same as an integer and as a float."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind, blocks = column.type, np.zeros((len(column), 2), np.uint64)
    if pa.types.is_null(kind):
        return blocks
    if pa.types.is_floating(kind):
        _put_real(blocks, column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        whole = column.cast(pa.int64(), safe=False).fill_null(0)
        # Beyond 63 bits a number without a sign has the bits of one below zero.
        blocks[:, 0] = whole.to_numpy(zero_copy_only=False).view(np.uint64)
        blocks[:, 1] = _OTHER if pa.types.is_uint64(kind) else _WHOLE
    elif pa.types.is_date(kind):
        days = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        blocks[:, 0], blocks[:, 1] = days.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64), _DATE
    elif pa.types.is_timestamp(kind):
        unit = ("s", "ms", "us", "ns").index(kind.unit)
        blocks[:, 0] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        blocks[:, 1] = _TIME + 16 * unit
    else:
        _put_text(blocks, column)
    blocks[column.is_null().to_numpy(zero_copy_only=False)] = (0, _MISSING)
    return blocks


def _put_real(blocks: Blocks, values: NDArray[np.float64]) -> None:
    with np.errstate(invalid="ignore"):
        whole = (np.abs(values) < _LARGEST_WHOLE) & (values == np.rint(values))
    blocks[:, 0] = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    blocks[:, 1] = _REAL
    blocks[whole, 0] = values[whole].astype(np.int64).view(np.uint64)
    blocks[whole, 1] = _WHOLE


def _put_text(blocks: Blocks, column: pa.Array) -> None:
    """Digests of texts; of what is no text, and is refused as it is encoded, of its spelling."""
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    values = (
        column if text else pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())
    )
    encoded = values.fill_null("").dictionary_encode()
    table = [hashlib.blake2b(one.encode(), digest_size=16).digest() for one in encoded.dictionary.to_pylist()]
    if table:
        digests = np.frombuffer(b"".join(table), np.uint64).reshape(-1, 2)
        blocks[:] = digests[encoded.indices.to_numpy(zero_copy_only=False)]


class Unseen:
    """Which rows are not stored yet, row after row in the order of the table."""

    def __init__(self, stored: Digests) -> None:
        self._known, self._left = np.unique(stored, return_counts=True)

    def of(self, digests: Digests) -> NDArray[np.bool_]:
        """Whether each of the next rows is not stored, shape (rows,)."""
        values, which, counts = np.unique(digests, return_inverse=True, return_counts=True)
        place, there = _places(self._known, values)
        stored = np.where(there, self._left[place], 0) if self._known.size else np.zeros(values.size, np.int64)
        order, starts = np.argsort(which, kind="stable"), np.cumsum(counts) - counts
        number = np.empty(digests.size, np.int64)
        number[order] = np.arange(digests.size) - np.repeat(starts, counts)
        self._left[place[there]] -= np.minimum(stored, counts)[there]
        return np.asarray(number >= stored[which])


def among(stored: Digests, rows: Digests) -> Digests:
    """Those of some rows that are among others, each as often as in both; in order."""
    values, counts = np.unique(stored, return_counts=True)
    others, numbers = np.unique(rows, return_counts=True)
    place, there = _places(others, values)
    both = np.where(there, np.minimum(counts, numbers[place]), 0) if others.size else np.zeros_like(counts)
    common: Digests = np.repeat(values, both)
    return common


def _places(known: Digests, wanted: Digests) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where values are in an ordered array, and whether they are."""
    place = np.minimum(np.searchsorted(known, wanted), max(known.size - 1, 0))
    there = known[place] == wanted if known.size else np.zeros(wanted.size, np.bool_)
    return place, there


def joined(parts: Sequence[Digests]) -> Digests:
    """Digests of several batches, in order."""
    return np.sort(np.concatenate([np.empty(0, DIGEST), *parts]))

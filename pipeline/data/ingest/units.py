"""Bounded contribution of a unit: at most k of its rows, or one record of all of them.

**Claim.** Let a source be a multiset of rows, each of which belongs to one unit or is dropped by a rule on the row
alone. A neighbour differs by all rows of one unit u: under add-remove they are there or not, under replace-one u has
other rows. Then the stores differ by rows of u alone: by at most k rows, or by one record.

**Proof.** What is stored for a unit v is a function of v's identifier, of the seed and of the *multiset* of v's rows:
they are sorted by content, equal rows are numbered 0, 1, ..., and the k rows of the smallest ``F(v, content, number)``
are kept, F a keyed pseudo-random function; a sum or mean adds them up in that order. Equal rows are interchangeable, so
the order in which a source hands rows out enters nowhere: neither that of v's own rows, which another person's row can
change in a database or a compacted table, nor their places in files, batches, runs or ranges. v's multiset is the same
in both sources, so what is stored for v is the same. What is stored for u is at most k rows (one record) in each. QED.
The store's order is that of the units' digests, each a function of one identifier, so the other rows keep their order.

Replacing u's rows by none is add-remove. Under replace-one u has at least one row in both sources and, with k = 1 or a
record of all, exactly one in both stores; for larger k the number of rows would show, so only add-remove is served.

The content of a row is what the store would hold of it, so a value has one content in whatever type a source keeps it.
Whoever knows the seed can foresee F, and so choose among their own rows, and among nobody else's.

Two units count as one if their digests of 128 bits agree. Whole numbers have different digests always (the cipher is a
permutation); of n texts two agree with a probability below ``n^2 / 2^129``, as of n contents, but for two that differ
in case alone, which are refused unless four bytes of theirs agree.

**Source**: bounded contribution as in Wilson et al., "Differentially private SQL with bounded user contribution", 2020,
section 3; here the choice is keyed by the row's content, so that it can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config.ingest_file import AggregatedRows, ChosenRows
from blockveil.pipeline.data.ingest.identifiers import text_digests

DIGEST = np.dtype("S16")
"""A unit's digest. NumPy drops trailing zero bytes in single values only; arrays keep, compare and sort all sixteen."""

KEY = np.dtype("S32")
"""What rows are sorted by: the digest of the unit, then that of the row's content."""

Digests = NDArray[np.bytes_]
Keys = NDArray[np.bytes_]
Places = NDArray[np.int64]
Rows = NDArray[Any]

_WHOLE = np.frombuffer(b"whole\0\0\0", np.uint64)[0]


class Digester:
    """Keyed digests of units."""

    def __init__(self, seed: str) -> None:
        self._key = hashlib.sha256(b"blockveil ingest unit 1 " + seed.encode()).digest()

    def digests(self, identifiers: pa.Array) -> Digests:
        """Digest of each identifier in its one form (:mod:`.identifiers`), shape (rows,); none of them is missing."""
        if pa.types.is_integer(identifiers.type):
            numbers = identifiers.to_numpy(zero_copy_only=False).astype("<i8", copy=False)
            blocks = np.empty((len(numbers), 2), np.uint64)
            blocks[:, 0], blocks[:, 1] = numbers.view(np.uint64), _WHOLE
            return permuted(self._key, blocks).view(DIGEST).reshape(-1)
        encoded = identifiers.dictionary_encode()
        dictionary_digests = np.frombuffer(text_digests(self._key, encoded.dictionary.to_pylist()), DIGEST)
        digests: Digests = dictionary_digests[encoded.indices.to_numpy(zero_copy_only=False)]
        return digests


def permuted(key: bytes, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A keyed pseudo-random permutation of blocks of 128 bits, shape (rows, 2)."""
    # One block each, so this mode is the permutation itself.
    encryptor = Cipher(AES256(key), ECB()).encryptor()  # noqa: S305
    out = bytearray(blocks.nbytes + 15)
    encryptor.update_into(np.ascontiguousarray(blocks).reshape(-1).view(np.uint8).data, out)
    return np.frombuffer(out, np.uint64, blocks.size).reshape(blocks.shape)


def contents(rows: Rows) -> Digests:
    """Digest of what the store would hold of each encoded row, shape (rows,): equal values have equal bits."""
    if not len(rows):
        return np.empty(0, DIGEST)
    values = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
    content, width = values.reshape(-1).view(np.uint8).data, values.shape[1] * values.itemsize
    digests = b"".join(
        [
            hashlib.blake2b(content[start : start + width], digest_size=16).digest()
            for start in range(0, len(content), width)
        ]
    )
    return np.frombuffer(digests, DIGEST)


def keyed(digests: Digests, rows: Rows) -> Keys:
    """What some rows are sorted by, shape (rows,), from the digests of their units."""
    keys = np.empty((len(rows), 2), DIGEST)
    keys[:, 0], keys[:, 1] = digests, contents(rows)
    return keys.view(KEY).reshape(-1)


def in_order(keys: Keys, rows: Rows) -> tuple[Keys, Rows]:
    """Rows in the order of their units, and those of one unit in the order of their contents."""
    order = np.argsort(keys, kind="stable")  # equal keys have equal rows: any order of these is the same
    return keys[order], rows[order]


class Fold(Protocol):
    """Takes in the rows of some units, in the order of their keys and piece by piece, and gives what is stored."""

    def add(self, keys: Keys, rows: Rows) -> None:
        """Take in a piece of sorted rows, which no row of an earlier piece comes behind."""

    def result(self) -> Rows:
        """What is stored, in the order of units."""

    @property
    def rows_of_units(self) -> Places:
        """Rows of each unit, shape (units,)."""

    @property
    def most(self) -> Places | None:
        """Most rows of each unit that can be kept, shape (units,); None where all of them are added up."""

    @property
    def kept_of_units(self) -> tuple[Digests, Places]:
        """Units in order, and how many records are stored for each; shape (units,) each."""


def fold(
    unit: ChosenRows | AggregatedRows,
    width: int,
    dtype: np.dtype[Any],
    earlier: tuple[Digests, Places] | None = None,
) -> Fold:
    """What a config does with the rows of a unit.

    Parameters
    ----------
    unit
        What to do with them.
    width, dtype
        Columns, and the type of the store.
    earlier
        Units in order, and how many of their rows are stored already (:mod:`.unit_bound`).
    """
    if isinstance(unit, ChosenRows):
        return _Choose(unit, width, dtype, earlier or (np.empty(0, DIGEST), np.empty(0, np.int64)))
    return _Aggregate(unit.by == "mean", width, dtype)


class _Units:
    """Units seen so far, in order, and how many rows each has had."""

    def __init__(self) -> None:
        self.digests, self.counts = np.empty(0, DIGEST), np.empty(0, np.int64)

    def take(self, units: Digests) -> Places:
        """Take in the units of sorted rows; return the place of each row's unit, shape (rows,)."""
        fresh = _changes(units, self.digests[-1:])
        places = np.cumsum(fresh) + self.digests.size - 1
        self.digests = np.concatenate([self.digests, units[fresh]])
        counts = np.bincount(places, minlength=self.digests.size)
        counts[: self.counts.size] += self.counts
        self.counts = counts
        return places


class _Choose:
    def __init__(self, unit: ChosenRows, width: int, dtype: np.dtype[Any], earlier: tuple[Digests, Places]) -> None:
        self._key = hashlib.sha256(b"blockveil ingest choice 1 " + unit.seed.encode()).digest()
        self._at_most, self._earlier, self._units = unit.rows_at_most, earlier, _Units()
        self._last, self._equal = np.empty(0, KEY), 0
        self._kept = _Kept(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty((0, width), dtype))

    def add(self, keys: Keys, rows: Rows) -> None:
        """Number equal rows and keep the best of each unit."""
        places = self._units.take(_units(keys))
        scores = _scores(self._key, keys, self._numbers(keys))
        self._kept = self._kept.joined(_Kept(places, scores, rows)).best(self.most)

    def _numbers(self, keys: Keys) -> Places:
        """How many rows with its unit and content come before each row; shape (rows,)."""
        starts = np.flatnonzero(_changes(keys, self._last))
        numbers = np.arange(keys.size)
        # Rows that go on with the last key of the piece before are numbered on from there.
        head = int(starts[0]) if starts.size else keys.size
        numbers[:head] += self._equal
        numbers[head:] -= np.repeat(starts, np.diff(starts, append=keys.size))
        self._last, self._equal = keys[-1:].copy(), int(numbers[-1]) + 1
        return numbers

    @property
    def rows_of_units(self) -> Places:
        """See :class:`Fold`."""
        return self._units.counts

    @property
    def most(self) -> Places:
        """See :class:`Fold`."""
        allowance = np.full(self._units.digests.size, self._at_most, np.int64)
        units, stored = self._earlier
        places = np.searchsorted(self._units.digests, units)
        there = places < self._units.digests.size
        there[there] = self._units.digests[places[there]] == units[there]
        allowance[places[there]] -= stored[there]
        # Never more than k in all appends together: what is left was k less all that is stored.
        return np.maximum(allowance, 0)

    @property
    def kept_of_units(self) -> tuple[Digests, Places]:
        """See :class:`Fold`."""
        return self._units.digests, np.bincount(self._kept.owners, minlength=self._units.digests.size)

    def result(self) -> Rows:
        """The chosen rows, by unit and content."""
        return self._kept.rows


@dataclass(frozen=True, eq=False)
class _Kept:
    """Rows in the order of their keys, the places of their units, and what they are chosen by."""

    owners: Places
    scores: NDArray[np.uint64]
    rows: Rows

    def joined(self, more: _Kept) -> _Kept:
        if not self.owners.size:
            return more
        return _Kept(
            np.concatenate([self.owners, more.owners]),
            np.concatenate([self.scores, more.scores]),
            np.concatenate([self.rows, more.rows]),
        )

    def best(self, most: Places) -> _Kept:
        """The rows of the smallest scores, at most the bound of each unit; the first ones where scores agree."""
        order = np.lexsort((self.scores, self.owners))
        owners = self.owners[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        rank = np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))
        indices = np.sort(order[rank < most[owners]])
        return _Kept(self.owners[indices], self.scores[indices], self.rows[indices])


class _Aggregate:
    def __init__(self, mean: bool, width: int, dtype: np.dtype[Any]) -> None:
        self._mean, self._dtype, self._units = mean, dtype, _Units()
        self._sums = np.empty((0, width), np.float64)

    def add(self, keys: Keys, rows: Rows) -> None:
        """Add rows to the sums of their units, one after the other in the order of keys: pieces do not change a bit."""
        places = self._units.take(_units(keys))
        sums = np.zeros((self._units.digests.size, rows.shape[1]))
        sums[: len(self._sums)] = self._sums
        with np.errstate(over="ignore", invalid="ignore"):
            for column in range(rows.shape[1]):
                # Unbuffered and in order of the index: a left fold.
                np.add.at(sums[:, column], places, rows[:, column])
        self._sums = sums

    @property
    def rows_of_units(self) -> Places:
        """See :class:`Fold`."""
        return self._units.counts

    @property
    def most(self) -> None:
        """See :class:`Fold`."""

    @property
    def kept_of_units(self) -> tuple[Digests, Places]:
        """See :class:`Fold`."""
        return self._units.digests, np.ones(self._units.digests.size, np.int64)

    def result(self) -> Rows:
        """One record a unit."""
        with np.errstate(over="ignore", invalid="ignore"):
            records = self._sums / self._units.counts[:, None] if self._mean else self._sums
            stored = records.astype(self._dtype)
        if not np.isfinite(stored).all():
            raise DataError(
                f"The rows of a unit add up to more than {self._dtype} holds",
                "A record holds finite numbers",
                'Set dtype = "float64", use "mean", or rescale the source',
            )
        return stored


def _units(keys: Keys) -> Digests:
    return np.ascontiguousarray(keys.view(DIGEST).reshape(-1, 2)[:, 0])


def _changes(found: NDArray[np.bytes_], before: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Which of some sorted values differ from the one before; ``before`` is the one before the first, if any."""
    changes = np.ones(found.size, np.bool_)
    changes[1:] = found[1:] != found[:-1]
    if before.size:
        changes[:1] = found[:1] != before
    return changes


def _scores(key: bytes, keys: Keys, numbers: Places) -> NDArray[np.uint64]:
    """A keyed pseudo-random number of each unit, content and number: a cipher-block chain over blocks of fixed count.

    Rows of one unit with one score are told apart by their contents, so it need not be unique.
    """
    blocks = np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 4)
    chained = permuted(key, permuted(key, blocks[:, :2]) ^ blocks[:, 2:])
    chained[:, 0] ^= numbers.view(np.uint64)
    return permuted(key, chained)[:, 0].astype(np.uint64)


def ranges(parts: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Split all digests into ``parts`` adjacent ranges of equal size: the first of each, and the first beyond it."""
    borders = [(part * 2**64 // parts).to_bytes(8, "big") + bytes(8) for part in range(parts)]
    yield from zip(borders, [*borders[1:], None], strict=True)

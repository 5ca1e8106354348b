"""Bounded contribution of a unit: at most k of its rows, or one record of all of them.

**Claim.** Let a source be a sequence of rows, each of which belongs to one unit or is dropped by a rule on the row
alone. A neighbour differs by all rows of one unit u: under add-remove they are there or not, under replace-one u has
other rows. Then the stores differ by rows of u alone: by at most k rows, or by one record.

**Proof.** Let v be another unit. Its rows are the same in both sources and in the same order among themselves, whatever
stands between them, so the *number of a row within its unit* (0, 1, ... in source order, counted after dropping) is the
same. What is stored for v is a function of v's rows, of those numbers, of v's identifier and of the seed: the k rows of
the smallest ``F(v, number)``, F a keyed pseudo-random function, or the sum or mean of all rows in that order. No number
that counts rows of other units enters: not the row's place in its file, not the place in a batch, a run or a range. So
what is stored for v is the same in both stores. What is stored for u is at most k rows (one record) in each. QED.
The store's order is that of the units' digests, each a function of one identifier, so the other rows keep their order.

Replacing u's rows by none is add-remove. Under replace-one u has at least one row in both sources and, with k = 1 or a
record of all, exactly one in both stores; for larger k the number of rows would show, so only add-remove is served.

Two units count as one if their digests of 128 bits agree. Whole numbers have different digests always (the cipher is a
permutation); of n texts two agree with a probability below ``n^2 / 2^129``.

**Source**: bounded contribution as in Wilson et al., "Differentially private SQL with bounded user contribution", 2020,
section 3; here the choice is keyed by the row's number within its unit, so that it can be repeated.
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

DIGEST = np.dtype("S16")
"""A unit's digest. NumPy drops trailing zero bytes in single values only; arrays keep, compare and sort all sixteen."""

Digests = NDArray[np.bytes_]
Places = NDArray[np.int64]
Rows = NDArray[Any]

_WHOLE = np.frombuffer(b"whole\0\0\0", np.uint64)[0]


class Digester:
    """Keyed digests of units.

    Parameters
    ----------
    seed
        Any text.
    """

    def __init__(self, seed: str) -> None:
        self._key = hashlib.sha256(b"blockveil ingest unit 1 " + seed.encode()).digest()
        self.kind: str | None = None

    def digests(self, identifiers: pa.Array) -> Digests:
        """Digest of each identifier, shape (rows,); none of them is missing.

        Raises
        ------
        TypeError
            Earlier identifiers were text and these are whole numbers, or the other way round: one unit written in two
            ways would count as two.
        """
        kind = "whole" if pa.types.is_integer(identifiers.type) else "text"
        if len(identifiers) and self.kind not in (None, kind):
            raise TypeError(kind)
        if len(identifiers):
            self.kind = kind
        if kind == "whole":
            numbers = identifiers.to_numpy(zero_copy_only=False).astype("<i8", copy=False)
            blocks = np.empty((len(numbers), 2), np.uint64)
            blocks[:, 0], blocks[:, 1] = numbers.view(np.uint64), _WHOLE
            return permuted(self._key, blocks).view(DIGEST).reshape(-1)
        encoded = identifiers.dictionary_encode()
        table = [
            hashlib.blake2b(text.encode(), key=self._key, digest_size=16).digest()
            for text in encoded.dictionary.to_pylist()
        ]
        known = np.frombuffer(b"".join(table), DIGEST)
        found: Digests = known[encoded.indices.to_numpy(zero_copy_only=False)]
        return found


def permuted(key: bytes, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A keyed pseudo-random permutation of blocks of 128 bits, shape (rows, 2)."""
    # One block each, so this mode is the permutation itself.
    encryptor = Cipher(AES256(key), ECB()).encryptor()  # noqa: S305
    out = bytearray(blocks.nbytes + 15)
    encryptor.update_into(np.ascontiguousarray(blocks).reshape(-1).view(np.uint8).data, out)
    return np.frombuffer(out, np.uint64, blocks.size).reshape(blocks.shape)


def in_order(digests: Digests, rows: Rows) -> tuple[Digests, Rows]:
    """Rows in the order of their units; rows of one unit stay in their order."""
    order = np.argsort(digests, kind="stable")
    return digests[order], rows[order]


class Fold(Protocol):
    """Takes in the rows of some units, in source order and piece by piece, and gives what is stored for them."""

    def add(self, digests: Digests, rows: Rows) -> None:
        """Take in a piece: rows in the order of their units, rows of one unit in source order."""

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

    def meet(self, units: Digests) -> tuple[Places, Places]:
        """Take in units, in order; return the new place of each earlier one, and the places of these."""
        places = np.searchsorted(self.digests, units)
        known = places < self.digests.size
        known[known] = self.digests[places[known]] == units[known]
        fresh = places[~known]
        earlier = np.arange(self.digests.size)
        earlier += np.searchsorted(fresh, earlier, side="right")
        self.digests = np.insert(self.digests, fresh, units[~known])
        self.counts = np.insert(self.counts, fresh, 0)
        return earlier, np.searchsorted(self.digests, units)


class _Choose:
    def __init__(self, unit: ChosenRows, width: int, dtype: np.dtype[Any], earlier: tuple[Digests, Places]) -> None:
        self._key = hashlib.sha256(b"blockveil ingest choice 1 " + unit.seed.encode()).digest()
        self._at_most, self._earlier, self._units, nothing = unit.rows_at_most, earlier, _Units(), np.empty(0, np.int64)
        self._kept = _Kept(nothing, nothing, nothing.astype(np.uint64), np.empty((0, width), dtype))

    def add(self, digests: Digests, rows: Rows) -> None:
        """Number the rows within their units and keep the best of each."""
        units, starts, counts = _groups(digests)
        earlier, places = self._units.meet(units)
        # Rows of the same unit alone are counted: see the proof above.
        numbers = np.arange(digests.size) - np.repeat(starts - self._units.counts[places], counts)
        self._units.counts[places] += counts
        scores = _scores(self._key, digests, numbers)
        more = _Kept(np.repeat(places, counts), numbers, scores, rows)
        self._kept = self._kept.moved(earlier).joined(more).best(self.most)

    @property
    def rows_of_units(self) -> Places:
        """See :class:`Fold`."""
        return self._units.counts

    @property
    def most(self) -> Places:
        """See :class:`Fold`."""
        left = np.full(self._units.digests.size, self._at_most, np.int64)
        units, stored = self._earlier
        places = np.searchsorted(self._units.digests, units)
        there = places < self._units.digests.size
        there[there] = self._units.digests[places[there]] == units[there]
        left[places[there]] -= stored[there]
        # Never more than k in all appends together: what is left was k less all that is stored.
        return np.maximum(left, 0)

    @property
    def kept_of_units(self) -> tuple[Digests, Places]:
        """See :class:`Fold`."""
        return self._units.digests, np.bincount(self._kept.owners, minlength=self._units.digests.size)

    def result(self) -> Rows:
        """The chosen rows, by unit and number."""
        return self._kept.rows[np.lexsort((self._kept.numbers, self._kept.owners))]


@dataclass(frozen=True, eq=False)
class _Kept:
    """Rows, the places of their units, their numbers within them, and what they are chosen by."""

    owners: Places
    numbers: Places
    scores: NDArray[np.uint64]
    rows: Rows

    def moved(self, places: Places) -> _Kept:
        return _Kept(places[self.owners], self.numbers, self.scores, self.rows)

    def joined(self, more: _Kept) -> _Kept:
        if not self.owners.size:
            return more
        return _Kept(
            np.concatenate([self.owners, more.owners]),
            np.concatenate([self.numbers, more.numbers]),
            np.concatenate([self.scores, more.scores]),
            np.concatenate([self.rows, more.rows]),
        )

    def best(self, most: Places) -> _Kept:
        """The rows of the smallest scores, at most the bound of each unit; the lower number where scores agree."""
        order = np.lexsort((self.numbers, self.scores, self.owners))
        owners = self.owners[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        rank = np.arange(order.size) - np.repeat(starts, np.diff(starts, append=order.size))
        order = order[rank < most[owners]]
        return _Kept(self.owners[order], self.numbers[order], self.scores[order], self.rows[order])


class _Aggregate:
    def __init__(self, mean: bool, width: int, dtype: np.dtype[Any]) -> None:
        self._mean, self._dtype, self._units = mean, dtype, _Units()
        self._sums = np.empty((0, width), np.float64)

    def add(self, digests: Digests, rows: Rows) -> None:
        """Add rows to the sums of their units, one after the other, so that pieces do not change a bit."""
        units, _, counts = _groups(digests)
        earlier, places = self._units.meet(units)
        sums = np.zeros((self._units.digests.size, rows.shape[1]))
        sums[earlier] = self._sums
        self._units.counts[places] += counts
        target = np.repeat(places, counts)
        with np.errstate(over="ignore", invalid="ignore"):
            for column in range(rows.shape[1]):
                # Unbuffered and in order of the index: a left fold.
                np.add.at(sums[:, column], target, rows[:, column])
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
            found = self._sums / self._units.counts[:, None] if self._mean else self._sums
            stored = found.astype(self._dtype)
        if not np.isfinite(stored).all():
            raise DataError(
                f"The rows of a unit add up to more than {self._dtype} holds",
                "A record holds finite numbers",
                'Set dtype = "float64", use "mean", or rescale the source',
            )
        return stored


def _groups(digests: Digests) -> tuple[Digests, Places, Places]:
    """Units of sorted digests, where each starts, and how many rows it has."""
    first = np.ones(digests.size, np.bool_)
    first[1:] = digests[1:] != digests[:-1]
    starts = np.flatnonzero(first)
    return digests[starts], starts, np.diff(starts, append=digests.size)


def _scores(key: bytes, digests: Digests, numbers: Places) -> NDArray[np.uint64]:
    """A keyed pseudo-random number of each unit and number within it."""
    blocks = np.ascontiguousarray(digests).view(np.uint64).reshape(-1, 2).copy()
    # Different numbers of one unit give different blocks; blocks of two units may agree, which does not matter.
    blocks[:, 1] ^= numbers.view(np.uint64)
    return permuted(key, blocks)[:, 0].astype(np.uint64)


def ranges(parts: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Split all digests into ``parts`` adjacent ranges of equal size: the first of each, and the first beyond it."""
    borders = [(part * 2**64 // parts).to_bytes(8, "big") + bytes(8) for part in range(parts)]
    yield from zip(borders, [*borders[1:], None], strict=True)

"""Exact second moments of records most of whose values are zero: only the other values are multiplied.

With c the integers of a record of zeros and s what a record's other values add to them, v = c + s and

    sum v v' = n c c' + c t' + t c' + sum s s',   t = sum s

where s has entries only where a record is not zero. All of it is int64. Sums on the way may leave int64 and wrap
around; the answer does not leave it, so it is right all the same, and the same bits as those of
:func:`.gram.tile_sums`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import progress
from blockveil.engine.answers.gram import RowSource, chunks
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.work import FEW
from blockveil.engine.records.quantiser import Quantiser

ENTRIES_AT_ONCE = 2**20
"""Values other than zero that are multiplied in one call: enough to make a call for each tile cheap."""

_CHUNKS_AT_ONCE = 64
"""Chunks of whole rows whose entries are read between two reports of progress."""

Integers = NDArray[np.int64]
Entries = tuple[Integers, NDArray[Any], Integers]
"""Columns and values of what is not zero, record by record, and the first of each record with the end of the last."""


@runtime_checkable
class EntrySource(Protocol):
    """Records that are stored as their values other than zero."""

    def entry_blocks(self, start: int, stop: int, most: int) -> Iterator[Entries]:
        """Values of rows ``start <= row < stop``, a few rows of at most ``most`` values at once, or one row of more."""


def entry_sums(
    source: RowSource, start: int, stop: int, quantiser: Quantiser, chunk_rows: int, tiles: Sequence[Tile]
) -> list[Integers]:
    """Tiles of ``sum v v'`` over rows ``start <= row < stop``.

    Parameters
    ----------
    source, start, stop, chunk_rows, tiles
        As for :func:`.gram.tile_sums`; an :class:`EntrySource` is read by its entries.
    quantiser
        Clip and quantisation of a record, with ``by_entries``.

    Returns
    -------
    int64, exact, one array for each tile, of its shape. Any records give it; those of which more than a share
    :data:`.work.FEW` is not zero are multiplied as a whole, so that they cost no more than usual.

    Raises
    ------
    NotFiniteError
        See :meth:`Quantiser.quantise`.
    """
    totals = [np.zeros(tile.shape, dtype=np.int64) for tile in tiles]
    shift, width, dimension = int(quantiser.augmented), quantiser.width, quantiser.coordinates.dimension
    sums, rows = np.zeros(width, dtype=np.int64), 0
    waiting, dtype = list[tuple[Integers, Integers, Integers]](), np.dtype(float)
    for columns, values, borders in entries_of(source, start, stop, chunk_rows, dimension):
        count, dtype = len(borders) - 1, values.dtype
        if values.size > FEW * count * dimension:
            _add_whole(totals, tiles, dense(columns, values, borders, dimension), quantiser)
            continue
        rows += count
        waiting.append((columns + shift, quantiser.quantise_entries(values, columns, borders), np.diff(borders)))
        if sum(part[0].size for part in waiting) >= ENTRIES_AT_ONCE:
            sums += _multiply(totals, tiles, waiting, width)
            waiting = []
    if waiting:
        sums += _multiply(totals, tiles, waiting, width)
    zero = quantiser.at_zero(dtype)
    for total, tile in zip(totals, tiles, strict=True):
        down, across = slice(*tile.rows), slice(*tile.columns)
        total += np.outer(zero[down], rows * zero[across] + sums[across])
        total += np.outer(sums[down], zero[across])
    return totals


def dense(columns: Integers, values: NDArray[Any], borders: Integers, dimension: int) -> NDArray[Any]:
    """Records written out, shape (records, dimension), of the type of the values."""
    records = np.zeros((len(borders) - 1, dimension), dtype=values.dtype)
    records[np.repeat(np.arange(len(borders) - 1), np.diff(borders)), columns] = values
    return records


def entries_of(source: RowSource, start: int, stop: int, chunk_rows: int, dimension: int) -> Iterator[Entries]:
    """Values other than zero of rows ``start <= row < stop``, a few rows at a time.

    Parameters
    ----------
    source, start, stop, chunk_rows
        As for :func:`entry_sums`.
    dimension
        Number of columns.
    """
    if isinstance(source, EntrySource):
        step = _CHUNKS_AT_ONCE * chunk_rows
        for first in range(start, stop, step):
            last = min(first + step, stop)
            yield from source.entry_blocks(first, last, ENTRIES_AT_ONCE)
            # Told at rows that do not depend on the records: where blocks end says how many values are not zero.
            progress.advance((last - start) / (stop - start))
        return
    for chunk in chunks(source, start, stop, chunk_rows, (0, dimension)):
        rows, columns = np.nonzero(chunk)  # what is no number is not zero
        borders = np.searchsorted(rows, np.arange(len(chunk) + 1)).astype(np.int64)
        yield columns.astype(np.int64), chunk[rows, columns], borders


def _multiply(
    totals: list[Integers], tiles: Sequence[Tile], parts: list[tuple[Integers, Integers, Integers]], width: int
) -> Integers:
    """Add ``s s'`` of some records to the tiles; return the sum of s."""
    import scipy.sparse  # takes long to import, and few records are sparse

    columns, integers, lengths = (np.concatenate(side) for side in zip(*parts, strict=True))
    borders = np.concatenate([[0], np.cumsum(lengths)])
    matrix = scipy.sparse.csr_array((integers, columns, borders), shape=(lengths.size, width))
    sides = {span: matrix[:, span[0] : span[1]] for span in {s for tile in tiles for s in (tile.rows, tile.columns)}}
    turned = {span: sides[span].T.tocsr() for span in {tile.rows for tile in tiles}}
    for total, tile in zip(totals, tiles, strict=True):
        product = (turned[tile.rows] @ sides[tile.columns]).tocoo()
        total[product.row, product.col] += product.data  # a product names no place twice
    found_sums = np.zeros(width, dtype=np.int64)
    np.add.at(found_sums, columns, integers)
    return found_sums


def _add_whole(totals: list[Integers], tiles: Sequence[Tile], chunk: NDArray[Any], quantiser: Quantiser) -> None:
    """Add all products of the records of a chunk."""
    for first in range(0, len(chunk), quantiser.exact_rows):
        whole = quantiser.quantise(chunk[first : first + quantiser.exact_rows])
        for total, tile in zip(totals, tiles, strict=True):
            # Exact: every partial sum is an integer of at most exact_rows * K**2 <= 2**53.
            total += (whole[:, slice(*tile.rows)].T @ whole[:, slice(*tile.columns)]).astype(np.int64)

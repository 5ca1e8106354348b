"""Secure discrete Gaussian noise as a pure function of (key, row, column).

AES-256 in counter mode is addressed by canonical tiles of 128 x 128 entries, which have nothing to do with the chunks
of any array: the same entry has the same noise whatever block it is asked with, on whatever worker, however often.

Counter, 16 bytes, big-endian::

    stream (2) | lane (1) | zero (1) | tile row (4) | tile column (4) | block in the tile (4)

======== =============================================== ==========================================
lane     bytes per entry                                 use
======== =============================================== ==========================================
0        16: words a and b, little-endian                first and second level
1        16: words for ties of a and b                   read only for ties
2        8: word c, two entries per block                third level, fine grid only
3        8: word for ties of c                           read only for ties
======== =============================================== ==========================================

An entry is ``x(a) + 1087 x(b)``, and on the fine grid ``+ 1180000 x(c)``, where x is a discrete Gaussian of width
S = 2048 (:mod:`.gaussian_table`).

Distance from a discrete Gaussian of the same variance: with ``t = x + s y``, ``rho_u(x) rho_S(y)`` sums over y to
``rho_sigma(t) rho_w(Z - shift)``, ``sigma^2 = u^2 + s^2 S^2`` and ``w = u S / sigma``; a Gaussian sum over shifted
integers varies by a factor ``1 +- 2.1 exp(-2 pi^2 w^2)``. Here w >= 1.88, so each level errs by a factor below ``1 +-
2**-99``; rounding the table errs by 2**-112. In all a draw is within 2**-90 in total variation.

Privacy of a discrete Gaussian D of variance s^2 on the integers, shifted by an integer: take a continuous x of variance
``s^2 - 100`` and round it randomly to an integer by a discrete Gaussian of variance 100 about x. By the same sum the
result is D up to a factor ``1 +- 2.1 exp(-200 pi^2)``, below ``1 +- 2**-2800``. So D is post-processing of continuous
noise of variance ``s^2 - 100``, which is what calibration uses.

**Source**: Micciancio and Walter, 2017; Peikert, 2010 (convolution of discrete Gaussians).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NoReturn

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from blockveil.engine.noise.compiled_levels import summed
from blockveil.engine.noise.gaussian_table import WIDTH, Words, invert

TILE = 128
"""Side of a canonical tile."""

SECOND = 1087
"""Weight of the second level."""

THIRD = 1_180_000
"""Weight of the third level."""

TOTAL_VARIATION_PER_DRAW = 2.0**-90
"""Bound of the distance between one drawn entry and the discrete Gaussian of the grid's variance."""

_TRANSFER_VARIANCE = 100
_ZEROS = bytes(16 * TILE * TILE)

Draw = Callable[[int, range, range], NDArray[np.int64]]
"""Rows of tiles that stand side by side: of a tile row and of tile columns, the rows of a range within the tile."""


class NoiseKey:
    """A 256-bit key that shows itself to nobody.

    Parameters
    ----------
    secret
        32 bytes.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ValueError("a noise key has 32 bytes; derive it with NoiseKey.derive")
        self._secret = bytes(secret)

    @classmethod
    def derive(cls, secret: bytes, context: bytes) -> NoiseKey:
        """Key of one release: HKDF-SHA256 of its secret, bound to a context such as the digest of its specification."""
        return cls(HKDF(hashes.SHA256(), 32, salt=None, info=b"blockveil noise 1" + context).derive(secret))

    def of_stage(self, context: bytes) -> NoiseKey:
        """Key of one stage of a release, bound to a context such as what was released before it."""
        return NoiseKey(HKDF(hashes.SHA256(), 32, salt=None, info=b"blockveil stage 1" + context).derive(self._secret))

    def stream(self, counter: bytes, length: int) -> bytes:
        """Key stream from a counter on; secret."""
        return Cipher(AES(self._secret), CTR(counter)).encryptor().update(_ZEROS[:length])

    def __repr__(self) -> str:
        """Show nothing."""
        return "NoiseKey(***)"

    def __eq__(self, other: object) -> bool:
        """Compare by identity only."""
        return self is other

    def __hash__(self) -> int:
        """Hash by identity only."""
        return id(self)

    def __dask_tokenize__(self) -> NoReturn:
        """Refuse to be part of a task's name."""
        raise TypeError("a noise key must not be a task argument; install it with blockveil.engine.noise.keyring")


@dataclass(frozen=True)
class Grid:
    """Law of the noise, in grid steps.

    Attributes
    ----------
    levels
        2, or 3 for matrices so large that rounding to the coarser grid would show.
    """

    norm: ClassVar[str] = "L2"
    levels: int

    def __post_init__(self) -> None:
        """Refuse other numbers of levels."""
        if self.levels not in (2, 3):
            raise ValueError("a grid has 2 or 3 levels")

    @property
    def variance(self) -> int:
        """Variance, an exact integer."""
        return WIDTH**2 * (1 + SECOND**2 + (THIRD**2 if self.levels == 3 else 0))

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise, in grid steps."""
        return math.sqrt(self.variance)

    @property
    def privacy_scale(self) -> float:
        """Standard deviation of continuous noise that is no more private, rounded down."""
        return math.sqrt(self.variance - _TRANSFER_VARIANCE) * (1.0 - 2.0**-50)

    @property
    def total_variation_per_draw(self) -> float:
        """Bound of the distance between one drawn entry and the discrete Gaussian of this variance."""
        return TOTAL_VARIATION_PER_DRAW

    @property
    def label(self) -> str:
        """Public name."""
        return f"{self.levels} levels of width {WIDTH}"

    def draw(
        self, key: NoiseKey, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool
    ) -> NDArray[np.int64]:
        """Noise of a block; see :func:`noise_block`."""
        return noise_block(key, rows, columns, grid=self, symmetric=symmetric)


GRID_TWO_LEVEL = Grid(2)
GRID_THREE_LEVEL = Grid(3)


def noise_block(
    key: NoiseKey,
    rows: tuple[int, int],
    columns: tuple[int, int],
    *,
    grid: Grid,
    symmetric: bool,
    stream: int = 0,
) -> NDArray[np.int64]:
    """Noise of a block of a matrix.

    Parameters
    ----------
    key
        Key of the release.
    rows, columns
        Half-open ranges, below 2**32.
    grid
        Law of the noise.
    symmetric
        Whether entry (i, j) is entry (min, max), so that the whole matrix is symmetric.
    stream
        Number of an independent matrix under the same key, below 2**16.

    Returns
    -------
    Shape (rows, columns), int64, in grid steps.

    Raises
    ------
    ValueError
        A range is empty, negative or too large.
    """
    if not 0 <= stream < 2**16:
        raise ValueError(f"stream is {stream}; it must lie between 0 and 65535")
    return tiled(partial(_draw, key, grid, stream), rows, columns, symmetric)


def tiled(draw: Draw, rows: tuple[int, int], columns: tuple[int, int], symmetric: bool) -> NDArray[np.int64]:
    """Block of a matrix that is drawn by canonical tiles.

    Parameters
    ----------
    draw
        Rows of a tile, shape (rows, 128), int64, or of several side by side. Rows of a tile follow each other in the
        key stream, so that those outside the range need not be drawn.
    rows, columns
        Half-open ranges, below 2**32.
    symmetric
        Whether entry (i, j) is entry (min, max).

    Raises
    ------
    ValueError
        A range is empty, negative or too large.
    """
    for low, high in (rows, columns):
        if not 0 <= low < high <= 2**32:
            raise ValueError(f"the range {low}:{high} is not inside 0:2**32, or it is empty; give a half-open range")
    block = np.empty((rows[1] - rows[0], columns[1] - columns[0]), dtype=np.int64)
    for tile_row in range(rows[0] // TILE, -(-rows[1] // TILE)):
        inner_rows, outer_rows = _overlap(rows, tile_row)
        height = inner_rows.stop - inner_rows.start
        # Of few rows many tiles are drawn at once, so that a flat block costs little more than its entries.
        together = 1 if symmetric else max(1, TILE // height)
        for first in range(columns[0] // TILE, -(-columns[1] // TILE), together):
            tiles = range(first, min(first + together, -(-columns[1] // TILE)))
            inner_columns, outer_columns = _overlap(columns, tiles.start, len(tiles))
            if symmetric:
                tile = _tile(draw, (tile_row, first), (rows[1], columns[1]))[inner_rows]
            else:
                tile = draw(tile_row, tiles, range(inner_rows.start, inner_rows.stop))
            block[outer_rows, outer_columns] = tile[:, inner_columns]
    return block


def _overlap(wanted: tuple[int, int], tile: int, count: int = 1) -> tuple[slice, slice]:
    """The part of some tiles inside a range: within the tiles, and within the range."""
    low, high = max(wanted[0], tile * TILE), min(wanted[1], (tile + count) * TILE)
    return slice(low - tile * TILE, high - tile * TILE), slice(low - wanted[0], high - wanted[0])


def _tile(draw: Draw, place: tuple[int, int], ends: tuple[int, int]) -> NDArray[np.int64]:
    """What a block of a symmetric matrix that ends there needs of the tile at a place, and perhaps more."""
    row, column = place
    heights = [min(TILE, end - start * TILE) for start, end in zip(place, ends, strict=True)]
    if row < column:
        return draw(row, range(column, column + 1), range(heights[0]))
    if row > column:
        return draw(column, range(row, row + 1), range(heights[1])).T
    side = max(heights)
    upper = np.triu(draw(row, range(row, row + 1), range(side))[:, :side])
    return upper + np.triu(upper, 1).T


def words_of(key: NoiseKey, start: bytes, tiles: tuple[int, range], rows: range, words: int) -> Words:
    """Words of the key stream for rows of tiles that stand side by side, tile after tile; secret.

    Parameters
    ----------
    key
        Key of the release.
    start
        First four bytes of the counter.
    tiles
        Tile row and tile columns.
    rows
        Which rows of each tile.
    words
        Words of 64 bits for an entry.

    Returns
    -------
    uint64, as many as there are entries in a row of tiles, a row, and an entry.
    """
    # Two words are a block, and the entries of a row before fill whole ones.
    head, first = start + tiles[0].to_bytes(4), (rows.start * TILE * words // 2).to_bytes(4)
    size = 8 * len(rows) * TILE * words
    stream = b"".join([key.stream(head + column.to_bytes(4) + first, size) for column in tiles[1]])
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def side_by_side(drawn: NDArray[np.int64], tiles: range, rows: range) -> NDArray[np.int64]:
    """Entries of rows of tiles, tile after tile, as rows through all of these tiles."""
    if len(tiles) == 1:
        return drawn.reshape(len(rows), TILE)
    return drawn.reshape(len(tiles), len(rows), TILE).swapaxes(0, 1).reshape(len(rows), -1)


def _draw(key: NoiseKey, grid: Grid, stream: int, row: int, tiles: range, rows: range) -> NDArray[np.int64]:
    """Rows of some tiles side by side."""
    entries = len(tiles) * len(rows) * TILE

    def words(lane: int, an_entry: int) -> Words:
        return words_of(key, stream.to_bytes(2) + bytes((lane, 0)), (row, tiles), rows, an_entry)

    first = words(0, 2)
    third = words(2, 1) if grid.levels == 3 else first[:0]
    noise = np.empty(entries, dtype=np.int64)
    if not summed(first, third, (SECOND, THIRD), noise):
        pairs = _values(first, lambda: words(1, 2)).reshape(entries, 2)
        noise = pairs[:, 1] * SECOND
        noise += pairs[:, 0]
        if grid.levels == 3:
            noise += _values(third, lambda: words(3, 1)) * THIRD
    return side_by_side(noise, tiles, rows)


def _values(words: Words, for_ties: Callable[[], Words]) -> NDArray[np.int64]:
    values = np.empty(words.size, dtype=np.int64)
    invert(words, lambda where: for_ties()[where], values)
    return values

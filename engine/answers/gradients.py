"""The exact sum of clipped per-example gradients, none of which is ever made.

The gradient of a layer for one example is ``delta a'`` with Frobenius norm ``|delta| |a|``, so the norm of an example's
whole gradient g is ``sqrt(sum over layers |delta|^2 |a|^2)`` ("ghost clipping"). Each layer becomes two integer
vectors,

    k = K u with u = delta |a| min(1, C / |g|) / C, jointly over layers        |k| <= K
    m = R a / |a| with R = K - sqrt(inputs)/2                                  |m| <= K by layer

both bounds checked in int64. The layer's part of the answer is ``k m'``, so one example adds integers of squared norm
``sum |k_l|^2 |m_l|^2 <= K^2 K^2``: in coordinates of ``K^2`` the gradient lies in the unit ball. The length of a is in
u, hence m always has full precision; ``C K / R`` is the raw unit of a coordinate of the layer.

**Source**: Goodfellow, 2015, and Li et al., 2022 (norms of outer products).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import held_records
from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.held_records import HeldPiece, Holding
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.models import FEATURE_STEPS, Model, Output
from blockveil.engine.answers.step_records import StepRecords
from blockveil.engine.records.geometry import Body
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from blockveil.engine.records.rounding import pull_inside_ball, squared_norms

Array = NDArray[np.float64]

_PIECE_BYTES = 4 * 2**20
_FINE_BITS = 20
_FURTHEST = 8.0
_LEAST_CLIP = 1e-200
"""Errors are below 2**26 and inputs shorter than 2**12, so that no gradient over such a clip leaves float64."""

_MOST_INPUTS = 2**15 - 1


@dataclass(frozen=True, eq=False)
class GradientsQuery:
    """A record is a row of features whose last column is the label.

    Attributes
    ----------
    model
        At public weights.
    features
        Clip and quantisation of the features, in a cube, with the constant,
        :data:`.models.FEATURE_STEPS` steps.
    label
        Interval of the number to predict (lower, upper), or (0, classes - 1) for codes.
    clip
        C, the largest norm of an example's gradient, in units of the model's coordinates.
    largest
        K, the integer that stands for C.
    """

    model: Model
    features: Quantiser
    label: tuple[float, float]
    clip: float
    largest: int

    def __post_init__(self) -> None:
        """Refuse what the integer arithmetic does not cover."""
        width = max(columns for _, columns in self.model.shapes)
        if self.features.largest != FEATURE_STEPS or not self.features.augmented:
            raise ValueError("features are quantised with the model's steps and a constant")
        if self.features.coordinates.body is Body.BALL or self.features.coordinates.mixing is not None:
            raise ValueError("features of a model lie in a box")
        if self.features.width != self.model.shapes[0][1]:
            raise ValueError("the first layer has one weight for each feature and one for the constant")
        if max(width, sum(rows for rows, _ in self.model.shapes)) > _MOST_INPUTS:
            raise ValueError(f"more than {_MOST_INPUTS} units; use a smaller model")
        if math.sqrt(width) >= self.largest:
            raise ValueError("too few quantisation bits for this many units; raise quantisation_bits")
        if not _LEAST_CLIP <= self.clip < math.inf:
            raise ValueError(f"the largest gradient is {self.clip}; it must be finite and at least {_LEAST_CLIP:g}")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer: the layer's own, or one row that holds all layers."""
        shapes = self.model.shapes
        return shapes[0] if len(shapes) == 1 else (1, sum(rows * columns for rows, columns in shapes))

    @property
    def units(self) -> tuple[Array, ...]:
        """Raw unit of a coordinate of each layer, as an array of no axes."""
        return tuple(
            np.asarray(self.clip * self.largest / _radius(columns, self.largest)) for _, columns in self.model.shapes
        )

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the sum over a range of rows, exact."""
        whole = self.total(source, start, stop, chunk_rows)
        return [whole[slice(*tile.rows), slice(*tile.columns)].copy() for tile in tiles]

    def total(
        self,
        source: RowSource,
        start: int,
        stop: int,
        chunk_rows: int,
        batch: StepRecords | None = None,
        holding: Holding | None = None,
    ) -> NDArray[np.int64]:
        """Sum over a range of rows, of :attr:`shape`, exact.

        Parameters
        ----------
        source
            Records.
        start, stop
            The range.
        chunk_rows
            Rows to read at once; all of them are read, and are finite, whatever the batch.
        batch
            Which of the records are added up; None for all.
        holding
            Where their integers stay for the next step; None where they do not.

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        totals = [np.zeros(shape, dtype=np.int64) for shape in self.model.shapes]
        for first in range(start, stop, chunk_rows):
            last = min(first + chunk_rows, stop)
            for factors in self._by_pieces(source, first, last, batch, holding):
                for total, (errors, inputs) in zip(totals, factors, strict=True):
                    # Exact: every partial sum is an integer of at most rows * K**2 <= 2**53.
                    total += (errors.T @ inputs).astype(np.int64)
        return totals[0] if len(totals) == 1 else np.concatenate([total.ravel() for total in totals])[None, :]

    def _by_pieces(
        self, source: RowSource, first: int, last: int, batch: StepRecords | None, holding: Holding | None
    ) -> Iterator[list[tuple[Array, Array]]]:
        """Integer factors of the records of a batch, a few of them at a time."""
        pieces = None if holding is None else held_records.fetch(holding, first, last)
        if pieces is None:
            chunk, rows = np.asarray(source[first:last]), self._rows_of_a_piece
            packed = holding is not None and holding.rows * self._bytes_of_a_record(packed=False) > holding.room
            if holding is not None and held_records.fits(holding, len(chunk) * self._bytes_of_a_record(packed=packed)):
                pieces = tuple(
                    self._held(chunk[at : at + rows], first + at, batch, packed=packed)
                    for at in range(0, chunk.shape[0], rows)
                )
                held_records.keep(holding, first, last, pieces)
            else:
                chunk = chunk if batch is None else _in_batch(chunk, batch, first)
                yield from (self.integers(chunk[at : at + rows]) for at in range(0, chunk.shape[0], rows))
        for piece in pieces or ():
            yield self._factors_of(piece, batch)

    @property
    def _rows_of_a_piece(self) -> int:
        width = sum(rows + columns for rows, columns in self.model.shapes)
        return max(1, min(2**53 // self.largest**2, _PIECE_BYTES // (8 * width)))

    def _bytes_of_a_record(self, *, packed: bool) -> int:
        return self.features.width * sum(kind.itemsize for kind in self._kinds(packed=packed)) + 18

    def _kinds(self, *, packed: bool) -> tuple[np.dtype[Any], np.dtype[Any]]:
        """Types in which integers of features and directions are kept: those of the products, or the smallest."""
        if not packed:
            return np.dtype(np.float64), np.dtype(np.float64)
        return np.dtype(np.int32), np.dtype(np.int16 if self.largest < 2**15 else np.int32)

    def _held(self, records: NDArray[np.generic], first: int, batch: StepRecords | None, *, packed: bool) -> HeldPiece:
        """What no weights change of some records."""
        features, labels = self.model_inputs(records)
        kinds = self._kinds(packed=packed)
        lengths, whole = np.sqrt(squared_norms(features)), features.astype(kinds[0])
        _turn_into_directions(features, lengths, self.largest)
        marks = np.zeros(len(records), np.bool_) if batch is None else batch.marks(records)
        return HeldPiece(first, whole, labels, lengths, features.astype(kinds[1], copy=False), marks)

    def _factors_of(self, piece: HeldPiece, batch: StepRecords | None) -> list[tuple[Array, Array]]:
        parts = (piece.features, piece.labels, piece.lengths, piece.directions)
        if batch is not None:
            parts = tuple(part[batch.taken(piece.marks, piece.first)] for part in parts)  # type: ignore[assignment]
        features, labels, lengths, directions = parts
        polar = lengths, directions.astype(np.float64, copy=False)
        return self._factored(features.astype(np.float64, copy=False), labels, polar)

    def integers(self, records: NDArray[np.generic]) -> list[tuple[Array, Array]]:
        """Integer factors (k, m) of each record and layer, shapes (n, outputs) and (n, inputs + 1).

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        return self._factored(*self.model_inputs(records))

    def model_inputs(self, records: NDArray[np.generic]) -> tuple[Array, Array]:
        """Features as the model's integers, shape (n, inputs + 1), the constant first, and labels, shape (n,).

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        return self.features.quantise(records[:, :-1]), self._labels(records[:, -1])

    def _factored(
        self, features: Array, labels: Array, known: tuple[Array, Array] | None = None
    ) -> list[tuple[Array, Array]]:
        """The same of integers of features; ``known`` are the lengths of these and their directions, or neither."""
        factors = self.model.factors(features, labels)
        lengths = [
            known[0] if known is not None and part.inputs is features else np.sqrt(squared_norms(part.inputs))
            for part in factors
        ]
        borders = np.cumsum([part.errors.shape[1] for part in factors])
        together = np.empty((len(features), borders[-1]))
        for part, own, end in zip(factors, lengths, borders, strict=True):
            place = together[:, end - part.errors.shape[1] : end]
            np.multiply(part.errors, (own / part.steps)[:, None], out=place)
        if self.clip != 1.0:
            together /= self.clip
        bounded = _fine(together)
        pull_inside_ball(bounded, self.largest)
        pairs = list[tuple[Array, Array]]()
        for k, part, own in zip(np.split(bounded, borders[:-1], axis=1), factors, lengths, strict=True):
            if known is not None and part.inputs is features:
                pairs.append((k, known[1]))
            else:
                _turn_into_directions(part.inputs, own, self.largest)
                pairs.append((k, part.inputs))
        return pairs

    def split(self, matrix: Array) -> list[Array]:
        """Parts of an answer (or of anything of its shape) by layer, in the layer's shape."""
        sizes = np.cumsum([rows * columns for rows, columns in self.model.shapes])[:-1]
        parts = np.split(matrix.ravel(), sizes)
        return [part.reshape(shape) for part, shape in zip(parts, self.model.shapes, strict=True)]

    def _labels(self, column: NDArray[np.generic]) -> Array:
        values = column.astype(np.float64)
        if not np.isfinite(values).all():
            raise NotFiniteError
        lower, upper = self.label
        inside = np.clip(values, lower, upper)
        if self.model.output is not Output.SQUARED:
            return np.rint(inside)
        return (inside - (lower + upper) / 2.0) / ((upper - lower) / 2.0)


def _in_batch(records: NDArray[np.generic], batch: StepRecords, first: int) -> NDArray[np.generic]:
    """Records of a batch, once all of them are known to be finite: what a step refuses depends on no batch."""
    if not np.isfinite(records).all():
        raise NotFiniteError
    return records[batch.taken(batch.marks(records), first)]


def _radius(inputs: int, largest: int) -> float:
    """Length to which integer directions are scaled, so that rounding leaves them within ``largest``."""
    return largest - (math.sqrt(inputs) / 2.0) * (1.0 + 1e-9) - 1e-3


def _fine(values: Array) -> Array:
    """Coordinates in steps of 2**-20, pulled along their ray to at most 8 in each; a maximum has no order of sums."""
    # Far below 8 in length no coordinate is beyond 8, whatever the order of the sum, and the factor is one.
    long = np.flatnonzero(np.einsum("ij,ij->i", values, values) > _FURTHEST**2 / 2.0)
    if long.size:
        furthest = np.max(np.abs(values[long]), axis=1, keepdims=True)
        values[long] *= np.minimum(1.0, _FURTHEST / np.maximum(furthest, 1.0))
    values *= 2.0**_FINE_BITS
    return np.rint(values, out=values)


def _turn_into_directions(inputs: Array, lengths: Array, largest: int) -> None:
    """Turn rows of these lengths into integers of length at most ``largest``, in place; each has the constant."""
    # |m| <= R (1 + 4 ulp) before rounding, which adds at most sqrt(inputs) / 2, so |m| <= largest.
    inputs *= (_radius(inputs.shape[1], largest) / lengths)[:, None]
    np.rint(inputs, out=inputs)
    if not np.all(squared_norms(inputs) <= largest * largest):
        raise ArithmeticError("an input left its ball; the machine's rounding is not IEEE 754")

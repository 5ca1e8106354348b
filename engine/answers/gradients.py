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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gram import RowSource
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.models import FEATURE_STEPS, Model, Output
from blockveil.engine.answers.step_records import Batches, FixedBatches, PoissonBatches, StepRecords
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.noise.banded import Band
from blockveil.engine.noise.sampled_noise import Sampling
from blockveil.engine.records.geometry import Body
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser
from blockveil.engine.records.rounding import pull_inside_ball, squared_norms
from blockveil.engine.sensitivity.problems import OuterProducts
from blockveil.engine.sensitivity.second_moment import Sensitivity
from blockveil.engine.sensitivity.spread import Spread

Array = NDArray[np.float64]

_PIECE_BYTES = 4 * 2**20
_FINE_BITS = 20
_FURTHEST = 8.0
_LEAST_CLIP = 1e-200
"""Errors are below 2**26 and inputs shorter than 2**12, so that no gradient over such a clip leaves float64."""

_MOST_INPUTS = 2**15 - 1


@dataclass(frozen=True, eq=False)
class GradientProblem(OuterProducts):
    """A sum of matrices of Frobenius norm at most one: bounded as outer products of two unit balls are.

    With ``steps``, as many such sums one below the other, each at weights that follow from the noisy sums before it.

    **Claim.** Noise that is private for the sums at weights fixed beforehand is as private for weights that follow from
    what was released, for the noise of a step is independent of that of the others.

    **Proof.** Given the sums that were released, the weights of the next step are the same for both neighbours, and its
    sums differ by at most ``Delta`` in the spread's norm whatever these weights are. So, given the past, each step is
    dominated by the same pair of laws: normal ones ``Delta / scale + rounding`` apart for Gaussian noise, or a pure
    loss of as much for Laplace noise. Dominating pairs compose under adaptive choice (Zhu, Dong and Wang, 2022, theorem
    10; Dong, Roth and Su, 2022, theorem 4 and corollary 2): normal ones ``mu`` apart in each of T steps to one pair
    ``sqrt(T) mu`` apart, pure losses to their sum. Both are the loss of one answer whose sensitivity is ``sqrt(T)
    Delta`` in L2, or ``T Delta`` in L1, and whose entries change in all steps. The samplers' distances add up over all
    entries drawn. QED.

    Where steps are over fixed batches, :mod:`.step_records` proves in how many of them one record takes part, and
    :mod:`.banded` what noise costs that cancels over the steps in between. Where
    they are over secret samples, the pair of a step is another one, and :mod:`.sampled_noise` composes it.

    Attributes
    ----------
    steps
        T, the number of sums.
    batches
        How a step takes part of the records; None where each is over all of them.
    """

    query: ClassVar[str] = "gradients"
    steps: int = field(default=1, kw_only=True)
    batches: Batches | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse samples under a relation for which no pair is proven."""
        if isinstance(self.batches, PoissonBatches) and self.neighbours is not Neighbours.ADD_REMOVE:
            raise CannotCalibrate('samples have a known loss under "add-remove" alone; choose it, or other batches')
        if isinstance(self.batches, FixedBatches) and not 1 <= self.batches.band <= min(self.batches.count, self.steps):
            # Columns of the band that one record is in would share rows.
            raise CannotCalibrate("noise cancels over as many steps as there are batches at most; lower band")

    @property
    def sampling(self) -> Sampling | None:
        """Steps over secret samples; None where there are none."""
        return Sampling(self.batches.probability, self.steps) if isinstance(self.batches, PoissonBatches) else None

    @property
    def band(self) -> Band | None:
        """By which noise cancels from step to step; None where noise of steps is independent."""
        width = self.batches.band if isinstance(self.batches, FixedBatches) else 1
        return Band(width, self.steps) if width > 1 else None

    @property
    def patterns(self) -> float:
        """How many times what a record changes in one step it changes in all, in L2, where noise cancels."""
        # A record that enters another batch is in two patterns of steps, whose changes may have one direction.
        return math.sqrt(self._most) * (2.0 if self.neighbours is Neighbours.REPLACE_ONE else 1.0)

    def l2_of_the_band(self, spread: Spread, band: Band) -> Sensitivity:
        """Sensitivity of what the band makes of all sums."""
        added = [(replace(one, neighbours=Neighbours.ADD_REMOVE), part) for one, part in self._each(spread)]
        # A record replaced by another moves a step no further than both together, which patterns count.
        of_a_step = max(one.l2(part).bound for one, part in added)
        return Sensitivity(of_a_step * self.patterns * math.sqrt(band.squared_norm) * (1.0 + 1e-14), 0.0)

    def l2(self, spread: Spread) -> Sensitivity:
        """Sensitivity of outer products in each step; whether gradients of a model attain it depends on its weights."""
        self._check_independent()
        if self.steps == 1:
            return Sensitivity(super().l2(spread).bound, 0.0)
        # sum over its steps of Delta_t^2 <= most max Delta_t^2; the last factor covers rounding of root and product.
        return Sensitivity(self._largest(spread, 2) * math.sqrt(self._most) * (1.0 + 1e-15), 0.0)

    def l1(self, spread: Spread) -> Sensitivity:
        """The sensitivity is that of outer products, in each step."""
        self._check_independent()
        if self.steps == 1:
            return Sensitivity(super().l1(spread).bound, 0.0)
        # sum over its steps of Delta_t <= most max Delta_t.
        return Sensitivity(self._largest(spread, 1) * self._most * (1.0 + 1e-15), 0.0)

    def l2_of_a_step(self, spread: Spread) -> Sensitivity:
        """The largest over the steps, each over all records."""
        return Sensitivity(max(one.l2(part).bound for one, part in self._each(spread)), 0.0)

    def _check_independent(self) -> None:
        if self.sampling is not None or self.band is not None:
            what = "samples need" if self.band is None else "a band needs"
            raise CannotCalibrate(f'{what} Gaussian noise; choose "gaussian" or "shaped-gaussian"')

    @property
    def _most(self) -> int:
        """Steps that one record takes part in."""
        return self.batches.most(self.steps) if isinstance(self.batches, FixedBatches) else self.steps

    def _largest(self, spread: Spread, norm: int) -> float:
        """The largest change of a step, such that ``most`` of them cover what one record changes in all steps."""

        def change(neighbours: Neighbours) -> float:
            pairs = [(replace(one, neighbours=neighbours), part) for one, part in self._each(spread)]
            return max((one.l2(part) if norm == 2 else one.l1(part)).bound for one, part in pairs)

        found = change(self.neighbours)
        if self.neighbours is Neighbours.REPLACE_ONE and isinstance(self.batches, FixedBatches):
            # A record that enters another batch moves 2 most sums by one record each: sqrt(2) times that, or twice.
            found = max(found, (math.sqrt(2.0) if norm == 2 else 2.0) * change(Neighbours.ADD_REMOVE) * (1.0 + 1e-15))
        return found

    def _each(self, spread: Spread) -> list[tuple[GradientProblem, Spread]]:
        """One sum with the spread of a step, for each spread that a step has."""
        parts = np.unique(spread.rows.reshape(self.steps, -1), axis=0)
        one = replace(self, left_scale=self.left_scale[: parts.shape[1]], steps=1, batches=None)
        return [(one, one.spread(part, spread.columns)) for part in parts]


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
        self, source: RowSource, start: int, stop: int, chunk_rows: int, batch: StepRecords | None = None
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

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        totals = [np.zeros(shape, dtype=np.int64) for shape in self.model.shapes]
        width = sum(rows + columns for rows, columns in self.model.shapes)
        rows = max(1, min(2**53 // self.largest**2, _PIECE_BYTES // (8 * width)))
        for first in range(start, stop, chunk_rows):
            chunk = np.asarray(source[first : min(first + chunk_rows, stop)])
            if batch is not None:
                chunk = _in_batch(chunk, batch, first)
            for offset in range(0, chunk.shape[0], rows):
                for total, (errors, inputs) in zip(totals, self.integers(chunk[offset : offset + rows]), strict=True):
                    # Exact: every partial sum is an integer of at most rows * K**2 <= 2**53.
                    total += (errors.T @ inputs).astype(np.int64)
        return totals[0] if len(totals) == 1 else np.concatenate([total.ravel() for total in totals])[None, :]

    def integers(self, records: NDArray[np.generic]) -> list[tuple[Array, Array]]:
        """Integer factors (k, m) of each record and layer, shapes (n, outputs) and (n, inputs + 1).

        Raises
        ------
        NotFiniteError
            A value is missing or infinite.
        """
        factors = self.model.factors(self.features.quantise(records[:, :-1]), self._labels(records[:, -1]))
        lengths = [np.sqrt(squared_norms(part.inputs)) for part in factors]
        lengthened = [part.errors * (own / part.steps)[:, None] for part, own in zip(factors, lengths, strict=True)]
        together = np.concatenate(lengthened, axis=1) / self.clip
        bounded = _fine(together)
        pull_inside_ball(bounded, self.largest)
        borders = np.cumsum([part.errors.shape[1] for part in factors])[:-1]
        errors = np.split(bounded, borders, axis=1)
        for part, own in zip(factors, lengths, strict=True):
            _turn_into_directions(part.inputs, own, self.largest)
        return [(k, part.inputs) for k, part in zip(errors, factors, strict=True)]

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


@dataclass(frozen=True, eq=False)
class GradientsAtStep:
    """The sum of one step, as a part of an answer that has those of all steps one below the other.

    Attributes
    ----------
    query
        The sum at the weights of this step.
    first_row
        Row of the whole answer that the step's first row is.
    batch
        The records that it is over; None for all.
    """

    query: GradientsQuery
    first_row: int
    batch: StepRecords | None = None

    def partial(
        self, source: RowSource, start: int, stop: int, chunk_rows: int, tiles: Sequence[Tile]
    ) -> list[NDArray[np.int64]]:
        """Tiles of the whole answer, all of them within this step."""
        whole = self.total(source, start, stop, chunk_rows)
        own = [(tile.rows[0] - self.first_row, tile.rows[1] - self.first_row) for tile in tiles]
        return [whole[slice(*rows), slice(*tile.columns)].copy() for rows, tile in zip(own, tiles, strict=True)]

    def total(self, source: RowSource, start: int, stop: int, chunk_rows: int) -> NDArray[np.int64]:
        """Sum of the step over a range of rows, exact; as :meth:`GradientsQuery.total`."""
        return self.query.total(source, start, stop, chunk_rows, self.batch)


def _in_batch(records: NDArray[np.generic], batch: StepRecords, first: int) -> NDArray[np.generic]:
    """Records of a batch, once all of them are known to be finite: what a step refuses depends on no batch."""
    if not np.isfinite(records).all():
        raise NotFiniteError
    return records[batch.taken(records, first)]


def _radius(inputs: int, largest: int) -> float:
    """Length to which integer directions are scaled, so that rounding leaves them within ``largest``."""
    return largest - (math.sqrt(inputs) / 2.0) * (1.0 + 1e-9) - 1e-3


def _fine(values: Array) -> Array:
    """Coordinates in steps of 2**-20, pulled along their ray to at most 8 in each; a maximum has no order of sums."""
    furthest = np.max(np.abs(values), axis=1, keepdims=True)
    values *= np.minimum(1.0, _FURTHEST / np.maximum(furthest, 1.0))
    return np.rint(np.ldexp(values, _FINE_BITS))


def _turn_into_directions(inputs: Array, lengths: Array, largest: int) -> None:
    """Turn rows of these lengths into integers of length at most ``largest``, in place; each has the constant."""
    # |m| <= R (1 + 4 ulp) before rounding, which adds at most sqrt(inputs) / 2, so |m| <= largest.
    inputs *= (_radius(inputs.shape[1], largest) / lengths)[:, None]
    np.rint(inputs, out=inputs)
    if not np.all(squared_norms(inputs) <= largest * largest):
        raise ArithmeticError("an input left its ball; the machine's rounding is not IEEE 754")

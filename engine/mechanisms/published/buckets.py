"""DAWA as it is released: a private partition and noisy bucket counts, both in whole numbers, from one key.

Both steps draw discrete Laplace noise of rational rates from streams of their own under the release's key, so nothing
here is rounded and the two losses are exact fractions:

* partition: every candidate bucket's cost gets noise of rate ``r1``, which costs ``2 D c r1`` (:mod:`.dawa`);
* buckets: every bucket's count gets noise of rate ``r2``. Given the partition, one record moves c counts by one, which
  costs ``c r2``; c = 1 (add-remove) or 2 (replace-one).

The second step is chosen in view of the first, so the losses add up. Noise is drawn for all candidates and for as many
buckets as there are cells, whatever the partition is; a tile of 128 x 128 noise values belongs to a level and to cells,
not to chunks.

**Source**: Li, Hay, Miklau and Wang, 2014, sections 3 and 4, with noise on single cells; Dwork and Roth, 2014, Theorem
3.16 (adaptive composition of pure losses).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError, CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.engine.mechanisms.abilities import OneCell, one_cell
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration, Parameter, RealBetween
from blockveil.engine.mechanisms.published.dawa import Partitioner, bucket_counts, hilbert_order
from blockveil.engine.noise.additive import usable_epsilon, usable_mu
from blockveil.engine.noise.design import Block, Released
from blockveil.engine.noise.discrete_gaussian import TILE, NoiseKey
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace
from blockveil.engine.records.geometry import Matrix
from blockveil.engine.sensitivity.problems import Problem
from blockveil.engine.workloads.kronecker import rows_of
from blockveil.engine.workloads.workload import Kronecker

LARGEST_TABLE = 2**18
"""Most cells: the costs of all candidates are held at once, and the least partition is found cell by cell."""

_LONGEST = 1024
_LEAST_RATE = Fraction(1, 2**17)
_MOST_WORK = 2**28
_PENALTY = 2.0
"""Penalty of a bucket over the scale of the noise of costs."""

_PARTITION, _BUCKETS = 1, 2


@dataclass(frozen=True)
class BucketsDesign:
    """All numbers of one release of bucket counts.

    Attributes
    ----------
    cells
        Shape of the table.
    partitioner
        Step 1.
    partition_law, bucket_law
        Noise of the costs, in the partitioner's units, and of the counts.
    loss
        What the release costs.
    streams
        Numbers under the release's key of the partition's noise and of the counts'. The losses of both steps add up
        because their noises are independent.
    """

    cells: tuple[int, int]
    partitioner: Partitioner
    partition_law: DiscreteLaplace
    bucket_law: DiscreteLaplace
    loss: Loss
    streams: tuple[int, int]

    def __post_init__(self) -> None:
        """Refuse one noise for both steps."""
        if len(set(self.streams)) < len(self.streams):
            raise ValueError(f"both steps would draw from stream {self.streams[0]}; give each a stream of its own")

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the release: counts and lengths of buckets by their first cell along the line."""
        return 2, self.partitioner.cells

    @property
    def additive(self) -> None:
        """It adds noise to no entry of the answer."""

    @property
    def by_tile(self) -> bool:
        """No: a bucket's borders depend on all counts."""
        return False

    @property
    def symmetric(self) -> bool:
        """No: a table."""
        return False

    @property
    def losses(self) -> tuple[Fraction, Fraction]:
        """Pure loss of the partition and of the bucket counts, exact."""
        return self.partitioner.exact_loss(self.partition_law.rate), self.partitioner.records * self.bucket_law.rate

    @property
    def answer_shape(self) -> tuple[int, int]:
        """Shape of the table."""
        return self.cells

    def frozen_loss(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
        """What the theorems charge for two tables, at the worst partition: the gain of one, and how counts move."""
        order = hilbert_order(self.cells)
        one, other = first.ravel()[order], second.ravel()[order]
        # Buckets of single cells are a partition too, and its counts move as far as those of any.
        counts = int(np.sum(np.abs(one - other)))
        return float(counts * self.bucket_law.rate + self.partitioner.gain(one, other) * self.partition_law.rate)

    def facts(self) -> dict[str, Any]:
        """Public numbers of both steps, as plain JSON values."""
        partition, buckets = self.losses
        return {
            "order": "Hilbert curve, version 1",
            "steps": [
                {
                    "step": "partition",
                    "loss": float(partition),
                    "noise": self.partition_law.label,
                    "unit": self.partitioner.unit,
                    "sensitivity": self.partitioner.sensitivity,
                    "penalty": self.partitioner.penalty,
                    "longest": self.partitioner.longest,
                },
                {"step": "buckets", "loss": float(buckets), "noise": self.bucket_law.label},
            ],
        }

    def lines(self) -> list[tuple[str, str]]:
        """Loss and noise of both steps, for a person."""
        partition, buckets = (float(loss) for loss in self.losses)
        return [
            ("Partition", f"pure epsilon {partition:.6g}; {self.partition_law.label} on each candidate's cost"),
            ("Buckets", f"pure epsilon {buckets:.6g}; {self.bucket_law.label} on each count"),
        ]

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """Both steps: a pure function of key and counts.

        Parameters
        ----------
        key
            Key of the release.
        exact
            Exact counts, shape ``cells``, int64.
        block
            All of the release.

        Returns
        -------
        Shape (2, cells), int64: at the first cell of each bucket, along the line, its noisy count and its length; zeros
        elsewhere.
        """
        line = exact.ravel()[hilbert_order(self.cells)]
        borders = self.partitioner.partition(
            line, lambda rows, columns: _line_noise(self.partition_law, key, rows[1], columns[1], self.streams[0])
        )
        noise = _line_noise(self.bucket_law, key, 1, line.size, self.streams[1])[0]
        starts = borders[:-1]
        released = np.zeros(self.shape, dtype=np.int64)
        released[0, starts] = bucket_counts(line, borders) + noise[starts]
        released[1, starts] = np.diff(borders)
        return released

    def stand_in(self) -> Released:
        """What :meth:`release` could return of no records without noise: one bucket of all cells, and nothing in it."""
        released = np.zeros(self.shape, dtype=np.int64)
        released[1, 0] = self.shape[1]
        return released


@dataclass(frozen=True, eq=False)
class Buckets:
    """Released buckets, read back.

    Attributes
    ----------
    counts, lengths
        Noisy count and number of cells of each bucket.
    numbers
        Number of the bucket of each cell, shape of the table.
    deviation
        Standard deviation of the noise of a count.
    """

    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    numbers: NDArray[np.int64]
    deviation: float

    @classmethod
    def of(cls, released: Released, design: BucketsDesign) -> Buckets:
        """Build the buckets from what :meth:`BucketsDesign.release` returned."""
        whole = released.astype(np.int64, copy=False)
        starts = np.flatnonzero(whole[1])
        lengths = whole[1, starts]
        numbers = np.empty(whole.shape[1], dtype=np.int64)
        numbers[hilbert_order(design.cells)] = np.repeat(np.arange(starts.size), lengths)
        deviation = design.bucket_law.standard_deviation
        return cls(whole[0, starts], lengths, numbers.reshape(design.cells), deviation)

    def cells(self) -> Matrix:
        """Counts of cells: each bucket's count spread evenly."""
        return (self.counts / self.lengths)[self.numbers]

    def cell_deviations(self) -> Matrix:
        """Standard deviation of the noise alone of each cell's count; how unequal cells are is not in it."""
        return (self.deviation / self.lengths)[self.numbers]

    def answer_deviations(self, part: Kronecker) -> Matrix | None:
        """Standard deviation of the noise alone of each answer; None where that takes too long."""
        if part.shape[0] * part.shape[1] * self.numbers.size > _MOST_WORK:
            return None
        left, right = rows_of(part.rows), rows_of(part.columns)
        variance = np.zeros(part.shape)
        order = np.argsort(self.numbers.ravel(), kind="stable")
        for bucket in np.split(order, np.cumsum(self.lengths)[:-1]):
            row, column = np.divmod(bucket, self.numbers.shape[1])
            # The answers to a table that is even in this bucket and zero elsewhere.
            variance += (left[:, row] @ right[:, column].T / bucket.size) ** 2
        deviations: Matrix = self.deviation * np.sqrt(variance)
        return deviations


@dataclass(frozen=True)
class Dawa:
    """Data-aware counts: a pure epsilon, and an error that depends on how even the records lie.

    Attributes
    ----------
    partition_share
        Share of epsilon that pays for the partition, between 0 and 1.
    """

    name: ClassVar[str] = "dawa"
    partition_share: float

    def design(self, problem: Problem, guarantee: ApproxDP) -> BucketsDesign:
        """Both steps at the whole epsilon; only the samplers' distance uses delta.

        Raises
        ------
        NotApplicable
            Another query, or too many cells.
        CannotCalibrate
            A rate leaves the range of the sampler, costs could leave int64, or delta is below the samplers' distance.
        """
        if not one_cell(problem) or problem.cells == (1, 1):
            raise NotApplicable("buckets are for counts of at least two cells; choose another mechanism")
        if problem.axes > 2:
            raise NotApplicable(
                f"buckets are found along one or two axes, and this grid has {problem.axes}; choose gaussian or "
                "discrete-laplace"
            )
        size = problem.cells[0] * problem.cells[1]
        if size > LARGEST_TABLE:
            raise NotApplicable(f"{size} cells; buckets are found for {LARGEST_TABLE} at most; choose hierarchical")
        epsilon = Fraction(usable_epsilon(guarantee))
        first = epsilon * Fraction(self.partition_share)
        try:
            partitioner, law = _partitioner(problem, first, float(epsilon - first))
            # What the first rate leaves, since rates are fractions of small denominators rounded down.
            remainder = epsilon - partitioner.exact_loss(law.rate)
            buckets = DiscreteLaplace.at_most(remainder / partitioner.records)
        except CalibrationError as error:
            raise CannotCalibrate(str(error)) from None
        draws = partitioner.levels * size * law.total_variation_per_draw + size * buckets.total_variation_per_draw
        usable_mu(guarantee, draws)
        # losses[0] + losses[1] <= epsilon, exactly: both rates were rounded down.
        loss = Loss(0.0, float(epsilon), draws)
        return BucketsDesign(problem.cells, partitioner, law, buckets, loss, (_PARTITION, _BUCKETS))

    def parameters(self) -> dict[str, Any]:
        """Share of the partition."""
        return {"partition_share": self.partition_share}


def _partitioner(problem: OneCell, first: Fraction, second: float) -> tuple[Partitioner, DiscreteLaplace]:
    """Step 1 at a loss: the finest unit whose rate the sampler has."""
    size = problem.cells[0] * problem.cells[1]
    longest = min(_LONGEST, 1 << (size.bit_length() - 1))
    unit = max(1, longest // 2)
    while unit > 1 and first / (4 * unit * 2) < _LEAST_RATE:
        unit //= 2
    plain = Partitioner(size, longest, unit, 0, problem.neighbours)
    plain.check_records(problem.rows_at_most)
    law = DiscreteLaplace.at_most(first / plain.exact_loss(Fraction(1)))
    # A bucket costs the mean size of its noise; less than a few times the noise of the costs would choose lucky noise.
    records = max(1.0 / second * plain.records, _PENALTY * float(1 / law.rate) / unit)
    penalty = min(ceil(records * unit), 2**40)
    return Partitioner(size, longest, unit, penalty, problem.neighbours), law


def _line_noise(law: DiscreteLaplace, key: NoiseKey, levels: int, cells: int, stream: int) -> NDArray[np.int64]:
    """Noise by level and cell, shape (levels, cells): each level fills rows of a tile's width."""
    rows = -(-cells // TILE)
    noise = law.draw(key, (0, levels * rows), (0, TILE), False, stream)
    return np.ascontiguousarray(noise.reshape(levels, rows * TILE)[:, :cells])


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="dawa",
            title="data-aware counts (DAWA): a private partition, then noisy buckets",
            status=Status.PROVEN_EXACT,
            source="Li, Hay, Miklau and Wang, 2014, sections 3 and 4",
            theorem=(
                "a partition of least noisy cost has pure loss 2 D c times the rate of its noise, and counts of its "
                "buckets add c times their own"
            ),
            relations=BOTH,
            needs=(
                "a grid of at most 262,144 cells, laid out along a Hilbert curve; a share of epsilon for the partition"
            ),
            loss=(
                "pure epsilon = 2 D c rate of the costs' noise + c rate of the counts' noise; c = 1, or 2 under "
                "replace-one"
            ),
            error=(
                "noise of a bucket shared by its cells, and what the cells of one bucket differ, which depends on "
                "the records: auto cannot compare it"
            ),
            finding=(
                "Right for the algorithm in which every candidate bucket gets noise; the sensitivity of a deviation "
                "is 2 - 2 / L. The authors' released program leaves single cells without noise and is not private "
                "as claimed: 12/7 of its epsilon at three cells."
            ),
            use="release",
        ),
        mechanism=Dawa,
        form=(
            "Noise on counts of buckets of cells, which are chosen privately so that their cells are similar: a "
            "pure epsilon."
        ),
        parameters=(
            Parameter(
                "partition_share",
                RealBetween(0.01, 0.99),
                "the share of the pure epsilon that pays for choosing the buckets; the counts take the rest",
                required=False,
                default=0.25,
            ),
        ),
        audit_cases="blockveil.engine.audit.bucket_cases:bucket_cases",
    ),
)

"""DAWA under audit: the released program on a line of four cells, its noise in bulk, and its mutants.

Neighbours: records that lie evenly, and one more in the first cell. The first bucket's count then always moves by one,
and the partition moves with the costs of all buckets that hold the cell. Under replace-one a record moves from the last
cell to the first, of many in these two cells and few between them: one bucket of all cells would hide that it moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from blockveil.engine.audit.bounds import Array
from blockveil.engine.audit.subjects import BlackBox, Subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.mechanisms.published.buckets import BucketsDesign, Dawa
from blockveil.engine.noise.discrete_gaussian import TILE, NoiseKey
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace

_CELLS = 4
_ROWS = 20_000
_MANY = 5_000
_BEYOND = 8
_SHARE = 0.1
_MUTANTS = ("half-scale", "reseeded", "unclipped")


@dataclass(frozen=True, eq=False)
class BucketTrials:
    """Many releases at once, as an audit subject: the same steps, with the noise of all trials drawn together.

    Attributes
    ----------
    name, claim
        See :class:`.subjects.Subject`.
    design
        Noise of the release.
    data
        Counts of D and D' along the line.
    shared
        Whether one draw serves all candidates, and one all buckets: a mutant.
    """

    name: str
    claim: PureDP
    design: BucketsDesign
    data: tuple[NDArray[np.int64], NDArray[np.int64]]
    shared: bool = False
    chunks: None = None

    @property
    def answers(self) -> tuple[Array, Array]:
        """What is released without noise where each cell is its own bucket."""
        first, second = (np.concatenate([line, np.ones(_CELLS)]) for line in self.data)
        return first, second

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Counts and lengths of buckets by their first cell, shape (trials, 8)."""
        key, partitioner = NoiseKey(rng.bytes(32)), self.design.partitioner
        costs = partitioner.costs(self.data[which])
        of_costs, of_counts = self.design.streams
        noise = _bulk(self.design.partition_law, key, trials, costs.size, of_costs)
        counted = _bulk(self.design.bucket_law, key, trials, _CELLS, of_counts)
        if self.shared:
            noise, counted = np.repeat(noise[:, :1], costs.size, axis=1), np.repeat(counted[:, :1], _CELLS, axis=1)
        lengths = bucket_lengths(costs + noise.reshape(trials, *costs.shape))
        sums = np.append(0, np.cumsum(self.data[which]))
        first = np.arange(_CELLS)
        exact = sums[first + lengths] - sums[first]
        return np.hstack([np.where(lengths > 0, exact + counted, 0), lengths]).astype(np.float64)

    def log_ratio(self, outputs: Array) -> None:
        """Not known."""

    def delta(self, epsilon: float) -> None:
        """Not known."""

    def with_noise(self, factor: float) -> BucketTrials:
        """The same steps with both rates divided by a factor."""
        return replace(self, design=_with_noise(self.design, factor))


def bucket_lengths(costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """What :func:`.dawa.least_cost_partition` finds, for many trials at once.

    Parameters
    ----------
    costs
        Noisy costs, shape (trials, levels, cells).

    Returns
    -------
    Length of the bucket that starts at each cell, 0 where none does, shape (trials, cells).
    """
    trials, levels, cells = costs.shape
    best, last = np.zeros((cells + 1, trials), dtype=np.int64), np.zeros((cells + 1, trials), dtype=np.int64)
    for end in range(1, cells + 1):
        for level in range(levels):
            if 2**level > end:
                break
            cost = best[end - 2**level] + costs[:, level, end - 2**level]
            # Only what is strictly better replaces a shorter last bucket.
            better = (cost < best[end]) if level else np.ones(trials, dtype=bool)
            best[end, better], last[end, better] = cost[better], 2**level
    lengths, trial, border = np.zeros((trials, cells), dtype=np.int64), np.arange(trials), np.full(trials, cells)
    while trial.size:
        length = last[border, trial]
        border = border - length
        lengths[trial, border] = length
        trial, border = trial[border > 0], border[border > 0]
    return lengths


def bucket_cases(guarantee: ApproxDP, mutant: str | None = None) -> list[Subject]:
    """Subjects of DAWA, or of one of its mutants: under either relation, the steps in bulk and the program itself.

    Raises
    ------
    CalibrationError
        There is no such mutant.
    """
    if mutant not in (None, *_MUTANTS):
        raise CalibrationError(f"the mutants of dawa are {', '.join(_MUTANTS)}, not {mutant}; choose one of them")
    subjects: list[Subject] = []
    for relation in Neighbours:
        design = Dawa(_SHARE).design(Counts((1, _CELLS), relation, _ROWS), guarantee)
        claim, actual = PureDP(design.loss.epsilon), design
        if mutant == "half-scale":
            actual = _with_noise(design, 0.5)
        second = np.full(_CELLS, 2, dtype=np.int64)
        if relation is Neighbours.REPLACE_ONE:
            second[[0, -1]] = _MANY
        first = second.copy()
        first[0] += _BEYOND if mutant == "unclipped" else 1
        if relation is Neighbours.REPLACE_ONE:
            first[-1] -= 1
        shared = mutant == "reseeded"
        label = f"counts, {relation.value}"
        trials = BucketTrials(f"{label}: both steps", claim, actual, (first, second), shared)
        subjects.append(trials)
        if not shared:
            name = f"{label}: counts to release"
            subjects.append(BlackBox(name, claim, _Program(actual), (first, second), model=trials.with_noise))
    return subjects


def _with_noise(design: BucketsDesign, factor: float) -> BucketsDesign:
    """The same design with both rates divided by a factor, rounded down."""
    to_costs, to_counts = (
        # The sampler has no larger rates.
        DiscreteLaplace.at_most(min(law.rate / Fraction(factor), Fraction(64)))
        for law in (design.partition_law, design.bucket_law)
    )
    return replace(design, partition_law=to_costs, bucket_law=to_counts)


def _bulk(law: DiscreteLaplace, key: NoiseKey, trials: int, width: int, stream: int) -> NDArray[np.int64]:
    """Noise of many trials, shape (trials, width): rows of a tile hold as many trials as fit."""
    each = TILE // width
    rows = -(-trials // each)
    return law.draw(key, (0, rows), (0, each * width), False, stream).reshape(-1, width)[:trials]


@dataclass(frozen=True, eq=False)
class _Program:
    design: BucketsDesign

    def __call__(self, line: NDArray[np.int64], key: NoiseKey) -> Array:
        return self.design.release(key, line[None, :]).astype(np.float64)

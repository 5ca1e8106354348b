"""Hierarchical counts (Hb): noisy sums of nested blocks, made consistent by exact least squares, in one or two axes.

The axes are padded to ``b^h`` cells each. Level l holds the sums of blocks of ``b^l`` cells a side, l = 0 (cells) to
h - 1; the whole (level h) may be measured too. Write ``B = b`` (one axis) or ``b^2`` (two), and w_l for the inverse
variance of the noise of level l (0 where it is not measured). The Gram matrix of the weighted strategy has the
eigenspaces "constant on blocks of level k, summing to zero in blocks of level k + 1", with eigenvalues

    lambda_k = sum over l <= k of w_l B^l,

so its inverse, hence the covariance of the least-squares counts and the error of any product workload, is closed form.
With P_k the mean over blocks of level k: ``sum over k < h of (P_k - P_(k+1)) / lambda_k + P_h / lambda_h``.

Exact loss. One record lies in one block of each level, so with c = 1 (add-remove), or 2 for each level of more than one
block (replace-one):

* Laplace of scales b_l: ``epsilon = sum of c / b_l``;
* Gaussian of standard deviations s_l: ``mu = sqrt(sum of c / s_l^2)``.

**Source**: Hay, Rastogi, Miklau and Suciu, 2010 (tree, inference); Qardaji, Yang and Li, 2013, section 3 (branching,
equation 3; epsilon / h a level). Verdict: the published guarantee is right, and exact, under add-remove; under
replace-one the same noise costs twice as much. The closed form is derived here and replaces their approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from engine.calibration import CalibrationError
from engine.geometry import Matrix
from engine.guarantees import GaussianDP, Neighbours, PureDP
from engine.mechanisms.matrix_mechanism import Draw
from engine.workloads import Numbers

Vector = NDArray[np.float64]

_ROUND_UP = 1.0 + 1e-12


@dataclass(frozen=True)
class Hierarchy:
    """A tree of blocks.

    Attributes
    ----------
    axes
        Cells along the one or two axes.
    branching
        b, at least 2: blocks of the next level along each axis.
    with_whole
        Whether the sum of everything is measured.
    neighbours
        Neighbouring relation; each record counts in one cell.
    """

    axes: tuple[int, ...]
    branching: int
    with_whole: bool
    neighbours: Neighbours

    def __post_init__(self) -> None:
        """Refuse trees that do not exist."""
        if len(self.axes) not in (1, 2) or min(self.axes) < 1 or max(self.axes) < 2:
            raise CalibrationError(f"axes are {self.axes}; a tree needs one or two axes and two cells; release counts")
        if self.branching < 2:
            raise CalibrationError(f"branching is {self.branching}; a block has at least 2 parts along an axis")

    @property
    def height(self) -> int:
        """h: least number of levels below the whole, so that ``b^h`` cells cover each axis."""
        height, side = 1, self.branching
        while side < max(self.axes):
            height, side = height + 1, side * self.branching
        return height

    @property
    def levels(self) -> int:
        """Number of measured levels."""
        return self.height + int(self.with_whole)

    def shape(self, level: int) -> tuple[int, ...]:
        """Blocks of a level along each axis."""
        return (self.branching ** (self.height - level),) * len(self.axes)

    @property
    def changing(self) -> tuple[int, ...]:
        """Blocks of each measured level that differ between neighbours at most, each by one."""
        if self.neighbours is Neighbours.ADD_REMOVE:
            return (1,) * self.levels
        # The number of records is the same on both sides, so the whole does not change at all.
        return (2,) * self.height + (0,) * int(self.with_whole)

    def answers(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Exact sums of each measured level, int64, shapes :meth:`shape`; shape of ``counts`` is ``axes``."""
        if counts.shape != self.axes or counts.dtype != np.int64:
            raise CalibrationError(f"counts must be int64 of shape {self.axes}; build the tree for this table")
        padding = [(0, side - size) for side, size in zip(self.shape(0), self.axes, strict=True)]
        found = [np.pad(counts, padding)]
        while len(found) < self.levels:
            found.append(_block_sums(found[-1], self.branching))
        return found

    def release(self, counts: NDArray[np.int64], draws: Sequence[Draw]) -> list[NDArray[np.int64]]:
        """Exact sums plus noise; one source of secure noise a level, which draws one-axis levels as a single row."""
        if len(draws) != self.levels:
            raise CalibrationError(f"{len(draws)} sources of noise for {self.levels} levels; give one a level")
        released = []
        for exact, draw in zip(self.answers(counts), draws, strict=True):
            rows, columns = (1, exact.size) if exact.ndim == 1 else exact.shape
            noise = draw((0, rows), (0, columns))
            if noise.dtype != np.int64 or noise.size != exact.size:
                raise CalibrationError(f"noise must be int64 for {rows} x {columns} blocks; give one number a block")
            released.append(exact + noise.reshape(exact.shape))
        return released

    def estimate(self, released: Sequence[NDArray[np.int64]], variances: Sequence[float]) -> Vector:
        """Least-squares counts, shape ``axes``, float64: two passes; without bias; post-processing.

        Parameters
        ----------
        released
            What :meth:`release` returns.
        variances
            Of the noise of each level, positive.
        """
        known = [*variances] + [inf] * (self.height + 1 - self.levels)
        _check(variances, self.levels)
        size = self.branching ** len(self.axes)
        best, variance, upward = released[0].astype(np.float64), known[0], []
        for level in range(1, self.height + 1):
            upward.append(best)
            best, below = _block_sums(best, self.branching), size * variance
            if level < self.levels:
                # Two independent unbiased values: weights by inverse variance.
                own = below / (below + known[level])
                best = own * released[level] + (1.0 - own) * best
            variance = 1.0 / (1.0 / known[level] + 1.0 / below)
        for own_level in reversed(upward):
            missing = (best - _block_sums(own_level, self.branching)) / size
            best = own_level + _spread(missing, self.branching)
        return best[tuple(slice(0, size) for size in self.axes)]

    def total_squared_error(self, grams: Sequence[Matrix], variances: Sequence[float]) -> float:
        """Expected total squared error of a product workload after least squares, in records squared; closed form.

        Parameters
        ----------
        grams
            Gram matrix of the workload along each axis.
        variances
            Of the noise of each level.
        """
        _check(variances, self.levels)
        return float(_error(self, _block_traces(self, grams), np.asarray(variances, dtype=np.float64)))

    def laplace_loss(self, scales: Sequence[float]) -> PureDP:
        """Exact loss of discrete Laplace noise of these scales b, one a level."""
        _check(scales, self.levels)
        return PureDP(sum(c / b for c, b in zip(self.changing, scales, strict=True)) * _ROUND_UP)

    def gaussian_loss(self, privacy_scales: Sequence[float]) -> GaussianDP:
        """Exact loss of noise no more private than continuous Gaussian noise of these standard deviations."""
        _check(privacy_scales, self.levels)
        squares = sum(c / s / s for c, s in zip(self.changing, privacy_scales, strict=True))
        return GaussianDP(sqrt(squares) * _ROUND_UP)

    def laplace_scales(self, epsilon: float, shares: Sequence[float]) -> tuple[float, ...]:
        """Scales that cost at most epsilon in all, each level its share, rounded up."""
        _check([epsilon], 1)
        _check(shares, self.levels)
        return tuple(max(c, 1) * sum(shares) / (epsilon * s) * _ROUND_UP**2 for c, s in self._budgets(shares))

    def gaussian_scales(self, mu: float, shares: Sequence[float]) -> tuple[float, ...]:
        """Standard deviations that cost at most mu in all, each level its share of mu squared, rounded up."""
        _check([mu], 1)
        _check(shares, self.levels)
        return tuple(sqrt(max(c, 1) * sum(shares) / s) / mu * _ROUND_UP**2 for c, s in self._budgets(shares))

    def _budgets(self, shares: Sequence[float]) -> list[tuple[int, float]]:
        return list(zip(self.changing, shares, strict=True))


@dataclass(frozen=True)
class Plan:
    """A tree, its shares, and the error it is expected to have.

    Attributes
    ----------
    tree
        The tree.
    shares
        Share of the loss (Laplace), or of its square (Gaussian), of each level; they sum to one.
    error
        Total squared error of the workload at epsilon or mu one.
    """

    tree: Hierarchy
    shares: tuple[float, ...]
    error: float


def plan_error(tree: Hierarchy, grams: Sequence[Matrix], shares: Sequence[float], *, gaussian: bool) -> float:
    """Total squared error of a product workload at epsilon or mu one."""
    scales = np.array(tree.gaussian_scales(1.0, shares) if gaussian else tree.laplace_scales(1.0, shares))
    return tree.total_squared_error(grams, list(scales**2 if gaussian else 2.0 * scales**2))


def best_plan(
    axes: tuple[int, ...],
    grams: Sequence[Matrix],
    neighbours: Neighbours,
    *,
    gaussian: bool,
    even_shares: bool,
    branchings: Sequence[int] | None = None,
) -> Plan:
    """Branching of least error, by the closed form; depends on the public axes and workload only.

    Parameters
    ----------
    axes, neighbours
        See :class:`Hierarchy`.
    grams
        Gram matrix of the workload along each axis.
    gaussian
        Gaussian noise, else Laplace.
    even_shares
        Every level the same share, as published; else shares are optimised numerically.
    branchings
        Which to try; None for the least one of each possible height.
    """
    tried = branchings or sorted({max(2, ceil(max(axes) ** (1.0 / h) - 1e-9)) for h in range(1, 40)})
    plans = []
    for branching in tried:
        tree = Hierarchy(axes, branching, False, neighbours)
        even = (1.0 / tree.levels,) * tree.levels
        shares = even if even_shares else _best_shares(tree, grams, gaussian)
        plans.append(Plan(tree, shares, plan_error(tree, grams, shares, gaussian=gaussian)))
    return min(plans, key=lambda plan: plan.error)


def published_branching(cells: int) -> int:
    """Branching of one axis as published: least ``(b - 1) h^3 - 2 (b + 1) h^2 / 3`` with ``h = ceil(log_b n)``."""
    if cells < 2:
        raise CalibrationError(f"cells is {cells}; a tree needs at least two")

    def approximation(b: int) -> float:
        h = ceil(log(cells) / log(b) - 1e-9)
        return (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3

    return min(range(2, cells + 1), key=approximation)


def _best_shares(tree: Hierarchy, grams: Sequence[Matrix], gaussian: bool) -> tuple[float, ...]:
    if tree.levels == 1:
        return (1.0,)
    traces = _block_traces(tree, grams)

    def loss(logits: Vector) -> float:
        shares = np.exp(logits - np.max(logits))
        shares /= np.sum(shares)
        return float(np.log(_error(tree, traces, 1.0 / shares if gaussian else shares**-2.0)))

    found = minimize(loss, np.zeros(tree.levels), method="BFGS", options={"gtol": 1e-7})
    # A share is kept off zero, where its level would have no noise scale.
    shares = np.maximum(np.exp(found.x - np.max(found.x)), 1e-6)
    return tuple(float(share) for share in shares / np.sum(shares))


def _block_traces(tree: Hierarchy, grams: Sequence[Matrix]) -> Vector:
    """``tr(V P_k)`` for k = 0 to h."""
    if tuple(gram.shape[0] for gram in grams) != tree.axes:
        raise CalibrationError("a Gram matrix does not fit its axis; give one a axis, of the axis' length")
    traces = np.ones(tree.height + 1)
    for gram in grams:
        for level in range(tree.height + 1):
            starts = np.arange(0, gram.shape[0], tree.branching**level)
            sums = np.add.reduceat(np.add.reduceat(gram, starts, axis=0), starts, axis=1)
            traces[level] *= float(np.trace(sums)) / tree.branching**level
    return traces


def _error(tree: Hierarchy, traces: Vector, variances: Vector) -> float:
    weights = np.zeros(tree.height + 1)
    weights[: tree.levels] = 1.0 / variances
    eigenvalues = np.cumsum(weights * float(tree.branching) ** (len(tree.axes) * np.arange(tree.height + 1)))
    return float(np.sum((traces - np.append(traces[1:], 0.0)) / eigenvalues))


def _block_sums(values: Numbers, b: int) -> Numbers:
    """Sums of blocks of b cells along each axis."""
    parts = [length for size in values.shape for length in (size // b, b)]
    found: Numbers = values.reshape(parts).sum(axis=tuple(range(1, len(parts), 2)))
    return found


def _spread(values: Vector, b: int) -> Vector:
    """Each value repeated over its block."""
    for axis in range(values.ndim):
        values = np.repeat(values, b, axis=axis)
    return values


def _check(values: Sequence[float], count: int) -> None:
    if len(values) != count or not all(np.isfinite(value) and value > 0 for value in values):
        raise CalibrationError(f"{list(values)} must be {count} positive finite numbers; give one for each level")

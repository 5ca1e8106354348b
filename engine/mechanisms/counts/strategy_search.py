"""Search for good strategies of the matrix mechanism, with a lower bound of the error of every strategy beside.

They solve ``minimise tr(V X^-1), X_jj <= 1`` for Gaussian noise and the Gram matrix V of the workload. Its dual is

    maximise over weights lam >= 0, sum lam = 1:   (tr (L V L)^1/2)^2,   L = diag(lam)^1/2,

and ``X = L^-1 (L V L)^1/2 L^-1`` up to scale. Any lam bounds the error of every strategy from below; even weights give
the singular value bound. The iteration ``lam_j <- lam_j X_jj^2`` closes the gap in a few steps, and rescaling X to unit
diagonal makes each iterate feasible. For one product V1 (x) V2 the product of the optima is optimal among all
strategies, products or not, since the products of the dual weights prove it.

Nothing here touches records or promises privacy: a strategy is public, chosen from the workload alone.

**Source**: Li and Miklau, 2013 (singular value bound); McKenna, Miklau, Hay and Machanavajjhala, 2018
(alternation over unions of products). The dual follows from von Neumann's trace inequality.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix
from blockveil.engine.workloads.expected_error import error_trace, factor_trace
from blockveil.engine.workloads.workload import Workload

_DENSE = 600
"""Most cells of a table for which the even-weights bound of a union is computed densely."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """A strategy's Gram matrix with unit diagonal, and a proof of how good it is.

    Attributes
    ----------
    gram
        Shape (n, n), positive definite, diagonal one.
    error
        ``tr(V X^-1)``: total squared error at noise of variance one and sensitivity one.
    lower_bound
        No strategy of L2 sensitivity one has a smaller error.
    singular_value_bound
        The bound of Li and Miklau, from even weights; never better.
    """

    gram: Matrix
    error: float
    lower_bound: float
    singular_value_bound: float

    @property
    def strategy(self) -> Matrix:
        """Upper triangular strategy with this Gram matrix, shape (n, n)."""
        root: Matrix = np.linalg.cholesky(self.gram).T.astype(np.float64)
        return root


@dataclass(frozen=True, eq=False)
class ProductOptimum:
    """Strategies along both axes for a union of products.

    Attributes
    ----------
    rows, columns
        Gram matrices with unit diagonals.
    error
        Total squared error at noise of variance one and sensitivity one.
    lower_bound
        No strategy of L2 sensitivity one, product or not, has a smaller error. Close for a single product only.
    """

    rows: Optimum
    columns: Optimum
    error: float
    lower_bound: float


def optimal_axis(workload_gram: Matrix, tolerance: float = 1e-6, steps: int = 60) -> Optimum:
    """Gaussian strategy along one axis of least total squared error.

    Parameters
    ----------
    workload_gram
        ``V = W'W``, shape (n, n), positive definite.
    tolerance
        Relative gap between error and lower bound at which the iteration ends.
    steps
        Most iterations, at least one; each needs one eigendecomposition.

    Raises
    ------
    CalibrationError
        The workload does not ask for all counts.
    """
    values = np.linalg.eigvalsh(workload_gram)
    if not values[0] > 1e-12 * values[-1]:
        raise CalibrationError(
            "the workload leaves some counts out, so its best strategy is singular; sum those cells out first, or add "
            "the identity with a small weight"
        )
    weights = np.full(values.size, 1.0 / values.size)
    gram, diagonal, first = _dual_step(workload_gram, weights)
    error, bound = factor_trace(workload_gram, gram), first
    for _ in range(steps - 1):
        if error <= bound * (1.0 + tolerance):
            break
        weights = weights * diagonal**2
        weights /= np.sum(weights)
        candidate, diagonal, dual_bound = _dual_step(workload_gram, weights)
        achieved = factor_trace(workload_gram, candidate)
        bound = max(bound, dual_bound)
        if achieved < error:
            gram, error = candidate, achieved
    return Optimum(gram, error, bound, first)


def _dual_step(workload_gram: Matrix, weights: NDArray[np.float64]) -> tuple[Matrix, NDArray[np.float64], float]:
    """Feasible X of some weights, the diagonal it had before rescaling, and the dual bound."""
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(workload_gram * np.outer(root, root))
    roots = np.sqrt(np.maximum(values, 0.0))
    gram = ((vectors * roots) @ vectors.T) / np.outer(root, root)
    diagonal = np.diagonal(gram).copy()
    scaled = gram / np.sqrt(np.outer(diagonal, diagonal))
    np.fill_diagonal(scaled, 1.0)
    # A hair below what rounding could have added, so that the bound stays one.
    bound = float(np.sum(roots)) ** 2 / float(np.sum(weights)) * (1.0 - 1e-9)
    return (scaled + scaled.T) / 2.0, diagonal, bound


def singular_value_bound(workload_gram: Matrix) -> float:
    """Smallest conceivable error of a strategy of L2 sensitivity one: ``(sum of singular values of W)^2 / n``."""
    values = np.maximum(np.linalg.eigvalsh(workload_gram), 0.0)
    return float(np.sum(np.sqrt(values)) ** 2 / values.size * (1.0 - 1e-9))


def optimal_product(workload: Workload, tolerance: float = 1e-6, rounds: int = 20) -> ProductOptimum:
    """Gaussian product strategy for a union of products over one table.

    Optimal among all strategies for a single product; else a local optimum among products, by alternation.

    Raises
    ------
    CalibrationError
        The workload does not ask for all counts.
    """
    grams = [(part.weight**2, part.rows.gram(), part.columns.gram()) for part in workload]
    columns: Matrix = np.eye(grams[0][2].shape[0])
    error, best = np.inf, None
    for _ in range(1 if len(grams) == 1 else rounds):
        first = optimal_axis(_sum((w * factor_trace(v, columns), u) for w, u, v in grams), tolerance)
        second = optimal_axis(_sum((w * factor_trace(u, first.gram), v) for w, u, v in grams), tolerance)
        columns = second.gram
        achieved = error_trace(workload, first.gram, second.gram)
        if best is not None and achieved >= error * (1.0 - tolerance):
            break
        error, best = achieved, (first, second)
    if best is None:
        raise CalibrationError("rounds is 0; alternation needs at least one round; give a positive number")
    return ProductOptimum(best[0], best[1], error, _union_bound(grams, tolerance))


def _sum(terms: Iterable[tuple[float, Matrix]]) -> Matrix:
    weighted: list[Matrix] = [weight * gram for weight, gram in terms]
    total: Matrix = np.sum(weighted, axis=0)
    return total


def _union_bound(grams: list[tuple[float, Matrix, Matrix]], tolerance: float) -> float:
    # The least error of a sum is at least the sum of the least errors of its parts.
    parts: float = sum(w * _axis_bound(u, tolerance) * _axis_bound(v, tolerance) for w, u, v in grams)
    if grams[0][1].shape[0] * grams[0][2].shape[0] > _DENSE or len(grams) == 1:
        return parts
    return max(parts, singular_value_bound(_sum((w, np.kron(u, v).astype(np.float64)) for w, u, v in grams)))


def _axis_bound(gram: Matrix, tolerance: float) -> float:
    values = np.linalg.eigvalsh(gram)
    regular = values[0] > 1e-12 * values[-1]
    return optimal_axis(gram, tolerance).lower_bound if regular else singular_value_bound(gram)

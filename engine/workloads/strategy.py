"""What a strategy is: few, well chosen sums of a table of counts that are measured in place of its cells.

A strategy is a public linear map of whole numbers. Its answers are exact in int64, noise is added to them as to any
other answer (:mod:`.additive`), and counts of cells follow by least squares, which is
post-processing.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Matrix, Vector
from blockveil.engine.workloads.workload import Kronecker, Workload

Arrays = dict[str, tuple[Any, tuple[str, ...]]]
"""Name -> (values, name of each axis)."""


class Strategy(Protocol):
    """Sums of a table that are measured, and the way back to its cells.

    ``deviations`` are the standard deviations of the noise by row of the answers, shape (rows,), in records.
    """

    @property
    def cells(self) -> tuple[int, int]:
        """Shape of the table."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answers."""

    def answers(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Exact answers, int64, in units of the noise design; CalibrationError for a table that does not fit."""

    def estimate(self, answers: Matrix, deviations: Vector) -> Matrix:
        """Least-squares counts of all cells, shape ``cells``, from noisy answers in records; without bias."""

    def cell_deviations(self, deviations: Vector) -> Matrix:
        """Standard deviation of each estimated count, shape ``cells``, in records: exact."""

    def widest(self, deviations: Vector) -> float:
        """Largest standard deviation of ``sum u_ij estimate_ij`` over u of norm one, or a bound of it."""

    def workload_error(self, workload: Workload, deviations: Vector) -> float:
        """Expected total squared error of a workload's answers, weights included, in records squared: exact."""

    def answer_deviations(self, part: Kronecker, deviations: Vector) -> Matrix | None:
        """Standard deviation of each answer of a product, without its weight; None where that takes too long."""

    def facts(self) -> dict[str, Any]:
        """Everything that defines the strategy, as plain JSON values."""

    def arrays(self, answers: Matrix, deviations: Vector) -> Arrays:
        """The noisy answers, their standard deviations, and what each of them is the sum of."""

"""Counts of cells and answers of a workload from released integers, and their error before data is read.

Where the cells themselves got noise their errors are independent; where a strategy was measured they are those of
least squares (:mod:`.strategy`). All of this is post-processing or reads no data.

* Gaussian estimates: all k of them stay within z of their standard deviations with probability at least 0.95 for the
  quantile z of independent ones, however they are correlated (Sidak).
* An estimate from Laplace noise is a sum of independent Laplace variables, whose tails Chernoff's bound holds
  (:mod:`.bands`); a union bound covers all estimates.
* The spectral norm of the error is at most its Frobenius norm. A Gaussian vector's norm exceeds the root of its mean
  square by ``t`` with probability at most ``exp(-t^2 / 2 w^2)``, w its largest standard deviation in any direction;
  otherwise Markov's inequality bounds it.

**Source**: Sidak, 1967; Boucheron, Lugosi and Massart, 2013, Theorem 5.6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.bands import CONFIDENCE, GaussianNoise, LaplaceSums
from blockveil.engine.estimates.error_bounds import ErrorReport, error_report
from blockveil.engine.estimates.matrices import Estimate, coordinate_estimate
from blockveil.engine.noise.design import NoiseDesign, Released
from blockveil.engine.records.geometry import Vector
from blockveil.engine.workloads.kronecker import independent_error, squared
from blockveil.engine.workloads.workload import Identity, Kronecker, Workload


def row_deviations(design: NoiseDesign) -> Vector:
    """Standard deviation of the noise of the first answer in each row of the design, in records, shape (rows,)."""
    return design.standard_deviations((0, design.shape[0]), (0, 1))[:, 0]


def cells(released: Released, design: NoiseDesign) -> Estimate:
    """Counts of cells and the exact standard deviation of their noise."""
    noisy = coordinate_estimate(released, design)
    if design.strategy is None:
        return noisy
    deviations = row_deviations(design)
    return Estimate(design.strategy.estimate(noisy.value, deviations), design.strategy.cell_deviations(deviations))


def cell_deviations(design: NoiseDesign) -> NDArray[np.float64]:
    """Standard deviation of the noise of each cell's count; reads no data."""
    if design.strategy is None:
        return design.entry_standard_deviation()
    return design.strategy.cell_deviations(row_deviations(design))


def workload_error(workload: Workload, design: NoiseDesign) -> float:
    """Expected total squared error of a workload's answers, weights included, in records squared; exact."""
    if design.strategy is None:
        return independent_error(workload, design.entry_standard_deviation() ** 2)
    return design.strategy.workload_error(workload, row_deviations(design))


def cell_error(shape: tuple[int, int], design: NoiseDesign) -> float:
    """Expected total squared error of the cells' counts, in records squared; exact."""
    return workload_error((Kronecker(Identity(shape[0]), Identity(shape[1])),), design)


def answers(part: Kronecker, found: Estimate, design: NoiseDesign) -> Estimate | None:
    """Answers of a product of queries, without its weight; None where their errors take too long.

    Parameters
    ----------
    part
        Queries along the rows and along the columns.
    found
        What :func:`cells` returned.
    design
        Noise of the release.
    """
    if design.strategy is None:
        deviation: NDArray[np.float64] | None = np.sqrt(squared(part).apply(found.standard_deviation**2))
    else:
        deviation = design.strategy.answer_deviations(part, row_deviations(design))
    return None if deviation is None else Estimate(part.apply(found.value), deviation)


def report(shape: tuple[int, int], design: NoiseDesign) -> ErrorReport:
    """Error of all cells of a table together; reads no data."""
    if design.strategy is None:
        return error_report(design, np.ones(shape[0]), np.ones(shape[1]))
    total = cell_error(shape, design)
    outside, cells_ = 1.0 - CONFIDENCE, shape[0] * shape[1]
    if design.gaussian:
        widest = design.strategy.widest(row_deviations(design))
        norm = math.sqrt(total) + widest * math.sqrt(2.0 * math.log(1.0 / outside))
        return ErrorReport(total, GaussianNoise().band(cells_), norm, norm)
    norm = math.sqrt(total / outside)
    return ErrorReport(total, LaplaceSums().band(cells_), norm, norm)

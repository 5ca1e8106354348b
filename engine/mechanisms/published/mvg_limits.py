"""The published limits of MVG: what its theorems allow the precisions of matrix-variate Gaussian noise to be.

They are valid and loose: see :mod:`.mvg`, which has the noise and the loss that it really
has.

**Source**: MVG (CCS 2018), theorems numbered as in its full version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from scipy.special import digamma

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP

_LIMIT_DOWN = 1.0 - 1e-13
"""Margin of the published limit: some twenty roundings and two harmonic numbers."""


class Zeta(StrEnum):
    """Which bound of the noise's norm enters beta; both are valid."""

    PUBLISHED = "published"
    """``2 sqrt(mn ln(1/delta)) + 2 ln(1/delta) + mn``, which bounds the squared norm but is used for the norm."""

    SQUARE_ROOT = "square-root"
    """Its square root, which is what Laurent and Massart prove and the authors' own program uses."""


class Theorem(IntEnum):
    """Which sufficient condition limits the precisions."""

    GENERAL = 2
    """Theorem 2 (3 in the short version): any query, any pair of covariances."""

    SYMMETRIC = 3
    """Theorem 3: a square answer and the same covariance for rows and columns."""


@dataclass(frozen=True)
class MvgQuery:
    """Public facts of a matrix query: shape, largest Frobenius norm gamma, and sensitivity in Frobenius norm.

    Attributes
    ----------
    rows, columns
        Shape m, n.
    norm
        Bound gamma of the answer over all data sets, positive; never computed from the records.
    sensitivity
        Largest distance s2 of the answer between neighbours, positive.
    """

    rows: int
    columns: int
    norm: float
    sensitivity: float

    def __post_init__(self) -> None:
        """Refuse facts for which the theorems say nothing."""
        if min(self.rows, self.columns) < 1:
            raise CalibrationError(f"the shape is {self.rows} x {self.columns}; both must be at least 1; state it")
        checked_positive("norm", self.norm)
        checked_positive("sensitivity", self.sensitivity)


@dataclass(frozen=True)
class PrecisionLimit:
    """What a published theorem allows, and the terms it is made of.

    Attributes
    ----------
    theorem
        The theorem.
    harmonic, root_harmonic
        ``sum 1/i`` and ``sum 1/sqrt(i)`` up to min(m, n).
    zeta, beta
        As in the paper.
    curvature
        Alpha of Theorem 2, or omega of Theorem 3.
    limit
        R: largest product of the precisions' Euclidean norms, rounded down.
    """

    theorem: Theorem
    harmonic: float
    root_harmonic: float
    zeta: float
    beta: float
    curvature: float
    limit: float


def harmonic_number(terms: int) -> float:
    """``sum_{i <= terms} 1/i``, to a relative 1e-15."""
    return float(digamma(terms + 1.0)) + float(np.euler_gamma)


def root_harmonic_number(terms: int) -> float:
    """``sum_{i <= terms} 1/sqrt(i)``, to a relative 1e-15 (Euler and Maclaurin beyond 512 terms)."""
    head = math.fsum(1.0 / math.sqrt(i) for i in range(1, min(terms, 512) + 1))
    return head + (_root_integral(terms) - _root_integral(512) if terms > 512 else 0.0)


def zeta(entries: int, delta: float, variant: Zeta) -> float:
    """Bound of the noise's norm that enters beta, for an answer of mn entries."""
    log = -math.log(delta)
    squared_norm = 2.0 * math.sqrt(entries * log) + 2.0 * log + entries
    return squared_norm if variant is Zeta.PUBLISHED else math.sqrt(squared_norm)


def precision_limit(query: MvgQuery, epsilon: float, delta: float, theorem: Theorem, variant: Zeta) -> PrecisionLimit:
    """Limit R of the product of the precisions' Euclidean norms.

    Parameters
    ----------
    query
        Public facts of the query.
    epsilon, delta
        The claimed loss; epsilon positive, delta in (0, 1).
    theorem, variant
        Which condition, and which zeta in it.

    Raises
    ------
    CalibrationError
        A parameter is out of range, or Theorem 3 is asked for an answer that is not square.

    **Source**: MVG (CCS 2018), Theorems 2 and 3.
    """
    ApproxDP(epsilon, delta)
    if theorem is Theorem.SYMMETRIC and query.rows != query.columns:
        raise CalibrationError(f"the shape is {query.rows} x {query.columns}; Theorem 3 needs a square; use Theorem 2")
    entries, rank = query.rows * query.columns, min(query.rows, query.columns)
    harmonic, root = harmonic_number(rank), root_harmonic_number(rank)
    bound = zeta(entries, delta, variant)
    beta = 2.0 * entries**0.25 * bound * harmonic * query.sensitivity
    if theorem is Theorem.SYMMETRIC:
        curvature = 4.0 * harmonic * query.norm * query.sensitivity
    else:
        curvature = (harmonic + root) * query.norm**2 + 2.0 * harmonic * query.norm * query.sensitivity
    # (-beta + sqrt(beta^2 + 8 a eps)) / (2 a) as a quotient of positive terms: the printed form cancels.
    root_limit = 4.0 * epsilon / (beta + math.hypot(beta, math.sqrt(8.0 * curvature * epsilon)))
    return PrecisionLimit(theorem, harmonic, root, bound, beta, curvature, root_limit**2 * _LIMIT_DOWN)


def _root_integral(x: float) -> float:
    return 2.0 * math.sqrt(x) + (0.5 - 1.0 / (24.0 * x) + 1.0 / (384.0 * x * x * x)) / math.sqrt(x)


def checked_positive(name: str, value: float) -> None:
    """Refuse what is not positive and finite."""
    if not (math.isfinite(value) and value > 0):
        raise CalibrationError(f"{name} is {value}; it must be finite and positive; state it explicitly")

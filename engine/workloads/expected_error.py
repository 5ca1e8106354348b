"""Error of answering one workload of counts from the noisy answers of another.

Answering W from a strategy A with Gaussian noise of standard deviation s on each strategy answer, by least squares,
has total squared error ``s^2 tr(W (A'A)^-1 W') = s^2 tr(W'W (A'A)^-1)``; it factors over Kronecker products.

**Source**: Li, Hay, Rastogi, Miklau and McGregor, 2010 (matrix mechanism), Proposition 4.
"""

from __future__ import annotations

import numpy as np

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.records.geometry import Matrix
from blockveil.engine.workloads.workload import Workload


def error_trace(workload: Workload, row_gram: Matrix, column_gram: Matrix) -> float:
    """``tr(W'W (A'A)^-1)`` for a Kronecker strategy: total squared error for noise of variance one.

    Parameters
    ----------
    workload
        Union of Kronecker products.
    row_gram, column_gram
        Gram matrices of the strategy's factors, positive definite.

    Raises
    ------
    CalibrationError
        The strategy does not determine all counts.
    """
    return sum(
        part.weight**2 * factor_trace(part.rows.gram(), row_gram) * factor_trace(part.columns.gram(), column_gram)
        for part in workload
    )


def factor_trace(workload_gram: Matrix, strategy_gram: Matrix) -> float:
    """``tr(V X^-1)`` along one axis; see :func:`error_trace`."""
    from scipy.linalg import (
        LinAlgError,
        cho_factor,
        cho_solve,
    )  # takes long; a plan imports every workload

    try:
        return float(np.trace(cho_solve(cho_factor(strategy_gram), workload_gram)))
    except LinAlgError:
        raise CalibrationError(
            "the strategy's Gram matrix is not positive definite, so it does not determine all counts; add the identity"
        ) from None

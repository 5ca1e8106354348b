"""What errors need of a workload agrees with its dense matrix."""

import numpy as np
import pytest

from blockveil.engine.workloads.kronecker import (
    block_energy,
    block_gram,
    diagonal,
    independent_error,
    intervals,
    quadratic,
    rows_of,
    squared,
)
from blockveil.engine.workloads.workload import AllRange, Explicit, Identity, Kronecker, Prefix, Total

RNG = np.random.default_rng(8)
FACTORS = [Identity(7), Total(7), Prefix(7), AllRange(7), Explicit(RNG.normal(size=(3, 7)))]
STARTS = [np.array([0]), np.array([0, 3]), np.array([0, 1, 2, 6]), np.arange(7)]


def blocks_of(starts, n=7):
    number = np.searchsorted(starts, np.arange(n), side="right")
    return number[:, None] == number[None, :]


def named(value):
    return type(value).__name__ if not isinstance(value, np.ndarray) else str(value)


@pytest.mark.parametrize("factor", FACTORS, ids=named)
def test_matrix_diagonal_and_intervals_are_those_of_the_workload(factor):
    matrix = rows_of(factor)
    assert np.allclose(matrix, factor.apply(np.eye(7)))
    assert np.allclose(diagonal(factor), np.diagonal(factor.gram()))
    places = intervals(factor)
    if places is None:
        assert isinstance(factor, Explicit)
        return
    assert [[float(a <= j < b) for j in range(7)] for a, b in places] == matrix.tolist()


@pytest.mark.parametrize("starts", STARTS, ids=named)
@pytest.mark.parametrize("factor", FACTORS, ids=named)
def test_products_with_the_gram_matrix_within_blocks_are_those_of_its_dense_blocks(factor, starts):
    inside = np.where(blocks_of(starts), factor.gram(), 0.0)
    values = RNG.normal(size=(7, 3))
    assert np.allclose(block_gram(factor, values, starts), inside @ values)
    energy = [inside[a:b, a:b].sum() for a, b in zip(starts, [*starts[1:], 7], strict=True)]
    assert np.allclose(block_energy(factor, starts), energy)


def test_quadratic_forms_of_blocks_and_errors_of_cells_are_those_of_the_kronecker_product():
    values = RNG.normal(size=(7, 7))
    variances = RNG.uniform(1, 2, (7, 7))
    for rows in FACTORS:
        for columns in FACTORS:
            part = Kronecker(rows, columns, 1.3)
            matrix = 1.3 * np.kron(rows_of(rows), rows_of(columns))
            found = quadratic(part, values, STARTS[1], STARTS[2])
            for i, (a, b) in enumerate(((0, 3), (3, 7))):
                for j, (c, d) in enumerate(((0, 1), (1, 2), (2, 6), (6, 7))):
                    alone = np.zeros((7, 7))
                    alone[a:b, c:d] = values[a:b, c:d]
                    assert found[i, j] == pytest.approx(float(np.sum((matrix @ alone.ravel()) ** 2)))
            expected = np.trace(matrix @ np.diag(variances.ravel()) @ matrix.T)
            assert independent_error((part,), variances) == pytest.approx(float(expected))
            assert np.allclose(squared(part).apply(variances).ravel(), (matrix / 1.3) ** 2 @ variances.ravel())

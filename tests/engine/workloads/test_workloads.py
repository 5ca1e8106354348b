"""Structured workloads agree with the matrices they stand for."""

import itertools

import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.workloads.expected_error import error_trace, factor_trace
from blockveil.engine.workloads.workload import (
    AllRange,
    Explicit,
    Identity,
    Kronecker,
    Prefix,
    Total,
    marginals,
)

RNG = np.random.default_rng(5)


def dense(kind, n):
    """The matrix, from the definition."""
    rows = {
        "identity": [[float(i == j) for j in range(n)] for i in range(n)],
        "total": [[1.0] * n],
        "prefix": [[float(j <= i) for j in range(n)] for i in range(n)],
        "ranges": [[float(i <= j <= k) for j in range(n)] for i in range(n) for k in range(i, n)],
    }
    return np.array(rows[kind])


KINDS = {"identity": Identity, "total": Total, "prefix": Prefix, "ranges": AllRange}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_each_kind_is_the_matrix_of_its_definition(kind, n):
    matrix, factor = dense(kind, n), KINDS[kind](n)
    counts = RNG.integers(-(2**60), 2**60, (n, 3)) // n
    assert factor.queries == matrix.shape[0]
    assert factor.apply(counts).dtype == np.int64
    assert np.array_equal(factor.apply(counts), matrix.astype(np.int64) @ counts)
    assert np.array_equal(factor.gram(), matrix.T @ matrix)
    assert np.array_equal(Explicit(matrix.astype(np.int64)).apply(counts), factor.apply(counts))


def test_a_product_answers_like_its_kronecker_matrix():
    table = RNG.integers(0, 1000, (4, 6))
    for one, two in itertools.product(KINDS, KINDS):
        product = Kronecker(KINDS[one](4), KINDS[two](6))
        matrix = np.kron(dense(one, 4), dense(two, 6))
        assert np.array_equal(product.apply(table).ravel(), (matrix @ table.ravel()).astype(np.int64))


def test_the_error_equals_that_of_the_dense_matrices_and_of_a_simulation():
    rows, columns = RNG.normal(size=(5, 4)), RNG.normal(size=(3, 3)) + 2 * np.eye(3)
    workload = (Kronecker(Prefix(4), AllRange(3)), Kronecker(Identity(4), Total(3), 2.0), *marginals((4, 3)))
    strategy = np.kron(rows, columns)
    names = {Prefix: "prefix", AllRange: "ranges", Identity: "identity", Total: "total"}
    stacked = np.vstack(
        [p.weight * np.kron(*(dense(names[type(f)], f.cells) for f in (p.rows, p.columns))) for p in workload]
    )
    exact = float(np.trace(stacked @ np.linalg.inv(strategy.T @ strategy) @ stacked.T))
    found = error_trace(workload, rows.T @ rows, columns.T @ columns)
    assert found == pytest.approx(exact, rel=1e-10)
    noise = RNG.normal(size=(strategy.shape[0], 200_000))
    errors = np.sum((stacked @ np.linalg.pinv(strategy) @ noise) ** 2, axis=0)
    assert abs(errors.mean() - found) < 6.2 * errors.std() / np.sqrt(errors.size)
    assert abs(errors.mean() - found * 1.05) > 6.2 * errors.std() / np.sqrt(errors.size)


@pytest.mark.parametrize("n", [89, 1024])
def test_large_tables_need_no_dense_matrix(n):
    assert factor_trace(AllRange(n).gram(), np.eye(n)) == pytest.approx(n * (n + 1) * (n + 2) / 6, rel=1e-12)
    table = RNG.integers(0, 100, (n, n))
    product = Kronecker(Prefix(n), Prefix(n))
    answers = product.apply(table)
    assert answers[-1, -1] == table.sum()


def test_what_cannot_be_computed_is_refused():
    with pytest.raises(CalibrationError, match="answers"):
        Kronecker(AllRange(1024), AllRange(1024)).apply(np.zeros((1024, 1024), dtype=np.int64))
    with pytest.raises(CalibrationError, match="at least one cell"):
        Prefix(0)
    with pytest.raises(CalibrationError, match="finite real numbers"):
        Explicit([[np.nan]])
    with pytest.raises(CalibrationError, match="weight"):
        Kronecker(Total(2), Total(2), 0.0)
    with pytest.raises(CalibrationError, match="does not determine"):
        factor_trace(np.eye(3), np.ones((3, 3)))

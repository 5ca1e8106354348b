"""Leading eigenvalues from few products, within the error that they state."""

import numpy as np
import pytest

from blockveil.engine.estimates.leading import leading_eigenvalues


def symmetric(values, seed=1):
    size = len(values)
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    return (basis * values) @ basis.T, basis


@pytest.mark.parametrize("size", [1, 2, 7, 60, 300])
def test_the_leading_eigenvalues_are_found_within_their_stated_error(size):
    values = np.sort(np.random.default_rng(2).standard_normal(size))[::-1]
    values[: min(3, size)] += [30.0, 20.0, 10.0][: min(3, size)]
    matrix, _ = symmetric(values)
    found = leading_eigenvalues(lambda block: matrix @ block, size, 10)
    true = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    assert found.values.size == min(10, size)
    nearest = np.abs(true[None, :] - found.values[:, None]).min(axis=1)
    assert (nearest <= found.errors + 1e-9).all()
    assert (found.values <= true[: found.values.size] + 1e-9).all()
    assert np.allclose(found.values[:3], true[: min(3, size)], rtol=1e-6)
    assert np.allclose(found.vectors.T @ found.vectors, np.eye(found.values.size), atol=1e-9)


def test_few_passes_suffice_where_few_eigenvalues_stand_out():
    values = np.concatenate([[500.0, 400.0, 300.0], np.linspace(-1, 1, 397)])
    matrix, basis = symmetric(values)
    found = leading_eigenvalues(lambda block: matrix @ block, 400, 3)
    assert found.passes <= 6
    assert np.allclose(np.abs(found.vectors.T @ basis[:, :3]), np.eye(3), atol=1e-4)


def test_stopping_early_leaves_an_error_that_is_stated():
    values = np.linspace(1.0, 2.0, 200)
    matrix, _ = symmetric(values)
    found = leading_eigenvalues(lambda block: matrix @ block, 200, 5, passes=1)
    assert found.passes == 1
    assert (found.errors > 0.01).any()
    nearest = np.abs(np.linalg.eigvalsh(matrix)[None, :] - found.values[:, None]).min(axis=1)
    assert (nearest <= found.errors + 1e-12).all()


@pytest.mark.parametrize("matrix", [np.zeros((20, 20)), np.eye(20), np.diag([3.0] + [0.0] * 19)])
def test_degenerate_matrices_end_when_nothing_new_appears(matrix):
    found = leading_eigenvalues(lambda block: matrix @ block, 20, 4)
    assert np.allclose(found.values, np.sort(np.linalg.eigvalsh(matrix))[::-1][:4], atol=1e-12)


def test_values_below_the_floor_cost_no_passes():
    values = np.concatenate([[500.0, 400.0, 300.0], np.linspace(-1, 1, 397)])
    matrix, _ = symmetric(values)
    found = leading_eigenvalues(lambda block: matrix @ block, 400, 20, floor=5.0)
    assert found.passes < leading_eigenvalues(lambda block: matrix @ block, 400, 20, passes=20).passes
    assert np.allclose(found.values[:3], values[:3], rtol=1e-6)
    assert (found.values[3:] + found.errors[3:] < 5.0).all()

"""Post-processing: nearest positive semi-definite matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.estimates.postprocessing import nearest_psd, symmetrise


@given(d=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_the_projection_is_symmetric_psd_and_nearer_than_other_psd_matrices(d, seed):
    rng = np.random.default_rng(seed)
    matrix = symmetrise(rng.standard_normal((d, d)))
    found, cut = nearest_psd(matrix)
    assert np.array_equal(found, found.T)
    values = np.linalg.eigvalsh(matrix)
    assert np.linalg.eigvalsh(found)[0] >= -1e-12 * max(1.0, np.abs(values).max())
    assert cut == pytest.approx(-values[values < 0].sum(), abs=1e-12)
    distance = np.linalg.norm(found - matrix)
    assert distance == pytest.approx(np.sqrt(np.sum(values[values < 0] ** 2)), abs=1e-10)
    for _ in range(5):
        factor = rng.standard_normal((d, d))
        assert np.linalg.norm(factor @ factor.T - matrix) >= distance - 1e-10


def test_a_psd_matrix_is_its_own_projection():
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])
    found, cut = nearest_psd(matrix)
    assert np.array_equal(found, matrix)
    assert cut == 0.0

"""Non-negative tables agree, keep the total, and are nearer to the truth than what they were made of."""

import numpy as np
import pytest

from blockveil.engine.estimates.consistent_tables import non_negative
from blockveil.engine.workloads.marginal_tables import MarginalTables

TABLES = MarginalTables((6, 5, 4), ((0, 1), (1, 2), (0, 2)))


def noisy(noise, seed):
    """True tables of few records, and the same with noise in their residuals."""
    rng = np.random.default_rng(seed)
    grid = rng.poisson(0.4, TABLES.sizes).astype(float)
    true = np.concatenate([grid.sum(axis=2).ravel(), grid.sum(axis=0).ravel(), grid.sum(axis=1).ravel()])
    return true, TABLES.made_of(TABLES.projected(TABLES.apart(true + rng.normal(0.0, noise, true.size))))


@pytest.mark.parametrize("noise", [0.5, 3.0, 30.0])
def test_they_are_not_negative_and_agree(noise):
    for seed in range(5):
        _, flat = noisy(noise, seed)
        found = non_negative(flat, TABLES)
        assert np.min(found) >= 0.0
        ab, bc, ac = TABLES.apart(found)
        scale = max(float(found.sum()), 1.0)
        assert np.allclose(ab.sum(axis=0), bc.sum(axis=1), atol=1e-9 * scale)
        assert np.allclose(ab.sum(axis=1), ac.sum(axis=1), atol=1e-9 * scale)
        assert np.allclose(bc.sum(axis=0), ac.sum(axis=0), atol=1e-9 * scale)


def test_they_are_nearer_to_the_truth():
    """The true tables agree and are not negative, so that what is nearest among such is no further from them."""
    for seed in range(20):
        true, flat = noisy(3.0, seed)
        assert np.linalg.norm(non_negative(flat, TABLES) - true) < np.linalg.norm(flat - true)


def test_tables_that_are_not_negative_stay_as_they_are():
    grid = np.random.default_rng(2).uniform(1.0, 5.0, TABLES.sizes)
    flat = np.concatenate([grid.sum(axis=2).ravel(), grid.sum(axis=0).ravel(), grid.sum(axis=1).ravel()])
    assert non_negative(flat, TABLES) == pytest.approx(flat, rel=1e-9)


def test_no_records_give_no_counts():
    assert not non_negative(np.full(TABLES.cells, -1.0), TABLES).any()

"""Errors of all cells together hold as often as they say, for strategies and for noise on the cells themselves."""

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates import cells as cell_estimates
from blockveil.engine.estimates.bands import CONFIDENCE
from blockveil.engine.estimates.matrices import coordinate_estimate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.mechanisms.gaussian import Gaussian
from blockveil.engine.mechanisms.laplace import IntegerLaplace
from blockveil.engine.noise.additive import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.workloads.workload import AllRange, Identity, Kronecker, Total

TRIALS = 250
COUNTS = np.random.default_rng(3).integers(0, 60, (6, 8))
PROBLEM = Counts((6, 8), Neighbours.ADD_REMOVE, 4000, (Kronecker(AllRange(6), AllRange(8)),))
MECHANISMS = {
    "matrix-mechanism": MatrixMechanism(),
    "tree, gaussian": Hierarchical("gaussian", 2),
    "tree, laplace": Hierarchical("laplace", 2),
    "gaussian": Gaussian(),
    "discrete-laplace": IntegerLaplace(),
}


def releases(design):
    """Released integers of the table under many keys, by the released arithmetic."""
    rows, columns = ((0, length) for length in design.shape)
    exact = COUNTS if design.strategy is None else design.strategy.answers(COUNTS)
    steps = design.steps(rows, columns)
    for number in range(TRIALS):
        key = NoiseKey.derive(bytes(32), number.to_bytes(4))
        yield add_noise(exact, steps, design.grid.draw(key, rows, columns, False), design.shift)


@pytest.mark.parametrize("name", MECHANISMS)
def test_bands_norms_and_deviations_of_released_counts_hold_as_often_as_they_say(name):
    design = MECHANISMS[name].design(PROBLEM, ApproxDP(0.5, 1e-6))
    report = cell_estimates.report(PROBLEM.cells, design)
    deviation = cell_estimates.cell_deviations(design)
    found = [cell_estimates.cells(released, design) for released in releases(design)]
    assert all(np.array_equal(one.standard_deviation, deviation) for one in found)
    errors = np.array([one.value - COUNTS for one in found])
    # alpha 1e-9 each: binomial for what should hold in 95 of 100, normal for means.
    least = stats.binom.isf(1 - 1e-9, TRIALS, CONFIDENCE)
    assert np.sum(np.max(np.abs(errors) / deviation, axis=(1, 2)) <= report.band) >= least
    norms = np.linalg.norm(errors, axis=(1, 2))
    assert np.sum(norms <= report.frobenius) >= least
    assert np.sum(np.linalg.norm(errors, 2, axis=(1, 2)) <= report.spectral) >= least
    squares = norms**2
    spread = 6.2 * np.std(squares) / np.sqrt(TRIALS)
    assert abs(np.mean(squares) - report.total_variance) < spread
    assert abs(np.mean(squares) - 1.5 * report.total_variance) > spread
    # A band far too wide would hold too: it is within twice what was seen in 95 of 100.
    assert report.band < 2.0 * np.quantile(np.max(np.abs(errors) / deviation, axis=(1, 2)), 0.95)


@pytest.mark.parametrize("name", MECHANISMS)
def test_answers_of_a_product_have_the_stated_deviations(name):
    design = MECHANISMS[name].design(PROBLEM, ApproxDP(0.5, 1e-6))
    part = Kronecker(AllRange(6), Total(8))
    found = [cell_estimates.answers(part, cell_estimates.cells(r, design), design) for r in releases(design)]
    ratio = np.array([(one.value - part.apply(COUNTS)) / one.standard_deviation for one in found])
    kurtosis = 6.0  # of one Laplace variable; sums of several have less
    bound = stats.norm.isf(0.5e-9 / ratio[0].size) * np.sqrt((kurtosis - 1.0) / TRIALS)
    assert np.max(np.abs(np.mean(ratio**2, axis=0) - 1.0)) < bound
    error = cell_estimates.workload_error((part,), design)
    assert error == pytest.approx(float(np.sum(found[0].standard_deviation ** 2)), rel=1e-9)


def test_the_error_of_cells_is_that_of_the_identity_workload():
    for mechanism in MECHANISMS.values():
        design = mechanism.design(PROBLEM, ApproxDP(0.5, 1e-6))
        expected = float(np.sum(cell_estimates.cell_deviations(design) ** 2))
        assert cell_estimates.cell_error(PROBLEM.cells, design) == pytest.approx(expected, rel=1e-9)
        whole = (Kronecker(Identity(6), Identity(8)),)
        assert cell_estimates.workload_error(whole, design) == pytest.approx(expected, rel=1e-9)


def test_cells_without_a_strategy_are_the_released_integers():
    design = Gaussian().design(PROBLEM, ApproxDP(0.5, 1e-6))
    released = next(releases(design))
    assert np.array_equal(cell_estimates.cells(released, design).value, coordinate_estimate(released, design).value)

"""MGM's condition is valid and loose; what divides it by the number of rows is not valid."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_log_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.mechanisms.published.matrix_noise import Mgm
from blockveil.engine.mechanisms.published.mgm import mgm_mu


def exact(entries, epsilon, delta):
    """The root of mu^2 / 2 + zeta mu = epsilon, with 60 digits."""
    with mpmath.workdps(60):
        log = -mpmath.log(mpmath.mpf(delta))
        zeta = mpmath.sqrt(entries + 2 * mpmath.sqrt(entries * log) + 2 * log)
        return mpmath.sqrt(zeta**2 + 2 * mpmath.mpf(epsilon)) - zeta


def test_mu_is_the_root_of_its_condition_rounded_down():
    rng = np.random.default_rng(1)
    for _ in range(300):
        entries, epsilon = round(10 ** rng.uniform(0, 9)), 10 ** rng.uniform(-12, 4)
        delta = float(10 ** rng.uniform(-300, 0) * 0.999)
        root, found = exact(entries, epsilon, delta), mgm_mu(entries, epsilon, delta)
        assert root * (1 - mpmath.mpf("1e-13")) < found < root


def test_the_claim_holds_at_every_setting_that_was_tried():
    worst = max(
        gaussian_log_delta(mgm_mu(entries, epsilon, delta), epsilon) - math.log(delta)
        for entries in (1, 2, 10, 7921, 5_760_000)
        for epsilon in (1e-9, 1e-3, 0.5, 1.0, 8.0, 100.0, 1e4)
        for delta in (1e-300, 1e-30, 1e-7, 1e-3, 0.1, 0.5, 0.9, 0.999)
    )
    assert worst < 0


def test_the_norm_of_the_noise_is_bounded_as_the_proof_says():
    for entries in (1, 3, 100, 10_000):
        for delta in (1e-12, 1e-5, 0.01, 0.5, 0.99):
            log = -math.log(delta)
            bound = entries + 2 * math.sqrt(entries * log) + 2 * log
            assert stats.chi2.sf(bound, entries) <= delta


def test_its_noise_is_larger_than_needed_by_about_the_root_of_the_entries():
    ratio = gaussian_mu(0.5, 1e-7) / mgm_mu(7921, 0.5, 1e-7)
    assert ratio == pytest.approx(20.7, abs=0.05)
    guarantee = ApproxDP(0.5, 1e-7)
    design = Mgm().design(Counts((89, 89), Neighbours.ADD_REMOVE, 600_000), guarantee)
    assert design.loss.mu == pytest.approx(mgm_mu(7921, 0.5, 1e-7), rel=1e-3)
    assert design.loss.delta(0.5) < 1e-20


def test_dividing_the_variance_by_the_rows_as_well_is_false_for_few_columns():
    rows, epsilon, delta = 1024, 1.0, 1e-5
    for columns, false in ((1, True), (10, True), (84, False)):
        mu = math.sqrt(rows) * mgm_mu(rows * columns, epsilon, delta)
        assert (gaussian_log_delta(mu, epsilon) > math.log(delta)) == false
        if columns == 1:
            assert math.exp(gaussian_log_delta(mu, epsilon)) / delta > 5000


@pytest.mark.parametrize(("entries", "epsilon", "delta"), [(0, 1.0, 0.1), (5, 0.0, 0.1), (5, 1.0, 0.0), (5, 1.0, 1.0)])
def test_what_promises_nothing_is_refused(entries, epsilon, delta):
    with pytest.raises((CalibrationError, ValueError)):
        mgm_mu(entries, epsilon, delta)

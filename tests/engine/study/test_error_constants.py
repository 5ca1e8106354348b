"""Expected errors by which mechanisms were compared in print, against independent numbers."""

import math

import mpmath
import numpy as np
import pytest

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.mechanisms.published.mvg_allocation import uniform_allocation
from blockveil.engine.mechanisms.published.mvg_limits import MvgQuery, Theorem, Zeta, precision_limit
from blockveil.engine.study import r1smg
from blockveil.engine.study.error_constants import (
    analytic_constant,
    analytic_constant_upper_bound,
    classic_constant,
    mvg_constant_lower_bound,
)
from tests.oracles.mvg import equimodal


def close(found, expected, tolerance):
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=tolerance, atol=0)


@pytest.mark.parametrize(
    "entries, epsilon, delta, classic, upper, published, analytic",
    [
        (7921, 0.5, 1e-7, 1035511.645769605652137363, 872359.0982265062790091551, 4.021100975950170796864710,
         640985.4290329422438812018),
        (100, 1.0, 1e-5, 2347.213803256887635171250, 1918.929348408766137312561, 2.663258233617605914068445,
         1391.761239468946677845598),
    ],
)  # fmt: skip
def test_the_published_constants_are_reproduced(entries, epsilon, delta, classic, upper, published, analytic):
    arguments = entries, epsilon, delta
    close(classic_constant(*arguments), classic, 1e-11)
    close(analytic_constant_upper_bound(*arguments), upper, 1e-11)
    close(r1smg.published(*arguments, 1.0).variance, published, 1e-11)
    close(analytic_constant(*arguments), analytic, 1e-11)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.1, 0.5, 0.9, 0.999])
def test_the_published_lower_bound_of_the_analytic_gaussian_is_an_upper_one(epsilon, delta):
    assert analytic_constant_upper_bound(1, epsilon, delta) > analytic_constant(1, epsilon, delta)


@pytest.mark.parametrize("entries", [3, 4, 10, 100, 7921, 10**6, 5_760_000])
def test_the_published_rank_one_scale_is_that_of_gamma_functions(entries):
    with mpmath.workdps(60):
        ratio = mpmath.gammaprod([mpmath.mpf(entries - 1) / 2], [mpmath.mpf(entries) / 2])
        psi = (mpmath.mpf(1e-5) * ratio / mpmath.sqrt(mpmath.pi)) ** (mpmath.mpf(2) / (entries - 2))
        close(r1smg.published(entries, 0.7, 1e-5, 1.0).variance, float(2 / (mpmath.mpf(0.7) * psi)), 1e-11)


def test_the_published_constant_of_mvg_lies_far_below_its_noise():
    close(mvg_constant_lower_bound(4, 16, 1.0), 26.40224743408567991115332, 1e-13)
    close(mvg_constant_lower_bound(21, 44646, 1.0), 145324.2169313437620541981, 1e-13)
    for norm_bound, epsilon, delta in ((0.5, 1.0, 0.1), (0.5, 10.0, 0.4), (4.0, 0.1, 1e-5)):
        limit = precision_limit(MvgQuery(4, 4, norm_bound, 1.0), epsilon, delta, Theorem.GENERAL, Zeta.SQUARE_ROOT)
        assert mvg_constant_lower_bound(4, 16, epsilon) < equimodal(limit, uniform_allocation(4)).expected_loss


def test_expected_errors_of_the_mobility_matrix_are_the_independent_numbers():
    close(2.0 * classic_constant(7921, 0.5, 1e-7), 2071023.291539211304274726, 1e-11)
    close(2.0 * analytic_constant(7921, 0.5, 1e-7), 1281970.858065884487762404, 1e-11)
    close(r1smg.published(7921, 1e-5, 1e-7, math.sqrt(2.0)).variance, 402110.0975950170796864710, 1e-11)


def test_a_constant_needs_entries():
    with pytest.raises(CalibrationError, match="; "):
        mvg_constant_lower_bound(0, 1, 1.0)
    with pytest.raises(CalibrationError, match="; "):
        classic_constant(0, 0.5, 1e-5)

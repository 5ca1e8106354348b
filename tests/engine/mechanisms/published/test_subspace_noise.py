"""Published noise for subspaces, as it is released: the printed size, the exact charge, and refusals."""

import math

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.estimates.error_bounds import error_report, expected_spectral_norm
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.counts.problem import Counts
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.mechanisms.published.subspace_noise import AnalyzeGauss, ModSulq
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body
from blockveil.testing.mechanism import K, MechanismContract

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BALL = SecondMoment(Body.BALL, np.full(4, 3.0), ADD, K, 1000, False)
SIGMAS = float(stats.norm.isf(0.5e-9))


class TestAnalyzeGauss(MechanismContract):
    mechanism = AnalyzeGauss()
    applies = ("second moment, box",)


class TestModSulq(MechanismContract):
    mechanism = ModSulq()
    applies = ("second moment, box", "second moment, positive box, replace-one", "second moment, ball")


def raw_deviation(design, radius):
    """Standard deviation of entry (0, 1) in raw units, for a ball."""
    return design.entry_standard_deviation() * radius**2


def test_the_noise_is_the_printed_one_on_and_off_the_diagonal():
    claim = ApproxDP(0.5, 1e-6)
    gauss = math.sqrt(2 * math.log(1.25 / 1e-6)) / 0.5
    sulq = 5 * math.sqrt(2 * math.log(20 / (2 * math.sqrt(2 * math.pi) * 1e-6))) / 0.5 + 1 / math.sqrt(0.5)
    for mechanism, factor in ((AnalyzeGauss(), gauss), (ModSulq(), sulq)):
        noise = raw_deviation(mechanism.design(BALL, claim), 3.0)
        assert noise == pytest.approx(np.full((4, 4), 9 * factor), rel=2e-5)
        assert np.all(noise >= 9 * factor)


def test_the_charge_is_exact_for_a_ball_and_a_box():
    claim = ApproxDP(0.5, 1e-2)
    for relation, change in ((ADD, 1.0), (REPLACE, math.sqrt(2))):
        design = AnalyzeGauss().design(SecondMoment(Body.BALL, np.ones(4), relation, K, 1000, False), claim)
        assert design.loss.mu == pytest.approx(change / design.scale, rel=2e-3)
        assert design.sensitivity.exact
    box = SecondMoment(Body.CUBE, np.array([1.0, 2.0, 0.5]), ADD, K, 1000, False)
    design = AnalyzeGauss().design(box, claim)
    corner = np.outer([1, 2, 0.5], [1, 2, 0.5])[np.triu_indices(3)]
    deviation = design.entry_standard_deviation() * np.outer(box.scale, box.scale)
    assert np.ptp(deviation) < 1e-4 * deviation[0, 0]
    assert design.loss.mu == pytest.approx(np.linalg.norm(corner) / deviation[0, 0], rel=2e-3)


def test_analyze_gauss_is_refused_where_its_claim_is_false():
    with pytest.raises(CannotCalibrate, match="published noise has mu"):
        AnalyzeGauss().design(BALL, ApproxDP(10.0, 1e-5))
    with pytest.raises(CannotCalibrate, match="published noise has mu"):
        AnalyzeGauss().design(SecondMoment(Body.BALL, np.ones(4), REPLACE, K, 1000, False), ApproxDP(0.5, 1e-8))


@pytest.mark.parametrize("mechanism", [AnalyzeGauss(), ModSulq()])
@pytest.mark.parametrize(
    "problem",
    [
        Counts((3, 3), ADD, 10),
        SecondMoment(Body.BALL, np.ones(4), ADD, K, 1000, True),
        SecondMoment(Body.BALL, np.ones(1), ADD, K, 1000, False),
    ],
)
def test_what_the_papers_do_not_answer_is_refused(mechanism, problem):
    with pytest.raises(NotApplicable, match=";"):
        mechanism.design(problem, ApproxDP(0.5, 1e-6))


def test_the_stated_error_of_equal_noise_on_both_sides_of_the_diagonal_is_honest():
    problem = SecondMoment(Body.BALL, np.ones(12), ADD, K, 1000, False)
    design = AnalyzeGauss().design(problem, ApproxDP(0.5, 1e-3))
    units, everything = np.ones(12), (0, 12)
    report = error_report(design, units, units)
    norms, squares = [], []
    for number in range(400):
        drawn = design.grid.draw(NoiseKey.derive(bytes(32), number.to_bytes(4)), everything, everything, True)
        noise = drawn * design.steps(everything, everything) / design.shifted_unit
        norms.append(np.linalg.norm(noise, 2))
        squares.append(np.sum(noise**2))
    # alpha 1e-9: the mean square, whose relative standard deviation is at most sqrt(2 / 78) for one draw and sqrt(2)
    # times that with entries counted twice.
    spread = SIGMAS * math.sqrt(4.0 / 78 / 400)
    assert abs(np.mean(squares) / report.total_variance - 1.0) < spread
    assert np.mean(norms) <= expected_spectral_norm(design, units, units)
    assert np.mean(np.array(norms) <= report.spectral) >= 0.95
    assert np.mean(np.sqrt(squares) <= report.frobenius) >= 0.95

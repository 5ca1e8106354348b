"""Noise with a diagonal of its own for covariances and uneven boxes: choice of sizes, refusals, errors."""

from dataclasses import replace

import numpy as np
import pytest

from blockveil.engine.estimates import matrices
from blockveil.engine.estimates.error_bounds import error_report, expected_spectral_norm, total_variance
from blockveil.engine.estimates.linear_forms import FeatureNoise
from blockveil.engine.estimates.simulated import covariance
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.mechanisms.auto import Metric, compare
from blockveil.engine.mechanisms.contract import Importance, NotApplicable
from blockveil.engine.mechanisms.gaussian import ShapedGaussian
from blockveil.engine.mechanisms.joint_diagonal import JointDiagonal
from blockveil.engine.mechanisms.shaped_diagonal import ShapedDiagonal
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body, Box, CappedBox

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
GUARANTEE = ApproxDP(0.9, 1e-6)
K = 2**11 - 1
ABSOLUTE = Importance("absolute-error")


def moment(features=5, neighbours=ADD, body=Body.CUBE, augmented=True, uneven=False, **others):
    scale = np.arange(1.0, features + 1.0) ** -0.5 if uneven else np.ones(features)
    return SecondMoment(body, scale, neighbours, K, 1000, augmented, **others)


def drawn(design, releases):
    """Noise of so many releases in coordinates."""
    whole = (0, design.shape[0]), (0, design.shape[0])
    size = design.steps(*whole) / design.shifted_unit
    return np.array([design.noise(NoiseKey(k.to_bytes(32)), *whole) * size for k in range(releases)])


# How many times less error than the best other mechanism, and at most how many times a bound of any Gaussian noise.
GAINED = {
    (3, ADD, True, False): (1.9, 1.01),
    (4, ADD, True, False): (1.7, 1.01),
    (4, REPLACE, True, False): (1.54, 1.02),
    (3, REPLACE, True, True): (1.6, 1.12),
    (4, REPLACE, True, True): (1.59, 1.05),
    (6, ADD, True, False): (1.51, 1.01),
    (10, ADD, True, False): (1.29, 1.01),
    (10, REPLACE, True, False): (1.20, 1.03),
    (23, ADD, True, False): (1.12, 1.01),
    (23, REPLACE, True, False): (1.08, 1.01),
    (4, ADD, True, True): (1.65, 1.025),
    (10, ADD, True, True): (1.30, 1.02),
    (23, ADD, True, True): (1.13, 1.02),
    (10, REPLACE, True, True): (1.23, 1.05),
    (4, ADD, False, True): (1.33, 1.02),
    (10, ADD, False, True): (1.18, 1.02),
    (10, REPLACE, False, True): (1.22, 1.05),
    (23, ADD, False, True): (1.08, 1.03),
}


@pytest.mark.parametrize("case", GAINED)
def test_auto_takes_it_and_its_error_is_near_a_bound(case):
    (features, neighbours, augmented, uneven), (gained, over) = case, GAINED[case]
    problem, metric = moment(features, neighbours, Body.CUBE, augmented, uneven), Metric("total")
    found = compare(problem, GUARANTEE, metric)
    taken = "joint-diagonal" if augmented and neighbours is ADD else "shaped-diagonal"
    assert found.mechanism.name == taken
    assert found.design.loss.mu == ShapedGaussian(ABSOLUTE).design(problem, GUARANTEE).loss.mu
    others = [row.error for row in found.table if row.error is not None and row.mechanism != taken]
    best = found.table[0].error
    assert best < min(others)
    if taken == "joint-diagonal":
        assert min(others) > {3: 1.35, 4: 1.26, 6: 1.18, 10: 1.1, 23: 1.038}[features] * best * 0.999
    assert next(row.error for row in found.table if row.mechanism == "shaped-gaussian") > gained * best
    least = metric.least(problem, GUARANTEE, found.design)
    assert least <= best <= over * least


BOTH = [(ShapedDiagonal, ADD), (ShapedDiagonal, REPLACE), (JointDiagonal, ADD)]


@pytest.mark.parametrize(("following", "neighbours"), BOTH)
@pytest.mark.parametrize(("features", "uneven"), [(2, False), (6, False), (6, True), (60, True)])
def test_count_and_sums_and_products_off_the_diagonal_have_no_more_noise(following, neighbours, features, uneven):
    problem = moment(features, neighbours, uneven=uneven)
    ours, theirs = (
        mechanism(ABSOLUTE).design(problem, GUARANTEE).entry_standard_deviation()
        for mechanism in (following, ShapedGaussian)
    )
    assert np.all(ours <= theirs * (1 + 1e-12))
    assert np.all(np.diagonal(ours)[1:] < 0.9 * np.diagonal(theirs)[1:])


@pytest.mark.parametrize(
    "problem",
    [
        moment(body=Body.BALL),
        moment(body=CappedBox(Body.CUBE, np.full(5, 0.6))),
        moment(body=Body.HALF_CUBE, neighbours=REPLACE),
        moment(1),
        moment(257),
        PrincipalDirections(Body.CUBE, np.ones(5), ADD, K, 1000, False, directions=2),
    ],
)
def test_what_is_not_proven_is_refused_and_not_compared(problem):
    for mechanism in (ShapedDiagonal(ABSOLUTE), JointDiagonal(ABSOLUTE)):
        with pytest.raises(NotApplicable, match="; choose"):
            mechanism.design(problem, GUARANTEE)
    compared = {row.mechanism for row in compare(problem, GUARANTEE, Metric("total")).table}
    assert compared.isdisjoint({"shaped-diagonal", "joint-diagonal"})


def test_a_box_of_which_one_feature_outweighs_the_others_keeps_the_noise_it_had():
    problem = SecondMoment(Body.CUBE, np.array([1.0, 1e-3]), ADD, K, 1000, False)
    with pytest.raises(NotApplicable, match="outweighs the others"):
        ShapedDiagonal(ABSOLUTE).design(problem, GUARANTEE)
    assert compare(problem, GUARANTEE, Metric("relative")).table[0].error is not None
    with pytest.raises(NotApplicable, match="more noise elsewhere"):
        JointDiagonal(ABSOLUTE).design(replace(problem, scale=np.array([1.0, 1e-4]), augmented=True), GUARANTEE)


def test_steps_that_are_too_coarse_for_what_is_shared_are_refused():
    crowded = SecondMoment(Body.CUBE, np.array([1.0, 0.3, 0.1]), ADD, 2**11, 2**39, False)
    with pytest.raises(CannotCalibrate, match="no room for steps"):
        ShapedDiagonal(ABSOLUTE).design(crowded, GUARANTEE)
    even = SecondMoment(Body.CUBE, np.ones(3), ADD, 2**11, 2**39, True)
    assert ShapedDiagonal(ABSOLUTE).design(even, GUARANTEE).spread.diagonal.shared > 0


@pytest.mark.parametrize(
    ("following", "neighbours", "augmented"),
    [*((*each, True) for each in BOTH), *((*each, False) for each in BOTH[:2])],
)
def test_stated_errors_are_those_of_drawn_noise(following, neighbours, augmented):
    problem = moment(4, neighbours, Body.CUBE, augmented, uneven=True)
    design, lead = following(ABSOLUTE).design(problem, GUARANTEE), int(augmented)
    units = np.concatenate([np.zeros(lead), [1.0, 2.0, 0.5, 3.0]])
    releases = drawn(design, 1500)
    noise = releases * np.outer(units, units)
    squares, total = np.sum(noise**2, axis=(1, 2)), total_variance(design, units, units)
    allowed = 6.1 * np.std(squares) / np.sqrt(len(squares))  # alpha 1e-9
    assert abs(np.mean(squares) - total) < allowed
    assert total == pytest.approx(np.sum((design.entry_standard_deviation() * np.outer(units, units)) ** 2), rel=1e-3)
    assert total_variance(design, np.diag(units), np.diag(units)) == pytest.approx(total, rel=1e-9)
    spectral, report = np.max(np.abs(np.linalg.eigvalsh(noise)), axis=1), error_report(design, units, units)
    assert np.mean(spectral) <= expected_spectral_norm(design, units, units)
    assert np.mean(spectral <= report.spectral) >= 0.95
    assert np.mean(np.sqrt(squares) <= report.frobenius) >= 0.95
    # Each entry by itself, and linear forms of several.
    deviation = design.entry_standard_deviation()
    assert np.std(releases, axis=0) == pytest.approx(deviation, rel=6.1 / np.sqrt(2 * 1500))
    box = Box(-np.ones(4), np.ones(4), np.zeros(4)).coordinates()
    forms = FeatureNoise.of(design, box, lead, range(4))
    for form in (np.eye(4 + lead), np.diag([2.0, -1.0, 0.0, 1.0, 0.5][: 4 + lead]), np.ones((4 + lead, 4 + lead))):
        values = np.einsum("nij,ij->n", releases, form)
        assert np.std(values) == pytest.approx(forms.deviation(form), rel=6.1 / np.sqrt(2 * 1500))


def test_the_stated_noise_of_a_covariance_is_that_of_drawn_noise_which_its_count_shares():
    """To first order, of means near an end: there what count and diagonal have in common adds up."""
    design = JointDiagonal(ABSOLUTE).design(moment(3), GUARANTEE)
    box = Box(-np.ones(3), np.ones(3), np.zeros(3)).coordinates()
    records = np.array([[1.0, 0.9, 0.8, -0.1], [1.0, 0.9, 0.9, 0.3]])
    truth = 50_000.0 * records.T @ records
    steps = design.steps((0, 4), (0, 4)) / design.shifted_unit
    found = matrices.covariance(np.rint(truth / steps), design, box, None).covariance.standard_deviation
    releases = truth + drawn(design, 4000)
    values = np.array([matrices.covariance(one / steps, design, box, None).covariance.value for one in releases])
    assert np.std(values, axis=0) == pytest.approx(found, rel=6.1 / np.sqrt(2 * 4000))
    worst = matrices.worst_covariance_deviation(design, 100_000)
    assert np.all(found <= worst)


def test_simulated_covariances_share_noise_as_released_ones_do():
    design = ShapedDiagonal(ABSOLUTE).design(moment(4), GUARANTEE)
    assert design.spread.diagonal.shared > 0
    truth = np.diag([1e5, 2e4, 2e4, 2e4, 2e4])
    found = covariance(truth, design, Box(-np.ones(4), np.ones(4), np.zeros(4)).coordinates(), None)
    deviation = design.entry_standard_deviation()[1:, 1:]
    assert found.noisy.entry * 1e5 == pytest.approx(np.sqrt(np.mean(deviation**2)), rel=0.2)

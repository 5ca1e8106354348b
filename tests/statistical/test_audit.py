"""The audit refutes what is false and passes what is true. A true claim is flagged with probability 1e-6 at most."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from blockveil.engine.audit import audit
from blockveil.engine.audit.attacks import last_bits
from blockveil.engine.audit.bounds import CONFIDENCE
from blockveil.engine.audit.cases import cases
from blockveil.engine.audit.laws import discrete_laplace, gaussian, grid_noise, laplace, rank_one
from blockveil.engine.audit.mutants import (
    half_scale,
    half_steps,
    rescaled,
    reseeded,
    reseeded_noise,
    second_moment_subject,
    unclipped,
    unclipped_quantiser,
    unrounded,
)
from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP
from blockveil.engine.noise.discrete_gaussian import GRID_THREE_LEVEL, GRID_TWO_LEVEL
from blockveil.engine.noise.discrete_laplace import LAPLACE_GRID
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.study.r1smg import published
from blockveil.engine.study.r1smg_profile import correct_variance, true_delta
from blockveil.testing.moment_noise import calibrate

DELTA = 1e-5
LARGEST = 2**15 - 1


def verdict(subject, trials, attacks=None):
    return audit(subject, trials, np.random.default_rng(20), CONFIDENCE, attacks)


def exact_gaussian(epsilon, delta=DELTA):
    """Three entries of uneven noise whose sum of squared ratios is exactly what the claim allows."""
    mu = gaussian_mu(epsilon, delta)
    shares = np.array([0.6, 0.0, -0.8])
    deviations = np.array([2.0, 0.5, 7.0])
    return gaussian(mu * shares * deviations, deviations, ApproxDP(epsilon, delta))


def exact_laplace(epsilon):
    return laplace([0.0, epsilon * 3.0], [1.0, 3.0], PureDP(epsilon))


def exact_discrete_laplace(epsilon):
    return discrete_laplace([0, 100], 100 / epsilon, PureDP(epsilon))


def exact_grid(law, mu):
    """Released Gaussian noise at a claim in the middle of its profile, where the audit sees most."""
    distance = np.floor(law.privacy_scale * mu)
    return grid_noise(law, [distance], ApproxDP(0.5, gaussian_delta(distance / law.privacy_scale, 0.5)))


def exact_laplace_grid(epsilon):
    return grid_noise(LAPLACE_GRID, [np.floor(epsilon * LAPLACE_GRID.scale)], PureDP(epsilon))


ADDITIVE = [
    (exact_gaussian(0.1), 2**22),
    (exact_gaussian(1.0), 2**19),
    (exact_gaussian(8.0), 2**21),
    *((exact_laplace(epsilon), 2**18) for epsilon in (0.1, 1.0, 8.0)),
    *((exact_discrete_laplace(epsilon), 2**18) for epsilon in (0.1, 1.0, 8.0)),
    (exact_grid(GRID_TWO_LEVEL, 1.0), 2**18),
    (exact_grid(GRID_THREE_LEVEL, 1.0), 2**18),
    (exact_laplace_grid(1.0), 2**17),
]
SENSITIVE = [  # claims at which noise that is 5 % too small is visible
    (gaussian([1.0], [1.0], ApproxDP(0.5, gaussian_delta(1.0, 0.5))), 2**19),
    (exact_laplace(1.0), 2**19),
    (exact_discrete_laplace(1.0), 2**18),
    (exact_grid(GRID_TWO_LEVEL, 1.0), 2**18),
    (exact_laplace_grid(1.0), 2**18),
]


def named(case):
    return case.name if hasattr(case, "name") else None


def test_true_claims_are_flagged_no_more_often_than_a_low_confidence_says():
    # a claim that is exact at many events at once, by attacks that know nothing
    subject = replace(laplace([0.0, 1.0], [1.0, 1.0], PureDP(1.0)), log_density=None)
    wrong = rescaled(subject, 0.5)
    flags = [[audit(s, 1000, np.random.default_rng(seed), 0.7).flagged for seed in range(60)] for s in (subject, wrong)]
    assert sum(flags[0]) <= stats.binom.isf(1e-9, 60, 0.3)
    assert sum(flags[1]) > stats.binom.isf(1e-9, 60, 0.3)


@pytest.mark.parametrize(("subject", "trials"), ADDITIVE, ids=named)
def test_exact_noise_passes_and_half_of_it_is_flagged(subject, trials):
    passed = verdict(subject, trials)
    assert not passed.flagged
    assert passed.epsilon <= passed.claimed_epsilon
    flagged = verdict(half_scale(subject), trials)
    assert flagged.flagged
    assert flagged.epsilon > flagged.claimed_epsilon
    assert flagged.delta > flagged.claimed_delta


@pytest.mark.parametrize(("subject", "trials"), SENSITIVE, ids=named)
def test_noise_five_percent_too_small_is_flagged_where_exact_noise_passes(subject, trials):
    assert not verdict(subject, trials).flagged
    assert verdict(rescaled(subject, 0.95), trials).flagged


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_claim_below_its_exact_profile_is_refuted_where_no_trials_could_show_it(epsilon):
    delta = 1e-14
    mu = gaussian_mu(epsilon, delta)
    honest, wrong = (gaussian([mu], [size], ApproxDP(epsilon, delta)) for size in (1.0, 0.95))
    assert not verdict(honest, 400).flagged
    found = verdict(wrong, 400)
    assert found.flagged
    assert found.epsilon < epsilon
    assert found.exact_delta > 1.5 * delta


def test_noise_five_percent_too_small_is_flagged_in_a_box_within_a_ball():
    found = cases("shaped-gaussian", ApproxDP(0.5, gaussian_delta(1.0, 0.5)))
    attacked = [subject for subject in found if "within a ball, " in subject.name and "ratio" in subject.name]
    assert len(attacked) == 4
    for subject in attacked:
        assert not verdict(subject, 2**19).flagged
        assert verdict(rescaled(subject, 0.95), 2**19).flagged


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_record_beyond_its_bound_is_flagged(epsilon):
    assert verdict(unclipped(exact_gaussian(epsilon), 3.0), 2**19).flagged
    assert verdict(unclipped(exact_laplace(epsilon), 3.0), 2**19).flagged


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_noise_that_tasks_share_is_flagged_at_any_size(epsilon):
    mu = gaussian_mu(epsilon, DELTA)
    subject = gaussian([mu, 0.0, 0.0, 0.0], np.ones(4), ApproxDP(epsilon, DELTA))
    found = verdict(reseeded(subject, 2), 2**18 if epsilon == 8.0 else 2**14)
    assert found.flagged
    assert found.epsilon > 5.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_noise_added_in_floating_point_is_flagged_through_its_last_bits(epsilon):
    subject = gaussian([1.0], [1.0 / gaussian_mu(epsilon, DELTA)], ApproxDP(epsilon, DELTA))
    assert verdict(unrounded(subject), 2**19, [last_bits]).flagged
    assert not verdict(subject, 2**19, [last_bits]).flagged


PUBLISHED = [  # entries, epsilon, delta, sensitivity, true delta: Uber, PCA, and a gradient step
    (7921, 1e-5, 1e-7, np.sqrt(2), 0.2166),
    (5_760_000, 2e-8, 1e-7, np.sqrt(2), 0.2476),
    (5_760_000, 1e-7, 1e-7, np.sqrt(2), 0.4182),
    (10_000, 0.71, 3.3333e-7, 1.0, 1.0),
    (1_000_000, 5.42, 3.3333e-7, 1.0, 1.0),
]


@pytest.mark.parametrize(("entries", "epsilon", "delta", "sensitivity", "truth"), PUBLISHED)
def test_rank_one_noise_is_flagged_at_the_settings_of_its_paper(entries, epsilon, delta, sensitivity, truth):
    variance = published(entries, epsilon, delta, sensitivity).variance
    found = verdict(rank_one(entries, variance, sensitivity, ApproxDP(epsilon, delta)), 2**17)
    assert found.flagged
    assert 0.85 * truth < found.delta <= truth + 1e-4
    assert found.epsilon > 4.5


@pytest.mark.parametrize(("entries", "epsilon", "delta", "sensitivity", "truth"), PUBLISHED[:3])
def test_rank_one_noise_passes_at_its_true_loss_and_not_at_less(entries, epsilon, delta, sensitivity, truth):
    variance = published(entries, epsilon, delta, sensitivity).variance
    exact = true_delta(entries, np.sqrt(variance) / sensitivity, epsilon)
    assert exact == pytest.approx(truth, abs=1e-4)
    assert not verdict(rank_one(entries, variance, sensitivity, ApproxDP(epsilon, exact * (1 + 1e-6))), 2**18).flagged
    assert verdict(rank_one(entries, variance, sensitivity, ApproxDP(epsilon, 0.88 * exact)), 2**18).flagged


def test_rank_one_noise_five_percent_too_small_for_its_true_loss_is_flagged():
    variance, claim = 4.0e7, ApproxDP(1e-7, true_delta(5_760_000, np.sqrt(4.0e7 / 2), 1e-7) * (1 + 1e-6))
    assert not verdict(rank_one(5_760_000, variance, np.sqrt(2), claim), 2**20).flagged
    assert verdict(rank_one(5_760_000, variance * 0.95**2, np.sqrt(2), claim), 2**20).flagged


def test_rank_one_noise_passes_once_its_variance_is_the_true_one():
    claim, variance = ApproxDP(1e-5, 1e-7), 2 * correct_variance(7921, 1e-5, 1e-7)
    assert variance == pytest.approx(2 * 1.218e19, rel=1e-3)
    assert not verdict(rank_one(7921, variance, np.sqrt(2), claim), 2**17).flagged
    assert verdict(rank_one(7921, variance * 0.95**2, np.sqrt(2), claim), 2**17).flagged


CLAIM = ApproxDP(0.5, 0.24)  # half the noise is visible in a few hundred outputs
BOX = Quantiser(Box([-1, -1], [1, 1], [0, 0]).coordinates(), LARGEST, False, None)
PAIRS = {  # worst neighbours among records in the square
    Neighbours.ADD_REMOVE: (np.array([[0.5, 0.0], [1.0, 1.0]]), np.array([[0.5, 0.0]])),
    Neighbours.REPLACE_ONE: (np.array([[0.5, 0.0], [1.0, 1.0]]), np.array([[0.5, 0.0], [1.0, -1.0]])),
}


def released(relation, *, excess=1.0, quantiser=BOX, halved=False, **path):
    """The real path of a 2 x 2 second moment, drawn in blocks of one entry."""
    design = calibrate(Body.CUBE, np.ones(2), 0.0, CLAIM, relation, LARGEST)
    first, second = PAIRS[relation]
    far = np.vstack([first[:-1], first[-1:] * excess])
    design = half_steps(design) if halved else design
    return second_moment_subject("second moment", CLAIM, design, quantiser, (far, second), chunk=1, **path)


@pytest.mark.parametrize("relation", Neighbours)
def test_the_released_second_moment_passes_and_half_its_noise_is_flagged(relation):
    assert not verdict(released(relation), 1200).flagged
    assert verdict(released(relation, halved=True), 1200).flagged


@pytest.mark.parametrize("relation", Neighbours)
def test_a_record_beyond_its_bound_is_clipped_by_the_released_path_and_flagged_without_clipping(relation):
    assert not verdict(released(relation, excess=3.0), 200).flagged
    assert verdict(released(relation, excess=3.0, quantiser=unclipped_quantiser(BOX, 3)), 200).flagged


@pytest.mark.parametrize("relation", Neighbours)
def test_blocks_whose_coordinates_start_anew_are_flagged(relation):
    assert verdict(released(relation, noise=reseeded_noise(1)), 200).flagged

"""Subjects draw what they say, attacks see what they are for, and an audit keeps its two halves apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from blockveil.engine.audit import attacks, audit
from blockveil.engine.audit.bounds import CONFIDENCE, claimed
from blockveil.engine.audit.laws import discrete_laplace, gaussian, grid_noise, laplace, rank_one
from blockveil.engine.audit.mutants import (
    half_scale,
    half_steps,
    integer_noise,
    reseeded,
    reseeded_noise,
    second_moment_subject,
    unclipped,
    unclipped_quantiser,
    unrounded,
)
from blockveil.engine.audit.subjects import Additive, BlackBox, visible_claim
from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours, PureDP
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL, NoiseKey
from blockveil.engine.noise.discrete_laplace import LAPLACE_GRID
from blockveil.engine.records.geometry import Ball, Body, Box
from blockveil.engine.records.quantiser import Quantiser
from blockveil.testing.moment_noise import calibrate

ALPHA = 1e-9
CLAIM = ApproxDP(1.0, 1e-5)
SUBJECTS = [
    gaussian([1.0, -2.0], [0.7, 3.0], CLAIM),
    laplace([0.0, 2.0], [1.0, 1.5], PureDP(1.0)),
    discrete_laplace([0, 3], 2.0, PureDP(1.0)),
    rank_one(7, 2.0, 1.0, CLAIM),
    rank_one(7921, 402_110.1, math.sqrt(2), CLAIM),
]
SQUARE = Quantiser(Box([-1, -1], [1, 1], [0, 0]).coordinates(), 2**15 - 1, False, None)
PAIR = np.array([[0.5, -1.0], [1.0, 1.0]]), np.array([[0.5, -1.0]])


def generator():
    return np.random.default_rng(7)


def named(value):
    return value.name if hasattr(value, "name") else None


def plain(noise, difference=(1.0,), claim=CLAIM):
    d = np.array(difference)
    return Additive("plain", claim, (d, np.zeros_like(d)), noise, 0.0)


def scores(attack, subject, trials=4000):
    rng = generator()
    first, second = subject.sample(0, trials, rng), subject.sample(1, trials, rng)
    return [(score, score.of(first), score.of(second)) for score in attack(subject, first, second)]


def z_score(values, expected):
    return abs(np.mean(values) - expected) / (np.std(values) / math.sqrt(values.size))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.1])
@pytest.mark.parametrize("subject", SUBJECTS, ids=named)
def test_sampler_ratio_and_profile_of_a_subject_agree(subject, epsilon):
    # delta(epsilon) = E_D max(0, 1 - e^(epsilon - L)), and by the neighbour's outputs E_D' max(0, e^L - e^epsilon)
    rng = generator()
    loss = subject.log_ratio(subject.sample(0, 200_000, rng))
    values = -np.expm1(np.minimum(epsilon - loss, 0.0))
    limit = stats.norm.isf(ALPHA / 2)
    exact = subject.delta(epsilon)
    if np.ptp(values) == 0.0:
        assert exact == pytest.approx(values[0], abs=1e-12)
        return
    assert z_score(values, exact) < limit
    if epsilon == 0.3 and exact > 0.05:
        smaller = subject.log_ratio(half_scale(subject).sample(0, 200_000, rng))
        assert z_score(-np.expm1(np.minimum(epsilon - smaller, 0.0)), exact) > limit


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.2, 2.0])
def test_the_profile_of_laplace_noise_is_the_integral(epsilon):
    density = lambda x: 0.5 * math.exp(-abs(x))  # noqa: E731
    gain = lambda x: max(0.0, density(x - 1.5) - math.exp(epsilon) * density(x))  # noqa: E731
    expected = integrate.quad(gain, -5, 60, points=[0, 1.5, (1.5 + epsilon) / 2], limit=400)[0]
    assert laplace([1.5], [1.0], PureDP(1.0)).delta(epsilon) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 1.5])
def test_the_profile_of_discrete_laplace_noise_is_the_sum(epsilon):
    k = np.arange(-300, 300)
    mass = lambda shift: np.tanh(0.25) * np.exp(-np.abs(k - shift) / 2.0)  # noqa: E731
    expected = np.sum(np.maximum(mass(3) - np.exp(epsilon) * mass(0), 0.0))
    assert discrete_laplace([3], 2.0, PureDP(1.0)).delta(epsilon) == pytest.approx(expected, abs=1e-12)


def test_a_profile_of_several_changing_entries_is_not_claimed_for_laplace_noise():
    assert laplace([1.0, 1.0], [1.0, 1.0], PureDP(1.0)).delta(0.1) is None
    assert discrete_laplace([1, 1], 1.0, PureDP(1.0)).delta(0.1) is None


@pytest.mark.parametrize("column", [0, 1])
def test_reduced_coordinates_of_rank_one_noise_have_the_law_of_full_vectors(column):
    entries, rng = 50, generator()
    sphere = rng.standard_normal((20_000, entries))
    sphere /= np.linalg.norm(sphere, axis=1)[:, None]
    full = 3.0 * rng.standard_normal((20_000, 1)) * sphere
    full[:, 0] += 2.0
    expected = np.column_stack([full[:, 0], np.linalg.norm(full[:, 1:], axis=1)])[:, column]
    found = rank_one(entries, 9.0, 2.0, CLAIM).sample(0, 20_000, rng)[:, column]
    assert stats.ks_2samp(found, expected).pvalue > ALPHA
    wide = rank_one(entries, 9.0 * 1.25, 2.0, CLAIM).sample(0, 20_000, rng)[:, column]
    assert column == 0 or stats.ks_2samp(wide, expected).pvalue < ALPHA


@pytest.mark.parametrize("law", [GRID_TWO_LEVEL, LAPLACE_GRID], ids=lambda law: law.label)
def test_released_noise_as_a_subject_has_its_deviation(law):
    outputs = grid_noise(law, [0.0, 5.0, 0.0], CLAIM).sample(1, 50_000, generator())
    assert outputs.shape == (50_000, 3)
    assert np.std(outputs) == pytest.approx(law.standard_deviation, rel=0.02)
    assert np.abs(np.corrcoef(outputs.T) - np.eye(3)).max() < 6 / math.sqrt(50_000)


@pytest.mark.parametrize(
    ("law", "like"), [(GRID_TWO_LEVEL, gaussian([3e6], [1.0], CLAIM)), (LAPLACE_GRID, laplace([3e6], [1.0], CLAIM))]
)
def test_released_noise_has_the_ratio_of_its_law(law, like):
    outputs = np.linspace(-9e6, 9e6, 11)[:, None]
    scaled = replace(like, log_density=lambda noise: like.log_density(noise / law.privacy_scale))
    assert np.allclose(grid_noise(law, [3e6], CLAIM).log_ratio(outputs), scaled.log_ratio(outputs))


def test_entries_that_are_not_independent_are_seen_behind_a_ratio_that_says_they_are():
    subject = gaussian([0.1, 0.0], [1.0, 1.0], CLAIM)
    twice = replace(subject, noise=lambda trials, rng: np.repeat(rng.standard_normal((trials, 1)), 2, axis=1))
    assert audit(twice, 4000, generator(), CONFIDENCE).flagged


@pytest.mark.parametrize("loss", [Loss(1.0, 0.0, 0.0), Loss(0.3, 0.5, 1e-20), Loss(0.0, 0.7, 0.0)])
def test_the_visible_claim_follows_from_the_loss(loss):
    epsilon, delta = claimed(visible_claim(loss))
    assert loss.delta(epsilon) <= delta
    if loss.mu:
        # a smaller epsilon and a larger one both show a smaller change of delta with mu
        change = [
            gaussian_delta(loss.mu * 1.01, e) - gaussian_delta(loss.mu, e)
            for e in loss.mu**2 * np.array([0.2, 0.5, 0.9])
        ]
        assert max(change) == change[1]


def test_rounding_of_simulated_noise_is_far_below_it_and_to_one_grid():
    subject = gaussian([1.0], [30.0], CLAIM)
    outputs = subject.sample(0, 1000, generator())
    assert 0 < subject.grid < 1e-5
    assert np.array_equal(outputs / subject.grid, np.rint(outputs / subject.grid))


def test_a_black_box_gets_a_fresh_key_for_every_output_and_repeats_with_its_seed():
    box = BlackBox("keys", CLAIM, lambda data, key: [data, *key.stream(bytes(16), 8)], (3, 4))
    first, again = (box.sample(1, 50, generator()) for _ in range(2))
    assert np.array_equal(first, again)
    assert np.unique(first, axis=0).shape == (50, 9)
    assert np.all(first[:, 0] == 4)
    assert box.log_ratio(first) is None
    assert box.delta(1.0) is None


def test_the_likelihood_ratio_is_the_subjects_own_and_absent_without_it():
    subject = gaussian([2.0], [1.0], CLAIM)
    ((score, first, _),) = scores(attacks.likelihood_ratio, subject)
    outputs = subject.sample(0, 4000, generator())
    assert np.allclose(first, stats.norm.logpdf(outputs[:, 0], 2.0) - stats.norm.logpdf(outputs[:, 0]))
    assert attacks.likelihood_ratio(unrounded(subject), outputs, outputs) == []
    assert "ratio" in score.description


def test_the_nearest_answer_is_the_difference_of_the_distances():
    subject = gaussian([2.0, 1.0], [1.0, 1.0], CLAIM)
    ((_, first, _),) = scores(attacks.nearest_answer, subject)
    outputs = subject.sample(0, 4000, generator())
    expected = np.linalg.norm(outputs, axis=1) - np.linalg.norm(outputs - [2.0, 1.0], axis=1)
    assert np.allclose(first, expected)


def test_the_ball_attack_measures_from_each_answer():
    subject = gaussian([2.0, 1.0], [1.0, 1.0], CLAIM)
    outputs = subject.sample(0, 4000, generator())
    (_, to_first, _), (_, to_second, _) = scores(attacks.ball, subject)
    assert np.allclose(to_first, np.linalg.norm(outputs - [2.0, 1.0], axis=1))
    assert np.allclose(to_second, np.linalg.norm(outputs, axis=1))


def test_whitening_sees_through_correlated_noise_of_any_units():
    def shared(trials, rng):
        return np.outer(rng.standard_normal(trials), [1.0, 1e6]) + 1e-3 * rng.standard_normal((trials, 2)) * [1, 1e6]

    subject = plain(shared, (1.0, 0.0))
    ((_, first, second),) = scores(attacks.discriminant, subject)
    assert attacks.separation(first, second) == 1.0
    ((_, first, second),) = scores(attacks.projection, subject)
    assert attacks.separation(first, second) < 0.5


def test_whitening_needs_more_than_one_entry_and_not_too_many():
    assert scores(attacks.discriminant, gaussian([1.0], [1.0], CLAIM)) == []
    assert scores(attacks.discriminant, gaussian(np.ones(65), np.ones(65), CLAIM), 100) == []


def test_the_coordinate_attack_finds_the_entry_with_too_little_noise():
    ((score, first, second),) = scores(attacks.coordinate, gaussian([5.0, 5.0, 5.0], [99.0, 99.0, 0.5], CLAIM))
    assert score.description == "entry 2"
    assert attacks.separation(first, second) > 0.99


def test_the_histogram_sees_a_shape_that_no_threshold_sees():
    even = plain(lambda trials, rng: 2.0 * rng.integers(-15, 15, (trials, 1)))
    ((_, first, second),) = scores(attacks.histogram, even)
    assert attacks.separation(first, second) > 0.9
    ((_, first, second),) = scores(attacks.projection, even)
    assert attacks.separation(first, second) < 0.2


def test_unknown_answers_are_measured():
    box = BlackBox("unknown", CLAIM, lambda data, key: data + key.stream(bytes(16), 2)[0] / 256.0, (5.0, 0.0))
    outputs = box.sample(0, 500, generator()), box.sample(1, 500, generator())
    centres = attacks.centres(box, *outputs)
    assert centres[0] == pytest.approx(5.5, abs=0.15)
    assert centres[1] == pytest.approx(0.5, abs=0.15)
    assert audit(box, 500, generator(), CONFIDENCE).flagged


def test_chunks_that_share_their_noise_are_told_apart_exactly():
    subject = reseeded(gaussian([1.0, 0.0, 0.0, 0.0], np.ones(4), CLAIM), 2)
    ((score, first, second),) = scores(attacks.repeated_block, subject)
    assert attacks.separation(first, second) == 1.0
    assert "noise of entries [0, 1] less that of [2, 3], by the answers" in score.description
    assert np.all(first == 0.0)
    assert np.all(second == 1.0)
    independent = replace(subject, noise=gaussian(np.ones(4), np.ones(4), CLAIM).noise)
    ((_, first, second),) = scores(attacks.repeated_block, independent)
    assert attacks.separation(first, second) < 0.4


def test_only_chunks_of_equal_size_are_compared_and_entries_where_none_are_known():
    subject = plain(lambda trials, rng: rng.standard_normal((trials, 3)), (1.0, 0.0, 0.0))
    uneven = replace(subject, chunks=[np.array([0, 1]), np.array([2])])
    assert scores(attacks.repeated_block, uneven) == []
    ((score, _, _),) = scores(attacks.repeated_block, subject)
    assert "[0] less that of" in score.description
    wide = plain(lambda trials, rng: rng.standard_normal((trials, 9)), np.eye(9)[0])
    assert scores(attacks.repeated_block, wide) == []


def test_the_lowest_bit_is_that_of_the_binary_number():
    score = attacks.last_bits(SUBJECTS[0], np.zeros((1, 1)), np.zeros((1, 1)))[0]
    values = np.array([[1.0], [0.75], [-12.0], [2.0**-40 + 4.0], [2.0**-1074]])
    found = score.of(values)
    assert np.array_equal(np.diff(found), np.diff([0, -2, 2, -40, -1074]))
    assert score.of(np.array([[0.0, 0.75]]))[0] == found[1]


def test_the_calibration_half_is_not_counted():
    calls = []

    class Honest:
        name, claim, answers, chunks = "leaks while it is calibrated", ApproxDP(0.1, 1e-9), None, None

        def sample(self, which, trials, rng):
            calls.append((which, trials))
            leak = 100.0 * (which == 0) if len(calls) <= 2 else 0.0
            return leak + rng.standard_normal((trials, 1))

        def log_ratio(self, outputs):
            return None

        def delta(self, epsilon):
            return None

    found = audit(Honest(), 3001, generator(), CONFIDENCE)
    assert not found.flagged
    assert calls == [(0, 1500), (1, 1500), (0, 1501), (1, 1501)]


def test_a_leak_in_either_order_is_found():
    # an event that only D' can have, and one that only D can have
    for which in (0, 1):
        answers = (np.array([1.0]), np.array([0.0]))
        rare = lambda trials, rng: (rng.random((trials, 1)) < 0.05) * 7.0  # noqa: E731

        class OneSided(Additive):
            def sample(self, side, trials, rng, only=which, rare=rare):
                return rare(trials, rng) if side == only else np.zeros((trials, 1))

        found = audit(OneSided("one-sided", ApproxDP(3.0, 1e-3), answers, rare, 0.0), 40_000, generator(), CONFIDENCE)
        assert found.flagged
        assert ("likelier on its neighbour" in found.event) == (which == 1)


def test_the_same_seed_gives_the_same_verdict():
    subject = half_scale(gaussian([1.0], [3.0], CLAIM))
    assert audit(subject, 20_000, generator(), CONFIDENCE) == audit(subject, 20_000, generator(), CONFIDENCE)


def test_more_confidence_gives_smaller_bounds():
    subject = gaussian([1.0], [0.5], CLAIM)
    loose, strict = (audit(subject, 20_000, generator(), c) for c in (0.9, CONFIDENCE))
    assert strict.epsilon < loose.epsilon
    assert strict.delta < loose.delta
    assert strict.flagged


def test_every_event_that_is_tested_is_paid_for():
    subject = gaussian([1.0], [0.5], CLAIM)
    once, often = (audit(subject, 20_000, generator(), CONFIDENCE, [attacks.projection] * n) for n in (1, 50))
    assert 0.8 * once.epsilon < often.epsilon < once.epsilon


def test_no_audit_shows_more_than_its_trials_can():
    trials, scores = 2**14, 9
    far = gaussian([1e6, 0.0], [1.0, 1.0], CLAIM)
    found = audit(replace(far, log_density=None), trials, generator(), CONFIDENCE)
    # nothing seen in n/2 trials, by 4 events of each score with two bounds each
    limit = math.log(trials / 2) - math.log(math.log(8 * scores / 1e-6))
    assert found.epsilon == pytest.approx(limit, abs=0.02)


@pytest.mark.parametrize("side", [1, 2])
def test_reseeded_blocks_repeat_the_first_and_the_real_noise_repeats_none(side):
    design = calibrate(Body.BALL, np.ones(4), 0.0, CLAIM, Neighbours.ADD_REMOVE, 2**15 - 1)
    key = NoiseKey(bytes(32))
    wrong, right = reseeded_noise(side)(design, key), integer_noise(design, key)
    assert np.array_equal(wrong[:side, :side], wrong[-side:, -side:])
    assert np.unique(right[np.triu_indices(4)]).size == 10
    assert np.array_equal(wrong[:side, :side], right[:side, :side])


def test_the_mutants_of_the_real_path_change_one_thing_each():
    design = calibrate(Body.CUBE, np.ones(2), 0.0, CLAIM, Neighbours.ADD_REMOVE, 2**15 - 1)
    whole = ((0, 2), (0, 2))
    assert half_steps(design).steps(*whole) == pytest.approx(design.steps(*whole) / 2, rel=1e-3)
    assert half_steps(design).loss == design.loss
    records = np.array([[0.3, -1.0], [3.0, 0.5]])
    wide = unclipped_quantiser(SQUARE, 3)
    assert np.array_equal(wide.quantise(records)[0], SQUARE.quantise(records)[0])
    assert wide.quantise(records)[1, 0] == 3 * SQUARE.quantise(records)[1, 0] == 3 * SQUARE.largest


def test_the_outputs_of_the_real_path_are_its_released_integers():
    design = calibrate(Body.CUBE, np.ones(2), 0.0, CLAIM, Neighbours.ADD_REMOVE, 2**15 - 1)
    subject = second_moment_subject("real", CLAIM, design, SQUARE, PAIR, chunk=1)
    outputs = subject.sample(0, 300, generator())
    noise = outputs - subject.answers[0]
    assert np.array_equal(outputs, np.rint(outputs))
    assert np.std(noise) == pytest.approx(design.grid.standard_deviation, rel=0.15)
    distance = np.linalg.norm(subject.answers[0] - subject.answers[1]) / design.grid.privacy_scale
    assert 0.99 * design.mu <= distance <= design.mu
    assert [chunk.tolist() for chunk in subject.chunks] == [[0], [1], [2]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: audit(SUBJECTS[0], 3, generator(), CONFIDENCE),
        lambda: audit(SUBJECTS[0], 100, generator(), 1.0),
        lambda: audit(unrounded(SUBJECTS[0]), 100, generator(), CONFIDENCE, [attacks.likelihood_ratio]),
        lambda: gaussian([1.0], [0.0], CLAIM),
        lambda: gaussian([0.0], [1.0], CLAIM),
        lambda: laplace([1.0, 2.0], [1.0], PureDP(1.0)),
        lambda: reseeded(SUBJECTS[0], 2),
        lambda: reseeded(SUBJECTS[0], 3),
        lambda: unclipped_quantiser(SQUARE, 2000),
        lambda: unclipped_quantiser(Quantiser(Ball([0.0], 1.0).coordinates(), 255, False, None), 2),
    ],
)
def test_what_cannot_be_audited_is_refused_with_a_remedy(wrong):
    with pytest.raises(CalibrationError, match=";"):
        wrong()


def test_mutants_say_what_they_are_and_no_longer_state_a_profile():
    subject = SUBJECTS[0]
    for mutant, word in (
        (half_scale(subject), "times 0.5"),
        (unclipped(subject, 3.0), "3 times beyond"),
        (unrounded(subject), "floating point"),
        (reseeded(subject, 1), "same noise"),
    ):
        assert word in mutant.name
        assert mutant.claim == subject.claim
        assert mutant.delta(1.0) is None

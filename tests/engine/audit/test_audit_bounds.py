"""Bounds from counts: exact tails as the oracle, and the exact probability of flagging a true claim."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from blockveil.engine.audit.bounds import (
    CONFIDENCE,
    EventCounts,
    allowed_error,
    claimed,
    delta_lower,
    epsilon_lower,
    exceeds,
    probability_lower,
    probability_upper,
)
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, PureDP

CASES = [(10, 0), (10, 1), (10, 9), (10, 10), (1000, 3), (1000, 500), (100_000, 1), (100_000, 87), (100_000, 99_990)]


def at_least(k, n, p):
    """Probability of at least k successes, by a sum of 40 digits over the shorter tail."""
    with mpmath.workdps(40):
        p = mpmath.mpf(p)
        term = lambda j: mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j)  # noqa: E731
        if n - k < k:
            return mpmath.fsum(term(j) for j in range(k, n + 1))
        return 1 - mpmath.fsum(term(j) for j in range(k))


@pytest.mark.parametrize("error", [0.05, 1e-6, 1e-9])
@pytest.mark.parametrize(("n", "k"), CASES)
def test_the_bounds_are_the_exact_tails(n, k, error):
    # on the safe side of the exact bound, and no further from it than a few parts in a thousand million
    if k > 0:
        bound = float(probability_lower(k, n, error))
        assert at_least(k, n, bound) <= error <= at_least(k, n, bound * (1 + 3e-9))
    if k < n:
        bound = float(probability_upper(k, n, error))
        assert 1 - at_least(k + 1, n, bound) <= error <= 1 - at_least(k + 1, n, bound * (1 - 3e-9))


def test_nothing_seen_is_no_proof_of_impossibility():
    assert probability_lower(0, 50, 1e-6) == 0.0
    assert probability_upper(50, 50, 1e-6) == 1.0
    assert probability_upper(0, 50, 1e-6) == pytest.approx(1 - 1e-6 ** (1 / 50), rel=1e-8)


@pytest.mark.parametrize("p", [0.001, 0.04, 0.5, 0.93])
@pytest.mark.parametrize("error", [0.05, 1e-3])
def test_each_bound_fails_no_more_often_than_it_says(p, error):
    counts = np.arange(301)
    mass = stats.binom.pmf(counts, 300, p)
    assert np.sum(mass[probability_lower(counts, 300, error) > p]) <= error
    assert np.sum(mass[probability_upper(counts, 300, error) < p]) <= error


@pytest.mark.parametrize("error", [0.05, 1e-3])
@pytest.mark.parametrize(
    ("epsilon", "delta", "q"), [(0.1, 0.0, 0.4), (1.0, 0.0, 0.26), (1.0, 0.05, 0.1), (3.0, 0.2, 0.01)]
)
def test_a_true_claim_is_flagged_no_more_often_than_it_says(epsilon, delta, q, error):
    n = 120
    p = math.exp(epsilon) * q + delta
    masses = stats.binom.pmf(np.arange(n + 1), n, p), stats.binom.pmf(np.arange(n + 1), n, q)
    flagged = [(i, j) for i in range(n + 1) for j in range(n + 1) if is_flagged(i, j, n, epsilon, delta, error)]
    assert sum(masses[0][i] * masses[1][j] for i, j in flagged) <= error


def test_a_claim_five_percent_too_small_is_refuted_by_counts_at_their_means():
    n, q = 10**6, 0.2
    p = math.exp(1.0) * q + 0.01
    assert is_flagged(round(n * p), round(n * q), n, 0.95, 0.01, 1e-6)
    assert not is_flagged(round(n * p), round(n * q), n, 1.0, 0.01, 1e-6)


def is_flagged(first, second, n, epsilon, delta, error):
    return epsilon_lower(EventCounts(first, second, n), delta, error) > epsilon


@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.01, 8.0), st.floats(0.0, 0.9))
def test_a_claim_falls_by_epsilon_exactly_when_it_falls_by_delta(first, second, epsilon, delta):
    counts = EventCounts(first, second, 500)
    by_epsilon, by_delta = epsilon_lower(counts, delta, 1e-6), delta_lower(counts, epsilon, 1e-6)
    if abs(by_epsilon - epsilon) > 1e-8 * epsilon:
        assert (by_epsilon > epsilon) == (by_delta > delta)


def test_the_published_ball_test_gives_its_published_bound():
    # 8,838 of ten million outputs near the answer, none near the neighbour's: rank-one noise, 89 x 89 entries
    assert epsilon_lower(EventCounts(8838, 0, 10**7), 0.0, 0.05) == pytest.approx(7.76, abs=0.005)


def test_a_large_epsilon_does_not_overflow():
    assert delta_lower(EventCounts(900, 0, 1000), 1e7, 1e-6) == 0.0
    assert epsilon_lower(EventCounts(900, 0, 1000), 0.95, 1e-6) == 0.0


def test_the_error_of_a_confidence_is_never_rounded_up():
    assert allowed_error(CONFIDENCE) <= 1e-6
    assert allowed_error(CONFIDENCE) == pytest.approx(1e-6, rel=1e-8)


def test_an_exact_profile_refutes_what_it_exceeds_by_more_than_rounding():
    assert exceeds(1.001e-9, 1e-9)
    assert exceeds(1e-9, 0.0)
    for exact, delta in ((1e-9, 1e-9), (1e-9 * (1 + 1e-9), 1e-9), (1e-12, 1e-9), (1e-16, 0.0), (None, 0.0)):
        assert not exceeds(exact, delta)


def test_a_pure_claim_has_no_delta():
    assert claimed(PureDP(2.0)) == (2.0, 0.0)
    assert claimed(ApproxDP(2.0, 1e-6)) == (2.0, 1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: EventCounts(-1, 0, 10),
        lambda: EventCounts(0, 11, 10),
        lambda: EventCounts(0, 0, 0),
        lambda: allowed_error(1.0),
        lambda: allowed_error(0.0),
        lambda: epsilon_lower(EventCounts(1, 0, 10), 1.0, 0.1),
        lambda: epsilon_lower(EventCounts(1, 0, 10), 0.0, 0.0),
        lambda: delta_lower(EventCounts(1, 0, 10), -1.0, 0.1),
        lambda: delta_lower(EventCounts(1, 0, 10), math.inf, 0.1),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(wrong):
    with pytest.raises(CalibrationError, match=";"):
        wrong()

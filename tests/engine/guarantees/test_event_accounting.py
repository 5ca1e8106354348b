"""Profiles lie above the truth, compositions above theirs, and a Gaussian above both."""

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import pld_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from blockveil.engine.guarantees import profiles
from blockveil.engine.guarantees.calibration import CalibrationError, gaussian_delta, gaussian_epsilon
from blockveil.engine.guarantees.composition import compose
from blockveil.engine.guarantees.domination import dominating, pure_mu
from blockveil.engine.guarantees.events import FixedSizeGaussian, GaussianMixture, PoissonGaussian, Step, check_relation
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Neighbours, PureDP

EVENTS = [
    PoissonGaussian(0.01, 1.0),
    PoissonGaussian(0.3, 4.0),
    PoissonGaussian(1.0, 2.0),
    PoissonGaussian(1e-4, 0.6),
    GaussianMixture(2.0, (0.0, 1.0, 3.0), (0.5, 0.3, 0.2)),
    GaussianMixture(1.0, (1.0,), (1.0,)),
]
EPSILONS = [0.0, 0.01, 0.3, 1.0, 2.5, 6.0]


def mixture(event):
    """Weights and shifts over the standard deviation of the larger data set's law."""
    if isinstance(event, PoissonGaussian):
        mu = mpmath.mpf(1) / event.noise_multiplier
        return [(1 - mpmath.mpf(event.probability), mpmath.mpf(0)), (mpmath.mpf(event.probability), mu)]
    pairs = zip(event.probabilities, event.sensitivities, strict=True)
    return [(mpmath.mpf(p), mpmath.mpf(c) / event.standard_deviation) for p, c in pairs]


def true_delta(event, epsilon, removed):
    """By 30-digit root finding: the best set is a half line."""
    with mpmath.workdps(30):
        pairs, epsilon = mixture(event), mpmath.mpf(float(epsilon))

        def loss(x):
            return mpmath.log(mpmath.fsum(w * mpmath.exp(s * x - s * s / 2) for w, s in pairs if w > 0))

        wanted, low, high = (epsilon if removed else -epsilon), mpmath.mpf(-60), mpmath.mpf(60)
        if loss(low) > wanted:
            return 1 - mpmath.exp(epsilon) if removed else mpmath.mpf(0)
        if loss(high) < wanted:
            return mpmath.mpf(0) if removed else 1 - mpmath.exp(epsilon)
        for _ in range(110):
            middle = (low + high) / 2
            low, high = (low, middle) if loss(middle) > wanted else (middle, high)
        if removed:
            return mpmath.fsum(w * mpmath.ncdf(s - low) for w, s in pairs) - mpmath.exp(epsilon) * mpmath.ncdf(-low)
        other = mpmath.fsum(w * mpmath.ncdf(low - s) for w, s in pairs)
        return mpmath.ncdf(low) - mpmath.exp(epsilon) * other


@pytest.mark.parametrize("event", EVENTS, ids=str)
@pytest.mark.parametrize("removed", [True, False])
def test_profiles_are_never_below_the_truth_and_hardly_above(event, removed):
    points = np.array([-epsilon for epsilon in EPSILONS[:0:-1]] + EPSILONS)
    found = (profiles.removed if removed else profiles.added)(event)(points)
    for epsilon, value in zip(points, found, strict=True):
        truth = max(mpmath.mpf(0), true_delta(event, epsilon, removed))
        assert value >= truth
        assert value <= truth * (1 + mpmath.mpf(1e-7)) + mpmath.mpf(1e-11)


@given(mu=st.floats(1e-4, 50), share=st.floats(0.0, 8.0))
def test_the_vectorised_gaussian_profile_is_above_the_certified_one_and_close(mu, share):
    epsilon = mu * mu / 2 + share * mu
    value = float(profiles.gaussian_profile(mu, np.array([epsilon]))[0])
    exact = gaussian_delta(mu, epsilon)
    assert exact * (1 - 1e-12) <= value <= exact * (1 + 1e-6) + 1e-13
    mirrored = float(profiles.gaussian_profile(mu, np.array([-epsilon]))[0])
    assert mirrored == pytest.approx(1 - math.exp(-epsilon) * (1 - exact), rel=1e-9)


@pytest.mark.parametrize(("fraction", "noise"), [(0.01, 1.0), (0.5, 2.0), (1.0, 3.0)])
def test_a_batch_of_fixed_size_follows_the_published_bound(fraction, noise):
    points = np.array(EPSILONS)
    found = profiles.removed(FixedSizeGaussian(fraction, noise))(points)
    for epsilon, value in zip(EPSILONS, found, strict=True):
        inner = math.log1p(math.expm1(epsilon) / fraction)
        assert value == pytest.approx(fraction * gaussian_delta(1 / noise, inner), rel=1e-6, abs=1e-300)
    mirrored = profiles.added(FixedSizeGaussian(fraction, noise))(-points)
    assert mirrored == pytest.approx(1 - np.exp(-points) * (1 - found), rel=1e-9)


def test_pure_and_zero_concentrated_profiles():
    points = np.linspace(-2, 2, 41)
    exact = np.maximum(np.exp(1.0) - np.exp(points), 0) / (1 + np.exp(1.0))
    inside = np.abs(points) < 1
    assert profiles.pure_profile(1.0, points)[inside] == pytest.approx(exact[inside], rel=1e-12)
    assert np.all(profiles.pure_profile(1.0, points[points >= 1.0]) == 0)
    rho = 0.3
    bound = profiles.zcdp_profile(rho, points[points >= 0])
    gaussian = np.array([gaussian_delta(math.sqrt(2 * rho), e) for e in points[points >= 0]])
    assert np.all(bound >= gaussian)
    epsilon = ZCDP(rho).to_approx(1e-6).epsilon
    assert profiles.zcdp_profile(rho, np.array([epsilon]))[0] == pytest.approx(1e-6, rel=1e-2)


SERIES = [
    ((PoissonGaussian(0.01, 1.0), 1000), dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))),
    ((PoissonGaussian(0.1, 5.0), 365), dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(5.0))),
]


@pytest.mark.parametrize(("step", "event"), SERIES, ids=str)
@pytest.mark.parametrize("delta", [1e-4, 1e-6])
def test_compositions_are_those_of_dp_accounting_plus_what_floating_point_may_hide(step, event, delta):
    ours = compose((Step(*step),))
    theirs = pld_privacy_accountant.PLDAccountant().compose(event, step[1]).get_epsilon(delta)
    epsilon = ours.epsilon(delta)
    assert theirs - 1e-6 <= epsilon <= theirs * (1 + 2e-3)
    assert ours.delta(epsilon) <= delta
    assert ours.delta(epsilon * 0.99) > delta


@given(
    mus=st.lists(st.floats(0.02, 0.3), min_size=1, max_size=2),
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=2),
    log_delta=st.floats(-8, -3),
)
@settings(max_examples=4, deadline=None)
def test_gaussian_series_are_never_below_their_exact_composition(mus, counts, log_delta):
    series = tuple(Step(PoissonGaussian(1.0, 1 / mu), count) for mu, count in zip(mus, counts, strict=False))
    total = math.sqrt(sum(step.count / step.event.noise_multiplier**2 for step in series))
    exact = gaussian_epsilon(total, 10.0**log_delta)
    found = compose(series).epsilon(10.0**log_delta)
    assert exact * (1 - 1e-9) <= found <= exact * 1.01 + 1e-3


def test_kinds_of_events_are_composed_together_and_deltas_add_up():
    series = (
        Step(PureDP(0.1), 10),
        Step(GaussianDP(0.3)),
        Step(ApproxDP(0.05, 1e-9), 4),
        Step(PoissonGaussian(0.2, 2.0)),
    )
    whole = compose(series)
    assert whole.delta(0.0) > compose(series[:2]).delta(0.0)
    assert whole.failure >= 4e-9
    assert whole.epsilon(1e-6) < 0.1 * 10 + 0.05 * 4 + gaussian_epsilon(0.6, 1e-6)
    assert math.isinf(whole.epsilon(3e-9))


def test_the_order_of_a_series_does_not_matter():
    series = (Step(PureDP(0.1), 3), Step(PoissonGaussian(0.2, 2.0), 5), Step(GaussianDP(0.3), 2))
    assert compose(series).epsilon(1e-6) == pytest.approx(compose(series[::-1]).epsilon(1e-6), rel=1e-6)


DOMINATED = [
    (Step(PoissonGaussian(0.01, 1.0), 1000),),
    (Step(FixedSizeGaussian(0.05, 2.0), 200),),
    (Step(PureDP(0.5)), Step(PoissonGaussian(0.2, 3.0), 20)),
    (Step(ApproxDP(0.3, 1e-8), 3),),
]


@pytest.mark.parametrize("series", DOMINATED, ids=str)
def test_the_gaussian_above_a_series_is_above_it_everywhere(series):
    above, whole = dominating(series), compose(series)
    for epsilon in np.linspace(0, 4, 60):
        bound = above.failure + (1 - above.failure) * gaussian_delta(above.mu, epsilon)
        # The composition's own certified error is part of its value but not of the truth.
        assert bound >= whole.delta(epsilon) * (1 - 1e-9)


@given(epsilon=st.floats(1e-6, 30))
def test_a_pure_loss_touches_its_gaussian_where_both_errors_are_equal(epsilon):
    mu = pure_mu(epsilon)
    share = 1 / (1 + math.exp(epsilon))
    with mpmath.workdps(40):
        least = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(mpmath.mpf(epsilon))) - 1)
        assert mu >= least
    assert mu <= least * (1 + 1e-8) + 1e-14
    points = np.linspace(0, epsilon, 50)
    assert np.all(profiles.gaussian_profile(mu, points) >= profiles.pure_profile(epsilon, points) * (1 - 1e-9))
    assert share > 0


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5])
def test_the_gaussian_above_zero_concentrated_privacy_is_above_its_bound(rho):
    above = dominating((Step(ZCDP(rho)),))
    points = np.linspace(0, 8 * math.sqrt(rho), 300)
    bound = profiles.gaussian_profile(above.mu, points) + above.failure
    assert np.all(bound >= profiles.zcdp_profile(rho, points))
    assert math.sqrt(2 * rho) < above.mu < 1.55 * math.sqrt(2 * rho)


def test_relations_never_mix():
    check_relation((Step(PoissonGaussian(0.1, 1.0)), Step(GaussianDP(1.0))), Neighbours.ADD_REMOVE)
    check_relation((Step(FixedSizeGaussian(0.1, 1.0)),), Neighbours.REPLACE_ONE)
    with pytest.raises(CalibrationError, match="add-remove only"):
        check_relation((Step(PoissonGaussian(0.1, 1.0)),), Neighbours.REPLACE_ONE)
    with pytest.raises(CalibrationError, match="replace-one only"):
        check_relation((Step(FixedSizeGaussian(0.1, 1.0)),), Neighbours.ADD_REMOVE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PoissonGaussian(0.0, 1.0),
        lambda: PoissonGaussian(1.1, 1.0),
        lambda: PoissonGaussian(math.nan, 1.0),
        lambda: PoissonGaussian(0.1, 0.0),
        lambda: FixedSizeGaussian(0.1, math.inf),
        lambda: GaussianMixture(1.0, (), ()),
        lambda: GaussianMixture(1.0, (1.0,), (0.5,)),
        lambda: GaussianMixture(1.0, (-1.0, 1.0), (0.5, 0.5)),
        lambda: GaussianMixture(1.0, (0.0,), (1.0,)),
        lambda: Step(GaussianDP(1.0), 0),
    ],
)
def test_events_without_a_known_loss_are_refused(make):
    with pytest.raises(CalibrationError):
        make()


def test_zero_concentrated_events_have_no_loss_distribution():
    with pytest.raises(CalibrationError, match="no loss distribution"):
        compose((Step(ZCDP(0.1)),))

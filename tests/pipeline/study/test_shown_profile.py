"""A mechanism's picture shows what is true of it, beside what it claims."""

import pytest

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_mu
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.catalogue import find
from blockveil.engine.mechanisms.contract import Status
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.shown_profile import shown_profile

CLAIM = ApproxDP(0.9, 1e-6)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "residuals", "mgm", "johnson-lindenstrauss"])
def test_a_proven_claim_is_shown_as_kept(name):
    found = shown_profile(name, CLAIM)
    assert found.kept
    assert all(later[1] <= earlier[1] for earlier, later in zip(found.points, found.points[1:], strict=False))
    assert "kept" in found.lines[0][1]


@pytest.mark.parametrize("name", ["wishart", "r1smg"])
def test_a_false_claim_is_shown_as_false(name):
    assert find(name).status is Status.NOT_PRIVATE
    found = shown_profile(name, CLAIM)
    assert not found.kept
    assert "FALSE" in found.lines[0][1]
    assert found.plain["kept"] is False


def test_the_gaussian_has_its_own_profile_and_loses_nothing_at_what_is_claimed():
    found, mu = shown_profile("gaussian", CLAIM), gaussian_mu(0.9, 1e-6)
    assert found.true_delta == pytest.approx(1e-6, rel=0.02)
    for epsilon, delta in found.points:
        assert delta <= gaussian_delta(mu, epsilon)
        assert delta == pytest.approx(gaussian_delta(mu, epsilon), rel=0.05)


def test_a_published_calibration_that_is_loose_shows_how_loose():
    assert shown_profile("mvg", CLAIM).true_delta < 1e-30


def test_the_picture_says_what_its_numbers_are_and_shows_none_that_has_lost_its_digits():
    lines = dict(shown_profile("mvg", CLAIM).lines)
    assert "the least delta that holds" in lines["  read as"]
    assert lines["  at 1.8"].startswith("<1e-300")
    assert not any("e-32" in value for value in lines.values())


def test_longer_bars_are_larger_deltas_and_what_is_claimed_is_marked():
    lines = shown_profile("gaussian", CLAIM).lines
    bars = [value.count("#") for label, value in lines if label.startswith("  at")]
    assert bars == sorted(bars, reverse=True)
    assert len(set(bars)) > 4
    assert [label for label, value in lines if "<- claimed" in value] == ["  at 0.9"]


def test_a_law_whose_profile_is_not_known_has_no_picture():
    assert shown_profile("exponential", CLAIM) is None


def test_a_guarantee_that_cannot_be_met_is_refused():
    with pytest.raises(ConfigError, match="profile cannot be shown"):
        shown_profile("gaussian", ApproxDP(0.9, 1e-300))

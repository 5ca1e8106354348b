"""What an audit says that it would have flagged is true: an error of that size is flagged, and none at all is not."""

from math import inf

import numpy as np
import pytest

from blockveil.engine.audit import audit
from blockveil.engine.audit.bounds import CONFIDENCE
from blockveil.engine.audit.cases import cases
from blockveil.engine.audit.laws import gaussian, grid_noise, laplace
from blockveil.engine.audit.power import FACTORS, Power, power
from blockveil.engine.audit.subjects import BlackBox, visible_claim
from blockveil.engine.guarantees.calibration import gaussian_delta
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, PureDP
from blockveil.engine.noise.discrete_gaussian import GRID_TWO_LEVEL
from blockveil.engine.noise.discrete_laplace import DiscreteLaplace
from blockveil.engine.records import rounding
from blockveil.pipeline.study.auditing import run_audit

CLAIM = ApproxDP(1.0, 1e-6)
VISIBLE = ApproxDP(0.5, gaussian_delta(1.0, 0.5))
NARROW, WIDE = "second-moment of 2 features, add-remove", "second-moment of 40 features, add-remove"


def found(subject, trials, seed=3):
    return power(subject, trials, np.random.default_rng(seed), CONFIDENCE)


def flagged(subject, trials, seed=4):
    """By trials alone: an exact profile would tell without any."""
    verdict = audit(subject, trials, np.random.default_rng(seed), CONFIDENCE)
    return verdict.epsilon > verdict.claimed_epsilon


def case(mechanism, *words, claim=CLAIM, mutant=None):
    (subject,) = [s for s in cases(mechanism, claim, mutant) if all(word in s.name for word in words)]
    return subject


SUBJECTS = {
    "gaussian": (lambda: gaussian([1.0], [1.0], VISIBLE), 2**17),
    "gaussian on the grid": (lambda: grid_noise(GRID_TWO_LEVEL, [2**21], visible_claim(Loss(1.0, 0.0, 0.0))), 2**16),
    "laplace": (lambda: laplace([1.0, 0.0], [1.0, 2.0], PureDP(1.0)), 2**17),
    "whole laplace": (lambda: grid_noise(DiscreteLaplace(1, 4), [4.0], PureDP(1.0)), 2**16),
    "directions": (lambda: case("exponential", "replace-one", "ratio"), 2**18),
    "dawa": (lambda: case("dawa", "add-remove", "both steps"), 2**16),
    "dawa, replace-one": (lambda: case("dawa", "replace-one", "both steps"), 2**17),
    "chi-square": (lambda: case("johnson-lindenstrauss", "exact", claim=ApproxDP(0.9, 1e-2)), 2**16),
}


@pytest.mark.parametrize(("make", "trials"), SUBJECTS.values(), ids=SUBJECTS.keys())
def test_an_error_of_the_stated_size_is_flagged_and_no_error_is_not(make, trials):
    subject = make()
    least = found(subject, trials).by_trials
    assert 1.0 < least < inf
    assert flagged(subject.with_noise(1.0 / least), trials)
    assert not flagged(subject.with_noise(1.0), trials)
    assert not flagged(subject, trials)


def test_the_stated_size_is_near_the_least_that_is_flagged():
    subject = gaussian([1.0], [1.0], VISIBLE)
    least = found(subject, 2**17).by_trials
    assert least <= 1.3
    # An error a fifth as large is not seen: the statement is not far from what trials can show.
    assert not flagged(subject.with_noise(1.0 / (1.0 + (least - 1.0) / 5.0)), 2**17)


def test_more_trials_see_smaller_errors():
    sizes = [found(laplace([1.0], [1.0], PureDP(1.0)), trials).by_trials for trials in (2**10, 2**13, 2**17)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_an_exact_profile_sees_what_trials_do_not_and_says_so_apart():
    seen = found(gaussian([1.0], [1.0], ApproxDP(0.5, gaussian_delta(1.0, 0.5))), 400)
    assert seen.by_profile == FACTORS[0]
    assert seen.by_trials > 1.2
    assert seen.words == f"noise {seen.by_trials:g} times too small (trials), or 1.01 times too small (exact profile)"


@pytest.mark.parametrize("subject", [laplace(np.full(400, 1e-3), np.ones(400), PureDP(5.0))])
def test_a_line_that_cannot_fail_is_no_evidence(subject):
    silent = Power(found(subject, 400).by_trials, inf)
    assert silent.by_trials == inf
    assert not silent.evidence
    assert silent.words == "nothing"
    assert not flagged(subject.with_noise(1.0 / FACTORS[-1]), 400)


def test_what_has_no_law_is_no_evidence():
    unknown = BlackBox("unknown", PureDP(1.0), lambda data, key: [data], (0, 1))
    assert found(unknown, 400) == Power(inf, inf)


@pytest.mark.parametrize("words", [NARROW, pytest.param(WIDE, marks=pytest.mark.slow)])
def test_the_whole_path_can_fail_at_epsilon_one_and_its_power_is_that_of_the_released_code(words):
    """Half the noise of the released sampler itself, where the statement comes from a model of it."""
    honest = case("gaussian", words)
    assert found(honest, 4000).by_trials <= 2.0
    assert not flagged(honest, 4000)
    assert flagged(case("gaussian", words, mutant="half-scale"), 4000)


def test_a_path_whose_outputs_are_no_whole_numbers_states_no_power_that_fractions_alone_would_give():
    """Of a model whose noise was whole and whose answers were not, one percent would have been flagged at once."""
    honest = case("box-diagonal", NARROW)
    assert not np.array_equal(honest.answers[0], np.rint(honest.answers[0]))
    least = found(honest, 4000).by_trials
    assert 1.3 < least <= 2.0
    assert flagged(honest.with_noise(1.0 / least), 4000)
    assert not flagged(honest.with_noise(1.0 / (1.0 + (least - 1.0) / 5.0)), 4000)
    assert not flagged(honest, 4000)
    assert flagged(case("box-diagonal", NARROW, mutant="half-scale"), 4000)


@pytest.mark.parametrize(
    ("mechanism", "kept"),
    [*(("gaussian", kept) for kept in (0, 3, 27, 39)), ("laplace", 39), ("imgm", 27), ("mvg", 39)],
)
def test_a_clip_that_leaves_out_features_is_flagged_wherever_they_are(monkeypatch, mechanism, kept):
    """Of the released code: features from one on are not clipped, or one in the middle and at the end alone."""
    sound = rounding.CubeGrid.bound

    def bound(self, values):
        free = slice(kept, None) if kept in (0, 3) else slice(kept, kept + 1)
        before = values[:, free].copy()
        sound(self, values)
        values[:, free] = before

    monkeypatch.setattr(rounding.CubeGrid, "bound", bound)
    assert flagged(case(mechanism, WIDE), 1000)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_two_features_alone_do_not_see_a_clip_that_leaves_out_the_fourth(monkeypatch, mechanism):
    sound = rounding.CubeGrid.bound

    def bound(self, values):
        before = values[:, 3:].copy()
        sound(self, values)
        values[:, 3:] = before

    monkeypatch.setattr(rounding.CubeGrid, "bound", bound)
    assert not flagged(case(mechanism, NARROW), 1000)


@pytest.mark.slow
def test_each_line_of_an_audit_says_what_it_would_have_shown_or_that_it_is_no_evidence():
    few = run_audit("exponential", CLAIM, 2000, 0, lambda *_: None)
    assert {row["verdict"] for row in few.rows()} == {"NO EVIDENCE"}
    assert "no case could have failed" in few.sentence
    many = run_audit("discrete-laplace", CLAIM, 40_000, 0, lambda *_: None)
    drawn, paths = many.rows()[:-3], many.rows()[-3:]
    assert all(row["would have shown"].startswith("noise ") for row in drawn)
    assert {row["verdict"] for row in drawn} == {"not refuted"}
    # A hundredth of the trials, which is too few here.
    assert {(path["would have shown"], path["verdict"]) for path in paths} == {("nothing", "NO EVIDENCE")}
    assert "3 of 15 cases are no evidence" in many.sentence
    mutant = run_audit("discrete-laplace", CLAIM, 4000, 0, lambda *_: None, "unclipped")
    assert {row["would have shown"] for row in mutant.rows()} == {""}

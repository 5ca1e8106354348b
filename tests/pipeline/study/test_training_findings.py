"""Training as R1SMG and IMGM describe it: it learns as they say, and what is promised is another matter."""

import math

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.noise.sampled_noise import Sampling, least_multiplier
from blockveil.engine.study import noisy_training
from blockveil.engine.study.noisy_training import PublicRecords, StudiedNoise, TrainingAsked, accuracy
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.study.training_findings import public_records, training_findings

ASKED = TrainingAsked(ApproxDP(1.0, 1e-5), 0.2, 4.0, 1e-10, 1.0, 2.0)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 1500)
    x = np.eye(3)[y] @ rng.normal(size=(3, 30)) + 0.4 * rng.normal(size=(1500, 30))
    path = tmp_path_factory.mktemp("public") / "xy.npz"
    np.savez(path, X=x, y=y)
    return public_records(path)


@pytest.fixture(scope="module")
def found(records):
    return training_findings(records, ASKED, 2)


def test_rank_one_noise_learns_as_if_there_were_none_and_promises_as_much(found):
    right = found.right
    assert abs(right[StudiedNoise.R1SMG] - right[StudiedNoise.NONE]) < 0.05
    assert right[StudiedNoise.NONE] > 0.9
    assert "the claim is false" in found.holds[StudiedNoise.R1SMG]
    assert "true delta there is 0.8" in found.holds[StudiedNoise.R1SMG]


def test_the_proven_training_has_the_noise_of_the_accountant(records):
    wanted = least_multiplier(Sampling(0.2, 20), ASKED.claim, 2.0**-70).multiplier
    assert noisy_training._size(records, ASKED, StudiedNoise.GAUSSIAN) == pytest.approx(wanted)
    equal = noisy_training._size(records, ASKED, StudiedNoise.IMGM_GRADIENTS)
    assert equal == pytest.approx(math.sqrt(20) / 0.2680511, rel=1e-5), "twenty steps, without amplification"


def test_noisy_features_are_said_to_promise_what_was_drawn_and_not_what_was_claimed(found):
    assert "the claim is false" in found.holds[StudiedNoise.IMGM_FEATURES]
    assert "epsilon 5 at delta 5e-05" in found.holds[StudiedNoise.IMGM_FEATURES]
    assert "Theorem 4, without amplification" in found.holds[StudiedNoise.IMGM_GRADIENTS]


def test_rank_one_noise_has_the_published_length(records):
    drawn = noisy_training._drawn
    rng = np.random.default_rng(2)
    lengths = [np.linalg.norm(drawn((3, 31), 2.0, StudiedNoise.R1SMG, rng)) ** 2 for _ in range(4000)]
    assert abs(np.mean(lengths) / 4.0 - 1.0) < 6 * math.sqrt(2 / 4000)
    assert drawn((2, 2), 0.0, StudiedNoise.NONE, rng).max() == 0.0


def test_every_noise_is_shown_with_what_holds(found):
    said = dict(found.rows())
    assert said["Label"].startswith("public data only")
    assert all("accuracy " in said[noise.value] for noise in StudiedNoise)


@pytest.mark.parametrize("claim", [ApproxDP(1.0, 0.3), ApproxDP(1.0, 1e-11)])
def test_what_cannot_be_studied_is_refused(records, claim):
    asked = TrainingAsked(claim, 0.2, 4.0, 1e-10, 1.0, 2.0)
    with pytest.raises(ConfigError, match="cannot be made"):
        training_findings(records, asked, 1)


ONES = np.ones((9, 2))


@pytest.mark.parametrize("content", [{"X": ONES}, {"X": ONES, "y": np.ones(9)}, {"X": ONES * np.nan, "y": [1] * 9}])
def test_a_file_that_holds_no_public_records_is_refused(tmp_path, content):
    np.savez(tmp_path / "x.npz", **content)
    with pytest.raises(ConfigError, match="does not hold public records"):
        public_records(tmp_path / "x.npz")


def test_a_training_repeats_itself(records):
    assert isinstance(records, PublicRecords)
    once = accuracy(records, ASKED, StudiedNoise.R1SMG, 3)
    assert once == accuracy(records, ASKED, StudiedNoise.R1SMG, 3)

"""The audit of training: the released path is not refuted, and each mistake of it is."""

import numpy as np
import pytest

from blockveil.engine.audit import audit
from blockveil.engine.audit.cases import MUTANTS, cases
from blockveil.engine.audit.training_cases import OF_TRAINING, training_subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.gaussian import Gaussian

CLAIM = ApproxDP(1.0, 1e-5)


def flagged(mutant, band=1, trials=1500):
    subject = training_subject(Gaussian(), CLAIM, mutant, band)
    return audit(subject, trials, np.random.default_rng(1), 1 - 1e-6).flagged


WITH_A_BAND = pytest.param(2, marks=pytest.mark.slow)


@pytest.mark.parametrize("band", [1, WITH_A_BAND])
def test_the_released_path_of_training_is_not_refuted(band):
    assert not flagged(None, band, 600 if band > 1 else 1500)


@pytest.mark.parametrize("mutant", [*MUTANTS, "by-position"])
def test_every_mistake_of_training_is_refuted(mutant):
    assert flagged(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [*MUTANTS, *OF_TRAINING])
def test_every_mistake_of_training_with_a_band_is_refuted(mutant):
    assert flagged(mutant, 2, 600)


def test_training_is_audited_with_the_mechanisms_that_release_it():
    assert any("training" in subject.name for subject in cases("gaussian", CLAIM))
    (alone,) = cases("laplace", CLAIM, "by-position")
    assert "training" in alone.name
    (banded,) = cases("gaussian", CLAIM, "one-epoch")
    assert "with a band" in banded.name
    with pytest.raises(CalibrationError, match="by-position"):
        cases("laplace", CLAIM, "one-epoch")
    with pytest.raises(CalibrationError, match=r"mutants are half-scale, reseeded, unclipped$"):
        cases("imgm", CLAIM, "by-position")

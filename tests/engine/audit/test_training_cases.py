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


def flagged(mutant, trials=1500):
    subject = training_subject(Gaussian(), CLAIM, mutant)
    return audit(subject, trials, np.random.default_rng(1), 1 - 1e-6).flagged


def test_the_released_path_of_training_is_not_refuted():
    assert not flagged(None)


@pytest.mark.parametrize("mutant", [*MUTANTS, *OF_TRAINING])
def test_every_mistake_of_training_is_refuted(mutant):
    assert flagged(mutant)


def test_training_is_audited_with_the_mechanisms_that_release_it():
    assert any("training" in subject.name for subject in cases("gaussian", CLAIM))
    (alone,) = cases("laplace", CLAIM, "by-position")
    assert "training" in alone.name
    with pytest.raises(CalibrationError, match=r"mutants are half-scale, reseeded, unclipped$"):
        cases("imgm", CLAIM, "by-position")

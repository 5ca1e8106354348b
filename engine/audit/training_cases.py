"""Training under audit: two steps over fixed batches, from records to the released sums of both.

A group of equal records is in one batch, by its hash. It is there or not, and lies far beyond its bounds, so that its
gradients are longer than the clip by more than a mutant leaves out. The second step is at the weights that the first
released sum gives.

============ =====================================================================
mutant       mistake
============ =====================================================================
half-scale   half the noise
unclipped    gradients that are not shortened
reseeded     the noise of the first step, once more in the second
by-position  batches by the number of the row: each missing record moves all others
============ =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gradients import GradientProblem, GradientsAtStep, GradientsQuery
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output
from blockveil.engine.answers.step_records import FixedBatches, Flags
from blockveil.engine.audit import mutants
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.laws import whole_noise
from blockveil.engine.audit.subjects import BlackBox, Subject, visible_claim
from blockveil.engine.estimates.descent import Descent, Rule, Schedule, Trained
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.mechanisms.contract import Mechanism
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.noise.additive import NoiseDesign, add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser

K = 2**11 - 1
_FEATURES = 3
_CLIP = 0.05
_EXCESS = 8
_STEPS = 2
_BATCHES = FixedBatches(_STEPS, "audit")
_RATE = 1e-3
_WIDTH = _FEATURES + 1

Records = NDArray[np.float64]

OF_TRAINING = ("by-position",)
"""Mistakes that only training over batches can make."""

_TRAINS = ("gaussian", "laplace")
"""Mechanisms whose noise is tried on training."""


@dataclass(frozen=True)
class _ByPosition:
    """The mistake of batches by the number of the row."""

    number: int

    def taken(self, records: NDArray[Any], first: int) -> Flags:
        """Every second row."""
        return np.asarray((first + np.arange(len(records))) % _STEPS == self.number)


def mutants_of_training(declaration: MechanismDeclaration) -> tuple[str, ...]:
    """Mistakes of training that are audited with a mechanism."""
    return OF_TRAINING if declaration.name in _TRAINS else ()


def training_cases(declaration: MechanismDeclaration, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Training under a mechanism's noise; none where it is not tried on it; parameters as for :func:`.cases_of`."""
    if declaration.name not in _TRAINS:
        return []
    return [training_subject(declaration.audited[0], guarantee, mutant)]


def training_subject(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None) -> BlackBox[Records]:
    """Two steps of a logistic regression over two fixed batches.

    Parameters
    ----------
    mechanism
        Makes the noise.
    guarantee
        What it is calibrated to, of both steps together.
    mutant
        One of the module's mistakes; None for the released path.

    Raises
    ------
    CannotCalibrate, NotApplicable
        The mechanism has no noise for it.
    """
    query = _query()
    problem = GradientProblem(
        Body.BALL,
        Body.BALL,
        np.ones(_STEPS),
        np.full(_WIDTH, float(query.units[0])),
        Neighbours.ADD_REMOVE,
        K,
        10**6,
        steps=_STEPS,
        batches=_BATCHES,
    )
    design = mechanism.design(problem, guarantee)
    group = _odd_group(design.loss)
    data = _neighbours(group)

    def run(records: Records, key: NoiseKey | None) -> Array:
        noisy = mutants.half_steps(design) if mutant == "half-scale" else design
        return _released(records, key, noisy, query, mutant)

    claim, answers = _claim(design.loss, group), (run(data[0], None), run(data[1], None))
    return BlackBox(
        name="training over fixed batches, add-remove: records to release",
        claim=claim,
        run=run,
        data=data,
        answers=answers,
        chunks=[np.arange(_WIDTH), np.arange(_WIDTH, 2 * _WIDTH)],
        model=lambda factor: whole_noise(design.grid, answers, claim, factor),
    )


def _query() -> GradientsQuery:
    box = Box(-np.ones(_FEATURES), np.ones(_FEATURES), np.zeros(_FEATURES))
    clip = Quantiser(box.coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
    model = Model.at(Output.LOGISTIC, Activation.TANH, {"last": np.zeros((1, _WIDTH))})
    return GradientsQuery(model, clip, (0.0, 1.0), _CLIP, K)


def _odd_group(loss: Loss) -> int:
    """Records by which data sets differ: about mu 1.5 together, and an odd number, which swaps batches by position."""
    return min(max(1, round(1.5 / (loss.mu or loss.epsilon))), 999) | 1


def _claim(loss: Loss, group: int) -> Claim:
    # Losses of the records in which data sets differ add up (Dong, Roth and Su, 2022, theorem 2.14).
    return visible_claim(Loss(group * loss.mu, group * loss.epsilon, group * loss.total_variation))


def _neighbours(group: int) -> tuple[Records, Records]:
    """A group of equal records in front of others, and the others alone, whose gradients point two ways in turn."""
    own = np.tile([100.0, -100.0, 100.0, 0.0], (group, 1))
    others = np.tile([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]], (2 * group, 1))
    return np.vstack([own, others]), others


def _released(
    records: Records, key: NoiseKey | None, design: NoiseDesign, query: GradientsQuery, mutant: str | None
) -> Array:
    """Released integers of both steps; without noise where there is no key."""
    trained = Trained(Descent(Rule.SGD, Schedule.CONSTANT, _RATE, _STEPS, 0.0, 0.0), {"last": np.zeros((1, _WIDTH))})
    found = []
    for step in range(_STEPS):
        model = replace(query.model, last=Model.at(Output.LOGISTIC, Activation.TANH, trained.weights).last)
        sums = _exact(records, replace(query, model=model), step, mutant)
        row = 0 if mutant == "reseeded" else step
        steps = design.steps((row, row + 1), (0, _WIDTH))
        drawn = np.zeros_like(sums) if key is None else design.grid.draw(key, (row, row + 1), (0, _WIDTH), False)
        found.append(add_noise(sums, steps, drawn, design.shift))
        gradient = found[-1] * steps / design.shifted_unit * float(query.units[0])
        trained.follow({"last": gradient / len(records)})
    return np.concatenate(found).ravel().astype(np.float64)


def _exact(records: Records, query: GradientsQuery, step: int, mutant: str | None) -> NDArray[np.int64]:
    batch = _ByPosition(step) if mutant == "by-position" else _BATCHES.at(step, "")
    if mutant != "unclipped":
        return GradientsAtStep(query, step, batch).total(records, 0, len(records), len(records))
    # A clip so many times as long, in the integers of the one that was declared.
    wide = GradientsAtStep(replace(query, clip=_EXCESS * query.clip), step, batch)
    return _EXCESS * wide.total(records, 0, len(records), len(records))

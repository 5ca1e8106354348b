"""Training under audit: steps over two fixed batches, from records to the released sums of all.

There are two steps whose noise is independent, and, with Gaussian noise, four with noise that cancels from one step to
the next.

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
one-epoch    noise that cancels, charged as if a record were in one step alone
============ =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output
from blockveil.engine.answers.step_gradients import GradientsAtStep
from blockveil.engine.answers.step_records import FixedBatches, Flags
from blockveil.engine.audit import mutants
from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.laws import integer_noise
from blockveil.engine.audit.subjects import BlackBox, Subject, visible_claim
from blockveil.engine.estimates.descent import Descent, Rule, Schedule, Trained
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.kinds.gradients.problem import GradientProblem
from blockveil.engine.mechanisms.contract import Mechanism
from blockveil.engine.mechanisms.declaration import MechanismDeclaration
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body, Box
from blockveil.engine.records.quantiser import Quantiser

K = 2**11 - 1
_FEATURES = 3
_CLIP = 0.05
_EXCESS = 8
_BATCHES = 2
_STEPS = {1: 2, 2: 8}
"""Steps by the band: with one, a record is in four of them."""

_RATE = 1e-3
_WIDTH = _FEATURES + 1

Records = NDArray[np.float64]

OF_TRAINING = ("by-position", "one-epoch")
"""Mistakes that only training over batches can make."""

_TRAINS = ("gaussian", "laplace")
"""Mechanisms whose noise is tried on training."""


@dataclass(frozen=True)
class _ByPosition:
    """The mistake of batches by the number of the row."""

    number: int

    def marks(self, records: NDArray[Any]) -> Flags:
        """Nothing of a record decides."""
        return np.zeros(len(records), np.bool_)

    def taken(self, marks: NDArray[Any], first: int) -> Flags:
        """Every second row."""
        return np.asarray((first + np.arange(len(marks))) % _BATCHES == self.number)


def mutants_of_training(declaration: MechanismDeclaration) -> tuple[str, ...]:
    """Mistakes of training that are audited with a mechanism."""
    return tuple(one for one in OF_TRAINING if any(one in _mistakes(band) for band in _bands(declaration)))


def _bands(declaration: MechanismDeclaration) -> tuple[int, ...]:
    """Bands of the noise that a mechanism is tried on; a band of one is none."""
    if declaration.name not in _TRAINS:
        return ()
    return (1, 2) if declaration.name == "gaussian" else (1,)


def _mistakes(band: int) -> tuple[str, ...]:
    """Mistakes of training that are possible with a band."""
    return OF_TRAINING if band > 1 else ("by-position",)


def training_cases(declaration: MechanismDeclaration, guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Training under a mechanism's noise; none where it is not tried on it; parameters as for :func:`.cases_of`."""
    possible = [band for band in _bands(declaration) if mutant not in OF_TRAINING or mutant in _mistakes(band)]
    return [training_subject(declaration.audited[0], guarantee, mutant, band) for band in possible]


def training_subject(mechanism: Mechanism, guarantee: ApproxDP, mutant: str | None, band: int = 1) -> BlackBox[Records]:
    """Steps of a logistic regression over two fixed batches.

    Parameters
    ----------
    mechanism
        Makes the noise.
    guarantee
        What it is calibrated to, of all steps together.
    mutant
        One of the module's mistakes; None for the released path.
    band
        Steps over which noise cancels; one where noise of steps is independent.

    Raises
    ------
    CannotCalibrate, NotApplicable
        The mechanism has no noise for it.
    """
    query, steps, batches = _query(), _STEPS[band], FixedBatches(_BATCHES, "audit", band)
    problem = GradientProblem(
        Body.BALL,
        Body.BALL,
        np.ones(steps),
        np.full(_WIDTH, float(query.units[0])),
        Neighbours.ADD_REMOVE,
        K,
        10**6,
        steps=steps,
        batches=batches,
    )
    design = mechanism.design(problem, guarantee)
    group = _odd_group(design.loss)
    data = _neighbours(group)

    def run(records: Records, key: NoiseKey | None) -> Array:
        noisy = mutants.half_steps(design) if mutant == "half-scale" else design
        if mutant == "one-epoch":
            noisy = replace(design, scale=design.scale / problem.patterns)
        return _released(records, key, noisy, query, batches, mutant)

    claim, answers = _claim(design.loss, group), (run(data[0], None), run(data[1], None))
    return BlackBox(
        name=f"training over fixed batches{', with a band' * (band > 1)}, add-remove: records to release",
        claim=claim,
        run=run,
        data=data,
        answers=answers,
        chunks=list(np.arange(steps * _WIDTH).reshape(steps, _WIDTH)),
        model=lambda factor: integer_noise(design.grid, answers, claim, factor),
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
    records: Records,
    key: NoiseKey | None,
    design: NoiseDesign,
    query: GradientsQuery,
    batches: FixedBatches,
    mutant: str | None,
) -> Array:
    """Released integers of all steps, as independent noise sees them; without noise where there is no key."""
    steps = design.shape[0]
    trained = Trained(Descent(Rule.SGD, Schedule.CONSTANT, _RATE, steps, 0.0, 0.0), {"last": np.zeros((1, _WIDTH))})
    away = None if key is None else design.taken_by_step(key)
    answers = []
    for step in range(steps):
        model = replace(query.model, last=Model.at(Output.LOGISTIC, Activation.TANH, trained.weights).last)
        sums = _exact(records, replace(query, model=model), step, batches, mutant)
        row = 0 if mutant == "reseeded" else step
        block = ((row, row + 1), (0, _WIDTH))
        noise = np.zeros_like(sums) if key is None else design.grid.draw(key, *block, False)
        earlier = np.zeros_like(sums) if away is None else away()
        answers.append(design.rounded(sums, block) + noise - earlier)
        gradient = answers[-1] * design.steps(*block) / design.shifted_unit * float(query.units[0])
        trained.follow({"last": gradient / len(records)})
    return design.apart(np.concatenate(answers)).ravel().astype(np.float64)


def _exact(
    records: Records, query: GradientsQuery, step: int, batches: FixedBatches, mutant: str | None
) -> NDArray[np.int64]:
    batch = _ByPosition(step % _BATCHES) if mutant == "by-position" else batches.at(step, "")
    if mutant != "unclipped":
        return GradientsAtStep(query, step, batch).total(records, 0, len(records), len(records))
    # A clipping norm larger by a factor, in the integers of the one that was declared.
    wide = GradientsAtStep(replace(query, clip=_EXCESS * query.clip), step, batch)
    return _EXCESS * wide.total(records, 0, len(records), len(records))

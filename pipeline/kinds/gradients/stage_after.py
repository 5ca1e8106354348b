"""The last stage of a training whose coefficients get errors: a second moment beside the steps, under one charge.

The share of mu squared is declared. So the noise of the steps and that of this stage are both fixed before any record
is read, and the loss of both is charged whether the stage turns out useful or not. The stage is private for every value
of what the steps released, so that mu squared adds up.

**Source**: Dong, Roth and Su, 2022, Theorem 3.2 (adaptive composition).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from blockveil.engine.estimates.one_step import hidden_below
from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss
from blockveil.engine.mechanisms.auto import Auto
from blockveil.engine.mechanisms.contract import NotApplicable
from blockveil.engine.noise.design import Design
from blockveil.pipeline.kinds.gradients.fisher import FisherQuestion
from blockveil.pipeline.kinds.gradients.question import Gradients
from blockveil.pipeline.kinds.gradients.training import Weights
from blockveil.pipeline.kinds.moments.question import MomentAnswer
from blockveil.pipeline.plan.resolving import Resolved
from blockveil.pipeline.plan.shares import shared
from blockveil.pipeline.plan.stages import EVEN, Stage, stated, together
from blockveil.pipeline.questions.question import additive

_RECORDS = 80.0
"""Records that add one to the least eigenvalue of a Fisher matrix; see :attr:`FisherStage.records_needed`."""


@dataclass(frozen=True, eq=False)
class FisherStage:
    """The stage, and what it costs together with the steps.

    Attributes
    ----------
    question, answer
        What is asked, and the same with its noise.
    share
        Of mu squared.
    noise
        Noise of all steps, calibrated to the rest.
    loss
        Loss of a row by the steps and this stage.
    """

    question: FisherQuestion
    answer: MomentAnswer
    share: float
    noise: Design
    loss: Loss

    @classmethod
    def of(cls, asked: Resolved) -> FisherStage | None:
        """Design the steps and the stage; None where nothing is trained, or its coefficients get no errors.

        Raises
        ------
        NotApplicable
            The noise of the steps is not Gaussian.
        CannotCalibrate
            A part cannot meet its share, or the samplers of both leave no room.
        """
        trained, whole = asked.question, asked.of_a_row
        if not isinstance(trained, Gradients) or trained.training is None or trained.training.errors_share is None:
            return None
        if isinstance(asked.mechanism, Auto):
            raise NotApplicable('query.training.errors_share with mechanism.kind = "auto"; choose "gaussian"')
        share, design = trained.training.errors_share, partial(asked.mechanism.design, trained.problem)
        question = FisherQuestion.of(trained)
        steps, own = _designs(question, share, whole, design)
        loss = together([steps.loss], [additive(own)])
        if loss.delta(whole.epsilon) > whole.delta:
            # At a large epsilon samplers need a part of delta that counts: it is left for them, twice over.
            needed = 2.0 * (1.0 + math.exp(min(whole.epsilon, 700.0))) * loss.total_variation
            rest = ApproxDP(whole.epsilon, max(whole.delta - needed, whole.delta / 2.0))
            steps, own = _designs(question, share, rest, design)
            loss = together([steps.loss], [additive(own)])
        # The inequality that the proof needs: the loss of both together meets the guarantee of the whole.
        if loss.delta(whole.epsilon) > whole.delta:
            raise CannotCalibrate(f"delta {whole.delta:g} leaves no room for two stages; raise it")
        return cls(question, MomentAnswer(question.moment, additive(own)), share, steps, loss)

    @property
    def records_needed(self) -> float:
        """Records from which errors are known, roughly: for features that spread evenly, and classes that are not rare.

        A feature with a standard deviation of a sixth of its width adds about 1 / :data:`_RECORDS` to the least
        eigenvalue with each record.
        """
        noise = self.answer.design.entry_standard_deviation()[-self.question.inputs :, -self.question.inputs :]
        return _RECORDS * hidden_below(noise * self.question.radius**2)

    def at(self, weights: Weights) -> Stage:
        """The stage at the last weights, by layer."""
        return Stage("fisher", self.answer, self.question.query(weights))

    def facts(self) -> dict[str, Any]:
        """Query and mechanism of the stage, as a release states them."""
        own = {"query": self.question.stated(), "mechanism": stated(self.answer), "matrix": self.answer.matrix}
        return {"fisher": own}

    def lines(self) -> list[tuple[str, str]]:
        """What a training spends on errors of its coefficients."""
        return [
            (
                "Errors",
                f"{100 * self.share:g} % of mu squared for the score and the Fisher matrix at the last weights, from "
                "which each coefficient has a standard error; the steps have the rest. The noise hides the matrix, and "
                f"no error is known, below some {float(f'{self.records_needed:.1g}'):,.0f} records, where features "
                "have a standard deviation of a sixth of their width, no two say the same, and neither class is rare. "
                "All is charged whatever is found. Noise and expected error below are those of the steps",
            )
        ]


def _designs(
    question: FisherQuestion, share: float, target: ApproxDP, designed: Callable[[ApproxDP], Design]
) -> tuple[Design, Design]:
    """Noise of the steps, and of the stage."""
    steps = designed(shared(target, 1.0 - share))
    if steps.loss.epsilon or steps.loss.failure:
        raise NotApplicable(
            "query.training.errors_share divides mu squared, which only Gaussian noise has; choose "
            'mechanism.kind = "gaussian", or leave it out'
        )
    return steps, EVEN.design(question.moment.problem, shared(target, share))


STAGE_AFTER = FisherStage.of

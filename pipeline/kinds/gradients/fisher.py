"""What a trained logistic regression asks of its records after the last step, where its coefficients get errors.

It is the second moment of vectors that the last weights make of the records (:mod:`.logistic_moments`), in a ball that
holds all of them: a covariance like others, of which only the reading is its own. So its noise, its proof and its
checks are those of a covariance in a ball.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blockveil.engine.answers.logistic_moments import LogisticMomentsQuery, largest_vector
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.records.geometry import Ball, reaches_both_ends
from blockveil.engine.records.quantiser import Quantiser
from blockveil.pipeline.kinds.gradients.question import Gradients
from blockveil.pipeline.kinds.gradients.training import Weights, with_weights
from blockveil.pipeline.kinds.moments.question import Moment
from blockveil.pipeline.questions.question import ends_in_coordinates


@dataclass(frozen=True, eq=False)
class FisherQuestion:
    """The second moment of scores and shares of the Fisher matrix.

    Attributes
    ----------
    trained
        The training that it follows.
    moment
        The second moment as any other; its features are the score of each weight, then its share of the Fisher matrix.
    radius
        Length that no vector exceeds, in the gradient's units.
    """

    trained: Gradients
    moment: Moment
    radius: float

    @classmethod
    def of(cls, trained: Gradients) -> FisherQuestion:
        """Question of a training.

        Raises
        ------
        ValueError
            The model is too large for it.
        """
        problem, inputs = trained.problem, trained.query.features.width
        radius = largest_vector(inputs)
        ball = Ball(np.zeros(2 * inputs), radius).coordinates()
        clip = Quantiser(ball, problem.largest, augmented=True, stand_in=None)
        moments = SecondMoment(
            ball.body,
            ball.scale,
            problem.neighbours,
            clip.largest,
            problem.rows_at_most,
            augmented=True,
            even=reaches_both_ends(ball, clip.largest),
            ends=ends_in_coordinates(clip),
        )
        moment = Moment(moments, SecondMomentQuery(clip), _names(inputs))
        if moment.work(problem.rows_at_most).blocked:
            raise ValueError(f"errors_share for {inputs:,} weights needs a matrix too large to be held; leave it out")
        return cls(trained, moment, radius)

    @property
    def inputs(self) -> int:
        """Weights of the model."""
        return self.trained.query.features.width

    def query(self, weights: Weights) -> LogisticMomentsQuery:
        """How records are read at the last weights, by layer."""
        own = self.trained.query
        return LogisticMomentsQuery(self.moment.query, replace(own, model=with_weights(own.model, weights)))

    def stated(self) -> dict[str, Any]:
        """The question as a release states queries."""
        return {
            "kind": "covariance",
            "rows_at_most": self.trained.problem.rows_at_most,
            "missing": "refuse",
            "quantisation_bits": self.trained.problem.largest.bit_length() + 1,
            "geometry": {
                "kind": "ball",
                "radius": self.radius,
                "features": [{"name": name, "origin": 0.0} for name in self.moment.features],
            },
        }


def _names(inputs: int) -> tuple[str, ...]:
    """Names of the coordinates of a vector, by the place of the weight, the constant's 0."""
    return tuple(f"{what} {place}" for what in ("score", "fisher") for place in range(inputs))

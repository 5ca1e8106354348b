"""Steps or a covariance: which of two releases tells classes apart better, by public numbers alone.

A linear classifier follows from steps of training, or from one covariance of features and classes
(:mod:`engine.estimates.class_rules`). With n records, d features and Gaussian noise of loss mu, a mean gradient of
length at most one has noise of length ``sqrt(d T) / (n mu)`` in each of T steps, and the mean product of records of
length one has noise whose largest eigenvalue is about ``2 sqrt(d) / (n mu)``, where features share that length and so
have eigenvalues of about ``1 / d``. So ``n mu / d`` decides how much either way can learn, and the way that wins where
it is large needs not win where it is small. What its values are worth was measured (``docs/training.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST = 1.3
"""Least n mu / d that was measured; models were little better than the larger class there."""

ALIKE = 100.0
"""n mu / d from which on a covariance classified two classes within a point of steps."""

STEPS_PAID = 10.0
"""Steps that paid, for each unit of n mu / d."""

_FEWEST, _MOST, _FAR = 5, 200, 4.0


@dataclass(frozen=True)
class Route:
    """What a plan says of the two ways.

    Attributes
    ----------
    learnt
        n mu / d.
    covariance
        Whether a covariance is chosen, and not steps.
    steps
        About how many steps pay.
    sentence
        The choice and its reason.
    """

    learnt: float
    covariance: bool
    steps: int
    sentence: str


def route(records: float, features: int, classes: int, mu: float, steps: int) -> Route:
    """Choose between steps and a covariance of features and classes.

    Parameters
    ----------
    records, features, classes
        n, public; d; and the number of classes.
    mu
        Gaussian loss of the release, positive.
    steps
        The declared number of steps.
    """
    learnt = records * mu / features
    useful_steps = min(_MOST, max(_FEWEST, round(STEPS_PAID * learnt)))
    covariance = classes == 2 and learnt >= ALIKE
    text = f"{records:,.0f} records times mu {mu:.3g} over {features:,} features are {learnt:.3g}, "
    if covariance:
        advice = "a covariance with ridge or LDA"
        text += f"and for two classes from {ALIKE:g} on it was within a point of steps, with no rate to choose"
    else:
        advice = "steps"
        text += "where steps were right more often than a covariance with ridge or LDA"
        if not useful_steps / _FAR <= steps <= useful_steps * _FAR:
            text += f"; about {useful_steps:,} steps paid there"
    if learnt < LEAST:
        text += f"; but little was learnt at {LEAST:g} already: take fewer features, more records or a larger epsilon"
    return Route(learnt, covariance, useful_steps, f"{advice}: {text}. That was measured on census records and digits")

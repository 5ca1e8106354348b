"""What an audit would have seen: the least error of scale that it flags.

Noise that is x times too small, or a change of the answer that is x times too large, are the same error. Of the factors
x in :data:`FACTORS` the least is sought that is flagged but for a probability of :data:`MISSED`, with as many trials
and at the same confidence as the audit. A line of an audit for which there is none cannot fail, and is no evidence.

How it is found: the subject states itself with noise 1/x times as large (``with_noise``). Attacks are fitted to some
outputs of that, as the audit does; further outputs bound the probability of each event from both sides; and the counts
that the audit's trials would bring at the worst of these bounds are judged as the audit judges. Fewer outputs than an
audit draws give wider bounds, so that the factor is rather too large than too small.

The exact profile of a pair, where it is known, says more than any trials, but of the numbers that a release is
calibrated to alone and not of what is drawn. It has a factor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.random import Generator
from scipy import stats

from blockveil.engine.audit import Aim, counted, fitted, usual
from blockveil.engine.audit.bounds import (
    EventCounts,
    allowed_error,
    claimed,
    epsilons,
    exceeds,
    probability_lower,
    probability_upper,
)
from blockveil.engine.audit.subjects import Subject

FACTORS = (
    *(1.01, 1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.7),
    *(2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0),
)
"""Errors of scale that are tried, in ascending order."""

MISSED = 0.01
"""Probability with which an audit may miss an error of the stated size."""

_FITTED = 2**14
_COUNTED = 2**15
_COARSE = (2.0, 3.0, 5.0, 20.0, 100.0)


@dataclass(frozen=True)
class Power:
    """Least error of scale that is flagged, as a factor above one; infinite where none is.

    Attributes
    ----------
    by_trials
        In whatever is drawn.
    by_profile
        In the numbers that are calibrated to; infinite where no exact profile is known.
    """

    by_trials: float
    by_profile: float

    @property
    def evidence(self) -> bool:
        """Whether there is any error of scale that would have been flagged."""
        return min(self.by_trials, self.by_profile) < inf

    @property
    def words(self) -> str:
        """The power in one sentence."""
        parts = [f"{factor:g} times too small ({how})" for how, factor in self._found if factor < inf]
        return f"noise {', or '.join(parts)}" if parts else "nothing"

    @property
    def _found(self) -> tuple[tuple[str, float], ...]:
        return ("trials", self.by_trials), ("exact profile", self.by_profile)


def power(subject: Subject, trials: int, rng: Generator, confidence: float) -> Power:
    """What :func:`.audit.audit` with the same trials and confidence would have flagged.

    Parameters
    ----------
    subject
        What is audited.
    trials
        Outputs drawn from each of the two data sets.
    rng
        Source of the simulated randomness; another one than that of the audit.
    confidence
        Of the audit.
    """
    if subject.with_noise(1.0) is None:
        return Power(inf, inf)
    by_trials = _least(lambda factor: _flagged(subject, factor, trials, rng, confidence, _COUNTED))
    if by_trials == inf and trials - trials // 2 > _COUNTED:  # rare events need more to be seen
        by_trials = _least(lambda factor: _flagged(subject, factor, trials, rng, confidence, trials))
    return Power(by_trials, _least(lambda factor: _refuted(subject, factor)))


def _least(flagged: Callable[[float], bool]) -> float:
    """Least factor that is flagged; from the least coarse one on downwards, where what is seen grows with the error.

    Further up it may not: drawn directions with far too little noise are the same on both data sets.
    """
    coarse = next((factor for factor in _COARSE if flagged(factor)), None)
    if coarse is None:
        return inf
    low, high = 0, FACTORS.index(coarse)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if flagged(FACTORS[middle]) else (middle + 1, high)
    return FACTORS[low]


def _refuted(subject: Subject, factor: float) -> bool:
    wrong = subject.with_noise(1.0 / factor)
    epsilon, delta = claimed(subject.claim)
    return wrong is not None and exceeds(wrong.delta(epsilon), delta)


def _flagged(subject: Subject, factor: float, trials: int, rng: Generator, confidence: float, most: int) -> bool:
    """Whether trials flag a factor but for a probability of MISSED."""
    wrong = subject.with_noise(1.0 / factor)
    if wrong is None:
        return False
    half = trials - trials // 2
    outputs = tuple(wrong.sample(which, min(trials // 2, _FITTED), rng) for which in (0, 1))
    # A white box is attacked as one, and a model of a black box as the black box is.
    attacks = usual(subject, outputs[0])
    events, aim = fitted(wrong, (outputs[0], outputs[1]), attacks, half, allowed_error(confidence))
    counts = counted(wrong, events, min(half, most), rng)
    return _would_flag(counts, aim, MISSED / (4.0 * len(events)))


def _would_flag(seen: Sequence[EventCounts], aim: Aim, error: float) -> bool:
    """Whether the counts of some event in the audit's trials refute the claim, each step wrong with a small error."""
    p = probability_lower([counts.first for counts in seen], seen[0].trials, error)
    q = probability_upper([counts.second for counts in seen], seen[0].trials, error)
    first = np.nan_to_num(stats.binom.ppf(error, aim.trials, p))
    second = np.nan_to_num(stats.binom.isf(error, aim.trials, q), nan=aim.trials)
    epsilon, delta = claimed(aim.claim)
    return bool(np.any(epsilons(first, second, aim.trials, delta, aim.error) > epsilon))

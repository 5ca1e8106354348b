"""Audit of privacy claims: attacks that bound the true loss from below, and flag a claim that cannot hold.

An audit never proves privacy. It refutes: a flagged claim is false but for a probability that is chosen beforehand, by
the proof in :mod:`.bounds`, or for certain, by an exact privacy profile where one is known. What
can be audited is in :mod:`.subjects`, what is tried in :mod:`.attacks`, and
what an audit must refute in :mod:`.mutants`.

What n trials can show is limited: an event that is certain on one side and never seen on the other proves an epsilon of
about ``ln(n / 2) - ln(ln(8 S / error))`` with S scores, which is 11 for n = 2^21 at an error of 1e-6. A claim of a
larger epsilon passes whatever is audited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from blockveil.engine.audit.attacks import BLACK_BOX, WHITE_BOX, Attack, Score
from blockveil.engine.audit.bounds import (
    Array,
    Claim,
    EventCounts,
    Verdict,
    allowed_error,
    claimed,
    delta_lower,
    epsilon_lower,
    epsilons_and_deltas,
    exceeds,
)
from blockveil.engine.audit.subjects import Indices, Subject
from blockveil.engine.guarantees.calibration import CalibrationError

__all__ = ["Event", "Verdict", "audit"]

_CALIBRATION = 2**20
"""Outputs of each data set that are used for calibration at most; what is left goes to the test half."""

_BATCH = 2**17
_EVENTS = 4
"""Events of each score: two orders of the data sets, chosen for a large epsilon and for a large delta."""


@dataclass(frozen=True, eq=False)
class Event:
    """A set of outputs, fixed by the calibration half.

    Attributes
    ----------
    score
        What is compared.
    threshold
        The score is at least this, or at most.
    above
        Whether it is at least.
    likelier
        The data set on which the event should be the more likely: 0 or 1.
    """

    score: Score
    threshold: float
    above: bool
    likelier: int

    @property
    def description(self) -> str:
        """The event in words."""
        side = "at least" if self.above else "at most"
        return (
            f"{self.score.description} {side} {self.threshold:.6g}, likelier on {('D', 'its neighbour')[self.likelier]}"
        )

    def count(self, scores: Array) -> int:
        """Number of scores in the event."""
        return int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))


def audit(
    subject: Subject, trials: int, rng: Generator, confidence: float, attacks: Sequence[Attack] | None = None
) -> Verdict:
    """Look for a refutation of a claim.

    Parameters
    ----------
    subject
        What is audited.
    trials
        Outputs drawn from each of the two data sets, fixed beforehand; calibration takes half, at most about a million.
    rng
        Source of the simulated randomness.
    confidence
        A true claim is flagged with probability at most one less this.
    attacks
        None for :data:`WHITE_BOX` where the likelihood ratio is known, and :data:`BLACK_BOX` where it is not.

    Raises
    ------
    CalibrationError
        Fewer than 4 trials, a confidence out of range, or no attack that can be run.
    """
    if trials < 4:
        raise CalibrationError(f"an audit of {trials} trials finds nothing; draw at least a few hundred from each side")
    error = allowed_error(confidence)
    calibration = min(trials // 2, _CALIBRATION)
    outputs = subject.sample(0, calibration, rng), subject.sample(1, calibration, rng)
    # K events, fixed before the test half is drawn.
    events, aim = fitted(subject, outputs, attacks or usual(subject, outputs[0]), trials - calibration, error)
    return _verdict(subject, events, counted(subject, events, aim.trials, rng), aim, confidence, trials)


def usual(subject: Subject, outputs: Array) -> Sequence[Attack]:
    """Attacks on a subject: those that trust its likelihood ratio too, where it states one."""
    return BLACK_BOX if subject.log_ratio(outputs[:1]) is None else WHITE_BOX


def fitted(
    subject: Subject, outputs: tuple[Array, Array], attacks: Sequence[Attack], trials: int, error: float
) -> tuple[list[Event], Aim]:
    """Events that calibration outputs recommend, for a number of further trials, and the error that each may have.

    Raises
    ------
    CalibrationError
        No attack can be run.
    """
    scores = [score for attack in attacks for score in attack(subject, *outputs)]
    if not scores:
        raise CalibrationError("none of the attacks can be run on this subject; use the attacks for black boxes")
    aim = Aim(subject.claim, trials, error / (_EVENTS * len(scores)))
    return [event for score in scores for event in events_of(score, *outputs, aim)], aim


def _verdict(
    subject: Subject, events: Sequence[Event], seen: Sequence[EventCounts], aim: Aim, confidence: float, trials: int
) -> Verdict:
    epsilon, delta = claimed(subject.claim)
    epsilons = [epsilon_lower(counts, delta, aim.error) for counts in seen]
    best = max(range(len(events)), key=epsilons.__getitem__)
    exact = subject.delta(epsilon)
    return Verdict(
        subject=subject.name,
        claimed_epsilon=epsilon,
        claimed_delta=delta,
        epsilon=epsilons[best],
        delta=max(delta_lower(counts, epsilon, aim.error) for counts in seen),
        confidence=confidence,
        event=events[best].description,
        trials=trials,
        # epsilon >= the bound holds for the true epsilon; a claim below it is false. So is one below the exact delta.
        flagged=epsilons[best] > epsilon or exceeds(exact, delta),
        exact_delta=exact,
    )


@dataclass(frozen=True)
class Aim:
    """What an event is chosen for: the claim, the size of the test half and the error that each event may have."""

    claim: Claim
    trials: int
    error: float


def events_of(score: Score, first: Array, second: Array, aim: Aim) -> Iterator[Event]:
    """Yield the events that promise the largest epsilon and delta in the test half, for each order of the data sets."""
    values = np.sort(score.of(first)), np.sort(score.of(second))
    thresholds = _thresholds(*values)
    size = values[0].size
    # Counts on D and D', shape (2, 2 thresholds): "at most" first, then "at least".
    counts = np.array(
        [
            np.concatenate([np.searchsorted(v, thresholds, "right"), size - np.searchsorted(v, thresholds, "left")])
            for v in values
        ]
    )
    for likelier in (0, 1):
        expected = counts[likelier] * (aim.trials / size)
        # One more than was seen on the other side, so that an event is not taken for impossible too easily.
        other = np.minimum(counts[1 - likelier] + 1.0, size) * (aim.trials / size)
        for promise in epsilons_and_deltas(expected, other, aim.trials, aim.claim, aim.error):
            above, index = divmod(int(np.argmax(promise)), thresholds.size)
            yield Event(score, float(thresholds[index]), bool(above), likelier)


def _thresholds(first: Array, second: Array) -> Array:
    """Values of the scores at even and at extreme ranks of each sample."""
    ranks = _ranks(first.size)
    return np.unique(np.concatenate([first[ranks], second[ranks]]))


@lru_cache(maxsize=16)
def _ranks(size: int) -> Indices:
    tails = np.unique(np.geomspace(1, size, 64).astype(np.intp)) - 1
    return np.unique(np.concatenate([tails, size - 1 - tails, np.linspace(0, size - 1, 129).astype(np.intp)]))


def counted(subject: Subject, events: Sequence[Event], trials: int, rng: Generator) -> list[EventCounts]:
    """Counts of the events in fresh outputs."""
    scores = {id(event.score): event.score for event in events}
    counts = np.zeros((2, len(events)), dtype=np.int64)
    for which in (0, 1):
        for start in range(0, trials, _BATCH):
            outputs = subject.sample(which, min(_BATCH, trials - start), rng)
            scored = {name: score.of(outputs) for name, score in scores.items()}
            counts[which] += [event.count(scored[id(event.score)]) for event in events]
    return [
        EventCounts(int(counts[e.likelier, k]), int(counts[1 - e.likelier, k]), trials) for k, e in enumerate(events)
    ]

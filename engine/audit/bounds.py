"""From counts of an event to a loss that the mechanism certainly has.

A mechanism is (epsilon, delta)-private when for neighbours D and D', in either order, and every event S

    P(S | D) <= e^epsilon P(S | D') + delta.

The proof that an audit flags a true claim with probability at most ``error``:

1. The outputs are drawn in two independent halves. Scores, thresholds and everything else of the K events that are
   tested are chosen from the calibration half alone. Given that half, the events are fixed sets and the counts of the
   test half are binomial; so choosing them cost nothing, however many candidates were compared.
2. Each event gives two one-sided bounds (Clopper and Pearson), ``p`` below P(S | D) and ``q`` above P(S | D'), each
   wrong with probability at most ``error / 2K``. Events of both orders of D and D' are counted in K. By the union bound
   all ``2K`` hold together but for a probability of ``error``.
3. Where they hold, a private mechanism has ``p <= P(S | D) <= e^epsilon P(S | D') + delta <= e^epsilon q + delta``.
   Hence ``epsilon >= ln((p - delta) / q)`` and ``delta >= p - e^epsilon q``. A larger value refutes the claim.

Nothing in these bounds trusts a density, a model of the noise or an attack: these only make them large. Where the exact
privacy profile of a pair is known, it is a second way to refute, without chance: :func:`exceeds`.

**Source**: Clopper and Pearson, 1934; Jagielski, Ullman and Oprea, 2020 (auditing by counts of an event).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, PureDP

Array = NDArray[np.float64]
Claim = ApproxDP | PureDP

CONFIDENCE = 1.0 - 1e-6
"""Confidence of an audit where nothing else is asked: a true claim is flagged once in a million audits at most."""

_OUTWARD = 1e-9
"""Relative margin by which every bound is moved outward: covers the error of the inverse beta function."""

_PROFILE = 1e-6
"""Margin of an exact profile, relative to the claimed delta: far above the rounding of any profile here."""

_NOTHING = 1e-12
"""More than the rounding of a pure loss alone may show as a delta."""


@dataclass(frozen=True)
class EventCounts:
    """How often an event happened in the test half.

    Attributes
    ----------
    first, second
        Number of outputs in the event, on the data set where it is the more likely and on its neighbour.
    trials
        Number of outputs drawn from each.
    """

    first: int
    second: int
    trials: int

    def __post_init__(self) -> None:
        """Refuse counts that are none."""
        if not (0 <= self.first <= self.trials and 0 <= self.second <= self.trials and self.trials > 0):
            raise CalibrationError(
                f"counts {self.first} and {self.second} of {self.trials} trials; counts lie between 0 and a positive "
                "number of trials; count the same event on both data sets"
            )


@dataclass(frozen=True)
class Verdict:
    """What an audit found.

    Attributes
    ----------
    subject
        Name of what was audited.
    claimed_epsilon, claimed_delta
        The claim; delta is 0 for pure differential privacy.
    epsilon
        The true epsilon at the claimed delta is at least this, at the confidence.
    delta
        The true delta at the claimed epsilon is at least this, at the confidence.
    confidence
        Of all bounds of the audit together.
    event
        The event that gave the largest epsilon, in words.
    trials
        Outputs drawn from each data set, both halves.
    flagged
        Whether the claim is refuted, by the counts or by the exact profile.
    exact_delta
        Smallest delta of this pair of neighbours at the claimed epsilon, from its exact profile; None where it is not
        known.
    """

    subject: str
    claimed_epsilon: float
    claimed_delta: float
    epsilon: float
    delta: float
    confidence: float
    event: str
    trials: int
    flagged: bool
    exact_delta: float | None


def exceeds(exact_delta: float | None, delta: float) -> bool:
    """Whether an exact profile refutes a claim by more than its own rounding; False where none is known."""
    return exact_delta is not None and exact_delta > (delta * (1.0 + _PROFILE) if delta else _NOTHING)


def claimed(claim: Claim) -> tuple[float, float]:
    """Epsilon and delta of a claim; delta is 0 where the claim is pure."""
    return (claim.epsilon, claim.delta) if isinstance(claim, ApproxDP) else (claim.epsilon, 0.0)


def allowed_error(confidence: float) -> float:
    """Probability with which an audit at this confidence may be wrong, rounded down.

    Raises
    ------
    CalibrationError
        The confidence is not between 0 and 1.
    """
    if not 0.0 < confidence < 1.0:
        raise CalibrationError(f"confidence is {confidence}; it must lie between 0 and 1; 1 - 1e-6 is usual")
    # The confidence itself is a rounded number: the margin keeps the error at or below what was meant.
    return (1.0 - confidence) * (1.0 - _OUTWARD)


def probability_lower(successes: ArrayLike, trials: int, error: float) -> Array:
    """Bound that the probability of success falls below with probability at most ``error``.

    Parameters
    ----------
    successes
        Any shape; between 0 and ``trials``.
    trials
        Number of independent trials.
    error
        Positive.

    Returns
    -------
    float64, shape of ``successes``; 0 where nothing succeeded.
    """
    k = np.asarray(successes, dtype=np.float64)
    # P(Bin(n, p) >= k) = I_p(k, n - k + 1), which equals the error at the bound.
    bound = betaincinv(np.maximum(k, 1.0), trials - np.maximum(k, 1.0) + 1.0, error) * (1.0 - _OUTWARD)
    return np.asarray(np.where(k >= 1.0, bound, 0.0), dtype=np.float64)


def probability_upper(successes: ArrayLike, trials: int, error: float) -> Array:
    """Bound that the probability of success exceeds with probability at most ``error``.

    Parameters and result as for :func:`probability_lower`; 1 where every trial succeeded, never 0.
    """
    k = np.asarray(successes, dtype=np.float64)
    rest = np.maximum(trials - k, 1.0)
    # P(Bin(n, p) <= k) = 1 - I_p(k + 1, n - k), which equals the error at the bound.
    bound = np.minimum(betainccinv(k + 1.0, rest, error) * (1.0 + _OUTWARD), 1.0)
    return np.asarray(np.where(k <= trials - 1.0, bound, 1.0), dtype=np.float64)


def epsilons(first: ArrayLike, second: ArrayLike, trials: int, delta: float, error: float) -> Array:
    """Lower bounds of epsilon for many events, each wrong with probability at most ``error``; see
    :func:`epsilon_lower`.
    """
    return _epsilons(*_probabilities(first, second, trials, error), delta)


def deltas(first: ArrayLike, second: ArrayLike, trials: int, epsilon: float, error: float) -> Array:
    """Lower bounds of delta for many events, each wrong with probability at most ``error``; see :func:`delta_lower`."""
    return _deltas(*_probabilities(first, second, trials, error), epsilon)


def epsilons_and_deltas(first: Array, second: Array, trials: int, claim: Claim, error: float) -> tuple[Array, Array]:
    """:func:`epsilons` at a claim's delta and :func:`deltas` at its epsilon, to a ten-thousandth: to choose by."""
    epsilon, delta = claimed(claim)
    counts, lower, upper = _bounds_of_counts(trials, error)
    p, q = np.interp(first, counts, lower), np.interp(second, counts, upper)
    return _epsilons(p, q, delta), _deltas(p, q, epsilon)


@lru_cache(maxsize=64)
def _bounds_of_counts(trials: int, error: float) -> tuple[Array, Array, Array]:
    """Counts that lie close together at both ends, and what bounds a probability from below and above at each."""
    near = np.unique(np.concatenate([np.arange(64), np.geomspace(64, max(trials, 64), 256).astype(np.int64)]))
    near = near[near <= trials]
    counts = np.unique(np.concatenate([near, trials - near])).astype(np.float64)
    return counts, *_probabilities(counts, counts, trials, error)


def _probabilities(first: ArrayLike, second: ArrayLike, trials: int, error: float) -> tuple[Array, Array]:
    return probability_lower(first, trials, error / 2.0), probability_upper(second, trials, error / 2.0)


def _epsilons(p: Array, q: Array, delta: float) -> Array:
    # epsilon >= ln((p - delta) / q) for every private mechanism; below 0 nothing is refuted.
    with np.errstate(divide="ignore"):
        epsilons = np.log(np.maximum(p - delta, 0.0)) - np.log(q)
    return np.asarray(np.maximum(epsilons * (1.0 - 1e-12), 0.0), dtype=np.float64)


def _deltas(p: Array, q: Array, epsilon: float) -> Array:
    # delta >= p - e^epsilon q; q is never 0, so that e^700 stands for every larger factor.
    return np.asarray(np.maximum(p - math.exp(min(epsilon, 700.0)) * q * (1.0 + 1e-12), 0.0), dtype=np.float64)


def epsilon_lower(counts: EventCounts, delta: float, error: float) -> float:
    """Epsilon that the mechanism has at least at a delta, wrong with probability at most ``error``.

    Parameters
    ----------
    counts
        Of one event that was fixed before the outputs were drawn.
    delta
        In [0, 1).
    error
        In (0, 1); divide it by the number of events that are tested.

    Raises
    ------
    CalibrationError
        delta or the error is out of range.
    """
    _check(delta, error)
    return float(epsilons(counts.first, counts.second, counts.trials, delta, error))


def delta_lower(counts: EventCounts, epsilon: float, error: float) -> float:
    """Delta that the mechanism has at least at an epsilon, wrong with probability at most ``error``.

    Parameters
    ----------
    counts, error
        As for :func:`epsilon_lower`.
    epsilon
        Not negative.

    Raises
    ------
    CalibrationError
        epsilon or the error is out of range.
    """
    _check(0.0, error)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise CalibrationError(f"epsilon is {epsilon}; it must be finite and not negative; state the claim")
    return float(deltas(counts.first, counts.second, counts.trials, epsilon, error))


def _check(delta: float, error: float) -> None:
    if not 0.0 <= delta < 1.0:
        raise CalibrationError(f"delta is {delta}; it must lie in [0, 1); state the claim")
    if not 0.0 < error < 1.0:
        raise CalibrationError(f"the error is {error}; it must lie between 0 and 1; 1e-6 over the events is usual")

"""How R1SMG noise is attacked: the best test of two neighbours, and one that needs no integral.

**Source**: derived here; Kairouz, Oh and Viswanath, 2015, for what a claim allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from blockveil.engine.study.r1smg_profile import check_setting, true_delta


def attack_success(entries: int, relative_deviation: float) -> float:
    """Probability that the best test, which is the nearer of the two answers, tells two neighbours apart.

    The density falls with the distance from the answer, so the nearer answer is the likelier one; its probability is
    ``(1 + delta(0)) / 2`` where both neighbours are equally likely beforehand.
    """
    return 0.5 * (1.0 + true_delta(entries, relative_deviation, 0.0))


def allowed_success(epsilon: float, delta: float) -> float:
    """Largest probability of telling two neighbours apart that (epsilon, delta)-privacy allows.

    It is ``(e^epsilon + delta) / (1 + e^epsilon)``.

    **Source**: Kairouz, Oh and Viswanath, 2015, Theorem 2.1.
    """
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


@dataclass(frozen=True)
class BallTest:
    """A test that needs no integral: is the output within half a sensitivity of one answer?

    Attributes
    ----------
    detection
        Its probability under that answer.
    log_false_alarm
        Natural logarithm of an upper bound of its probability under a neighbour one sensitivity away.
    """

    detection: float
    log_false_alarm: float

    def least_delta(self, epsilon: float) -> float:
        """Lower bound of delta at an epsilon: ``detection - e^epsilon false_alarm``, at least 0."""
        return max(0.0, self.detection - math.exp(min(700.0, epsilon + self.log_false_alarm)))


def ball_test(entries: int, relative_deviation: float) -> BallTest:
    """Probabilities of the ball test: an elementary proof that the published claim is false.

    Noise of size r around the neighbour reaches the ball only within 30 degrees of the difference: the cosine is at
    least ``(r^2 + 3/4) / (2 r)``, that is ``sqrt(3)/2``. Such a cap holds at most ``sin(30 degrees)^(M-1) / 2`` of the
    sphere.
    """
    check_setting(entries, relative_deviation)
    return BallTest(math.erf(0.5 / relative_deviation / math.sqrt(2.0)), -entries * math.log(2.0))

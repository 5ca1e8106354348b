"""What each level of strictness promises of the release that follows from the answers, with the noise it would have.

A bound that holds for Gaussian noise is false for other noise, and which noise is best follows from all answers. So
each level is planned as it would be written, and the bound on a guess follows from that plan's charge.
"""

from __future__ import annotations

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.ledger.guessing import percent, with_promise, with_ticks
from blockveil.pipeline.scaffold.answers import LEVELS, Answers
from blockveil.pipeline.scaffold.folder import BegunFolder, compose
from blockveil.pipeline.scaffold.interview import answered


def levels(begun: BegunFolder, given: Answers) -> list[str]:
    """What each level promises over all nights, a line each: what a guess about one bit can reach."""
    return [_line(name, begun, answered(given, begun.source, {"strictness": name})) for name in LEVELS]


def _line(name: str, begun: BegunFolder, answers: Answers) -> str:
    promise = ApproxDP(answers.epsilon or 0.0, answers.delta or 0.0)
    nights = answers.nights or 1
    over = "this one release" if nights == 1 else f"all {nights} nights together"
    alone = percent(with_promise(promise))
    head = f"{name}: epsilon {promise.epsilon:g}, delta {promise.delta:g}. A guess about one bit of {answers.called} is"
    coin = "a coin, half of the time."
    try:
        release = compose(begun, answers)
    except BlockveilError:
        return f"{head} right at most {alone} of the time with {over}; {coin}"
    return (
        f"{head} right at most {percent(guess_of_all(release.charge, promise))} of the time with {over} and the noise "
        f"that these answers lead to ({release.mechanism}), and with any noise at most {alone}; {coin}"
    )


def guess_of_all(charge: Ticks, promise: ApproxDP) -> float:
    """Bound of a guess with releases that together cost so much, and keep a promise."""
    return min(with_ticks(charge), with_promise(promise))

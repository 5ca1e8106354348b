"""Steps of a run as Prefect tasks, and failures as states that say what was and what was not spent.

Tasks have no parameters and keep no results, so that neither data, keys nor lazy arrays enter Prefect. No text of a
foreign exception gets into a state or a log.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from prefect import get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from blockveil.flows.base import private_log
from blockveil.flows.base.code import WrongVersion
from blockveil.flows.cluster.workers import ClusterUnfit
from blockveil.flows.runs.deployed import NotReviewed
from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import (
    BlockveilError,
    BudgetExhausted,
    ComputeError,
    ConfigError,
    DataError,
    KeyLost,
    LedgerError,
    ReleaseConflict,
    StoreError,
)
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.releases.order import Result, may_pass


class UnexpectedError(ComputeError):
    """An error that the program does not know; its kind is shown, and :mod:`.private_log` has its code
    lines.
    """

    exit_code: ClassVar[int] = 1
    passes: ClassVar[bool] = False


class Stopped(Exception):
    """Ends the flow with a state that explains itself.

    Attributes
    ----------
    state
        Final state of the run.
    """

    def __init__(self, state: State[Any]) -> None:
        super().__init__("stopped")
        self.state = state


WAITS = tuple(timedelta(seconds=seconds) for seconds in (30, 120, 480, 1920, 7680))
"""How long a night waits before it is tried again, after its first try that ended so and after each later one."""

TRIED_AGAIN = "This may pass: a night of a schedule is tried again in"
"""Begins the last sentence of a failure that may end without anybody's doing; what tries again knows it by this."""

_MINUTE = 60

NOT_REVIEWED = "NotReviewed"
"""State of a run that asks for what the reviewed folder does not say."""

_STATE_NAMES: dict[type[BaseException], str] = {
    BudgetExhausted: "BudgetExhausted",
    WrongVersion: "WrongVersion",
    NotReviewed: NOT_REVIEWED,
    ConfigError: "BadConfig",
    DataError: "BadData",
    ReleaseConflict: "ReleaseConflict",
    LedgerError: "LedgerProblem",
    StoreError: "StoreProblem",
    UnexpectedError: "Unexpected",
    ComputeError: "ClusterLost",
    ClusterUnfit: "ClusterUnfit",
    KeyLost: "KeyLost",
    NotApproved: "NotApproved",
}


FAILURES = (
    "Failed",
    "Crashed",
    "TimedOut",
    "DatasetBusy",
    *_STATE_NAMES.values(),
)
"""Names of all states in which a run has failed."""


@dataclass
class Steps:
    """Runs the steps of one run.

    Attributes
    ----------
    on_failure
        What a failure leaves behind while there is no reservation, in words.
    abandon
        Gives an unused reservation back; whether it could, or None where there is no reservation.
    """

    on_failure: str = "Nothing was read, charged or released."
    abandon: Callable[[str], bool | None] = lambda reason: None

    def run(self, name: str, work: Callable[[], Result], retries: int = 0) -> Result:
        """Run one step as a task; only lost computations, and reading from a store that is away, are tried again.

        Raises
        ------
        Stopped
            With the state that the flow should end in.
        """
        results: list[Result] = []
        errors: list[BlockveilError] = []

        def body() -> State[Any]:
            errors.clear()
            try:
                results.append(work())
                return Completed()
            except Exception as error:  # noqa: BLE001 - the text of a foreign one could quote a record
                errors.append(known(error))
            return Failed(name=name_of(errors[0]), message=str(errors[0]))

        task(
            name=name,
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=retries,
            retry_condition_fn=lambda _task, _run, _state: may_pass(errors[0] if errors else None),
        )(body)(return_state=True)
        if errors:
            raise Stopped(self._explained(errors[0]))
        return results[-1]

    def _explained(self, error: BlockveilError) -> State[Any]:
        sentence = self._spent(type(error).__name__)
        get_run_logger().error("%s %s", error, sentence)
        again = f" {when_tried_again()}" if error.passes else ""
        return Failed(name=name_of(error), message=f"{error} {sentence}{again}", data=error)

    def _spent(self, reason: str) -> str:
        try:
            voided = self.abandon(reason)
        except Exception as error:  # noqa: BLE001 - the first failure is the one to show
            kind = type(error).__name__
            return f"Whether the budget was given back is not known ({kind}); run again to settle it."
        if voided is None:
            return self.on_failure
        if voided:
            return "Nothing was drawn; the budget was given back."
        return "The charge stands; running the same release again finishes it at no further cost."


def when_tried_again(tries: int | None = None) -> str:
    """When the next try follows a failure that may pass, in words, after so many tries or those of the present run."""
    tries = tries or runtime.flow_run.run_count or 1
    if tries > len(WAITS):
        return f"This may pass, but {tries} tries have failed: run it again once it has."
    seconds = round(WAITS[tries - 1].total_seconds())
    return f"{TRIED_AGAIN} {f'{seconds} s' if seconds < _MINUTE else f'{seconds // _MINUTE} min'}."


def name_of(error: BlockveilError) -> str:
    """Name of the state of a run that this error ends."""
    return next((_STATE_NAMES[kind] for kind in type(error).__mro__ if kind in _STATE_NAMES), "Failed")


def known(error: Exception) -> BlockveilError:
    """An error as a person may see it: an unexpected one is hidden behind its kind and a number."""
    if isinstance(error, BlockveilError):
        return error
    if isinstance(error, OSError):
        failure = durable.store_error(error, "A file cannot be used", "what the run reads and writes")
        if failure.passes:
            return failure
    unexpected = UnexpectedError(type(error).__name__, secrets.token_hex(4))
    private_log.keep(error, unexpected.error_id)
    return unexpected

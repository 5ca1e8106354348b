"""Steps as data, which any runner walks in their order: this process itself, or an orchestrator with its tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from blockveil.pipeline.base.errors import ComputeError, StoreUnreachable

PASSING = (ComputeError, StoreUnreachable)
"""Kinds of failures that another try may overcome; kinds derived from them are none."""

Result = TypeVar("Result")
Subject = TypeVar("Subject")


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True)
class OrderedStep(Generic[Subject]):
    """One step of an order.

    Attributes
    ----------
    name
        What people read.
    work
        Does the step's part for what the order is about.
    retries
        How often it is tried again after a failure that may pass.
    due
        Whether it is still to be done, asked when its turn comes.
    """

    name: str
    work: Callable[[Subject], object]
    retries: int = 0
    due: Callable[[Subject], bool] = _always


class StepRunner(Protocol):
    """Runs one step."""

    def __call__(self, name: str, work: Callable[[], Result], retries: int = 0) -> Result:
        """Do the work of the step of this name; after a passing failure again, as often as ``retries`` says."""


def may_pass(error: Exception | None) -> bool:
    """Whether another try may overcome a failure."""
    return type(error) in PASSING


def plainly(name: str, work: Callable[[], Result], retries: int = 0) -> Result:
    """Run a step in this process.

    Parameters
    ----------
    name
        What an orchestrator would show; nothing is shown here.
    work
        The step's part.
    retries
        How often it is tried again after a failure that may pass.

    Raises
    ------
    BaseException
        What the last try raised.
    """
    try:
        return work()
    except PASSING as error:
        if not retries or not may_pass(error):
            raise
    return plainly(name, work, retries - 1)


def once(name: str, work: Callable[[], Result], retries: int = 0) -> Result:
    """Run a step in this process without another try, as where the computer that it needs is lost for good."""
    del name, retries
    return work()

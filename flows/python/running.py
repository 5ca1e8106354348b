"""``blockveil.run``: makes a release, or finishes one that was begun, by the rules of the command line."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import date as day
from typing import Any, ClassVar

from blockveil.flows.python.sources import Given, config_of, day_of, person
from blockveil.flows.runs import overrides as allowed
from blockveil.flows.runs import stopping
from blockveil.flows.runs.conductor import attempt_of, conduct
from blockveil.pipeline.analysis.release import Release
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.data.preview import Looked, look
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import budgets, effort, signed_approval, summary
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.begun_plans import plan_begun
from blockveil.pipeline.plan.planning import Plan
from blockveil.pipeline.releases.compute import Tell
from blockveil.pipeline.releases.order import plainly

Progress = Callable[[str, float | None], object]
"""Receives a stage in words, and which share of it is done where that is known."""


class PromiseWarning(UserWarning):
    """Something speaks against a release that the config asks for: little is promised, or noise exceeds the answer."""


class NotRecorded(BlockveilError):
    """Prefect did not run the release, or could not record it."""

    exit_code: ClassVar[int] = 8


def run(
    config: Given = None,
    /,
    *,
    date: day | str | None = None,
    prefect: bool = False,
    approve: str | None = None,
    progress: Progress | None = None,
    **tables: Any,
) -> Release:
    """Release, or finish a release that was begun; the same release is never charged twice.

    Parameters
    ----------
    config
        Path of a config, or a config as nested tables.
    date
        Logical date, a date or ``YYYY-MM-DD``; today where not given.
    prefect
        Whether Prefect runs and records the steps; without it the same steps run in this process.
    approve
        Name of who approves the release, where its config wants a person.
    progress
        Receives progress: a stage, and the share of it that is done or None.
    **tables
        Tables of the config by name: all of it, or laid over nested tables. Over a file only what changes no bit and no
        place of the release, such as ``compute``.

    Returns
    -------
    Release
        The published release.

    Raises
    ------
    BlockveilError
        As the command line: ConfigError, BudgetExhausted, DataError, ReleaseConflict, LedgerError, StoreError,
        ComputeError, KeyLost or NotApproved; and NotRecorded where Prefect failed. What was committed stays charged,
        and is finished by the next call.
    """
    # A config that is given as tables is the caller's own; a file is reviewed, and changed where it is reviewed.
    loaded, approver = config_of(config, tables, allowed.RELEASE), person(approve)
    ledger = Ledger(loaded.ledger_url)
    plan = plan_begun(loaded, day_of(date), ledger)
    store = look(loaded)
    for sentence in _against(plan):
        warnings.warn(sentence, PromiseWarning, stacklevel=2)
    question = budgets.approval_needed(plan, ledger)
    if question is not None:
        approver = signed_approval.approver(plan, ledger, approver, question)
        if approver is None:
            raise NotApproved.because(question.text, "Let who may decide call it with approve=NAME")
    tell = _quiet if progress is None else _telling(progress)
    with _signals():
        if prefect:
            _by_prefect(plan, ledger, store, approver, tell)
        else:
            conduct(attempt_of(plan, ledger, f"process {os.getpid()}", approver if question else None, tell), plainly)
    return _released(plan, ledger)


def _against(plan: Plan) -> list[str]:
    clear = [f"The cluster is {effort.IN_CLEAR}"] if plan.config.in_clear else []
    return [*clear, *summary.warnings(plan)]


def _by_prefect(plan: Plan, ledger: Ledger, store: Looked, approver: str | None, tell: Tell) -> None:
    from blockveil.flows.service import server

    tell("starting Prefect", None)
    with server.at_hand():
        from blockveil.flows.runs.release_flow import release_planned

        try:
            state: Any = release_planned(plan, ledger, store, {}, approver, tell)
        except Exception as error:
            # What a release itself meets comes as a state; here Prefect could not run or record it.
            from blockveil.flows.service import named_server

            raise NotRecorded(*named_server.why_not_recorded(error, "call with prefect=False")) from error
        if not state.is_completed():
            # Where an event loop runs, as in a notebook, this would otherwise raise nothing.
            state.result(raise_on_failure=True, _sync=True)


def _released(plan: Plan, ledger: Ledger) -> Release:
    charge = ledger.find(plan.release_id)
    if charge is not None and charge.warning is not None:
        warnings.warn(charge.warning, PromiseWarning, stacklevel=3)
    return Release(open_release(plan.loaded.output_root / f"{plan.release_id}.json"))


def _signals() -> AbstractContextManager[None]:
    """A signal gives back what is held; only the main thread may ask for that."""
    return stopping.by_exception() if threading.current_thread() is threading.main_thread() else nullcontext()


def _telling(progress: Progress) -> Tell:
    def tell(stage: str, share: float | None) -> None:
        progress(stage, share)

    return tell


def _quiet(stage: str, share: float | None) -> None:
    del stage, share

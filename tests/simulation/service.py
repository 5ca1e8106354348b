"""The part of Prefect that nights need: a schedule, runs with states, and a client that the product's recovery asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import StateType

from blockveil.flows.base.prefect_internals import times

DEPLOYMENT = UUID(int=1)
CRON = "30 2 * * *"
"""At half past two: an hour that clocks skip, or have twice, where they change to and from daylight saving time."""


@cache
def _whole(cron: str, zone: str, month: int) -> tuple[datetime, ...]:
    """All times of a month and the days around it."""
    first = datetime(2026, month, 1, tzinfo=UTC)
    return tuple(times(cron, zone, first, first + timedelta(days=45)))


def schedule_of(cron: str, zone: str, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """Times of the schedule, as the product asks Prefect for them; each is worked out once."""
    return tuple(at for at in _whole(cron, zone, after.month) if after <= at <= until)


@dataclass(eq=False)
class Run:
    """A flow run as the server knows it."""

    id: int
    name: str
    parameters: dict[str, Any]
    expected_start_time: datetime
    deployment_id: UUID = DEPLOYMENT
    run_count: int = 1
    state: Any = None

    def set(self, kind: StateType, message: str = "") -> None:
        """Give it a state."""
        self.state = SimpleNamespace(type=kind, message=message, timestamp=datetime.now(UTC))


@dataclass
class PrefectServer:
    """What a server knows of one deployment.

    Attributes
    ----------
    created
        When the deployment was made.
    runs
        All runs.
    started
        Runs that wait for their process.
    """

    created: datetime
    runs: list[Run] = field(default_factory=list)
    waiting: list[Run] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def plan(self, expected: datetime, parameters: dict[str, Any]) -> Run:
        """Make a run."""
        number = next(self._numbers)
        run = Run(number, f"run-{number}", {"mode": "release", **parameters}, expected)
        run.set(StateType.SCHEDULED)
        self.runs.append(run)
        self.waiting.append(run)
        return run

    # ---- what recovery asks ------------------------------------------------------------------------------------

    @contextmanager
    def client(self, **_: Any) -> Iterator[PrefectServer]:
        """In place of ``get_client``."""
        yield self

    def shown_deployments(self, _: Any, names: Iterable[str]) -> dict[str, Any]:
        """In place of :func:`.pages.shown_deployments`: the deployment."""
        created = SimpleNamespace(timestamp=self.created.timestamp)
        known = SimpleNamespace(id=DEPLOYMENT, created=created, paused=False, schedules=[SimpleNamespace(active=True)])
        return dict.fromkeys(names, known)

    def create_flow_run_from_deployment(self, _: UUID, parameters: dict[str, Any], tags: list[str]) -> Run:
        """A run for a night that is due."""
        del tags
        return self.plan(datetime.now(UTC), dict(parameters))

    def pages(self, _: Any, runs: Any, deployments: Any = None) -> list[Run]:
        """In place of :func:`.pages.pages`: runs that fit a filter."""
        del deployments
        wanted = runs.state.type.any_
        return [run for run in self.runs if run.state.type in wanted]

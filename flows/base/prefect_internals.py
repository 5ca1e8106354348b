"""All that is taken from modules and attributes of Prefect which may change without notice, in this file alone.

Prefect's own runner and worker start what a server names. To start a process of ours in its place takes parts of them
that are private. Decision 28 says what replaces each, if Prefect takes it away.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.config.night_dates import wall_clock

LOCKED = "3.9.1"
"""The version that the lock has, on which all tests pass."""

NAMES: dict[str, tuple[str, ...]] = {
    "prefect._internal.control_listener": ("configure_from_env",),
    "prefect.deployments.runner": ("_parameter_openapi_schema",),
    "prefect.runner._flow_run_executor": ("FlowRunExecutorContext", "_state_proposer", "create_executor"),
    "prefect.runner._starter_engine": ("EngineCommandStarter",),
    "prefect.server.api.server": ("create_app",),
    "prefect.server.database.configurations": ("AioSqliteConfiguration", "begin_sqlite_stmt", "SQLITE_BEGIN_MODE"),
    "prefect.server.schemas.schedules": ("CronSchedule",),
}
"""The names, by their modules."""

SIMPLE = "prefect:simple"
"""Kind of a deployment's version for which Prefect does not ask git about the present folder."""

_AT_ONCE = 500  # Prefect looks at no more than a thousand
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)  # no night is older

OnCrash = Callable[[Any, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Takes a run, how its process ended, and what marks the run as crashed; returns the run's next state, or None."""


class PrefectMoved(BlockveilError):
    """The installed Prefect lacks something that the service is built on."""

    exit_code: ClassVar[int] = 2


def require() -> None:
    """Refuse a Prefect that has moved one of the names, before anything is started; imports nothing of it.

    Raises
    ------
    PrefectMoved
        A module is gone, or a name does not stand in it.
    """
    spec = find_spec("prefect")
    places = spec.submodule_search_locations if spec is not None else None
    for module, names in NAMES.items():
        path = Path(*(places or ["."])[:1], *module.split(".")[1:]).with_suffix(".py")
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for name in names:
            if re.search(rf"\b{name}\b", text) is None:
                raise _moved(module, name)


def _moved(module: str, name: str) -> PrefectMoved:
    return PrefectMoved(
        f"Prefect {version('prefect')} has no {name} in {module}",
        "The service starts, watches and ends its runs with it",
        f'Install a version that has it: pip install "prefect=={LOCKED}"',
    )


def _take(module: str, name: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError):
        pass
    raise _moved(module, name)


class Execution:
    """Process of one run, as Prefect's own runner starts, watches and ends it.

    Parameters
    ----------
    context
        What surrounds it.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    @classmethod
    @asynccontextmanager
    async def begin(cls) -> AsyncIterator[Execution]:
        """Open a client, a channel to the process and a watch for cancellations."""
        async with _take("prefect.runner._flow_run_executor", "FlowRunExecutorContext")() as context:
            yield cls(context)

    @property
    def client(self) -> Any:
        """Client of the server."""
        return self._context.client

    async def run(self, run: Any, command: str, folder: Path, env: Mapping[str, str], on_crash: OnCrash) -> None:
        """Start the process and wait for its end.

        Parameters
        ----------
        run
            The run, whose number the process finds in its environment.
        command
            The process, in words of a shell.
        folder
            Where it works.
        env
            What it finds in its environment beside that of this process.
        on_crash
            Decides what follows when it dies.
        """
        self._context._state_proposer = _Proposer(self._context._state_proposer, on_crash)
        starter = _take("prefect.runner._starter_engine", "EngineCommandStarter")(
            command=command, cwd=str(folder), env=dict(env), control_channel=self._context.control_channel
        )
        await self._context.create_executor(run, starter, hook_runner=_NoHooks()).submit()

    def has_process(self, number: UUID) -> bool:
        """Whether the run has its process by now."""
        return self._context.process_manager.get(number) is not None

    async def end(self, number: UUID, grace_seconds: float) -> None:
        """Ask the process to end, and kill it where it takes too long; its last state is then this process's."""
        await self._context.control_channel.signal(number, "cancel")
        await self._context.process_manager.kill(number, grace_seconds=grace_seconds)


class _Proposer:
    """Prefect's own, but for what follows the death of a process."""

    def __init__(self, own: Any, on_crash: OnCrash) -> None:
        self._own, self._on_crash = own, on_crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def propose_crashed(self, flow_run: Any, message: str) -> Any:
        return await self._on_crash(flow_run, message, lambda: self._own.propose_crashed(flow_run, message))


class _NoHooks:
    """Our flows have no hooks, and none of a server's is loaded."""

    async def run_cancellation_hooks(self, flow_run: Any, state: Any) -> None:
        """Do nothing."""

    async def run_crashed_hooks(self, flow_run: Any, state: Any) -> None:
        """Do nothing."""


def listen_for_the_end() -> None:
    """Let whoever started this process tell it to end in order."""
    _take("prefect._internal.control_listener", "configure_from_env")()


def form(deployment: Any) -> Any:
    """Schema of the parameters that a deployment's form asks for."""
    return deployment._parameter_openapi_schema


def set_form(deployment: Any, **parts: Any) -> None:
    """Replace parts of the schema of a deployment's form."""
    deployment._parameter_openapi_schema = form(deployment).model_copy(update=parts)


def server_application() -> Any:
    """Application of a server with its schedule; each transaction on SQLite waits for those before it.

    One that reads before it writes would be refused at once, without any wait, where another has written in between.
    """
    application = _take("prefect.server.api.server", "create_app")
    take_the_lock_first()
    return application(final=True)


def take_the_lock_first() -> None:
    """Let transactions on SQLite begin with the lock that writing needs."""
    mode = _take("prefect.server.database.configurations", "SQLITE_BEGIN_MODE")

    def begin(_: Any, connection: Any) -> None:
        if mode.get() is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    _take("prefect.server.database.configurations", "AioSqliteConfiguration").begin_sqlite_stmt = begin


def cron_schedule(cron: str, timezone: str) -> Any:
    """Times of a schedule as a server plans them."""
    return _take("prefect.server.schemas.schedules", "CronSchedule")(cron=cron, timezone=timezone)


def times(cron: str, zone: str, after: datetime, until: datetime) -> Sequence[datetime]:
    """Times of a schedule from ``after`` to ``until``, both included, in its zone, on the dates that Prefect plans.

    There is one for each civil date of the schedule, and its ``date()`` is the logical date.
    """
    # Times from the server are of another class, whose arithmetic is not that of the standard library.
    start, end = (max(_EARLIEST, datetime.fromtimestamp(time.timestamp(), UTC)) for time in (after, until))
    # In UTC the clock never changes, so each date comes once. In another zone its time is at most a day off.
    day, last = start - timedelta(days=2), end + timedelta(days=2)
    calendar, instants = cron_schedule(cron, "UTC"), list[datetime]()
    while dates := asyncio.run(calendar.get_dates(_AT_ONCE, start=day, end=last)):
        instants += [wall_clock(each.date(), cron, zone) for each in dates]
        day = datetime.fromtimestamp(dates[-1].timestamp() + 1, UTC)
    return [at for at in instants if start <= at.astimezone(UTC) <= end]

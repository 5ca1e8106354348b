"""A team's server: deployments in a work pool, limits and alarms, all from one reviewed file."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import chdir
from datetime import UTC, datetime

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import get_current_settings

from blockveil.flows.base import prefect_internals
from blockveil.flows.service import automations, deployments, limits, login, recovery, revival, runner, silence
from blockveil.flows.service.named_server import require_server
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import LoadedDeployments

POOL_TYPE = "blockveil"
"""Workers of Blockveil take its runs, and no worker of Prefect does: those obey what the server says."""


def deploy(loaded: LoadedDeployments, tell: Callable[[str], None]) -> None:
    """Register everything on the server; again without effect, but for the pinned code and what has changed.

    Raises
    ------
    BlockveilError
        Prefect has moved what workers are built on, a config cannot be planned, there is no server, or its pool is of
        another kind.
    """
    prefect_internals.require()
    require_server()
    deployments.plans(loaded)
    for line in deployments.stores(loaded):
        tell(line)
    pool = loaded.deployments.pool
    runner_deployments = deployments.build(loaded, pool)
    _make_pool(pool)
    limits.prepare(loaded)
    deployments.keep_pauses(runner_deployments)
    deployments.require_schedule(runner_deployments, deployments.register(runner_deployments))
    for deployment in runner_deployments:
        tell(f"{deployment.full_name}: {deployments.when(deployment)}")
    for line in automations.install(loaded):
        tell(line)
    tell("Start a worker on each machine: blockveil service worker CONFIGS")


def _make_pool(name: str) -> None:
    with get_client(sync_client=True) as client:
        try:
            pool = client.read_work_pool(name)
        except ObjectNotFound:
            try:
                pool = client.create_work_pool(WorkPoolCreate(name=name, type=POOL_TYPE))
            except ObjectAlreadyExists:  # made by somebody else in between
                pool = client.read_work_pool(name)
    if pool.type != POOL_TYPE:
        raise ConfigError(
            f"The work pool '{name}' is of type {pool.type}",
            f"Runs are started by `blockveil service worker`, with pools of type {POOL_TYPE}: others obey the server",
            "Name another pool in deployments.toml; it is made where it is missing",
        )


def work(loaded: LoadedDeployments, tell: Callable[[str], None]) -> None:
    """Start the runs of a team's work pool on this machine, until a signal says stop.

    Raises
    ------
    BlockveilError
        Prefect has moved what workers are built on, there is no server, or its pool is of another kind.
    """
    prefect_internals.require()
    require_server()
    pool = loaded.deployments.pool
    _make_pool(pool)
    settings = get_current_settings()
    seconds, most = settings.worker.query_seconds, settings.runner.process_limit
    name = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(3)}"  # a container has the same number again
    find = recovery.tended(runner.of_pool(pool, name, seconds), recovery.all_runs(loaded, datetime.now(UTC), pool))
    watch = silence.Watch(pool=pool, worker=name, died=revival.after_death(loaded, pool))
    tell(f"Starting the runs of the work pool '{pool}', at most {most} at once, as {loaded.root} says. Ctrl-C stops.")
    os.environ["PREFECT_HOME"] = str(login.home())  # absolute
    with chdir(login.home()):
        asyncio.run(runner.Runner(find, loaded.root, seconds, most, watch).until_stopped(lambda: False))

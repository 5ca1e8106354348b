"""One machine: server, schedule and runner in one process tree, with defaults for private work."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from flows import login, server
from pipeline.config.deployments import LoadedDeployments
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from prefect.runner import Runner


def serve(loaded: LoadedDeployments, host: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve all deployments until a signal says stop.

    Uses the server that ``PREFECT_API_URL`` names; without it, starts one here that ends with this process.

    Parameters
    ----------
    loaded
        What runs when.
    host, port
        Where an own server listens.
    tell
        Receives lines for a person.

    Raises
    ------
    BlockveilError
        Another process serves with the same Prefect home, a config cannot be planned, or there is no server.
    """
    os.environ["BLOCKVEIL_CONFIG_ROOT"] = str(loaded.root)  # what runs inherit
    with ExitStack() as stack:
        home = login.home()
        stack.enter_context(_alone(home))
        if login.URL in os.environ:
            _run(loaded, None, tell)
            return
        known = login.configured()
        _check_reach(host, known)
        tell(f"Starting the Prefect server; its log is {home / 'blockveil-server.log'}")
        wanted = known or login.kept(home)
        own = stack.enter_context(server.running(host, port, home / "blockveil-server.log", wanted))
        login.record(home, own.address)
        os.environ.update({login.URL: own.address, login.CLIENT: wanted})
        if known is None:
            tell(f"Its login is kept in {home / login.FILE_NAME}; `blockveil serve --show-login` prints it")
        _run(loaded, own, tell)


def _run(loaded: LoadedDeployments, own: server.Running | None, tell: Callable[[str], None]) -> None:
    # Prefect reads its environment when it is imported, so this comes after it is complete.
    from prefect.runner import Runner

    from flows import automations, deployments, recovery

    deployments.plans(loaded)
    for name in recovery.end_dead_runs() if own is not None else []:
        tell(f"Ended: run '{name}' did not survive the last stop")
    deployments.prepare_limits(loaded)
    runner = Runner(name="blockveil", pause_on_shutdown=False)
    made = deployments.build(loaded)
    deployments.keep_pauses(made)
    for deployment in made:
        runner.add_deployment(deployment)
        tell(f"{deployment.full_name}: {deployments.when(deployment)}")
    automations.install(loaded)
    for night in recovery.catch_up_nights(loaded, None, datetime.now(UTC), apply=True):
        tell(f"Made up for: {night.config} {night.night}, {night.why} ({night.note})")
    tell(f"Serving. Form and runs: {os.environ['PREFECT_API_URL'].removesuffix('/api')}. Ctrl-C stops.")
    asyncio.run(_until_stopped(runner, own))
    if own is not None and own.process.poll() is not None:
        raise server.ServerFailed(
            f"The Prefect server ended by itself (exit code {own.process.returncode})",
            "Runs are started by its schedule",
            f"See {login.home() / 'blockveil-server.log'}, and start `blockveil serve` again",
        )


async def _until_stopped(runner: Runner, own: server.Running | None) -> None:
    """Run until a signal says stop or the server is gone; then runs end first, the runner next, the server last."""
    stopped = asyncio.Event()
    work = asyncio.ensure_future(runner.start())
    while not runner.started and not work.done():  # it takes the signals for itself when it starts
        await asyncio.sleep(0.05)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    waiting = [asyncio.ensure_future(stopped.wait())] + ([] if own is None else [asyncio.ensure_future(_gone(own))])
    await asyncio.wait({work, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    if not work.done():
        await runner.cancel_all()
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _gone(own: server.Running) -> None:
    """Wait until a server has ended: from then on another account may listen at its address."""
    while own.process.poll() is None:
        await asyncio.sleep(0.5)


def _check_reach(host: str, known: str | None) -> None:
    """Beyond this machine a login travels in clear: whoever wants that has chosen one for it."""
    try:
        near = ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not near and known is None:
        raise ConfigError(
            f"--host {host} lets other machines reach the server",
            "Its login can release every reviewed config, and would travel there without encryption",
            f"Keep 127.0.0.1 with a proxy with TLS before it; in a network of your own, set {login.SERVER} yourself",
        )


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Let one process serve from a Prefect home: what is left running at its start is then known to be dead."""
    with (home / "blockveil-serve.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = False
        except OSError:
            taken = True
        if taken:
            raise ConfigError(
                f"Another `blockveil serve` runs with the Prefect home {home}",
                "One process serves from one home",
                "Stop that one, or set PREFECT_HOME to another folder",
            )
        yield

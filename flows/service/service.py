"""One machine: server, schedule and runner in one process tree, with defaults for private work."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from blockveil.flows.base import prefect_internals
from blockveil.flows.service import login, server
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config.deployments_file import LoadedDeployments

_LAST_PORT = 65535


def serve(
    loaded: LoadedDeployments, host: str, port: int, tell: Callable[[str], None], site_port: int | None = None
) -> None:
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
    site_port
        Port of the site of releases; the next one where none is given.

    Raises
    ------
    BlockveilError
        Prefect has moved what the service is built on, another process serves with the same Prefect home, a config
        cannot be planned, there is no server, or the credentials of the site's upload are not where
        `deployments.toml` says.
    """
    prefect_internals.require()
    with ExitStack() as stack:
        home = login.home()
        _check_credentials(loaded)
        stack.enter_context(_alone(home))
        os.environ["PREFECT_HOME"] = str(home)  # absolute
        stack.enter_context(chdir(home))  # Prefect would read settings in whatever folder this was called from
        if login.URL in os.environ:
            login.join()
            from blockveil.flows.service.named_server import require_server  # which imports Prefect

            require_server()
            if loaded.deployments.site is not None:
                from blockveil.flows.service import site_service

                stack.enter_context(site_service.made(loaded, home, tell))
            _run(loaded, None, tell)
            return
        preset = login.configured()
        _check_reach(host, preset)
        tell(f"Starting the Prefect server; its log is {home / 'blockveil-server.log'}")
        credentials = preset or login.kept(home)
        own = stack.enter_context(server.running(host, port, home / "blockveil-server.log", credentials))
        login.record(home, own.address)
        os.environ.update({login.URL: own.address, login.CLIENT: credentials})
        if preset is None:
            tell(f"Its login is kept in {home / login.FILE_NAME}; `blockveil serve --show-login` prints it")
        from blockveil.flows.service import site_service  # which imports Prefect

        address = host, site_port or min(port + 1, _LAST_PORT)
        stack.enter_context(site_service.shown(loaded, home, address, credentials, tell))
        _run(loaded, own, tell)


def _run(loaded: LoadedDeployments, own: server.Running | None, tell: Callable[[str], None]) -> None:
    # Prefect reads its environment when it is imported, so this comes after it is complete.
    from prefect.settings import get_current_settings

    from blockveil.flows.service import automations, deployments, limits, recovery, revival, runner, silence

    began = datetime.now(UTC)
    deployments.plans(loaded)
    for line in deployments.stores(loaded):
        tell(line)
    after_death = revival.after_death(loaded)
    if own is not None:  # nothing of what seems to be at work survived the last stop; it has its slots until now
        silence.Watch(deployments.served(), died=after_death).look((), patience=0.0)
    limits.prepare(loaded, anew=own is not None)
    runner_deployments = deployments.build(loaded)
    deployments.keep_pauses(runner_deployments)
    numbers = deployments.register(runner_deployments, anew=own is not None)
    deployments.require_schedule(runner_deployments, numbers)
    for deployment in runner_deployments:
        tell(f"{deployment.full_name}: {deployments.when(deployment)}")
    automations.install(loaded, own=own is not None)
    tend = recovery.all_nights(loaded, began, numbers.values())
    tend()
    tell(f"Serving. Form and runs: {os.environ[login.URL].removesuffix('/api')}. Ctrl-C stops.")
    settings = get_current_settings().runner
    due = runner.of_deployments(list(numbers.values()))
    find = recovery.tended(due, tend)
    watch = silence.Watch(numbers.values(), died=after_death)
    runs = runner.Runner(find, loaded.root, settings.poll_frequency, settings.process_limit, watch)
    asyncio.run(runs.until_stopped(lambda: own is not None and own.process.poll() is not None))
    if own is not None and own.process.poll() is not None:
        raise server.ServerFailed(
            f"The Prefect server ended by itself (exit code {own.process.returncode})",
            "Runs are started by its schedule",
            f"See {login.home() / 'blockveil-server.log'}, and start `blockveil serve` again",
        )


def _check_credentials(loaded: LoadedDeployments) -> None:
    """A site that cannot be sent for want of credentials is found before the first night, and not in a log after it."""
    from blockveil.pipeline.config.secrets import read_credentials

    place = loaded.deployments.site
    if place is not None:
        read_credentials("site.upload_credentials", place.upload_credentials, loaded.root)


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
    descriptor = os.open(home / "blockveil-serve.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            busy = False
        except OSError:
            busy = True
        if busy:
            raise ConfigError(
                f"Another `blockveil serve` runs with the Prefect home {home}",
                "One process serves from one home",
                "Stop that one, or set PREFECT_HOME to another folder",
            )
        yield

"""``blockveil serve`` and ``service``: nights by the clock, on one machine or for a team's server."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blockveil.flows.cli.common import Json, parse_date, print_json, say
from blockveil.flows.service import login
from blockveil.flows.service.server import ServerFailed

if TYPE_CHECKING:
    from blockveil.pipeline.config.deployments_file import LoadedDeployments

Folder = Annotated[
    Path, typer.Argument(help="Folder of reviewed configs with its deployments.toml, or that file.", show_default=True)
]
Host = Annotated[str, typer.Option(help="Address to listen on; keep it local to this machine.")]
Port = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
SitePort = Annotated[
    int | None, typer.Option(help="Port of the site of releases; the next one by default.", min=1, max=65535)
]
MetricsPort = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
ShowToken = Annotated[bool, typer.Option("--show-token", help="Print the bearer token of scrapes, and exit.")]
KeepDays = Annotated[int, typer.Option(help="Keep the releases of this many days.", min=1)]
Since = Annotated[
    str | None, typer.Option(help="First night to consider; by default the one after the newest release.")
]
ShowLogin = Annotated[
    bool, typer.Option("--show-login", help="Print the login of the server of this Prefect home, and exit.")
]
Apply = Annotated[bool, typer.Option("--apply", help="Do it; without this option, only show what would be done.")]


def _loaded(configs: Path) -> LoadedDeployments:
    from blockveil.pipeline.config.deployments_file import load_deployments

    return load_deployments(configs)


def serve(
    configs: Folder = Path("configs"),
    host: Host = "127.0.0.1",
    port: Port = 4200,
    site_port: SitePort = None,
    show_login: ShowLogin = False,
) -> None:
    """Run the nights of deployments.toml on this machine: server, schedule and runner in one. Ctrl-C stops."""
    if show_login:
        say(login.configured() or login.kept(login.home()))
        return
    from blockveil.flows.service import service as serving

    serving.serve(_loaded(configs), host, port, say, site_port)


def deploy(configs: Folder = Path("configs")) -> None:
    """Register the deployments, limits and alarms of deployments.toml on a team's server, pinned to this code."""
    login.join()
    from blockveil.flows.service import deploy as deploying

    deploying.deploy(_loaded(configs), say)


def worker(configs: Folder = Path("configs")) -> None:
    """Start the runs of a team's work pool here, as this machine's reviewed folder says. Ctrl-C stops.

    PREFECT_RUNNER_PROCESS_LIMIT says how many runs may work at once: 5 where it is not set.
    """
    login.join()
    from blockveil.flows.service import deploy as deploying

    deploying.work(_loaded(configs), say)


def metrics(
    configs: Folder = Path("configs"),
    host: Host = "127.0.0.1",
    port: MetricsPort = 9108,
    show_token: ShowToken = False,
) -> None:
    """Answer Prometheus with budgets and nights: public numbers, read anew at every scrape. Ctrl-C stops."""
    from blockveil.flows.service import metrics as serving

    token = serving.token()
    if show_token:
        say(token)
        return
    try:
        answering = serving.start(_loaded(configs), host, port, token)
    except OSError as error:
        failure = ServerFailed(
            f"{host}:{port} cannot be listened at ({os.strerror(error.errno or 0)})",
            "Metrics need an address of their own",
            "Give another --port",
        )
    else:
        say(f"Metrics: http://{host}:{port}/metrics, for the token of `blockveil service metrics --show-token`")
        answering.thread.join()
        return
    raise failure


def prune(
    configs: Folder = Path("configs"),
    keep_days: KeepDays = 400,
    apply: Apply = False,
    as_json: Json = False,
) -> None:
    """Show the releases that are older than is kept; --apply removes them. Ledger entries and the newest one stay."""
    from blockveil.pipeline.releases import retention

    loaded = _loaded(configs)
    before = datetime.now(UTC).date() - timedelta(days=keep_days)
    old = [each for config in loaded.configs.values() for each in retention.old_releases(config, before)]
    for each in () if as_json else old:
        say(f"{each.release_id}  {each.size / 2**20:,.1f} MiB")
    if apply:
        retention.prune(old)
    if as_json:
        print_json({"applied": apply, "releases": [{"release": each.release_id, "bytes": each.size} for each in old]})
        return
    outcome = "removed" if apply else "would be removed; --apply does it"
    say(f"{len(old)} releases, {sum(each.size for each in old) / 2**20:,.1f} MiB, {outcome}")


def catch_up(
    configs: Folder = Path("configs"),
    since: Since = None,
    apply: Apply = False,
    as_json: Json = False,
) -> None:
    """Show the nights that were begun or missed and are due, by the policy of deployments.toml; --apply runs them."""
    login.join()
    from blockveil.flows.service import named_server, recovery

    named_server.require_server()
    first = None if since is None else parse_date(since)
    nights = recovery.catch_up_nights(_loaded(configs), first, datetime.now(UTC), apply)
    if as_json:
        print_json({"applied": apply, "nights": nights})
        return
    for night in nights:
        say(f"{night.config} {night.night}: {night.why}; {night.cost} ({night.note})")
    if not nights:
        say("No night is due.")

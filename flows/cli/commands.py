"""The commands of ``blockveil``, each of which is imported when it is called.

``blockveil --help`` must not wait for numerical libraries, nor ``blockveil mechanisms`` for the ledger. So the help
page of the program is made from the table below, and a command's module is imported when its name is given.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from blockveil.flows.base.imports import uncollected
from blockveil.pipeline.base.printable import one_line, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Listed(NamedTuple):
    """Where a command is defined, and the first paragraph of its help.

    Attributes
    ----------
    module
        Module of this package.
    attribute
        Name there of the command's function, or of a group of commands.
    help
        First paragraph of what the command itself says; a test compares the two.
    """

    module: str
    attribute: str
    help: str


COMMANDS = {
    "init": Listed(
        "init_command",
        "init",
        "Write the configs of a first release. Reads the names of the columns and nothing else.",
    ),
    "plan": Listed(
        "plan_command",
        "plan",
        "Show what a release would cost and how exact it would be. Reads no data and spends nothing.",
    ),
    "run": Listed(
        "night_commands",
        "run",
        "Release, or finish a release that an earlier run began. The same release is never charged twice.",
    ),
    "demo": Listed(
        "night_commands",
        "demo",
        "Release the covariance of 30,000 real credit-card records, with everything on this machine.",
    ),
    "approve": Listed(
        "approve_command",
        "approve",
        "Sign one release as an officer, where its config asks for signatures. Reads no records and spends nothing.",
    ),
    "report": Listed(
        "report_command",
        "report",
        "Write the report of a release, HTML and JSON; with --against a comparison of two. "
        "Reads published values only.",
    ),
    "verify": Listed(
        "verify_command",
        "verify_releases",
        "Check releases by themselves: content, promise, noise and unit. Asks no ledger, config or server.",
    ),
    "certificate": Listed(
        "certificate_command",
        "certificate",
        "Write one page to print on a release, or on all of a period: what is promised, and how to check it without "
        "us.",
    ),
    "withdraw": Listed(
        "withdraw_command",
        "withdraw_release",
        "Withdraw a release for good: the ledger and the readers' pages record it, and its budget remains spent.",
    ),
    "disclose": Listed(
        "disclose_command",
        "disclose",
        "Write the record of a deployment for the OpenDP registry: from plan, ledger, newest release and its curator.",
    ),
    "export": Listed(
        "export_command",
        "export",
        "Write the numbers of a release for other programs: tables, NetCDF, or a trained model as ONNX.",
    ),
    "site": Listed(
        "site_command",
        "site",
        "Write pages of all releases: findings, budgets, nights left, and what changed since the night before.",
    ),
    "step": Listed(
        "step_command",
        "step",
        "Take one step of training along a released gradient. Post-processing: costs no privacy.",
    ),
    "weights": Listed("step_command", "start", "Write random weights to begin training with."),
    "ingest": Listed(
        "ingest_command",
        "ingest",
        "Make the store of records that releases read, or append what is new in its source. Spends nothing.",
    ),
    "erase": Listed(
        "erase_command",
        "erase",
        "Remove all rows of units from a store that grows, and all that an unfinished ingest left. Spends nothing.",
    ),
    "serve": Listed(
        "serve_commands",
        "serve",
        "Run the nights of deployments.toml on this machine: server, schedule and runner in one. Ctrl-C stops.",
    ),
    "deploy": Listed(
        "serve_commands",
        "deploy",
        "Register the deployments, limits and alarms of deployments.toml on a team's server, pinned to this code.",
    ),
    "worker": Listed(
        "serve_commands",
        "worker",
        "Start the runs of a team's work pool here, as this machine's reviewed folder says. Ctrl-C stops.",
    ),
    "catch-up": Listed(
        "serve_commands",
        "catch_up",
        "Show the nights that were begun or missed and are due, by the policy of deployments.toml; --apply runs them.",
    ),
    "metrics": Listed(
        "serve_commands",
        "metrics",
        "Answer Prometheus with budgets and nights: public numbers, read anew at every scrape. Ctrl-C stops.",
    ),
    "prune": Listed(
        "serve_commands",
        "prune",
        "Show the releases that are older than is kept; --apply removes them. Ledger entries and the newest one stay.",
    ),
    "mechanisms": Listed(
        "mechanisms_command",
        "mechanisms",
        "List all mechanisms with their status, or explain one with its theorem and true privacy profile.",
    ),
    "audit": Listed(
        "audit_command",
        "audit",
        "Replay a config of a release or an ingest on constructed neighbours, or bound the true loss of a mechanism "
        "from below. Reads no data; exit code 10 if a claim is refuted.",
    ),
    "bounds": Listed(
        "bounds_commands", "app", "Learn the bounds of columns from a charged release: draft its config, then read it."
    ),
    "shape": Listed(
        "shape_command",
        "shape",
        "Write the ellipsoid of least noise for records like those of a release. Public: the release was paid for.",
    ),
    "shape-of-list": Listed(
        "shape_command",
        "shape_of_list",
        "Write the ellipsoid of least noise that holds a public list of records, such as a price list or a code book.",
    ),
    "directions": Listed(
        "directions_command",
        "directions",
        "Write the principal directions of a release, for mvg and mvg-exact. Public: the release was paid for.",
    ),
    "leading": Listed(
        "leading_command",
        "leading",
        "Show the leading eigenvalues of a released covariance or second moment of any size beside what noise gives.",
    ),
    "ledger": Listed("ledger_commands", "app", "Read and verify the ledger."),
    "budget": Listed(
        "budget_commands", "app", "Grant a data set's budget, see what is left of it and how long it lasts."
    ),
    "study": Listed("study_commands", "app", "Study what no config can release; public data only."),
}
"""Every command by its name, in the order of the help page."""


class CommandsOnDemand(TyperGroup):
    """The program's commands: all are listed from the table, and one is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, listed in COMMANDS.items():
            self.add_command(TyperCommand(name, help=listed.help))

    def make_context(self, *given: Any, **settings: Any) -> Any:
        """Context of a call; parameters are those of Typer. What is wrong with its words is kept in words."""
        with _kept():
            return super().make_context(*given, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context's words name; what is wrong with them is kept in words."""
        with _kept():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Command that the words name, with the words that are left.

        Parameters
        ----------
        ctx
            Context of the call.
        args
            Words of the command line from the command's name on.

        Returns
        -------
        Name, command and further words, as Typer wants them.
        """
        if args[0] in COMMANDS:
            self.add_command(load(args[0]), args[0])
        return super().resolve_command(ctx, args)


_usage_errors: list[str] = []


@contextmanager
def _kept() -> Iterator[None]:
    """Keep what is wrong with the words of a command line; Typer shows it to a person, and then ends the process."""
    try:
        yield
    except Exception as error:
        # Typer has had two classes for these errors, of Click and of its own copy of Click.
        words = getattr(error, "format_message", None)
        if words is not None:
            _usage_errors.append(short(one_line(str(words())), 300))
        raise


def usage_error() -> str | None:
    """What was wrong with the words of this process's command line, in a sentence; None where nothing was."""
    return _usage_errors[-1] if _usage_errors else None


def load(name: str) -> Any:
    """Import a command or a group of commands.

    Parameters
    ----------
    name
        Key of :data:`COMMANDS`.

    Returns
    -------
    The command as Typer runs it.
    """
    listed = COMMANDS[name]
    with uncollected():
        module = import_module(f"{__package__}.{listed.module}")
    found: typer.Typer | Callable[..., None] = getattr(module, listed.attribute)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name = name
        return _flowing(group)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(found)
    return _flowing(typer.main.get_command(alone))


def _flowing(command: Any) -> Any:
    """A command whose help breaks its lines where the terminal does, not where its docstring does."""
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    for inner in getattr(command, "commands", {}).values():
        _flowing(inner)
    return command

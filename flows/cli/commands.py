"""The commands of ``blockveil``, each of which is imported when it is called.

``blockveil --help`` must not wait for numerical libraries, nor ``blockveil study mechanisms`` for the ledger. So the
help page of the program is made from the table below, and a command's module is imported when its name is given. The
help page of a group imports the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from blockveil.flows.base.imports import uncollected
from blockveil.pipeline.base.printable import one_line, short


class Place(NamedTuple):
    """Where a command is defined: a module of this package, and the name of the command's function there."""

    module: str
    function: str


class Group(NamedTuple):
    """Commands below one name, and what they are for."""

    help: str
    commands: Mapping[str, Place | Group]


class Listed(NamedTuple):
    """A command of the first help page.

    Attributes
    ----------
    heading
        What it stands under.
    help
        First paragraph of what the command itself says (a test compares the two), or what a group is for.
    what
        The command's place, or the commands of a group.
    """

    heading: str
    help: str
    what: Place | Mapping[str, Place | Group]


BEGIN, NIGHTLY, READ, CHECK, OPERATE = "Begin", "Every night", "Read", "Check", "Operate"

_BOUNDS = Group(
    "Learn the bounds of columns from a charged release: draft its config, then read it.",
    {"draft": Place("bounds_commands", "draft"), "read": Place("bounds_commands", "read")},
)

_ADMIN = Group(
    "After a disaster, and for a database's owner: statements that the ledger keeps, roles, and moving a ledger.",
    {
        "void": Place("ledger_commands", "void"),
        "restored": Place("restored_commands", "restored"),
        "attest": Place("restored_commands", "attest"),
        "lost-key": Place("restored_commands", "lost_key"),
        "import": Place("ledger_commands", "import_"),
        "role": Place("ledger_commands", "role"),
    },
)

COMMANDS = {
    "demo": Listed(
        BEGIN,
        "Release the covariance of 30,000 real credit-card records, with everything on this machine.",
        Place("night_commands", "demo"),
    ),
    "init": Listed(
        BEGIN,
        "Write the configs of a first release. Reads the names of the columns and nothing else.",
        Place("init_command", "init"),
    ),
    "ingest": Listed(
        BEGIN,
        "Make the store of records that releases read, or append what is new in its source. Spends nothing.",
        Place("ingest_command", "ingest"),
    ),
    "public": Listed(
        BEGIN,
        "Make what configs name from paid-for releases or public lists: bounds, shapes, directions and weights.",
        {
            "bounds": _BOUNDS,
            "shape": Place("shape_command", "shape"),
            "shape-of-list": Place("shape_command", "shape_of_list"),
            "directions": Place("directions_command", "directions"),
            "leading": Place("leading_command", "leading"),
            "weights": Place("step_command", "start"),
            "step": Place("step_command", "step"),
        },
    ),
    "plan": Listed(
        NIGHTLY,
        "Show what a release would cost and how exact it would be. Reads no data and spends nothing.",
        Place("plan_command", "plan"),
    ),
    "run": Listed(
        NIGHTLY,
        "Release, or finish a release that an earlier run began. The same release is never charged twice.",
        Place("night_commands", "run"),
    ),
    "serve": Listed(
        NIGHTLY,
        "Run the nights of deployments.toml on this machine: server, schedule and runner in one. Ctrl-C stops.",
        Place("serve_commands", "serve"),
    ),
    "report": Listed(
        READ,
        "Write the report of a release, HTML and JSON; with --against a comparison of two. "
        "Reads published values only.",
        Place("report_command", "report"),
    ),
    "export": Listed(
        READ,
        "Write a release for other programs and people: its numbers, a certificate, pages of all, a public record.",
        {
            "data": Place("export_command", "export"),
            "certificate": Place("certificate_command", "certificate"),
            "site": Place("site_command", "site"),
            "disclosure": Place("disclose_command", "disclose"),
        },
    ),
    "verify": Listed(
        CHECK,
        "Check releases by themselves: content, promise, noise and unit. Asks no ledger, config or server.",
        Place("verify_command", "verify_releases"),
    ),
    "audit": Listed(
        CHECK,
        "Replay a config of a release or an ingest on constructed neighbours, or bound the true loss of a mechanism "
        "from below. Reads no data; exit code 10 if a claim is refuted.",
        Place("audit_command", "audit"),
    ),
    "study": Listed(
        CHECK,
        "List the mechanisms, and study those that no config can release: claims, true losses, draws on public data.",
        {
            "mechanisms": Place("mechanisms_command", "mechanisms"),
            "r1smg": Place("study_commands", "r1smg"),
            "wishart": Place("study_commands", "wishart"),
            "johnson-lindenstrauss": Place("study_commands", "johnson_lindenstrauss"),
            "ppca": Place("study_commands", "ppca"),
            "imgm": Place("study_commands", "imgm"),
            "sampling": Place("study_commands", "sampled"),
            "training": Place("study_commands", "trained"),
        },
    ),
    "ledger": Listed(
        OPERATE,
        "Grant budgets, see what is left of them, and read, approve, verify and correct what the ledger holds.",
        {
            "grant": Place("budget_commands", "grant"),
            "budget": Place("budget_commands", "budget"),
            "forecast": Place("budget_commands", "forecast"),
            "split": Place("budget_commands", "split"),
            "price": Place("budget_commands", "price"),
            "charge": Place("budget_commands", "charge"),
            "approve": Place("approve_command", "approve"),
            "withdraw": Place("withdraw_command", "withdraw_release"),
            "show": Place("ledger_commands", "show"),
            "verify": Place("ledger_commands", "verify"),
            "head": Place("ledger_commands", "head_"),
            "prove": Place("ledger_commands", "prove"),
            "export": Place("ledger_commands", "export"),
            "admin": _ADMIN,
        },
    ),
    "service": Listed(
        OPERATE,
        "Run the nights of a team: deployments, workers, missed nights, metrics, old releases and erasures.",
        {
            "deploy": Place("serve_commands", "deploy"),
            "worker": Place("serve_commands", "worker"),
            "catch-up": Place("serve_commands", "catch_up"),
            "metrics": Place("serve_commands", "metrics"),
            "prune": Place("serve_commands", "prune"),
            "erase": Place("erase_command", "erase"),
        },
    ),
}
"""Every command by its name, in the order of the help page."""


class CommandsOnDemand(TyperGroup):
    """The program's commands: all are listed from the table, and one is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, listed in COMMANDS.items():
            self.add_command(TyperCommand(name, help=listed.help, rich_help_panel=listed.heading))

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


class _Loading(Mapping[str, Any]):
    """Commands of a group by their names, each imported when it is looked up."""

    def __init__(self, table: Mapping[str, Place | Group]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        found = self._table[name]
        return _group(name, *found) if isinstance(found, Group) else _command(name, found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class _GroupOnDemand(TyperGroup):
    """A group whose names are known before its commands are imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the group's commands, in the order of the table."""
        del ctx
        return list(self.commands)


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
    """Import a command, or make a group whose commands are imported when they are called.

    Parameters
    ----------
    name
        Key of :data:`COMMANDS`.

    Returns
    -------
    The command as Typer runs it.
    """
    listed = COMMANDS[name]
    if isinstance(listed.what, Place):
        return _command(name, listed.what)
    return _group(name, listed.help, listed.what)


def _group(name: str, text: str, table: Mapping[str, Place | Group]) -> TyperGroup:
    group = _GroupOnDemand(name=name, help=text, no_args_is_help=True)
    group.commands = _Loading(table)  # type: ignore[assignment] # Typer reads it and never writes
    return group


def _command(name: str, place: Place) -> Any:
    with uncollected():
        module = import_module(f"{__package__}.{place.module}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(getattr(module, place.function))
    command = typer.main.get_command(alone)
    # Its help breaks lines where the terminal does, not where the docstring does.
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    return command

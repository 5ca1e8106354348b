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


class CommandPlace(NamedTuple):
    """Where a command is defined: a module of this package, and the name of the command's function there."""

    module: str
    function: str


class CommandGroup(NamedTuple):
    """Commands below one name, and what they are for."""

    help: str
    commands: Mapping[str, CommandPlace | CommandGroup]


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
    what: CommandPlace | Mapping[str, CommandPlace | CommandGroup]


BEGIN, NIGHTLY, READ, CHECK, OPERATE = "Begin", "Every night", "Read", "Check", "Operate"

_BOUNDS = CommandGroup(
    "Learn the bounds of columns from a charged release: draft its config, then read it.",
    {"draft": CommandPlace("bounds_commands", "draft"), "read": CommandPlace("bounds_commands", "read")},
)

_ADMIN = CommandGroup(
    "Recover a ledger after a loss, move it to another place, and manage the roles of its database.",
    {
        "void": CommandPlace("ledger_commands", "void"),
        "reconcile": CommandPlace("restored_commands", "reconcile"),
        "attest": CommandPlace("restored_commands", "attest"),
        "replace-key": CommandPlace("restored_commands", "replace_key"),
        "import": CommandPlace("ledger_commands", "import_"),
        "role": CommandPlace("ledger_commands", "role"),
    },
)

COMMANDS = {
    "demo": Listed(
        BEGIN,
        "Release the covariance of 30,000 real credit-card records, with everything on this machine.",
        CommandPlace("night_commands", "demo"),
    ),
    "init": Listed(
        BEGIN,
        "Write the configs of a first release. Reads the names of the columns and nothing else.",
        CommandPlace("init_command", "init"),
    ),
    "ingest": Listed(
        BEGIN,
        "Make the store of records that releases read, or append what is new in its source. Spends nothing.",
        CommandPlace("ingest_command", "ingest"),
    ),
    "public": Listed(
        BEGIN,
        "Make files that configs name (bounds, shapes, directions, weights) from charged releases or public lists.",
        {
            "bounds": _BOUNDS,
            "shape": CommandPlace("shape_command", "shape"),
            "shape-of-list": CommandPlace("shape_command", "shape_of_list"),
            "directions": CommandPlace("directions_command", "directions"),
            "eigenpairs": CommandPlace("leading_command", "leading"),
            "weights": CommandPlace("step_command", "start"),
            "step": CommandPlace("step_command", "step"),
        },
    ),
    "plan": Listed(
        NIGHTLY,
        "Show what a release would cost and how exact it would be. Reads no data and spends nothing.",
        CommandPlace("plan_command", "plan"),
    ),
    "run": Listed(
        NIGHTLY,
        "Release, or finish a release that an earlier run began. The same release is never charged twice.",
        CommandPlace("night_commands", "run"),
    ),
    "serve": Listed(
        NIGHTLY,
        "Run the nights of deployments.toml on this machine: server, schedule and runner in one. Ctrl-C stops.",
        CommandPlace("serve_commands", "serve"),
    ),
    "report": Listed(
        READ,
        "Write the report of a release, HTML and JSON; with --against a comparison of two. "
        "Reads published values only.",
        CommandPlace("report_command", "report"),
    ),
    "export": Listed(
        READ,
        "Write the numbers of a release, a certificate, a site of all releases, or a record for a public registry.",
        {
            "data": CommandPlace("export_command", "export"),
            "certificate": CommandPlace("certificate_command", "certificate"),
            "site": CommandPlace("site_command", "site"),
            "disclosure": CommandPlace("disclose_command", "disclose"),
        },
    ),
    "verify": Listed(
        CHECK,
        "Check the content, promise, noise and unit of releases. Needs no ledger, config or server.",
        CommandPlace("verify_command", "verify_releases"),
    ),
    "audit": Listed(
        CHECK,
        "Replay a config of a release or an ingest on constructed neighbours, or bound the true loss of a mechanism "
        "from below. Reads no data; exit code 10 if a claim is refuted.",
        CommandPlace("audit_command", "audit"),
    ),
    "study": Listed(
        CHECK,
        "List the mechanisms, and compare what published ones claim with what holds, with draws on public data.",
        {
            "mechanisms": CommandPlace("mechanisms_command", "mechanisms"),
            "r1smg": CommandPlace("study_commands", "r1smg"),
            "wishart": CommandPlace("study_commands", "wishart"),
            "johnson-lindenstrauss": CommandPlace("study_commands", "johnson_lindenstrauss"),
            "ppca": CommandPlace("study_commands", "ppca"),
            "imgm": CommandPlace("study_commands", "imgm"),
            "sampling": CommandPlace("study_commands", "sampled"),
            "training": CommandPlace("study_commands", "trained"),
        },
    ),
    "ledger": Listed(
        OPERATE,
        "Grant budgets, show what remains of them, and read, approve, verify and correct the ledger.",
        {
            "grant": CommandPlace("budget_commands", "grant"),
            "budget": CommandPlace("budget_commands", "budget"),
            "forecast": CommandPlace("budget_commands", "forecast"),
            "split": CommandPlace("budget_commands", "split"),
            "price": CommandPlace("budget_commands", "price"),
            "charge": CommandPlace("budget_commands", "charge"),
            "approve": CommandPlace("approve_command", "approve"),
            "withdraw": CommandPlace("withdraw_command", "withdraw_release"),
            "show": CommandPlace("ledger_commands", "show"),
            "verify": CommandPlace("ledger_commands", "verify"),
            "head": CommandPlace("ledger_commands", "head_"),
            "prove": CommandPlace("ledger_commands", "prove"),
            "export": CommandPlace("ledger_commands", "export"),
            "admin": _ADMIN,
        },
    ),
    "service": Listed(
        OPERATE,
        "Run the nights of a team: deployments, workers, missed nights, metrics, old releases and erasures.",
        {
            "deploy": CommandPlace("serve_commands", "deploy"),
            "worker": CommandPlace("serve_commands", "worker"),
            "catch-up": CommandPlace("serve_commands", "catch_up"),
            "metrics": CommandPlace("serve_commands", "metrics"),
            "prune": CommandPlace("serve_commands", "prune"),
            "erase": CommandPlace("erase_command", "erase"),
        },
    ),
}
"""Every command by its name, in the order of the help page."""


class CommandsOnDemand(TyperGroup):
    """The program's commands: all are listed from the table, and one is imported when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.heading))

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

        Returns
        -------
        Name, command and further words, as Typer wants them.
        """
        if args[0] in COMMANDS:
            self.add_command(load(args[0]), args[0])
        return super().resolve_command(ctx, args)


class _Loading(Mapping[str, Any]):
    """Commands of a group by their names, each imported when it is looked up."""

    def __init__(self, table: Mapping[str, CommandPlace | CommandGroup]) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        entry = self._table[name]
        return _group(name, *entry) if isinstance(entry, CommandGroup) else _command(name, entry)

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

    Returns
    -------
    The command as Typer runs it.
    """
    entry = COMMANDS[name]
    if isinstance(entry.what, CommandPlace):
        return _command(name, entry.what)
    return _group(name, entry.help, entry.what)


def _group(name: str, text: str, table: Mapping[str, CommandPlace | CommandGroup]) -> TyperGroup:
    group = _GroupOnDemand(name=name, help=text, no_args_is_help=True)
    group.commands = _Loading(table)  # type: ignore[assignment] # Typer reads it and never writes
    return group


def _command(name: str, place: CommandPlace) -> Any:
    with uncollected():
        module = import_module(f"{__package__}.{place.module}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(getattr(module, place.function))
    command = typer.main.get_command(alone)
    # Its help breaks lines where the terminal does, not where the docstring does.
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
    return command

"""The command line ``blockveil``.

Exit codes: 0 done; 1 unexpected error; 2 config or parameter; 3 budget exhausted; 4 data do not fit their declaration;
5 same release with other data or config; 6 ledger; 7 store, disk or permission; 8 computation or Prefect failed;
9 noise key lost; 10 audit refuted a claim; 11 needs a person's approval; 130 interrupted.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Annotated

import typer

from blockveil.flows.cli.commands import CommandsOnDemand, usage_error
from blockveil.pipeline.base.errors import BlockveilError, ForOperator, StoreError
from blockveil.pipeline.base.extras import MissingExtra

HELP = (
    "Release large matrices from private records under differential privacy.\n\n"
    "Exit codes: 0 done, 1 unexpected, 2 config, 3 budget exhausted, 4 data, 5 conflict with an earlier release, "
    "6 ledger, 7 store or disk, 8 computation or Prefect, 9 noise key lost, 10 audit refuted a claim, "
    "11 needs a person's approval, 130 interrupted.\n\n"
    "The code lines of failed computations, without values, are kept in ~/.prefect/blockveil-errors (or under "
    "PREFECT_HOME) by the number that the message shows."
)

INTERRUPTED = 130
"""Exit code after an interrupt from the keyboard."""

app = typer.Typer(cls=CommandsOnDemand, help=HELP, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"blockveil {version('blockveil')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and library logs. They may quote private values.")
    ] = False,
) -> None:
    """Make the program a group of commands, whose own help is above."""


def main() -> None:
    """Run the command line; errors are two lines at most, with --json a document too, a traceback only with --debug."""
    os.umask(os.umask(0o077) | stat.S_IWOTH)  # what is made here is never for all the world to change
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # the framework has swallowed the interrupt itself
            print("blockveil: interrupted; run the same command again to go on", file=sys.stderr)
        if isinstance(end.code, int) and end.code:
            _as_json(_ended(end.code), end.code)
        raise
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        text, code = _message_and_code(error)
        print(f"blockveil: {text}", file=sys.stderr)
        _as_json(text, code)
        sys.exit(code)


def _ended(code: int) -> str:
    """Why Typer has ended the process, in words."""
    return "interrupted" if code == INTERRUPTED else usage_error() or "standard error says why"


def _as_json(text: str, code: int) -> None:
    """Tell a program of a failure where it reads JSON."""
    if "--json" in sys.argv:
        from blockveil.flows.cli.common import print_failure

        print_failure(text, code)


def _message_and_code(error: Exception) -> tuple[str, int]:
    """What a person reads of an error, and the exit code."""
    failure: BlockveilError | None = None
    match error:
        case BlockveilError():
            failure = error
        case ModuleNotFoundError():
            failure = MissingExtra.of(error)
        case OSError() if error.errno:  # one without a number is no file's: a connection that ended, for example
            failure = _refused(error)
    if failure is None:
        # The text of an unexpected error could quote a record.
        return f"unexpected {type(error).__name__}. Run again as `blockveil --debug ...` to see it.", 1
    if isinstance(failure, ForOperator) and sys.stderr.isatty() and "--json" not in sys.argv:
        return failure.at_terminal, failure.exit_code
    return failure.in_full, failure.exit_code


def _refused(error: OSError) -> StoreError:
    """What the operating system refused outside of a release, such as a file of an option that cannot be written."""
    reason = os.strerror(error.errno or 0)
    places = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    subject = " and ".join(f'"{place}"' for place in places) or "a file or folder"
    if isinstance(error, PermissionError) and places:
        return StoreError(
            f"The operating system refuses {subject} to this account ({reason})",
            "Who runs a command must be allowed to use its files, and to look into the folders above them",
            "Let their owner give this account permission, or run the command as an account that has it",
        )
    return StoreError(
        f"The operating system refuses {subject} ({reason})",
        "Paths that options name must be possible, reachable and permitted",
        "Check the paths, their permissions and the disk",
    )

"""Commands start quickly: a command imports what it needs, and the help page of the program needs next to nothing."""

import os
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from blockveil import __version__
from blockveil.flows.cli import app
from blockveil.flows.cli.commands import COMMANDS, load

HEAVY = (
    "dask", "distributed", "matplotlib", "numpy", "prefect", "pyarrow", "pydantic", "scipy", "sqlalchemy",
    "zarr",
)  # fmt: skip
SCRIPT = """
import sys
from blockveil.flows.cli import main
sys.argv = ["blockveil", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    if end.code:
        raise
print()
print(*sorted(name for name in {heavy!r} if name in sys.modules))
"""


def imported_by(*words):
    """Large packages that a call of the command line imports."""
    script = SCRIPT.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_help_page_of_the_program_imports_no_large_package():
    assert imported_by("--help") == set()


def test_the_module_runs_as_the_command_does():
    done = subprocess.run([sys.executable, "-m", "blockveil", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"blockveil {__version__}\n"


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("serve", set()),
        ("public step", set()),
        ("public directions", set()),
        ("audit", {"numpy", "scipy"}),
        ("verify", {"numpy", "zarr"}),
        ("study mechanisms", {"numpy", "scipy"}),
        ("ledger show", {"numpy", "scipy", "sqlalchemy"}),
        ("ledger grant", {"numpy", "scipy", "sqlalchemy", "zarr"}),
        ("plan", {"numpy", "scipy", "sqlalchemy", "zarr"}),
        ("run", {"numpy", "scipy", "sqlalchemy", "zarr"}),
    ],
)
def test_a_command_imports_no_more_than_it_needs_to_show_its_help(command, needed):
    assert imported_by(*command.split(), "--help") <= needed | {
        "pydantic"
    }  # Typer itself imports it, if only its version


@pytest.mark.parametrize("words", [("init",), ("plan",), ("verify",), ("ledger", "prove"), ("ledger", "grant")])
def test_help_breaks_its_lines_where_the_terminal_does(words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).stdout
    command = load(words[0]) if len(words) == 1 else load(words[0]).commands[words[1]]
    for paragraph in command.help.split("\n\n"):
        assert paragraph in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_page_says_of_a_command_what_the_command_says_of_itself(name):
    own = load(name).help.split("\n\n")[0].replace("\n", " ")
    assert COMMANDS[name].help == own


def test_at_most_14_commands_are_at_the_top_each_under_one_of_five_headings():
    headings = [listed.heading for listed in COMMANDS.values()]
    assert len(headings) <= 14
    assert list(dict.fromkeys(headings)) == ["Begin", "Every night", "Read", "Check", "Operate"]
    shown = CliRunner().invoke(app, ["--help"]).output
    for heading, below in zip(dict.fromkeys(headings), re.split("╭─ ", shown)[2:], strict=True):
        assert below.startswith(heading)
        assert re.findall(r"(?m)^│ (\w+)", below) == [
            name for name, listed in COMMANDS.items() if listed.heading == heading
        ]


def test_every_command_is_listed_and_a_wrong_name_is_refused_with_its_neighbours():
    listed = typer.main.get_group(app)
    assert list(listed.commands) == list(COMMANDS)
    refused = CliRunner().invoke(app, ["plam"])
    assert refused.exit_code == 2
    assert "plan" in refused.output


@pytest.mark.parametrize(
    "words", [["ledger", "show"], ["study", "r1smg"], ["public", "shape-of-list"], ["ledger", "admin", "void"]]
)
def test_commands_of_groups_show_their_own_help(words):
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert f"Usage: root {' '.join(words)}" in shown.output


def test_the_version_is_that_of_the_installed_package_and_is_shown_without_a_large_package():
    assert CliRunner().invoke(app, ["--version"]).output == f"blockveil {__version__}\n"
    assert imported_by("--version") == set()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("pl", {"plan"}), ("ledger sh", {"show"}), ("public bounds dr", {"draft"}), ("plan --dat", {"--date"})],
)
def test_a_shell_completes_commands_those_of_groups_and_options(typed, offered):
    line = f"blockveil {typed}"
    asked = {"_BLOCKVEIL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    command = [sys.executable, "-c", "from blockveil.flows.cli import app; app(prog_name='blockveil')"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize(
    ("modules", "late"),
    [
        ("service.automations, blockveil.flows.service.child", ("scipy.integrate", "scipy.optimize", "scipy.stats")),
        ("runs.conductor", ("distributed",)),
    ],
)
def test_a_service_and_the_process_of_a_run_start_without_what_draws_and_what_audits_and_a_cluster(modules, late):
    """Together they are a quarter of what such a process would import."""
    late = ("matplotlib", *late)
    script = f"import sys, blockveil.flows.{modules}\n"
    script += f"print([name for name in {late} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_system_without_locks_of_files_is_refused_in_words():
    blocked = "import sys; sys.modules['fcntl'] = None; import blockveil"
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: Blockveil needs locks and modes of files" in done.stderr

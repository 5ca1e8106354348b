"""The tutorial is followed as written: its programs run, and its commands print what it shows."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
NOTEBOOK = Path(__file__).parents[1] / "docs" / "first-release.ipynb"
BLOCKS = re.findall(r"(?s)```(python|toml|console)\n(.*?)```", PAGE)
COMMAND = re.compile(r"(?m)^\$ blockveil (.*)\n")


def spaced(text: str) -> str:
    return " ".join(text.split())


def shows(wanted: str, printed: str) -> bool:
    """Whether a page shows what was printed, with dots for what it leaves out."""
    parts = [re.escape(spaced(part)) for part in wanted.split("...")]
    return re.fullmatch(r"\s?.*\s?".join(parts), spaced(printed)) is not None


@pytest.mark.slow
def test_the_tutorial_works_as_written_and_takes_nine_decisions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = []
    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(text, "tutorial", "exec"), names)
        elif kind == "toml":
            Path(text.split("\n")[0].removeprefix("# ")).write_text(text)
            assert [int(number) for number in re.findall(r"# (\d+)\.", text)] == list(range(1, 10))
        else:
            words = COMMAND.split(text)[1:]
            for command, wanted in zip(words[::2], words[1::2], strict=True):
                done = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
                assert done.exit_code == 0, done.output
                assert shows(wanted, done.stdout), (command, done.stdout)
                ran.append(command.split()[0])
    assert ran == ["init", "plan", "ledger", "ingest", "run", "verify", "ledger"]


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            *statements, last = ast.parse(text).body
            exec(compile(ast.Module(statements, []), "notebook", "exec"), names)
            if isinstance(last, ast.Expr):
                shown = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
                assert shown._repr_html_()
            else:
                exec(compile(ast.Module([last], []), "notebook", "exec"), names)
    slopes = names["release"].regress("minutes", ["age", "urgent"])  # type: ignore[attr-defined]
    assert "age" in str(slopes)


def test_a_page_that_shows_something_else_is_found():
    assert shows("Budget ... epsilon 3\n...", "Budget   epsilon 3\nSpent 0 %")
    assert not shows("Budget ... epsilon 4\n...", "Budget   epsilon 3\nSpent 0 %")

"""The page on accuracy shows what the command prints."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.accuracy.population import Supposed
from blockveil.pipeline.accuracy.rehearsal import MOST_FEATURES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "good-enough.md").read_text()
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("blockveil plan")]


def shown(command, folder):
    """What a command of the page prints; pages are written into a folder of the test."""
    words = re.findall(r'"[^"]*"|\S+', command)[1:]
    words = [word.strip('"').replace("plan.html", str(folder / "plan.html")) for word in words]
    found = CliRunner().invoke(app, [*words, "--date", "2026-11-20"])
    assert found.exception is None, found.output
    return found.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(tmp_path, monkeypatch, command):
    monkeypatch.chdir(ROOT)
    assert "Known to" in shown(command, tmp_path)
    assert (tmp_path / "plan.html").exists() == ("--html" in command)


def test_every_line_that_the_page_quotes_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    printed = {line.rstrip() for command in COMMANDS[:2] for line in shown(command, tmp_path).splitlines()}
    quoted = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("blockveil")]
    assert len(quoted) > 4
    assert [line for line in quoted if line not in printed] == []


def test_the_page_states_what_is_supposed_and_how_wide_a_preview_is():
    usual = Supposed()
    assert usual.spread == pytest.approx(1 / 6)
    assert "a sixth of their width" in PAGE
    assert f"correlate by {usual.correlation:g}" in " ".join(PAGE.split())
    assert f"more than {MOST_FEATURES} features" in PAGE

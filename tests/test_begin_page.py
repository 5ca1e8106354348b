"""The page on how to begin is followed as written: its program, its file of answers and its commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.scaffold.interview import DECISIONS

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "begin.md").read_text()
COMMANDS = re.findall(r"(?m)^blockveil (.*)$", PAGE)
NOT_ASKED_HERE = {"names", "ways", "directions", "target", "examples"}


def block(kind: str, number: int = 0) -> str:
    return str(re.findall(rf"(?s)```{kind}\n(.*?)```", PAGE)[number])


def blockveil(command: str, *more: str) -> str:
    done = CliRunner().invoke(app, [*command.split(), *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_lists_every_question_in_its_order():
    asked = [decision.text for decision in DECISIONS if decision.key not in NOT_ASKED_HERE]
    listed = re.findall(r"(?m)^\| ([^|]+\?) \|", PAGE)
    assert len(listed) == len(asked)
    assert all(text.startswith(shown) for shown, text in zip(listed, asked, strict=True))


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "page", "exec"), {})
    Path("answers.toml").write_text(block("toml"))
    shown = blockveil(COMMANDS[-1])
    wanted = COMMANDS[1:7]
    assert [line.split("#")[0].split()[1:] for line in shown.splitlines() if line.strip().startswith("blockveil ")] == [
        command.split() for command in wanted
    ]
    for command in wanted[:3]:
        blockveil(command)
    blockveil(wanted[3])
    blockveil(wanted[4])
    assert len(list(Path("visits/releases").rglob("*.zarr"))) == 1


def test_the_answers_for_rows_that_are_each_somebody_are_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("patient,day,ward,age,minutes,urgent\n")
    of_a_person = ("source", "unit", "rows_per_unit")  # and unit_column, unit_type
    rest = [line for line in block("toml").splitlines() if not line.startswith(of_a_person)]
    Path("answers.toml").write_text("\n".join([block("toml", 1), *rest]))
    blockveil(COMMANDS[-1])
    assert 'neighbours = "add-remove"' in Path("visits/release.toml").read_text()


@pytest.mark.parametrize("name", ["ingest.toml", "release.toml", "deployments.toml"])
def test_the_page_names_the_files_that_are_written(name):
    assert f"`{name}`" in PAGE

"""The catalogue is listed and explained, and agrees with what a config may name."""

from typing import get_args

import pytest
from typer.testing import CliRunner

from blockveil.engine.mechanisms.catalogue import ENTRIES, find
from blockveil.engine.mechanisms.contract import Status
from blockveil.flows.cli import app
from blockveil.pipeline.config import mechanism_sections as declared

RUN = CliRunner()


def config_names():
    union = get_args(declared.Mechanism)[0]
    return {get_args(kind.model_fields["kind"].annotation)[0] for kind in get_args(union)}


def test_the_list_names_every_mechanism_with_its_status():
    shown = RUN.invoke(app, ["study", "mechanisms"])
    assert shown.exit_code == 0
    for entry in ENTRIES:
        line = next(line for line in shown.stdout.splitlines() if line.split()[:1] == [entry.name])
        assert entry.status.value in line


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_mechanism_is_explained(entry):
    shown = RUN.invoke(app, ["study", "mechanisms", entry.name]).stdout
    assert entry.theorem
    for part in (entry.title, entry.source, entry.theorem, entry.needs, entry.loss, entry.error, entry.finding):
        assert part in shown
    assert all(relation.value in shown for relation in entry.relations)
    (queries,) = (line for line in shown.splitlines() if line.startswith("Queries "))
    assert ("none: no config can name it" in queries) == (entry.use == "study")


def test_auto_is_explained_by_what_it_compares_and_leaves_out():
    lines = {line.split("  ")[0]: line for line in RUN.invoke(app, ["study", "mechanisms", "auto"]).stdout.splitlines()}
    compared = {entry.name for entry in ENTRIES if entry.use == "release" and entry.name in lines["Compared"]}
    left_out = {entry.name for entry in ENTRIES if entry.use == "release"} - compared
    assert left_out == {"dawa"}
    assert "dawa" in lines["Left out"]


def test_a_config_may_name_exactly_the_releasing_mechanisms_and_auto():
    assert config_names() == {entry.name for entry in ENTRIES if entry.use == "release"} | {"auto"}


def test_no_mechanism_that_is_not_private_can_be_named_by_a_config():
    assert all(entry.use != "release" for entry in ENTRIES if entry.status is Status.NOT_PRIVATE)
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert find("no such mechanism") is None

"""A declared list of which a source holds no value stops the ingest, and only the person at a terminal learns why."""

from __future__ import annotations

import os
import pickle
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from blockveil.pipeline.base.errors import DataError, ForOperator
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.data.ingest import ingest_run

CONFIG = """
[ingest]
store = "records.zarr"
append = {append}
{late}

[source]
kind = "csv"
files = ["*.csv"]

[unit]
{unit}

[[columns]]
name = "dollars"
kind = "category"
categories = {categories}
encode = "one-hot"
unknown = "zeros"
missing = "unknown"

[[columns]]
name = "age"
kind = "number"
missing = "drop"
"""
ROW = 'kind = "row"\nname = "one visit"'
CHOSEN = 'kind = "choose"\nname = "one person"\ncolumn = "person"\ntype = "whole"\n'
CHOSEN += 'missing = "drop"\nseed = "s"\nrows_at_most = 2'


@pytest.fixture
def made(tmp_path):
    def write(categories: str = '["0 to 150", "000"]', unit: str = ROW, append: str = "false") -> Path:
        (tmp_path / "visits.csv").write_text("person,dollars,age\n1,12.5,40\n2,,50\n3,99.0,60\n")
        config, late = tmp_path / "ingest.toml", 'late = "next"' if append == "true" else ""
        config.write_text(CONFIG.format(categories=categories, unit=unit, append=append, late=late))
        return config

    return write


def ingest(config: Path) -> None:
    ingest_run.ingest(ingest_run.look(load_ingest(config)), lambda *_: None)


@pytest.mark.parametrize("unit", [ROW, CHOSEN])
@pytest.mark.parametrize("append", ["true", "false"])
def test_a_list_of_which_no_value_is_there_stops_the_ingest_and_no_store_is_made(made, unit, append):
    config = made(unit=unit, append=append)
    with pytest.raises(ForOperator) as refused:
        ingest(config)
    assert 'No value of column "dollars"' in refused.value.at_terminal
    assert not (config.parent / "records.zarr").exists()


@pytest.mark.parametrize("unit", [ROW, CHOSEN])
def test_one_value_of_the_list_is_enough_and_columns_do_not_stand_for_one_another(made, unit):
    ingest(made('["12.5", "000"]', unit))


def test_nothing_but_a_terminal_learns_what_was_not_matched(made):
    with pytest.raises(ForOperator) as refused:
        ingest(made())
    error = refused.value
    for shown in (str(error), repr(error), error.in_full, str(error.args)):
        assert "dollars" not in shown
        assert "list" not in shown
    again = pickle.loads(pickle.dumps(error))
    assert again.at_terminal == error.at_terminal


def test_a_command_says_it_at_a_terminal_and_not_into_a_pipe(made):
    words = [sys.executable, "-m", "blockveil.flows.cli", "ingest", str(made())]
    words = [sys.executable, "-c", "from blockveil.flows.cli import main; main()", *words[3:]]
    piped = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert piped.returncode == DataError.exit_code
    assert "dollars" not in piped.stderr + piped.stdout
    assert "at a terminal" in piped.stderr
    leader, follower = pty.openpty()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=follower, timeout=120)
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.returncode == DataError.exit_code
    assert "No value of column" in shown


def test_what_an_append_adds_may_hold_no_value_of_a_list(made):
    config = made('["12.5", "000"]', append="true")
    ingest(config)
    (config.parent / "wards.csv").write_text("person,dollars,age\n7,1.5,40\n")
    ingest(config)

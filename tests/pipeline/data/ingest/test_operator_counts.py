"""How many rows were read and left out is shown to a person at a terminal, and to nobody else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockveil.flows.cli import main
from blockveil.pipeline.config.ingest_file import LoadedIngest
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

SENTENCE = "read 500 rows, left out 20 for their own values"


def gaps(folder: Path, unit: str = people.CHOOSE.format(most=4), **keys: object) -> LoadedIngest:
    table = people.visits()
    cost = [None if row % 25 == 0 else value for row, value in enumerate(table["cost"].to_pylist())]
    people.write_parquet(folder, table.set_column(1, "cost", pa.array(cost)))
    return people.configure(folder, [{**people.NUMBER, "missing": "drop"}], unit=unit, **keys)


def rows_of_people() -> np.ndarray:
    person = people.visits()["person"].to_numpy()[np.arange(500) % 25 != 0]
    return np.unique(person, return_counts=True)[1]


@pytest.mark.parametrize("most", [1, 4, 100])
def test_rows_units_and_those_over_their_bound_are_counted(tmp_path, most):
    source = look(gaps(tmp_path, people.CHOOSE.format(most=most)))
    ingest(source, lambda *_: None)
    each = rows_of_people()
    found = source.counts
    assert (found.read, found.fit) == (500, 480)
    assert (found.units, found.over) == (each.size, np.count_nonzero(each > most))
    assert found.stored == np.minimum(each, most).sum() == len(people.stored(tmp_path))


@pytest.mark.parametrize("unit", [people.ROW, people.TOGETHER.format(by="mean")])
def test_rows_and_averages_are_counted_too(tmp_path, unit):
    source = look(gaps(tmp_path, unit))
    ingest(source, lambda *_: None)
    people_there = rows_of_people().size if "aggregate" in unit else 0
    assert (source.counts.units, source.counts.over) == (people_there, 0)
    assert source.counts.stored == (people_there or 480)


def test_the_counts_do_not_show_where_the_source_is_printed(tmp_path):
    source = look(gaps(tmp_path))
    before = repr(source)
    ingest(source, lambda *_: None)
    assert source.counts.stored
    assert repr(source) == before


@pytest.mark.parametrize("night", [0, 1])
def test_a_terminal_alone_shows_how_many_files_were_new(tmp_path, monkeypatch, capsys, night):
    for number in range(2 + night):
        grown.put(tmp_path, number)
        if number == 1:
            ingest(look(grown.configure(tmp_path)), lambda *_: None)
    loaded = grown.configure(tmp_path)
    command = ["blockveil", "ingest", str(loaded.path)]
    for terminal in (False, True):
        monkeypatch.setattr(sys, "argv", command if terminal else [*command, "--json"])
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        with suppress(SystemExit):
            main()
        shown = capsys.readouterr()
        assert ("new files" in shown.err) == terminal
        assert "new files" not in shown.out
        if terminal:
            assert "new files 0, files in the store already" in shown.err


def test_a_terminal_shows_them_and_a_pipe_does_not(tmp_path):
    loaded = gaps(tmp_path)
    command = [sys.executable, "-c", "from blockveil.flows.cli import main; main()", "ingest", str(loaded.path)]
    ours, theirs = pty.openpty()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = os.read(ours, 2**16).decode()
    os.close(ours)
    assert SENTENCE in shown
    assert "kept nowhere" in shown
    assert "500" not in done.stdout
    subprocess.run(["rm", "-r", str(tmp_path / "out.zarr")], check=True)
    piped = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "500" not in piped.stdout + piped.stderr
    assert "rows" not in piped.stderr

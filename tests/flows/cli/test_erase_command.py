"""``blockveil service erase``: units come from a file, and no output that is kept says what was there."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import DataError
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people


@pytest.fixture
def config(tmp_path):
    """A store of one day."""
    grown.put(tmp_path, 0)
    loaded = grown.configure(tmp_path)
    people.run(loaded)
    return loaded.path


def erase(*words, **keys):
    return CliRunner().invoke(app, ["service", "erase", *map(str, words)], **keys)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_units_of_a_file_are_erased_and_no_number_is_printed_where_nobody_looks(config, ending):
    folder = config.parent
    before = grown.records(folder)
    (folder / "units.txt").write_bytes(ending.join(["3", "17", "", "9999"]).encode())
    found = erase(config, folder / "units.txt")
    assert found.exit_code == 0, found.output
    left = before[~np.isin(before[:, 0], [3, 17])]
    assert len(left) < len(before)
    assert grown.records(folder).tobytes() == left.tobytes()
    assert not any(character.isdigit() for character in found.output)
    assert "Copies elsewhere are untouched" in " ".join(found.output.split())


def test_units_are_read_from_standard_input_and_the_answer_is_json(config):
    found = erase(config, "-", "--json", input="3\n")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["store"].endswith("out.zarr")
    assert 3 not in grown.records(config.parent)[:, 0]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "names no unit"), (b"\n\n", "names no unit"), (b"\xff", "is not UTF-8"), (None, "No such")],
)
def test_a_file_that_names_nobody_is_refused(config, content, said):
    units = config.parent / "units.txt"
    if content is not None:
        units.write_bytes(content)
    before = grown.content(config.parent)
    found = erase(config, units)
    assert isinstance(found.exception, DataError)
    assert said in str(found.exception)
    assert grown.content(config.parent) == before


def test_python_erases_by_the_same_rules_and_returns_the_store_alone(config):
    assert bv.erase(config, [3, "17"]) == config.parent / "out.zarr"
    assert not np.isin(grown.records(config.parent)[:, 0], [3, 17]).any()
    with pytest.raises(DataError, match="Identifier 1 of those to erase"):
        bv.erase(config, ["three"])

"""A plan looks at what a store says of its records, refuses what a run would refuse, and looks at nothing else."""

import json
from datetime import date

import numpy as np
import pytest
from typer.testing import CliRunner
from zarr.storage import ObjectStore

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import BlockveilError, DataError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.preview import look
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support, warm
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.test_contract import RELEASE
from tests.pipeline.data.test_objects import SECRET, bucket, pointed, server, upload  # noqa: F401 - fixtures

NIGHT = date(2026, 11, 20)
METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}


def configured(folder, unit="one person", features=("cost", "stay"), more="", part=None):
    named = ", ".join(f'{{name = "{name}", lower = 0, upper = 1}}' for name in features)
    text = RELEASE.format(unit=unit, neighbours="add-remove", kind="covariance", features=named, more=more)
    text = text if part is None else text.replace('store = "out.zarr"', f'store = "out.zarr", partition_by = "{part}"')
    (folder / "release.toml").write_text(text)
    return load_config(folder / "release.toml")


def ingested(folder, **keys):
    people.write_parquet(folder, people.visits())
    people.run(people.configure(folder, people.COLUMNS[:2], unit=people.CHOOSE.format(most=2), **keys))


def refusal_of(call, loaded):
    try:
        call(loaded)
    except BlockveilError as error:
        return type(error), error.value
    return None


WRONG = {
    "too few rows a unit": {"more": ""},
    "another unit": {"unit": "one visit", "more": ", rows_per_unit = 2"},
    "columns in another order": {"features": ("stay", "cost"), "more": ", rows_per_unit = 2"},
    "too few columns": {"features": ("cost",), "more": ", rows_per_unit = 2"},
    "a part that the store does not hold": {"part": "ward"},
}


@pytest.mark.parametrize("layout", ["rows", "entries"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_plan_refuses_what_a_run_refuses_and_in_the_same_words(tmp_path, wrong, layout):
    ingested(tmp_path, layout=layout)
    loaded = configured(tmp_path, **WRONG[wrong])
    make_plan(loaded, NIGHT)  # nothing is wrong with it but the store
    found = refusal_of(look, loaded)
    assert found is not None
    assert found == refusal_of(open_records, loaded)
    shown = CliRunner().invoke(app, ["plan", str(loaded.path)])
    assert (shown.exception.exit_code, shown.exception.value) == (4, found[1])
    good = configured(tmp_path, more=", rows_per_unit = 2")
    assert refusal_of(look, good) is refusal_of(open_records, good) is None


@pytest.mark.parametrize("values", [np.zeros((2, 3), bool), np.zeros(3), np.zeros((2, 3), complex)])
def test_a_store_of_another_type_or_form_is_refused(tmp_path, values):
    loaded = load_config(support.write_config(tmp_path))
    support.write_records(tmp_path, values)
    assert refusal_of(look, loaded) == refusal_of(open_records, loaded)
    assert refusal_of(look, loaded)[0] is DataError


def test_rows_of_a_unit_that_no_ingest_bounded_are_refused(tmp_path):
    loaded = support.prepare(tmp_path)
    text = loaded.path.read_text().replace("delta = 1e-6", "delta = 1e-6\nrows_per_unit = 2")
    loaded.path.write_text(text)
    with pytest.raises(DataError, match="with records that were not ingested"):
        look(load_config(loaded.path))


def test_a_damaged_contract_is_refused_as_the_store_is_there(tmp_path):
    ingested(tmp_path)
    metadata = tmp_path / "out.zarr" / "records" / "zarr.json"
    fields = json.loads(metadata.read_bytes())
    fields["attributes"]["blockveil ingest"]["by"] = "somehow"
    metadata.write_text(json.dumps(fields))
    with pytest.raises(StoreError, match="cannot be read"):
        look(configured(tmp_path, more=", rows_per_unit = 2"))


def test_a_plan_says_how_rows_were_bounded_and_its_public_description_does_not_change(tmp_path):
    loaded = configured(tmp_path, more=", rows_per_unit = 2")
    without = CliRunner().invoke(app, ["plan", str(loaded.path), "--date", "2026-11-20", "--json"]).output
    absent = CliRunner().invoke(app, ["plan", str(loaded.path), "--date", "2026-11-20"])
    assert absent.exit_code == 0
    (line,) = [line for line in absent.output.splitlines() if line.startswith("Records")]
    assert 'data.store "out.zarr" is not there: what the records were ingested for is checked when the release' in line
    ingested(tmp_path)
    assert CliRunner().invoke(app, ["plan", str(loaded.path), "--date", "2026-11-20", "--json"]).output == without
    there = CliRunner().invoke(app, ["plan", str(loaded.path), "--date", "2026-11-20"]).output
    assert "The ingest kept at most 2 rows of each unit" in there


def test_stores_of_different_numbers_of_records_give_the_same_bytes(tmp_path):
    outputs = set()
    for rows in (300, 900):
        folder = tmp_path / str(rows)
        folder.mkdir()
        people.write_parquet(folder, people.visits(rows=rows))
        people.run(people.configure(folder, people.COLUMNS[:2], unit=people.CHOOSE.format(most=2)))
        path = configured(folder, more=", rows_per_unit = 2").path
        for more in ((), ("--json",)):
            shown = CliRunner().invoke(app, ["plan", str(path), "--date", "2026-11-20", *more])
            assert shown.exit_code == 0
            outputs.add((more, shown.output.replace(str(folder), "")))
    assert len(outputs) == 2


LOOK = """
import sys
seen = []
def note(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and "{store}" in str(arguments[0]):
        seen.append((event, str(arguments[0])))
sys.addaudithook(note)
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.preview import look
assert look(load_config("{config}")).there
print(*(f"{{event}} {{path.rsplit('/', 1)[1]}}" for event, path in seen), sep="\\n")
"""


@pytest.mark.parametrize("layout", ["rows", "entries"])
def test_nothing_but_metadata_is_opened_and_nothing_is_listed(tmp_path, layout):
    ingested(tmp_path, layout=layout)
    loaded = configured(tmp_path, more=", rows_per_unit = 2")
    program = LOOK.format(store=tmp_path / "out.zarr", config=loaded.path)
    shown = warm.run(program)
    opened = {tuple(line.split(" ")) for line in shown.stdout.splitlines()}
    assert ("open", "zarr.json") in opened
    assert opened <= {("open", name) for name in METADATA}
    # And without any chunk it finds the same.
    for chunk in (tmp_path / "out.zarr").rglob("c/**/*"):
        if chunk.is_file():
            chunk.unlink()
    assert look(loaded).there
    with pytest.raises(DataError, match="a chunk is missing"):
        open_records(loaded)


def test_of_a_bucket_too_nothing_but_metadata_is_asked_for(tmp_path, bucket, monkeypatch):  # noqa: F811
    loaded = support.prepare(tmp_path)
    upload(bucket, tmp_path / "records.zarr", "records.zarr")
    far, asked = pointed(loaded, f"{bucket}/records.zarr"), []

    def spy(owner, name, key):
        real = getattr(owner, name)

        def noted(*args, **kwargs):
            asked.append((name, str(key(args)).rsplit("/", 1)[-1]))
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, noted)

    for name in ("get", "exists"):
        spy(ObjectStore, name, lambda args: args[1])
    for name in ("list", "list_dir", "list_prefix", "getsize", "getsize_prefix", "get_partial_values"):
        spy(ObjectStore, name, lambda args: "forbidden")
    spy(objects, "looked_up", lambda args: args[1])
    spy(objects, "listed", lambda args: "forbidden")
    spy(objects, "read_range", lambda args: args[1].path)
    assert look(far).there
    assert "get" in {name for name, _ in asked}
    assert {path for _, path in asked} <= METADATA


def test_a_bucket_that_cannot_be_reached_is_said_in_one_line_without_its_secret(tmp_path, monkeypatch):
    loaded = support.prepare(tmp_path)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(app, ["plan", str(pointed(loaded, "s3://nobody/records.zarr").path)])
    assert shown.exit_code == 0
    (line,) = [line for line in shown.output.splitlines() if line.startswith("Records")]
    assert "does not answer as it should" in line
    assert SECRET not in shown.output

"""A release over an ingested store must promise what the ingest made true."""

from __future__ import annotations

import json

import pytest

from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from tests.pipeline.data.ingest import ingest_support as people

RELEASE = """
release = {{dataset = "people", name = "costs"}}
data = {{store = "out.zarr"}}
privacy = {{epsilon = 1, delta = 1e-9, neighbours = "{neighbours}", unit = "{unit}"{more}}}
mechanism = {{kind = "gaussian"}}
output = {{root = "out", ledger = "ledger.db", keys = "keys"}}
[query]
kind = "{kind}"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [{features}]
"""

FEATURES = ("cost", "stay")


def opened(folder, unit="one person", neighbours="add-remove", kind="covariance", features=FEATURES, more=""):
    named = ", ".join(f'{{name = "{name}", lower = 0, upper = 1}}' for name in features)
    path = folder / "release.toml"
    path.write_text(RELEASE.format(unit=unit, neighbours=neighbours, kind=kind, features=named, more=more))
    return open_records(load_config(path))


def ingested(folder, unit, **column):
    people.write_parquet(folder, people.visits())
    columns = [{**people.NUMBER, **column}, people.COLUMNS[1]]
    return people.run(people.configure(folder, columns, unit=unit))


def chosen(most=1):
    return people.CHOOSE.format(most=most).replace('"drop"', '"refuse"')


def test_a_release_for_the_same_unit_is_served(tmp_path):
    ingested(tmp_path, chosen())
    assert opened(tmp_path).features == 2
    assert opened(tmp_path, neighbours="replace-one").features == 2


def test_another_unit_is_refused(tmp_path):
    ingested(tmp_path, chosen())
    with pytest.raises(DataError, match=r'ingested for the unit "one person" and privacy\.unit is "one visit"'):
        opened(tmp_path, unit="one visit")


def test_other_columns_or_another_order_are_refused(tmp_path):
    ingested(tmp_path, chosen())
    with pytest.raises(DataError, match='Column 1 of the records is "cost" and query declares "stay"'):
        opened(tmp_path, features=("stay", "cost"))


def test_replace_one_is_refused_where_records_may_have_been_dropped(tmp_path):
    ingested(tmp_path, chosen(), missing="drop")
    assert opened(tmp_path).features == 2
    with pytest.raises(DataError, match="a dropped record would show in it"):
        opened(tmp_path, neighbours="replace-one")


def test_rows_in_the_order_of_units_are_not_released_as_rows(tmp_path):
    ingested(tmp_path, chosen())
    with pytest.raises(DataError, match="who else is in the data"):
        opened(tmp_path, neighbours="replace-one", kind="rows")


ORIGIN = {"first": "cost", "count": 1, "kind": "onnx", "author": "a", "fitted_on": "nothing"}


@pytest.mark.parametrize(
    "damage",
    [
        {"rows_per_unit": "1"},
        {"rows_per_unit": 0},
        {"unit": None},
        {"more": 1},
        {"columns": ["cost"]},
        {"maps": 3},
        {"maps": [{"first": "cost"}]},
        {"maps": [ORIGIN | {"count": "1"}]},
        {"maps": [ORIGIN | {"author": 1}]},
        None,
    ],
)
def test_a_damaged_contract_is_refused(tmp_path, damage):
    ingested(tmp_path, chosen())
    metadata = tmp_path / "out.zarr" / "records" / "zarr.json"
    fields = json.loads(metadata.read_bytes())
    contract = fields["attributes"]["blockveil ingest"]
    fields["attributes"]["blockveil ingest"] = {**contract, **damage} if damage else "nothing"
    metadata.write_text(json.dumps(fields))
    with pytest.raises(StoreError, match="Ingest the records again"):
        opened(tmp_path)


@pytest.mark.parametrize("made", [None, 0, "1.0", 2])
def test_a_store_of_another_format_is_refused_and_says_what_to_do(tmp_path, made):
    ingested(tmp_path, chosen())
    metadata = tmp_path / "out.zarr" / "records" / "zarr.json"
    fields = json.loads(metadata.read_bytes())
    contract = fields["attributes"]["blockveil ingest"] | {"format": made}
    fields["attributes"]["blockveil ingest"] = {name: value for name, value in contract.items() if value is not None}
    metadata.write_text(json.dumps(fields))
    with pytest.raises(StoreError, match="another format") as caught:
        opened(tmp_path)
    assert "Finish its nights with the version that ingested them" in caught.value.remedy

"""Other programs get the numbers that were published, bit for bit, with their noise and the promise."""

from __future__ import annotations

import builtins
import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.analysis import export as exporting
from blockveil.pipeline.analysis.export import export
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.plan.planning import make_plan
from tests.house import support
from tests.pipeline.questions import test_queries as queries

RESULTS = {"mean": ("feature",), "covariance": ("feature", "feature_"), "count": ()}


def bits(values):
    return np.ascontiguousarray(values).tobytes()


def table_of(folder, name, form):
    """A table as pandas has it, all digits of each number."""
    if form == "parquet":
        return parquet.read_table(folder / f"{name}.parquet").to_pandas()
    return arrow_csv.read_csv(folder / f"{name}.csv").to_pandas()


@pytest.mark.parametrize("slab", [3, exporting.SLAB])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_table_holds_the_numbers_their_noise_and_the_names_of_their_features(
    known, tmp_path, monkeypatch, form, slab
):
    monkeypatch.setattr(exporting, "SLAB", slab)
    release, folder = known.release, tmp_path / "tables"
    files = release.export(folder, form)
    assert sorted(file.name for file in files if file.suffix != ".json") == sorted(
        f"{name}.{form}" for name in exporting._results(release.opened)
    )
    for name, axes in RESULTS.items():
        table = table_of(folder, name, form)
        assert list(table.columns) == [*axes, "value", "standard_deviation"]
        assert bits(table["value"]) == bits(release.array(name).ravel())
        assert bits(table["standard_deviation"]) == bits(release.array(f"{name}_standard_deviation").ravel())
        pairs = np.meshgrid(*([np.array(release.features, object)] * len(axes)), indexing="ij")
        for axis, labels in zip(axes, pairs, strict=True):
            assert list(table[axis]) == list(labels.ravel())


def test_the_promise_is_in_the_metadata_of_each_file(known, tmp_path):
    release = known.release
    known.release.export(tmp_path / "p", "parquet")
    known.release.export(tmp_path / "c", "csv")
    release.export(tmp_path / "all.nc", "netcdf")
    for file in (tmp_path / "p").iterdir():
        stated = {name.decode(): text.decode() for name, text in parquet.read_schema(file).metadata.items()}
        assert stated["guarantee"] == release.guarantee.sentence
        assert json.loads(stated["blockveil"]) == release.attributes
        assert stated["output_digest"] == release.attributes["output_digest"]
    for file in (tmp_path / "c").glob("*.csv"):
        stated = json.loads(file.with_name(f"{file.name}-metadata.json").read_text())
        assert stated["url"] == file.name
        assert stated["dc:description"] == release.guarantee.sentence
        assert stated["notes"] == [release.attributes]
        with file.open(newline="") as lines:
            assert next(csv.reader(lines)) == [column["titles"] for column in stated["tableSchema"]["columns"]]
    with xarray.open_dataset(tmp_path / "all.nc", engine="h5netcdf") as found:
        assert found.attrs["guarantee"] == release.guarantee.sentence
        assert json.loads(found.attrs["blockveil"]) == release.attributes


@pytest.mark.parametrize("slab", [3, exporting.SLAB])
def test_a_netcdf_file_is_the_whole_release_with_names_on_every_axis(known, tmp_path, monkeypatch, slab):
    monkeypatch.setattr(exporting, "SLAB", slab)
    release = known.release
    assert release.export(tmp_path / "all.nc", "netcdf") == [tmp_path / "all.nc"]
    with xarray.open_dataset(tmp_path / "all.nc", engine="h5netcdf") as found:
        ours = release.to_xarray()
        assert set(found.variables) == set(ours.variables)
        for name, array in ours.variables.items():
            assert found[name].dims == array.dims
            if array.dtype.kind == "f":
                assert bits(found[name].values) == bits(array.values)
            else:
                assert list(found[name].values) == list(array.values)
        cell = found["covariance"].sel(feature="height", feature_="weight")
        assert float(cell) == release.covariance.loc["height", "weight"]
        assert found["covariance"].attrs["ancillary_variables"] == "covariance_standard_deviation"


FORMULAS = ["=HYPERLINK(1)", "@SUM(1)", "+1+cmd", "-1+2", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff201"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_a_csv_file_is_a_formula(formula, tmp_path, monkeypatch):
    names = [formula, "-5", "2.5e-3", "age", "a=b"]
    arrays = {"ward": np.array(names, dtype=object), "count": np.arange(5.0)}
    stated = {"sentence": "s", "epsilon": 1.0, "delta": 0.0, "neighbours": "add-remove", "privacy_unit": "one person"}
    release = OpenRelease(
        Path(),
        arrays | {"by": np.zeros((1, 1))},
        {"ward": ("ward",), "count": ("ward",), "by": (formula, "x")},
        {"guarantee": {**stated, "loss": {}}, "output_digest": "0", "title": "t"},
    )
    monkeypatch.setattr(exporting, "plain_words", lambda stated: "w")
    for file in export(release, tmp_path / "csv", "csv"):
        if file.suffix == ".csv":
            with file.open(newline="") as lines:
                cells = [cell for line in csv.reader(lines) for cell in line]
            assert not [cell for cell in cells if cell.startswith(formula[0]) and cell not in names[1:]]
            assert f"'{formula}" in cells
    with (tmp_path / "csv" / "count.csv").open(newline="") as lines:
        assert [line[0] for line in csv.reader(lines)][2:] == names[1:]


def test_arrays_of_any_kind_and_shape_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "SLAB", 5)
    arrays = {
        "cube": np.arange(24).reshape(2, 3, 4),
        "cube_standard_deviation": np.full((1, 1, 1), 2.5),
        "flag": np.array([True, False]),
        "empty": np.zeros((0, 3)),
        "odd": np.array([np.nan, np.inf, -0.0, 5e-324]),
        "ward": np.array(["a,b", '"ü"'], dtype=object),
        "loose_standard_deviation": np.array(1.5),
    }
    dimensions = {"cube": ("ward", "x", "y"), "ward": ("ward",), "flag": ("ward",), "odd": ("z",), "empty": ("e", "x")}
    stated = {"sentence": "s", "epsilon": 1.0, "delta": 0.0, "neighbours": "add-remove", "privacy_unit": "one person"}
    release = OpenRelease(
        Path(), arrays, dimensions, {"guarantee": {**stated, "loss": {}}, "output_digest": "0", "title": "t"}
    )
    monkeypatch.setattr(exporting, "plain_words", lambda stated: "w")
    for form in ("parquet", "csv"):
        export(release, tmp_path / form, form)
        cube = table_of(tmp_path / form, "cube", form)
        assert list(cube["value"]) == list(range(24))
        assert set(cube["standard_deviation"]) == {2.5}
        assert list(cube["ward"][::12]) == ["a,b", '"ü"']
        assert list(cube["y"][:5]) == [0, 1, 2, 3, 0]
        assert bits(table_of(tmp_path / form, "odd", form)["value"])[8:] == bits(arrays["odd"])[8:]
        assert len(table_of(tmp_path / form, "empty", form)) == 0
        assert list(table_of(tmp_path / form, "loose_standard_deviation", form)["value"]) == [1.5]
    export(release, tmp_path / "all.nc", "netcdf")
    with xarray.open_dataset(tmp_path / "all.nc", engine="h5netcdf") as found:
        assert found["cube"].values.tolist() == arrays["cube"].tolist()
        assert found["flag"].values.tolist() == [1, 0]
        assert found["ward"].values.tolist() == ["a,b", '"ü"']


def test_what_exists_is_never_replaced_and_a_failure_leaves_nothing(known, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "file.nc").write_text("kept")
    for place, form in (("there", "csv"), ("file.nc", "netcdf")):
        with pytest.raises(ConfigError, match="exists"):
            known.release.export(tmp_path / place, form)
    assert (tmp_path / "file.nc").read_text() == "kept"
    with pytest.raises(ConfigError, match="no form"):
        known.release.export(tmp_path / "x", "excel")
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        known.release.export(tmp_path / "file.nc" / "x", "csv")
    monkeypatch.setattr(exporting, "_fields", lambda *_: 1 / 0)
    with pytest.raises(StoreError, match=r"cannot read \(ZeroDivisionError\)"):
        known.release.export(tmp_path / "new", "csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.nc", "there"]


def test_a_library_that_is_missing_is_named_with_its_extra(known, tmp_path, monkeypatch):
    whole = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("h5netcdf"):
            raise ModuleNotFoundError(name=name)
        return whole(name, *args, **kwargs)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(ConfigError, match=r"blockveil\[netcdf\]"):
        known.release.export(tmp_path / "x.nc", "netcdf")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_same_and_says_where(known, tmp_path):
    words = ["export", "data", str(known.release.path), "--format", "parquet", "--output", str(tmp_path / "tables")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert str(tmp_path / "tables" / "covariance.parquet") in found.output
    assert known.release.guarantee.sentence[:40] in found.output
    again = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "more"), "--json"])
    assert json.loads(again.output)["files"] == [str(path) for path in sorted((tmp_path / "more").iterdir())]
    assert isinstance(CliRunner().invoke(app, words).exception, BlockveilError)


AXES = {
    "counts": ("counts", ""),
    "ranges": ("counts", 'workload = "ranges"\n'),
    "tables": ("marginals", "ways = 2\n"),
}
RESERVED = (
    "Other",
    "standard_deviation",
    "value",
    "Value",
    "STANDARD_DEVIATION",
    "km/h",
    ".",
    "age_",
    "axis_1",
    "counts",
)


def asked_of(folder, kind, names, mechanism='kind = "auto"\nminimise = "total"'):
    query, more = AXES[kind]
    axes = ", ".join(f"{{ name = {json.dumps(name)}, edges = [0, 2, 4] }}" for name in names)
    text = f'kind = "{query}"\nrows_at_most = 500\nmissing = "refuse"\noutside = "drop"\n{more}axes = [ {axes} ]\n'
    return queries.config(folder, text, neighbours="add-remove", mechanism=mechanism)


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("name", RESERVED)
def test_an_axis_that_an_export_could_not_name_is_refused_by_the_plan(tmp_path, kind, name):
    with pytest.raises(ConfigError, match=f'"{re.escape(name)}"'):
        make_plan(asked_of(tmp_path, kind, ["other", name]), queries.NIGHT)


@pytest.mark.parametrize("kind", AXES)
def test_every_name_of_a_release_is_refused_as_that_of_an_axis_and_others_are_exported(tmp_path, kind):
    support.write_records(tmp_path, np.tile([[0.0, 1.0], [3.0, 3.0]], (100, 1)))
    loaded = asked_of(tmp_path, kind, ["mean", "Größe=1 'x' ;,"])
    support.set_budget(loaded, 40.0)
    _, outcome = queries.run(loaded)
    release = bv.open(outcome.path)
    own = {"mean", "Größe=1 'x' ;,"}
    taken = {*release.opened.arrays, *(axis for axes in release.opened.dimensions.values() for axis in axes)} - own
    for name in taken:
        with pytest.raises(ConfigError):
            make_plan(asked_of(tmp_path, kind, ["other", name]), queries.NIGHT)
    for form in ("parquet", "csv", "netcdf"):
        release.export(tmp_path / form, form)
    for file in (tmp_path / "csv").glob("*.csv"):
        with file.open(newline="") as lines:
            head = next(csv.reader(lines))
        assert len(set(head)) == len(head)
    with xarray.open_dataset(tmp_path / "netcdf", engine="h5netcdf") as found:
        assert own <= set(found.sizes)
    assert own <= set(release.to_xarray().sizes)

"""Columns that a public map makes of several: each record by itself, and only of maps that are public."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zarr

from blockveil.engine.answers.models import Activation, Model, Output
from blockveil.engine.answers.public_encoder import OnnxEncoder, UnfitEncoder
from blockveil.engine.answers.public_features import FourierFeatures, OrientedGradients
from blockveil.engine.records.geometry import Box
from blockveil.pipeline.analysis import model_files
from blockveil.pipeline.base.errors import ConfigError, DataError
from blockveil.pipeline.data.ingest.ingest_run import look
from blockveil.pipeline.data.ingest.store_contract import Contract, MapOrigin
from tests.pipeline.data.ingest import ingest_support as people

CSV = 'kind = "csv"\nfiles = ["in"]'
PUBLIC = {"author": "the statistics office", "fitted_on": "nothing", "missing": "refuse"}
FOURIER: dict[str, Any] = {
    "name": "wave", "kind": "fourier", "features": 7, "bandwidth": 0.5, "seed": "s",
    "columns": [{"name": "cost", "lower": -3, "upper": 3}, {"name": "p", "count": 2, "lower": 0, "upper": 1}], **PUBLIC,
}  # fmt: skip
EDGES: dict[str, Any] = {
    "name": "edge", "kind": "oriented-gradients", "pixels": "p", "height": 4, "width": 4, "cell": 2, "orientations": 4,
    "contrast": 0.1, **PUBLIC,
}  # fmt: skip
CROSS: dict[str, Any] = {
    "name": "both", "kind": "cross",
    "columns": [{"name": "ward", "categories": ["a", "b"]}, {"name": "shift", "categories": ["day", "night"]}],
    **PUBLIC,
}  # fmt: skip


def network(folder: Path, **changed: Any) -> dict[str, Any]:
    """A column of a network in the folder that takes two columns, and gives the probabilities of three classes."""
    weights = {"hidden": np.random.default_rng(3).normal(size=(8, 3)), "last": np.arange(27.0).reshape(3, 9) / 9}
    box = Box(-np.ones(2), np.ones(2), np.zeros(2))
    content = model_files.onnx(Model.at(Output.SOFTMAX, Activation.TANH, weights), box, (0.0, 2.0), {})
    folder.mkdir(exist_ok=True)
    (folder / "net.onnx").write_bytes(content)
    return {
        "name": "net", "kind": "onnx", "file": "net.onnx", "sha256": hashlib.sha256(content).hexdigest(),
        "trained_on": "photographs", "columns": [{"name": "p", "count": 2, "lower": 0, "upper": 1}],
        "output": "probabilities", "features": 3, "lower": 0, "upper": 1, **PUBLIC, **changed,
    }  # fmt: skip


def table(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {"cost": rng.normal(size=rows)}
    columns |= {f"p{i + 1}": rng.uniform(size=rows) for i in range(16)}
    columns |= {
        "ward": rng.choice(["a", "b", "c"], rows).tolist(),
        "shift": rng.choice(["day", "night"], rows).tolist(),
    }
    return pa.table(columns)


def made(folder: Path, source: pa.Table, columns: list[dict[str, Any]], kind: str = "parquet") -> np.ndarray[Any, Any]:
    folder.mkdir(exist_ok=True)
    if kind == "csv":
        people.write_csv(folder / "in" / "rows.csv", source)
    else:
        people.write_parquet(folder, source)
    people.run(people.configure(folder, columns, CSV if kind == "csv" else people.SOURCE))
    return people.stored(folder)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_store_holds_the_features_of_each_record(tmp_path: Path, kind: str) -> None:
    source = table()
    number = {"name": "cost", "kind": "number", "missing": "refuse"}
    found = made(tmp_path, source, [number, FOURIER, EDGES, CROSS], kind)
    numbers = {name: source[name].to_numpy() for name in source.column_names[:17]}
    waves = FourierFeatures((-3.0, 0.0, 0.0), (3.0, 1.0, 1.0), 7, 0.5, "s")
    edges = OrientedGradients(4, 4, 2, 4, 0.1)
    pixels = np.column_stack([numbers[f"p{i + 1}"] for i in range(16)])
    wards, shifts = (np.array(source[name].to_pylist()) for name in ("ward", "shift"))
    crossed = [(wards == ward) & (shifts == shift) for ward in "ab" for shift in ("day", "night")]
    wanted = [numbers["cost"], waves.of(np.column_stack([numbers["cost"], pixels[:, :2]])), edges.of(pixels), *crossed]
    assert np.array_equal(found, np.column_stack(wanted).astype(np.float32))


def test_shuffled_or_alone_a_record_is_stored_with_the_same_features(tmp_path: Path) -> None:
    source, columns = table(), [FOURIER, EDGES, CROSS]
    whole = made(tmp_path / "whole", source, columns)
    order = np.random.default_rng(1).permutation(300)
    assert np.array_equal(made(tmp_path / "shuffled", source.take(pa.array(order)), columns), whole[order])
    assert np.array_equal(made(tmp_path / "alone", source.slice(17, 1), columns), whole[17:18])


def test_a_store_holds_what_a_public_network_makes_of_each_record_by_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    source, columns = table(), [network(tmp_path / name) for name in ("whole", "shuffled", "alone")]
    whole = made(tmp_path / "whole", source, columns[:1])
    pixels = np.column_stack([source["p1"].to_numpy(), source["p2"].to_numpy()])
    content = (tmp_path / "whole" / "net.onnx").read_bytes()
    wanted = OnnxEncoder(content, (2,), 3, (0.0, 1.0), "probabilities").of(pixels)
    assert np.array_equal(whole, wanted.astype(np.float32))
    order = np.random.default_rng(1).permutation(300)
    assert np.array_equal(made(tmp_path / "shuffled", source.take(pa.array(order)), columns[1:2]), whole[order])
    assert np.array_equal(made(tmp_path / "alone", source.slice(17, 1), columns[2:]), whole[17:18])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sha256": "0" * 64}, "differs from its sha256"),
        ({"file": "none.onnx"}, "cannot be read"),
        ({"features": 4}, "3 numbers for one record"),
        ({"output": "other"}, "no output"),
        ({"shape": [1, 2]}, "shape"),
        ({"shape": [3]}, "holds the 2 columns"),
        ({"fitted_on": "these-records"}, "at no charge"),
        ({"lower": 1}, "above lower"),
    ],
)
def test_a_network_that_is_not_the_declared_one_is_refused_before_anything_is_read(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    pytest.importorskip("onnxruntime")
    people.write_parquet(tmp_path, table())
    with pytest.raises(ConfigError, match=message):
        look(people.configure(tmp_path, [network(tmp_path, **changed)]))


def test_a_network_that_fails_on_a_record_is_refused_without_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    alone = OnnxEncoder._alone

    def failing(self: OnnxEncoder, record: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if record.any():  # not the record of zeros with which a network is tried
            raise UnfitEncoder("gives 7,331 numbers for one record")  # as many as its values are positive, say
        return alone(self, record)

    monkeypatch.setattr(OnnxEncoder, "_alone", failing)
    with pytest.raises(DataError, match="holds a record for which the network gives other than") as found:
        made(tmp_path, table(), [network(tmp_path)])
    assert "7,331" not in "".join(traceback.format_exception(found.value))


@pytest.mark.parametrize("policy", ["refuse", "drop"])
def test_a_record_of_which_a_network_gives_no_number_is_one_with_a_missing_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    pytest.importorskip("onnxruntime")
    source, of = table(), OnnxEncoder.of
    whole = made(tmp_path / "whole", source, [network(tmp_path / "whole")])
    gone = source["p1"].to_numpy() > 0.7
    monkeypatch.setattr(OnnxEncoder, "of", lambda self, x: np.where(x[:, :1] > 0.7, np.nan, of(self, x)))
    column = network(tmp_path / "none", missing=policy)
    if policy == "refuse":
        with pytest.raises(DataError, match="no numbers"):
            made(tmp_path / "none", source, [column])
    else:
        assert np.array_equal(made(tmp_path / "none", source, [column]), whole[~gone])


def test_a_store_says_who_made_its_maps_and_a_store_without_maps_says_nothing(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    number = {"name": "cost", "kind": "number", "missing": "refuse"}
    made(tmp_path / "maps", table(5), [number, FOURIER, network(tmp_path / "maps")])
    contract = Contract.of(zarr.open_array(tmp_path / "maps" / "out.zarr" / "records", mode="r"))
    assert contract is not None
    digest = hashlib.sha256((tmp_path / "maps" / "net.onnx").read_bytes()).hexdigest()
    assert contract.maps == (
        MapOrigin("wave1", 7, "fourier", "the statistics office", "nothing"),
        MapOrigin("net1", 3, "onnx", "the statistics office", "nothing", "photographs", digest),
    )
    made(tmp_path / "none", table(5), [number])
    assert "maps" not in zarr.open_array(tmp_path / "none" / "out.zarr" / "records", mode="r").attrs["blockveil ingest"]


def test_who_trained_a_network_and_on_what_is_required(tmp_path: Path) -> None:
    column = network(tmp_path)
    for key in ("author", "trained_on", "fitted_on", "sha256"):
        with pytest.raises(ConfigError, match=key):
            people.configure(tmp_path, [{name: value for name, value in column.items() if name != key}])


def test_the_names_of_features_are_those_that_a_release_declares(tmp_path: Path) -> None:
    loaded = people.configure(tmp_path, [FOURIER, EDGES, CROSS])
    names = loaded.config.outputs
    assert names[:7] == tuple(f"wave{i + 1}" for i in range(7))
    assert names[7:23] == tuple(f"edge{i + 1}" for i in range(16))
    assert names[23:] == ("both=a&day", "both=a&night", "both=b&day", "both=b&night")


@pytest.mark.parametrize("column", [FOURIER, EDGES, CROSS])
def test_a_map_that_was_learnt_from_the_records_is_refused_and_its_origin_is_required(
    tmp_path: Path, column: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="at no charge"):
        people.configure(tmp_path, [column | {"fitted_on": "these-records"}])
    for key in ("author", "fitted_on", "missing"):
        with pytest.raises(ConfigError, match=key):
            people.configure(tmp_path, [{name: value for name, value in column.items() if name != key}])


@pytest.mark.parametrize("column", [FOURIER, EDGES])
def test_a_record_that_lacks_a_value_is_refused_or_dropped(tmp_path: Path, column: dict[str, Any]) -> None:
    source = table()
    values = source["p2"].to_numpy().copy()
    values[[3, 200]] = np.nan
    source = source.set_column(source.column_names.index("p2"), "p2", pa.array(values))
    with pytest.raises(DataError, match="missing"):
        made(tmp_path / "refused", source, [column])
    found = made(tmp_path / "dropped", source, [column | {"missing": "drop"}])
    kept = np.delete(made(tmp_path / "all", table(), [column]), [3, 200], axis=0)
    assert np.array_equal(found, kept)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (EDGES | {"cell": 3}, "divides height and width"),
        (FOURIER | {"columns": [{"name": "cost", "lower": 1, "upper": 1}]}, "above lower"),
        (CROSS | {"columns": CROSS["columns"][:1]}, "columns"),
        (CROSS | {"columns": [CROSS["columns"][0], {"name": "stay", "categories": [1, 2]}]}, "one type"),
    ],
)
def test_a_map_that_is_not_one_is_refused(tmp_path: Path, column: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        people.configure(tmp_path, [column])

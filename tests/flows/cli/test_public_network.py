"""A model of features that a public network makes, by the commands alone: from a table to predictions and a proof."""

import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import blockveil as bv
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError
from tests.engine.answers.test_public_encoder import field, variable
from tests.house.shipped import pinned_key

KERNELS = np.array([[[[-1, 0, 1]] * 3], [[[-1] * 3, [0] * 3, [1] * 3]]], "<f4")
"""Of Sobel's kind: edges across and edges down."""

INGEST = """
[ingest]
store = "images.zarr"
array = "records"
dtype = "float32"

[source]
kind = "csv"
files = ["images.csv"]

[unit]
kind = "row"
name = "one image (one row)"

[[columns]]
kind = "onnx"
name = "edge"
file = "edges.onnx"
sha256 = "{digest}"
author = "the statistics office"
trained_on = "no records"
fitted_on = "nothing"
missing = "refuse"
columns = [{{ name = "p", count = 16, lower = 0, upper = 1 }}]
shape = [1, 4, 4]
output = "features"
features = 8
lower = 0
upper = 3

[[columns]]
kind = "whole"
name = "across"
missing = "refuse"
"""
MODEL = """
[release]
dataset = "images"
name = "model"

[data]
store = "images.zarr"
array = "records"

[query]
kind = "gradients"
rows_at_most = 5000
missing = "refuse"
clipping_norm = 1.0

[query.geometry]
kind = "box"
origin = "zero"
features = [{ name = "edge", lower = 0, upper = 3, count = 8 }]

[query.model]
loss = "logistic"
target = { name = "across", classes = 2 }

[query.training]
steps = 20
batches = "full"
examples = 1500
optimiser = "sgd"
learning_rate = 4.0

[privacy]
epsilon = 2.0
delta = 1e-6
neighbours = "add-remove"
unit = "one image (one row)"

[mechanism]
kind = "gaussian"

[cluster]
kind = "threads"

[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def whole(number, value):
    return variable(number << 3) + variable(value)


def text(number, value):
    return field(number, value.encode())


def network():
    """A file of ONNX, as ``onnx.proto`` has it: a convolution of 4 x 4 pixels, what is positive of it, and a row."""

    def array(name, sizes):
        shape = b"".join(field(1, whole(1, size)) for size in sizes)
        return text(1, name) + field(2, field(1, whole(1, 1) + field(2, shape)))

    def node(kind, takes, gives):
        return b"".join(text(1, each) for each in takes) + text(2, gives) + text(4, kind)

    kernels = b"".join(whole(1, size) for size in KERNELS.shape)
    kernels += whole(2, 1) + text(8, "kernels") + field(9, KERNELS.tobytes())
    nodes = (
        ("Conv", ("image", "kernels"), "edges"),
        ("Relu", ("edges",), "bright"),
        ("Flatten", ("bright",), "features"),
    )
    graph = b"".join(field(1, node(*each)) for each in nodes) + text(2, "edges") + field(5, kernels)
    graph += field(11, array("image", (1, 1, 4, 4))) + field(12, array("features", (1, 8)))
    return whole(1, 8) + field(7, graph) + field(8, text(1, "") + whole(2, 17))


def features(images):
    """What the network gives, in NumPy: shape (n, 4, 4) to (n, 8)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    edges = np.einsum("nijkl,fkl->nfij", windows, KERNELS[:, 0])
    return np.clip(edges, 0, 3).reshape(len(images), 8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table of images that grow brighter across or down, a network, and the two configs."""
    rng = np.random.default_rng(1)
    across, ramp = rng.integers(0, 2, 1500), np.linspace(0, 1, 4)
    images = np.where(across[:, None, None] == 1, ramp[None, None, :], ramp[None, :, None])
    images = np.round(np.clip(images + 0.3 * rng.normal(size=(1500, 4, 4)), 0, 1), 4)
    names = ",".join([*(f"p{i + 1}" for i in range(16)), "across"])
    table = np.column_stack([images.reshape(1500, 16), across])
    np.savetxt(tmp_path / "images.csv", table, "%.4f," * 16 + "%d", header=names, comments="")
    (tmp_path / "edges.onnx").write_bytes(network())
    (tmp_path / "ingest.toml").write_text(INGEST.format(digest=hashlib.sha256(network()).hexdigest()))
    (tmp_path / "model.toml").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path, images, across


def run(*words):
    found = CliRunner().invoke(app, list(words))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.output


def test_a_model_of_features_of_a_public_network_is_made_used_and_verified_by_commands(folder):
    onnxruntime = pytest.importorskip("onnxruntime")
    _, images, across = folder
    assert "read the whole source" in run("ingest", "ingest.toml")
    run("ledger", "grant", "model.toml", "--epsilon", "4", "--delta", "1e-5")
    planned = run("plan", "model.toml")
    assert "20 steps, each over all records" in planned
    assert "mu 0.448335, 23.5 % of the budget" in planned
    with pinned_key():
        done = run("run", "model.toml", "--no-prefect", "--date", "2026-11-20")
    assert "Released images/model/2026-11-20." in done
    verified = run("verify", "releases/images/model/2026-11-20.json")
    assert "0.448335 is charged for a row" in verified
    opened = bv.open("releases/images/model/2026-11-20.json")
    assert (opened.predict(features(images)) == across).mean() > 0.97
    card, digest = opened.model.card, hashlib.sha256(network()).hexdigest()
    assert "| edge8 | 0 | 3 |" in card
    assert "- edge1 and the 7 after it: a public network, chosen by the statistics office from no records." in card
    assert f"The network was trained on no records; its file has the SHA-256 {digest}." in card
    run("export", "data", "releases/images/model/2026-11-20.json", "--format", "npz", "--output", "model.npz")
    with np.load("model.npz", allow_pickle=False) as bundle:
        assert str(bundle["card"]) == card
    run("export", "data", "releases/images/model/2026-11-20.json", "--format", "onnx", "--output", "model.onnx")
    (origin,) = json.loads(onnxruntime.InferenceSession("model.onnx").get_modelmeta().custom_metadata_map["blockveil"])[
        "public_maps"
    ]
    assert (origin["author"], origin["trained_on"], origin["sha256"]) == (
        "the statistics office",
        "no records",
        digest,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('author = "the statistics office"', ""), r"author is not given. It has no default \(who chose the map"),
        (
            ('trained_on = "no records"', ""),
            r"trained_on is not given. It has no default \(what the network",
        ),
        (('fitted_on = "nothing"', 'fitted_on = "these-records"'), "would be published at no charge"),
        (("shape = [1, 4, 4]", "shape = [16]"), "does not take one record of this shape"),
        (("features = 8", "features = 9"), "gives 8 numbers for one record"),
        (('output = "features"', 'output = "bright edges"'), "has no output of the declared name"),
    ],
)
def test_a_network_that_is_not_wholly_declared_is_refused_before_the_table_is_read(folder, change, message):
    pytest.importorskip("onnxruntime")
    config = folder[0] / "ingest.toml"
    assert config.read_text().count(change[0]) == 1
    config.write_text(config.read_text().replace(*change))
    (folder[0] / "images.csv").unlink()
    with pytest.raises(ConfigError, match=message):
        run("ingest", "ingest.toml")
    assert not (folder[0] / "images.zarr").exists()

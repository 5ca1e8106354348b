"""A trained model for other programs: ONNX, npz and scikit-learn say what the release says; and its card."""

import copy
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import blockveil as bv
from blockveil.engine.answers.models import Activation, Model, Output
from blockveil.engine.records.geometry import Box
from blockveil.flows.cli import app
from blockveil.pipeline.analysis import model_files
from blockveil.pipeline.analysis.trained_model import TrainedModel
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.printable import as_markdown
from blockveil.pipeline.report.model_card import card_of
from tests.house import support
from tests.pipeline.kinds.gradients.test_training import VALUES, X, release
from tests.pipeline.releases.test_training_steps import training
from tests.pipeline.test_hostile_text import HOSTILE

BOX = Box(np.array([-1.0, 0.0, -5.0]), np.array([1.0, 10.0, 3.0]), np.array([0.0, 5.0, 0.0]))
RECORDS = np.random.default_rng(1).uniform(-12, 12, (300, 3))


def made(output, activation, hidden):
    rng = np.random.default_rng(7)
    outputs = 3 if output is Output.SOFTMAX else 1
    sizes = [3, *hidden, outputs]
    names = [*(["hidden"] if len(hidden) == 1 else [f"hidden_{i + 1}" for i in range(len(hidden))]), "last"]
    weights = {
        name: rng.normal(size=(after, before + 1))
        for name, before, after in zip(names, sizes[:-1], sizes[1:], strict=True)
    }
    label = {Output.SQUARED: (10.0, 30.0), Output.LOGISTIC: (0.0, 1.0), Output.SOFTMAX: (0.0, 2.0)}[output]
    return TrainedModel(("a", "b", "c"), Model.at(output, activation, weights), BOX, label, "# Card")


@pytest.mark.parametrize("output", Output)
@pytest.mark.parametrize(
    ("activation", "hidden"),
    [(Activation.TANH, ()), (Activation.TANH, (4,)), (Activation.RELU, (5, 4)), (Activation.GELU, (4, 3, 4))],
)
def test_onnx_says_what_the_release_says(output, activation, hidden):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = made(output, activation, hidden)
    content = model_files.onnx(model.model, model.box, model.label, {"card": model.card, "features": "a\nb\nc"})
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = dict(
        zip([each.name for each in session.get_outputs()], session.run(None, {"records": RECORDS}), strict=True)
    )
    if output is Output.SQUARED:
        assert np.allclose(found["predicted"][:, 0], model.predict(RECORDS), atol=2e-3)
    else:
        shares = model.predict_proba(RECORDS)
        assert np.allclose(found["probabilities"], shares, atol=1e-3)
        sure = np.sort(shares, axis=1)[:, -1] - np.sort(shares, axis=1)[:, -2] > 1e-2
        assert sure.mean() > 0.9
        assert np.array_equal(found["label"][sure], model.predict(RECORDS)[sure])
    assert session.get_modelmeta().custom_metadata_map["card"] == "# Card"
    assert content == model_files.onnx(model.model, model.box, model.label, {"card": "# Card", "features": "a\nb\nc"})


def test_npz_holds_weights_bounds_names_and_the_card(tmp_path):
    model = made(Output.SOFTMAX, Activation.TANH, (4,))
    path = tmp_path / "m.npz"
    path.write_bytes(model_files.npz(model.model, model.box, model.features, model.card))
    with np.load(path, allow_pickle=False) as bundle:
        inputs = (np.clip(RECORDS, bundle["lower"], bundle["upper"]) - bundle["origin"]) / bundle["scale"]
        hidden = np.tanh(np.column_stack([np.ones(300), inputs]) @ bundle["hidden_weights"].T)
        scores = np.column_stack([np.ones(300), hidden]) @ bundle["last_weights"].T
        assert list(bundle["features"]) == ["a", "b", "c"]
        assert str(bundle["card"]) == "# Card"
    assert (scores.argmax(axis=1) == model.predict(RECORDS)).mean() > 0.99


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    return bv.open(release(training(tmp_path_factory.mktemp("trained"), steps=20, rate=8.0)).pointer)


def test_a_release_exports_its_model_with_its_card(opened, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    (file,) = opened.export(tmp_path / "model.onnx", "onnx")
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    label, _ = session.run(None, {"records": X})
    assert (label == opened.predict(X)).mean() > 0.999
    told = session.get_modelmeta().custom_metadata_map
    assert told["card"] == opened.model.card
    assert told["guarantee"] == opened.guarantee.sentence
    runner = CliRunner()
    words = [
        "export",
        "data",
        str(opened.opened.path),
        "--format",
        "npz",
        "--output",
        str(tmp_path / "model.npz"),
        "--json",
    ]
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["files"] == [str(tmp_path / "model.npz")]


def test_the_card_says_what_is_promised_and_what_is_not_known(opened):
    card = opened.model.card
    assert opened.guarantee.sentence in card
    assert "20 steps, each over all records, by sgd at a learning rate of 8" in card
    assert "How often it is right. No record was set aside" in card
    assert "| x2 | -1 | 1 |" in card
    assert "predicts y (2 classes)" in card


def test_names_and_the_unit_are_text_in_the_card_and_no_markup(opened):
    stated = copy.deepcopy(opened.opened.attributes)
    stated["query"]["model"]["target"]["name"] = stated["query"]["geometry"]["features"][0]["name"] = HOSTILE
    stated["guarantee"]["sentence"] = f"It protects {HOSTILE}."
    texts = dict.fromkeys(("first", "kind", "author", "fitted_on", "trained_on", "sha256"), HOSTILE)
    stated["public_maps"] = [{**texts, "count": 1}]
    card = card_of(stated, np.ones(20), np.ones(20))
    assert card.count(as_markdown(HOSTILE)) == 8
    assert not re.search(r"(?<!\\)(\]\(javascript|<img src|`x|!\[a|\*b|&lt;)", card)


def test_scikit_learn_takes_the_model_of_a_release(opened):
    found = bv.sklearn.TrainedClassifier().fit(opened)
    assert np.array_equal(found.predict(X), opened.predict(X))
    assert np.array_equal(found.predict_proba(X), opened.model.predict_proba(X))
    assert list(found.classes_) == [0, 1]
    assert found.n_features_in_ == 3
    with pytest.raises(ConfigError, match="Use TrainedClassifier"):
        bv.sklearn.TrainedRegressor().fit(opened)
    with pytest.raises(ConfigError):
        bv.sklearn.TrainedClassifier().fit(VALUES)


def test_a_model_of_a_number_is_a_regressor(tmp_path):
    path = training(tmp_path, 'loss = "squared"\ntarget = { name = "y", lower = 30, upper = 70 }\n', steps=5)
    support.write_records(tmp_path, np.column_stack([X, 50 + 20 * (X @ [0.5, -0.2, 0.1])]), (200, 4))
    made_at = bv.open(release(path).pointer)
    found = bv.sklearn.TrainedRegressor().fit(made_at)
    assert np.array_equal(found.predict(X), made_at.predict(X))
    assert "a number, by least squares" in found.card_

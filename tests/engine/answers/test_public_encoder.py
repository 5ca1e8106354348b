"""A public network of ONNX: a record has the same features in any company, and what is no fixed function is refused."""

import numpy as np
import pytest

from blockveil.engine.answers.models import Activation, Model, Output
from blockveil.engine.answers.public_encoder import DOMAINS, RANDOM, OnnxEncoder, UnfitEncoder, check
from blockveil.engine.records.geometry import Box
from blockveil.pipeline.analysis import model_files

INPUTS, CLASSES = 40, 7


def network():
    """A network with a hidden layer, in double precision; its features are probabilities."""
    rng = np.random.default_rng(3)
    weights = {"hidden": rng.normal(size=(30, INPUTS + 1)), "last": rng.normal(size=(CLASSES, 31))}
    box = Box(-np.ones(INPUTS), np.ones(INPUTS), np.zeros(INPUTS))
    return model_files.onnx(Model.at(Output.SOFTMAX, Activation.TANH, weights), box, (0.0, CLASSES - 1.0), {})


def variable(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + variable(value >> 7)


def field(number, content):
    return variable(number << 3 | 2) + variable(len(content)) + content


def of_node(node):
    return field(7, field(1, node))


@pytest.fixture
def encoder():
    pytest.importorskip("onnxruntime")
    return OnnxEncoder(network(), (INPUTS,), CLASSES, (0.1, 0.5), "probabilities")


def test_a_record_has_the_same_bits_alone_shuffled_and_in_any_batch(encoder):
    records = np.random.default_rng(1).uniform(-1, 1, (200, INPUTS))
    whole, order = encoder.of(records), np.random.default_rng(2).permutation(200)
    assert np.array_equal(encoder.of(records[order]), whole[order])
    assert all(np.array_equal(encoder.of(records[i : i + 1]), whole[i : i + 1]) for i in (0, 17, 199))
    assert np.array_equal(np.concatenate([encoder.of(part) for part in np.split(records, [3, 90])]), whole)


def test_features_are_those_of_the_whole_batch_but_for_their_last_digits(encoder):
    onnxruntime = pytest.importorskip("onnxruntime")
    records = np.random.default_rng(1).uniform(-1, 1, (200, INPUTS))
    session = onnxruntime.InferenceSession(network(), providers=["CPUExecutionProvider"])
    together = session.run(["probabilities"], {"records": records})[0]
    assert np.allclose(encoder.of(records), np.clip(together, 0.1, 0.5), atol=1e-12)


def test_features_lie_within_their_bounds_and_what_is_no_number_stays_one(encoder):
    found = encoder.of(np.random.default_rng(1).uniform(-1, 1, (50, INPUTS)))
    assert found.min() == 0.1
    assert found.max() == 0.5
    assert np.isnan(encoder.of(np.full((1, INPUTS), np.nan))).all()


@pytest.mark.parametrize("kind", RANDOM)
def test_a_network_that_draws_random_numbers_is_refused_also_within_a_branch(kind):
    node = field(4, kind.encode())
    branch = field(4, b"If") + field(5, field(1, b"then_branch") + field(6, field(1, node)))
    for each in (node, branch):
        with pytest.raises(UnfitEncoder, match=kind):
            check(of_node(each))
    with pytest.raises(UnfitEncoder, match=kind):
        check(field(25, field(7, node)))
    check(of_node(field(4, b"If") + field(1, kind.encode())))  # the name of an input is none of an operator


def test_operators_of_which_nothing_is_known_are_refused():
    for domain in DOMAINS:
        check(of_node(field(4, b"Relu") + field(7, domain.encode())))
    with pytest.raises(UnfitEncoder, match=r"com\.example"):
        check(of_node(field(4, b"Relu") + field(7, b"com.example")))


@pytest.mark.parametrize("where", ["initializer", "attribute", "sparse"])
def test_weights_in_another_file_are_refused(where):
    tensor = bytes([14 << 3, 1]) + field(13, field(1, b"location") + field(2, b"../weights.bin"))
    content = {
        "initializer": field(7, field(5, tensor)),
        "attribute": of_node(field(4, b"Constant") + field(5, field(5, tensor))),
        "sparse": field(7, field(15, field(1, tensor))),
    }[where]
    with pytest.raises(UnfitEncoder, match="another file"):
        check(content)


def test_what_is_no_network_of_one_record_is_refused():
    pytest.importorskip("onnxruntime")
    for content in (b"", b"\xff" * 40, field(7, b"\x0a"), b"no network", network()[:-50]):
        with pytest.raises(UnfitEncoder):
            OnnxEncoder(content, (INPUTS,), CLASSES, (0.0, 1.0))
    for shape, count, output in (
        ((INPUTS + 1,), CLASSES, "probabilities"),
        ((INPUTS,), CLASSES + 1, "probabilities"),
        ((INPUTS,), CLASSES, "features"),
    ):
        with pytest.raises(UnfitEncoder):
            OnnxEncoder(network(), shape, count, (0.0, 1.0), output)

"""Gradients released end to end, from pinned weights to the next ones."""

import hashlib
import io
import os
import zipfile
from datetime import date, timedelta

import numpy as np
import pytest
import zarr

from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import load_config, release_world
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import weights
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.report import write_report
from tests.house import support

NIGHT = date(2026, 11, 20)
QUERY = """kind = "gradients"
rows_at_most = 2000
missing = "refuse"
clipping_norm = 1.0
[query.geometry]
kind = "box"
origin = "midpoint"
features = [ { name = "x", lower = -1, upper = 1, count = 3 } ]
[query.model]
"""
LOGISTIC = 'loss = "logistic"\ntarget = { name = "y", classes = 2 }\n'
HIDDEN = 'loss = "softmax"\ntarget = { name = "y", classes = 3 }\nhidden_units = 4\nactivation = "tanh"\n'
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (1500, 3))
VALUES = np.column_stack([X, (X @ [2.0, -1.0, 0.5] + 0.3 * RNG.standard_normal(1500) > 0.2).astype(float)])


def config(folder, model, pin=None, epsilon=5.0):
    folder.mkdir(exist_ok=True)
    if not (folder / "records.zarr").exists():
        support.write_records(folder, VALUES, (200, 4))
    path = support.write_config(folder, epsilon=epsilon)
    text = path.read_text()
    if pin is not None:
        model = model + f'weights = "{pin[0]}"\nweights_sha256 = "{pin[1]}"\n'
    start, end = text.index("kind ="), text.index("[privacy]")
    text = text[:start] + QUERY + model + "\n" + text[end:]
    path.write_text(text.replace('kind = "shaped-gaussian"\noptimise_for = "relative-error"', 'kind = "gaussian"'))
    return path


def release(path, night=0, overrides=None):
    loaded = load_config(path, overrides or {})
    support.set_budget(loaded, 900.0, 1e-4)
    return run_release(make_plan(loaded, NIGHT + timedelta(days=night)), ThreadCompute(2), "t", lambda *a: None)


def test_a_model_learns_over_a_few_nights(tmp_path):
    found, pin = None, None
    for night in range(4):
        outcome = release(config(tmp_path, LOGISTIC, pin), night)
        found = weights.step(outcome.pointer, found, 1500, 8.0)
        pin = "weights.npz", weights.save(found, tmp_path / "weights.npz")
    right = ((np.column_stack([np.ones(1500), X]) @ found["last"].T)[:, 0] > 0) == (VALUES[:, -1] == 1)
    assert right.mean() > 0.9


def test_the_released_gradient_is_that_of_the_records_within_its_noise(tmp_path):
    outcome = release(config(tmp_path, LOGISTIC))
    group = zarr.open_group(outcome.path, mode="r")
    found, deviation = group["gradients"][...], group["gradients_standard_deviation"][...]
    inputs = np.column_stack([np.ones(1500), X])
    errors = 0.5 - VALUES[:, -1:]
    scale = np.minimum(1.0, 1.0 / (np.abs(errors[:, 0]) * np.linalg.norm(inputs, axis=1)))
    exact = (errors * scale[:, None]).T @ inputs
    assert found.shape == (1, 4)
    assert list(group["input"][...]) == ["constant", "x1", "x2", "x3"]
    assert (np.abs(found - exact) < 6 * deviation + 1500 * 2e-4).all()
    assert 0.1 < deviation.max() < 5.0


def test_a_hidden_layer_has_its_gradients_by_layer_and_a_report(tmp_path):
    wanted = weights.shapes(4, (4,), 3)
    start = weights.random(wanted, seed=1)
    tmp_path.joinpath("w").mkdir()
    pin = "w/start.npz", weights.save(start, tmp_path / "w" / "start.npz")
    outcome = release(config(tmp_path, HIDDEN, pin))
    group = zarr.open_group(outcome.path, mode="r")
    layers = group["hidden_gradients"][...], group["last_gradients"][...]
    assert tuple(part.shape for part in layers) == ((4, 4), (3, 5))
    assert np.array_equal(np.concatenate([part.ravel() for part in layers]), group["gradients"][...])
    assert group["weight"][5] == "unit 2 of x1"
    assert "sum of gradients" in write_report(outcome.path).path.read_text()
    after = weights.step(outcome.path, start, 1500, 1.0)
    assert np.allclose(after["hidden"], start["hidden"] - group["hidden_gradients"][...] / 1500)


def test_blocks_do_not_change_a_bit(tmp_path):
    path, plans, totals = config(tmp_path, LOGISTIC), set(), set()
    for rows in (17, 100, 5000):
        plan = make_plan(load_config(path, {"compute.block_rows": str(rows)}), NIGHT)
        plans.add(plan.digest)
        totals.add(plan.question.query.total(VALUES, 0, 1500, rows).tobytes())
    assert len(plans) == len(totals) == 1


def test_weights_are_pinned_and_their_path_is_not_part_of_the_release(tmp_path):
    found = {"last": np.full((1, 4), 0.25)}
    tmp_path.joinpath("w").mkdir()
    digest = weights.save(found, tmp_path / "w" / "a.npz")
    assert digest == hashlib.sha256((tmp_path / "w" / "a.npz").read_bytes()).hexdigest()
    assert weights.save(found, tmp_path / "w" / "b.npz") == digest, "the same weights give the same bytes"
    worlds = [release_world(load_config(config(tmp_path, LOGISTIC, (f"w/{name}.npz", digest))).config) for name in "ab"]
    assert worlds[0] == worlds[1]
    plain = release_world(load_config(config(tmp_path, LOGISTIC)).config)
    assert plain != worlds[0]
    with pytest.raises(ConfigError, match="another digest"):
        make_plan(load_config(config(tmp_path, LOGISTIC, ("w/a.npz", "0" * 64))), NIGHT)


def archive_of(shape, data):
    """An archive of floats that says to hold an array of this shape."""
    head, whole = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("last.npy", head.getvalue() + data)
    return whole.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"last": np.zeros((1, 5))}, "other arrays than the model has"),
        ({"first": np.zeros((1, 4))}, "other arrays"),
        ({"last": np.full((1, 4), np.nan)}, "holds no finite weights"),
        ({"last": np.array([[None] * 4], dtype=object)}, "holds an array of object"),
        ({"last": np.full((1, 4), 1j)}, "holds an array of complex128"),
        ({"last": np.full((1, 4), "1")}, "holds an array of str32"),
        ({"last": np.zeros((0, 4))}, "other arrays"),
        ({"last": np.full((1, 4), 1e7)}, "sums of at most 2\\*\\*20"),
        (b"no archive", "holds no finite weights"),
        (b"", "holds no finite weights"),
        (archive_of((1, 4), bytes(24)), "holds no finite weights"),
        (archive_of((2**30, 2**30), bytes(32)), "holds no finite weights"),
        (None, "cannot be read"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, content, words):
    file = tmp_path / "bad.npz"
    if isinstance(content, dict):
        np.savez(file, **content)
    elif content is not None:
        file.write_bytes(content)
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if content is not None else "0" * 64
    refuses(tmp_path, digest, words)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 2**40), "is larger than 1,048,704 bytes"),
        (os.mkfifo, "cannot be read"),
        (os.mkdir, "cannot be read"),
    ],
)
def test_what_cannot_be_weights_is_not_read(tmp_path, made, words):
    made(tmp_path / "bad.npz")
    refuses(tmp_path, "0" * 64, words)


def refuses(folder, digest, words):
    loaded = load_config(config(folder, LOGISTIC, ("bad.npz", digest)))
    support.set_budget(loaded, 900.0, 1e-4)
    with pytest.raises(ConfigError, match=words):
        make_plan(loaded, NIGHT)
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ('loss = "squared"\ntarget = { name = "y", classes = 2 }', "A number has lower and upper"),
        ('loss = "squared"\ntarget = { name = "y", lower = 1, upper = 1 }', "A number has lower and upper"),
        ('loss = "logistic"\ntarget = { name = "y", lower = 0, upper = 1 }', "a class has classes"),
        ('loss = "logistic"\ntarget = { name = "y", classes = 3 }', "two classes"),
        ('loss = "softmax"\ntarget = { name = "x1", classes = 3 }', "column of its own"),
        (LOGISTIC + "hidden_units = 3", "It goes with hidden_units"),
        (HIDDEN, "stay the same for ever"),
        (LOGISTIC + 'weights = "w.npz"', "pinned by its digest"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(tmp_path, model, words):
    with pytest.raises(ConfigError, match=words):
        load_config(config(tmp_path, model))


def test_a_step_needs_a_release_of_gradients_and_weights_of_its_shape(tmp_path):
    outcome = release(config(tmp_path, LOGISTIC))
    with pytest.raises(ConfigError, match="other shapes"):
        weights.step(outcome.path, {"last": np.zeros((2, 4))}, 10, 1.0)
    with pytest.raises(ConfigError, match="not positive"):
        weights.step(outcome.path, None, 0, 1.0)
    other = tmp_path / "other"
    other.mkdir()
    moment = run_release(make_plan(support.prepare(other), NIGHT), ThreadCompute(2), "t", lambda *a: None)
    with pytest.raises(StoreError, match="holds no gradients"):
        weights.step(moment.path, None, 10, 1.0)


def test_a_number_to_predict_is_seen_between_its_bounds(tmp_path):
    path = config(tmp_path, 'loss = "squared"\ntarget = { name = "y", lower = -3, upper = 5 }\n')
    question = make_plan(load_config(path), NIGHT).question
    assert np.allclose(question.query._labels(np.array([-3.0, 1.0, 5.0, 99.0])), [-1.0, 0.0, 1.0, 1.0])


def test_features_of_a_model_have_no_norm_of_their_own(tmp_path):
    path = config(tmp_path, LOGISTIC)
    path.write_text(path.read_text().replace('kind = "box"', 'kind = "box"\nnorm_at_most = 1.0'))
    with pytest.raises(ConfigError, match="clipping_norm"):
        load_config(path)


def test_weights_are_never_written_over_a_file_of_another_kind(tmp_path):
    other = tmp_path / "ledger.db"
    other.write_bytes(b"charges")
    with pytest.raises(ConfigError, match="npz"):
        weights.save(weights.random(weights.shapes(3, (), 1), 1), other)
    assert other.read_bytes() == b"charges"

"""A release too large to be put together is written block by block, with the same bits."""

import numpy as np
import pytest
import zarr

import blockveil.engine.answers.cost
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.clusters import open_compute
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from tests import support
from tests.pipeline.releases.test_release import NIGHT

FEATURES, ROWS = 1100, 1500
VALUES = np.random.default_rng(1).uniform(-1.5, 1.5, (ROWS, FEATURES)).astype(np.float32)

CONFIG = """
[release]
dataset = "wide"
name = "answer"
[data]
store = "records.zarr"
[query]
kind = "{kind}"
rows_at_most = 2000
missing = "refuse"
{geometry}
[privacy]
epsilon = 1.0
delta = 1e-5
neighbours = "{neighbours}"
unit = "a row"
[mechanism]
kind = "gaussian"
[cluster]
kind = "{cluster}"
[output]
root = "releases"
ledger = "ledger.db"
keys = "keys"
"""


def box(table, features):
    named = ",\n".join(f'{{ name = "{table[6]}{i}", lower = -1.0, upper = {1 + i % 3}.0 }}' for i in range(features))
    return f'[{table}]\nkind = "box"\norigin = "midpoint"\nfeatures = [\n{named}\n]\n'


QUESTIONS = {
    "covariance": ("add-remove", box("query.geometry", FEATURES)),
    "second-moment": ("add-remove", box("query.geometry", FEATURES)),
    "rows": ("replace-one", box("query.geometry", FEATURES)),
    "outer-products": ("add-remove", box("query.left", 60) + box("query.right", FEATURES - 60)),
}


def released(folder, kind, monkeypatch, compute=None, cluster="threads"):
    """Arrays of a release whose key is known, so that two of them can be compared."""
    folder.mkdir()
    support.write_records(folder, VALUES, chunks=(130, FEATURES))
    neighbours, geometry = QUESTIONS[kind]
    path = folder / "wide.toml"
    path.write_text(CONFIG.format(kind=kind, geometry=geometry, neighbours=neighbours, cluster=cluster))
    loaded = load_config(path)
    support.set_budget(loaded)
    plan = make_plan(loaded, NIGHT)
    with monkeypatch.context() as patch:
        patch.setattr(NoiseKey, "derive", classmethod(lambda cls, *_: cls(bytes(32))))
        # Slow, and not the matter here.
        patch.setattr("blockveil.engine.estimates.matrices.nearest_psd", lambda matrix: (matrix, 0.0))
        patch.setattr("blockveil.pipeline.releases.outputs.post_processing", lambda *_: {})
        outcome = run_release(plan, compute or ThreadCompute(2), "test", lambda *_: None)
    assert find_published(loaded.output_root, plan.release_id) is not None
    group = zarr.open_group(outcome.path, mode="r")
    return plan, {name: array[...] for name, array in group.arrays()}, dict(group.attrs)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_blocks_hold_the_bits_of_the_whole(tmp_path, monkeypatch, kind):
    plan, whole, attributes = released(tmp_path / "whole", kind, monkeypatch)
    monkeypatch.setattr(blockveil.engine.answers.cost, "_WHOLE_ENTRIES", 1000)
    assert plan.answer.work(ROWS).blocked
    _, blocks, again = released(tmp_path / "blocks", kind, monkeypatch)
    assert set(blocks) <= set(whole)
    assert {plan.answer.matrix, f"{plan.answer.matrix}_standard_deviation"} <= set(blocks)
    for name, values in blocks.items():
        assert np.array_equal(values, whole[name]), name
    assert {key for key in attributes if attributes[key] != again[key]} <= {"ledger", "output_digest"}


@pytest.mark.slow
def test_a_cluster_writes_the_same_blocks(tmp_path, monkeypatch):
    _, whole, _ = released(tmp_path / "whole", "covariance", monkeypatch)
    monkeypatch.setattr(blockveil.engine.answers.cost, "_WHOLE_ENTRIES", 1000)
    # The key is derived here, not on the workers, so it is the same one.
    loaded = support.prepare(tmp_path, cluster="local")
    with open_compute(loaded) as compute:
        _, blocks, _ = released(tmp_path / "blocks", "covariance", monkeypatch, compute)
    assert np.array_equal(blocks["covariance"], whole["covariance"])
    assert np.array_equal(blocks["covariance"], blocks["covariance"].T)


def test_a_mixing_shape_is_refused_before_anything_is_read_where_the_answer_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(blockveil.engine.answers.cost, "_WHOLE_ENTRIES", 4)
    path = support.write_config(tmp_path)
    np.save(tmp_path / "shape.npy", np.diag([1.0, 4.0, 9.0]) * 1e6 + 1.0)
    features = ",".join(f'{{ name = "{name}", origin = 0.0 }}' for name in "abc")
    text = path.read_text()
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    ellipsoid = f'[query.geometry]\nkind = "ellipsoid"\nshape = "shape.npy"\nfeatures = [{features}]\n'
    path.write_text(text[:start] + ellipsoid + text[end:])
    with pytest.raises(ConfigError, match=r"4 x 4 is too large.*whole answer"):
        make_plan(load_config(path), NIGHT)

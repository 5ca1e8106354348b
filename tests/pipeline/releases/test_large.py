"""A release too large to be put together is written block by block, with the same bits."""

import numpy as np
import pytest
import zarr

import blockveil as bv
import blockveil.engine.answers.work
import blockveil.pipeline.data.zarr_arrays
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.flows.cluster.computing import open_compute
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release, read_release
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published
from blockveil.pipeline.report.matrix import EntriesTile, ReleasedMatrix
from tests.house import support
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
        patch.setattr("blockveil.engine.estimates.matrices.shrunk", lambda matrix, noise: matrix)
        patch.setattr("blockveil.pipeline.releases.outputs.post_processing", lambda *_: {})
        outcome = run_release(plan, compute or ThreadCompute(2), "test", lambda *_: None)
    assert find_published(loaded.output_root, plan.release_id) is not None
    found = read_release(outcome.path)
    return plan, found.arrays, found.attributes


NOISE = "_standard_deviation"
STATED = {"noise_by_row", "noise_by_column", "noise_off_diagonal", "noise_of_a_step", "unit_by_row", "unit_by_column"}
STATED |= {"rounding_by_row", "rounding_by_column", "rounding_second_order"}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_blocks_hold_the_bits_of_the_whole(tmp_path, monkeypatch, kind):
    plan, whole, attributes = released(tmp_path / "whole", kind, monkeypatch)
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 1000)
    assert plan.answer.work(ROWS).blocked
    _, blocks, again = released(tmp_path / "blocks", kind, monkeypatch)
    assert set(blocks) - STATED <= set(whole)
    noise = f"{plan.answer.matrix}{NOISE}"
    assert {plan.answer.matrix, noise} <= set(blocks)
    for name in set(blocks) - STATED - {noise}:
        assert np.array_equal(blocks[name], whole[name]), name
    # Of a matrix they are computed from what the release states: of a covariance from its entries, too.
    assert np.allclose(blocks[noise], whole[noise], rtol=1e-12, atol=0.0)
    assert (kind == "rows") == (not STATED & set(blocks))
    assert {key for key in attributes if attributes[key] != again[key]} <= {"ledger", "output_digest"}


@pytest.mark.parametrize("kind", sorted(set(QUESTIONS) - {"rows"}))
def test_standard_deviations_of_a_large_matrix_are_read_in_parts_and_not_stored(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 1000)
    plan, whole, _ = released(tmp_path / "blocks", kind, monkeypatch)
    name = f"{plan.answer.matrix}{NOISE}"
    (path,) = (tmp_path / "blocks").rglob(f"{NIGHT.isoformat()}.json")
    opened = open_release(path)
    found, shape = opened.arrays[name], whole[name].shape
    assert name not in zarr.open_group(opened.path, mode="r")
    assert (found.shape, found.dtype) == (shape, np.float64)
    assert opened.dimensions[name] == opened.dimensions[plan.answer.matrix]
    for key in (..., slice(3, 9), (slice(None), slice(2, 5)), (slice(7, 40), slice(0, shape[1])), slice(5, 5)):
        assert np.array_equal(found[key], whole[name][key])
    for wrong in (0, (slice(0, 2), slice(0, 2), slice(0, 2)), slice(0, 9, 2)):
        with pytest.raises(IndexError):
            _ = found[wrong]
    released_again = bv.open(path)
    assert released_again.estimate(plan.answer.matrix).standard_deviation.tobytes() == whole[name].tobytes()
    assert name in released_again.to_xarray()


def test_entries_with_noise_are_stored_as_they_are_and_read_once_with_their_noise(tmp_path, monkeypatch):
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 1000)
    monkeypatch.setattr(blockveil.pipeline.data.zarr_arrays, "_PADDED", 10.0)
    released(tmp_path / "blocks", "covariance", monkeypatch)
    (path,) = (tmp_path / "blocks").rglob(f"{NIGHT.isoformat()}.json")
    opened = open_release(path)
    stored = zarr.open_group(opened.path, mode="r")
    codecs = {name: [type(codec).__name__ for codec in stored[name].compressors] for name in ("covariance", "mean")}
    assert codecs == {"covariance": ["Crc32cCodec"], "mean": ["ZstdCodec", "Crc32cCodec"]}
    matrix, readings = ReleasedMatrix(opened), []
    real = zarr.Array.__getitem__
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda self, key: readings.append(key) or real(self, key))
    tile = EntriesTile((3, 600), (650, 1100), True)
    list(matrix.bands(tile))  # numbers by row and column are read once for all
    readings.clear()
    found = list(matrix.bands(tile))
    assert len(readings) == 1
    assert len(found) > 1
    for part, value, deviation in found:
        assert np.array_equal(value, matrix.value(part.rows, part.columns))
        assert np.array_equal(deviation, matrix.deviation(part.rows, part.columns))
    assert [part.rows[0] for part, *_ in found] == [3, *(part.rows[1] for part, *_ in found[:-1])]
    assert found[-1][0].rows[1] == 600


@pytest.mark.slow
def test_a_cluster_writes_the_same_blocks(tmp_path, monkeypatch):
    _, whole, _ = released(tmp_path / "whole", "covariance", monkeypatch)
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 1000)
    # The key is derived here, not on the workers, so it is the same one.
    loaded = support.prepare(tmp_path, cluster="local")
    with open_compute(loaded) as compute:
        _, blocks, _ = released(tmp_path / "blocks", "covariance", monkeypatch, compute)
    assert np.array_equal(blocks["covariance"], whole["covariance"])
    assert np.array_equal(blocks["covariance"], blocks["covariance"].T)


def test_a_mixing_shape_is_refused_before_anything_is_read_where_the_answer_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(blockveil.engine.answers.work, "_WHOLE_ENTRIES", 4)
    path = support.write_config(tmp_path)
    np.save(tmp_path / "shape.npy", np.diag([1.0, 4.0, 9.0]) * 1e6 + 1.0)
    features = ",".join(f'{{ name = "{name}", origin = 0.0 }}' for name in "abc")
    text = path.read_text()
    start, end = text.index("[query.geometry]"), text.index("[privacy]")
    ellipsoid = f'[query.geometry]\nkind = "ellipsoid"\nshape = "shape.npy"\nfeatures = [{features}]\n'
    path.write_text(text[:start] + ellipsoid + text[end:])
    with pytest.raises(ConfigError, match=r"4 x 4 is too large.*whole answer"):
        make_plan(load_config(path), NIGHT)

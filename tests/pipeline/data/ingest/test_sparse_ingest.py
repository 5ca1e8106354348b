"""Sparse records: ingested from SciPy's files, stored by their entries, and released as the same bits as whole rows."""

import io
import pickle
import shutil
from datetime import date

import numpy as np
import pytest
import scipy.sparse
import zarr

from blockveil.engine.answers.cost import Machine
from blockveil.engine.answers.gram import OtherRecordsError
from blockveil.engine.answers.graph import exact_graph
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.ingest import sparse_files as sparse_ingest
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as made

NIGHT = date(2026, 11, 20)
WIDTH = 40
WORDS = scipy.sparse.random_array((300, WIDTH), density=0.03, rng=4, format="csr")
WORDS.data = np.rint(WORDS.data * 4 + 1)
SCIPY = f'kind = "scipy"\nfiles = ["words.npz"]\nnames = [ {{ name = "word", count = {WIDTH} }} ]'
COLUMN = {"name": "word", "count": WIDTH, "kind": "number", "missing": "refuse"}
RELEASE = """kind = "covariance"
rows_at_most = 500
missing = "refuse"
[query.geometry]
kind = "box"
origin = "midpoint"
features = [ { name = "word", lower = 0, upper = 3, count = 40 } ]
"""


def ingested(folder, layout, matrix=WORDS, column=COLUMN, **keys):
    folder.mkdir(exist_ok=True)
    scipy.sparse.save_npz(folder / "words.npz", matrix)
    loaded = made.configure(folder, [column], SCIPY, layout=layout, **keys)
    made.run(loaded)
    return folder / "out.zarr"


def release(folder, store, density=None, kind="covariance"):
    text = support.CONFIG.format(kind="rows", epsilon=4.0, neighbours="add-remove", cluster='kind = "threads"')
    start, end = text.index("[query]"), text.index("[privacy]")
    text = text[:start] + "[query]\n" + RELEASE.replace("covariance", kind) + "\n" + text[end:]
    text = text.replace("records.zarr", str(store)).replace("one person (one row)", "one visit (one row)")
    if density is not None:
        text = text.replace("block_rows = 50", f"block_rows = 50\ndensity_at_most = {density}")
    (folder / "people.toml").write_text(text)
    return load_config(folder / "people.toml")


@pytest.mark.parametrize("form", [WORDS, scipy.sparse.csr_matrix(WORDS), WORDS.astype(np.int16)])
def test_a_file_of_scipy_becomes_rows_or_entries_with_the_same_values(tmp_path, form):
    rows = zarr.open_array(ingested(tmp_path / "rows", "rows", form) / "records", mode="r")[...]
    group = zarr.open_group(ingested(tmp_path / "entries", "entries", form) / "records", mode="r")
    assert np.array_equal(rows, WORDS.toarray().astype(np.float32))
    assert group.attrs["encoding-type"] == "csr_matrix"
    assert group.attrs["shape"] == [300, WIDTH]
    parts = (group["data"][...], group["indices"][...], group["indptr"][...])
    assert np.array_equal(scipy.sparse.csr_array(parts, shape=(300, WIDTH)).toarray(), rows)
    assert group["data"].shape == (WORDS.nnz,)


@pytest.mark.parametrize("kind", ["covariance", "totals"])
def test_exact_sums_and_releases_are_the_same_bits_from_rows_and_from_entries(tmp_path, kind):
    stores = [ingested(tmp_path / layout, layout) for layout in ("rows", "entries")]
    released, plans = set(), set()
    for number, (store, density) in enumerate((s, d) for s in stores for d in (None, 0.05)):
        folder = tmp_path / str(number)
        folder.mkdir()
        plan, compute = make_plan(release(folder, store, density, kind), NIGHT), ThreadCompute(2)
        assert kind == "totals" or plan.question.query.by_entries == (density is not None)
        source = pickle.loads(pickle.dumps(open_records(plan.loaded).source))
        for cuts, block in ((1, 300), (4, 17)):
            layout, name = plan.effort.cut(Machine(cuts, 1, 2**32), 300).layout(300, block), f"sparse-{number}-{cuts}"
            held = compute.hold(exact_graph(source, plan.question.query, layout, block, name), lambda _: None)
            compute.install("sparse", NoiseKey(bytes(32)))
            released.add(support.whole(compute, held, layout, plan, "sparse", name).tobytes())
            compute.forget("sparse")
        plans.add(plan.digest)
    assert len(released) == len(plans) == 1


@pytest.mark.parametrize("density", [None, 0.05])
def test_a_night_is_released_from_entries_and_charged_once(tmp_path, density):
    loaded = release(tmp_path, ingested(tmp_path / "in", "entries"), density)
    support.set_budget(loaded, 40.0)
    plan = make_plan(loaded, NIGHT)
    outcome = run_release(plan, ThreadCompute(2), "test", lambda *_: None)
    group = zarr.open_group(outcome.path, mode="r")
    exact = np.cov(np.minimum(WORDS.toarray(), 3), rowvar=False, bias=True)
    ratio = (group["covariance"][...] - exact) / group["covariance_standard_deviation"][...]
    assert np.max(np.abs(ratio)) < 12  # entries share the noise of the count, and deviations are of first order
    assert Ledger(loaded.ledger_url).budget("people").spent.mu == pytest.approx(plan.charge.mu)


def test_many_flushes_and_a_run_that_begins_again_give_the_same_store(tmp_path, monkeypatch):
    whole = made.bits(ingested(tmp_path / "whole", "entries").parent)
    monkeypatch.setattr(sparse_ingest, "_FLUSH_ENTRIES", 1)
    monkeypatch.setattr(sparse_ingest, "CHUNK_ENTRIES", 16)
    ingested(tmp_path / "pieces", "entries")
    assert np.array_equal(stored(tmp_path / "pieces"), stored(tmp_path / "whole"))
    monkeypatch.undo()
    folder, write = tmp_path / "again", sparse_ingest.EntryWriter.finish

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sparse_ingest.EntryWriter, "finish", full)
    with pytest.raises(StoreError):
        ingested(folder, "entries")
    assert made.left(folder)
    monkeypatch.setattr(sparse_ingest.EntryWriter, "finish", write)
    ingested(folder, "entries")
    assert not made.left(folder)
    assert made.bits(folder).keys() == whole.keys()
    assert np.array_equal(stored(folder), stored(tmp_path / "whole"))
    assert "these very records" in made.run(made.configure(folder, [COLUMN], SCIPY, layout="entries")).message


def stored(folder):
    group = zarr.open_group(folder / "out.zarr" / "records", mode="r")
    return scipy.sparse.csr_array(tuple(group[name][...] for name in ("data", "indices", "indptr"))).toarray()


def test_units_of_several_rows_and_one_hot_columns_are_stored_by_entries_too(tmp_path):
    made.write_parquet(tmp_path, made.visits())
    columns = made.COLUMNS[1:]
    for unit in (made.CHOOSE.format(most=2), made.TOGETHER.format(by="mean")):
        found = []
        for layout in ("rows", "entries"):
            made.run(made.configure(tmp_path, columns, unit=unit, layout=layout))
            found.append(made.stored(tmp_path) if layout == "rows" else stored(tmp_path))
            shutil.rmtree(tmp_path / "out.zarr")
        assert np.array_equal(*found)


def test_entries_out_of_order_or_twice_are_put_right_as_scipy_does(tmp_path):
    matrix = scipy.sparse.csr_matrix((2, 3))
    matrix.data, matrix.indices, matrix.indptr = (
        np.array([1.0, 2.0, 4.0, 8.0]),
        np.array([2, 0, 2, 1]),
        np.array([0, 3, 4]),
    )
    source = SCIPY.replace(str(WIDTH), "3")
    scipy.sparse.save_npz(tmp_path / "words.npz", matrix)
    made.run(made.configure(tmp_path, [{**COLUMN, "count": 3}], source, layout="entries"))
    assert stored(tmp_path).tolist() == [[2.0, 0.0, 5.0], [0.0, 8.0, 0.0]]


def test_policies_hold_for_sparse_files(tmp_path):
    holed = WORDS.copy()
    holed.data[7] = np.nan
    with pytest.raises(DataError, match="missing"):
        ingested(tmp_path / "refused", "entries", holed)
    ingested(tmp_path / "kept", "entries", holed, {**COLUMN, "missing": 2})
    expected = holed.toarray()
    expected[np.isnan(expected)] = 2
    assert np.array_equal(stored(tmp_path / "kept"), expected)


def test_files_that_are_not_what_they_should_be_are_refused(tmp_path):
    with pytest.raises(DataError, match="not stored by rows"):
        ingested(tmp_path / "columns", "entries", WORDS.tocsc())
    with pytest.raises(DataError, match="has 39 columns and"):
        ingested(tmp_path / "narrow", "entries", WORDS[:, :39])
    with pytest.raises(ConfigError, match="chunks of their own"):
        ingested(tmp_path / "chunks", "entries", chunk_rows=10)
    content = io.BytesIO()
    scipy.sparse.save_npz(content, WORDS)
    for damage, name in ((content.getvalue()[:-500], "short"), (b"PK", "none")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "words.npz").write_bytes(damage)
        with pytest.raises(BlockveilError, match="format"):
            made.run(made.configure(folder, [COLUMN], SCIPY, layout="entries"))
    folder = tmp_path / "outside"
    folder.mkdir()
    np.savez(
        folder / "words.npz",
        format=b"csr",
        shape=np.array([1, WIDTH]),
        indptr=np.array([0, 1]),
        indices=np.array([WIDTH]),
        data=np.array([made.CANARY]),
    )
    with pytest.raises(DataError, match="format") as caught:
        made.run(made.configure(folder, [COLUMN], SCIPY, layout="entries"))
    assert str(made.CANARY) not in str(caught.value)


@pytest.mark.parametrize("damage", ["chunk", "shape", "encoding", "part", "order"])
def test_a_damaged_store_is_refused_and_costs_nothing(tmp_path, damage):
    store = ingested(tmp_path / "in", "entries")
    root = store / "records"
    group = zarr.open_group(root, mode="r+")
    match damage:
        case "chunk":
            (root / "indices" / "c" / "0").unlink()
        case "shape":
            group.attrs["shape"] = [301, WIDTH]
        case "encoding":
            group.attrs["encoding-type"] = "csc_matrix"
        case "part":
            shutil.rmtree(root / "indptr")
        case "order":
            group["indices"][...] = group["indices"][...][::-1]
    loaded = release(tmp_path, store, 0.05)
    support.set_budget(loaded, 40.0)
    with pytest.raises(BlockveilError) as caught:
        run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "test", lambda *_: None)
    told = str(caught.value).replace(str(tmp_path), "")  # the path holds a number, which may be any
    assert str(WORDS.nnz) not in told
    assert "300" not in told
    assert Ledger(loaded.ledger_url).budget("people").spent.loss == 0


def test_records_that_change_are_noticed_by_the_client_and_by_a_worker(tmp_path):
    store = ingested(tmp_path / "in", "entries")
    dataset = open_records(release(tmp_path, store))
    worker = pickle.loads(pickle.dumps(dataset.source))
    worker._opening = "elsewhere"
    zarr.open_array(store / "records" / "data", mode="r+")[3] = 9.0
    with pytest.raises(OtherRecordsError):
        worker.entry_blocks(0, 10, 100)
    with pytest.raises(OtherRecordsError):
        worker[0:10]
    with pytest.raises(DataError, match="changed"):
        dataset.check_unchanged()

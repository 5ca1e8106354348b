"""The quickstart's records and the example configs: what a newcomer runs first."""

import hashlib
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import zarr

from blockveil.pipeline.base import staging
from blockveil.pipeline.base.errors import DataError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import quickstart
from blockveil.pipeline.data.zarr_arrays import missing_chunks
from blockveil.pipeline.plan import promise
from blockveil.pipeline.plan.planning import make_plan

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "configs"
BUNDLE = quickstart.SOURCE


@pytest.fixture
def small(tmp_path):
    """A bundle of 5 records of 2 features."""
    source = tmp_path / "small.npz"
    np.savez_compressed(source, records=np.arange(10, dtype=np.int32).reshape(5, 2))
    return source


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_bundled_file_is_the_one_its_page_describes():
    page = (BUNDLE.parent / "README.md").read_text()
    assert hashlib.sha256(BUNDLE.read_bytes()).hexdigest() in page
    assert "CC BY 4.0" in page
    assert "10.24432/C55S3H" in page


def test_the_store_holds_the_bundled_records_complete_and_checksummed(tmp_path):
    store = tmp_path / "deep" / "credit_default.zarr"
    assert quickstart.write_records(BUNDLE, store)
    records = zarr.open_array(store / "records", mode="r")
    with np.load(BUNDLE) as bundle:
        np.testing.assert_array_equal(records[...], bundle["records"])
    assert records.shape == (30_000, 23)
    assert records.dtype == np.int32
    assert records.metadata.zarr_format == 3
    assert missing_chunks(records) == 0
    assert records.nchunks > 8, "a few chunks, so that the demo really runs in blocks"
    assert [type(codec).__name__ for codec in records.compressors] == ["ZstdCodec", "Crc32cCodec"]


def test_a_second_call_writes_nothing(tmp_path, small):
    store = tmp_path / "records.zarr"
    assert quickstart.write_records(small, store)
    before = files(store)
    assert not quickstart.write_records(tmp_path / "not even read.npz", store)
    assert files(store) == before


def test_nothing_but_the_store_is_left(tmp_path, small):
    (tmp_path / "out").mkdir()
    staging.scratch_path(tmp_path / "out", "quickstart").mkdir()
    quickstart.write_records(small, tmp_path / "out" / "records.zarr")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["records.zarr"]


def test_a_kill_while_writing_leaves_no_store(tmp_path, small, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(path):
        raise Killed

    monkeypatch.setattr(quickstart.durable, "sync_tree", kill)
    with pytest.raises(Killed):
        quickstart.write_records(small, tmp_path / "out" / "records.zarr")
    monkeypatch.undo()
    assert not (tmp_path / "out" / "records.zarr").exists()
    assert quickstart.write_records(small, tmp_path / "out" / "records.zarr")


def test_the_slower_of_two_writers_leaves_the_store_of_the_faster(tmp_path, small, monkeypatch):
    store, sync_tree = tmp_path / "out" / "records.zarr", quickstart.durable.sync_tree

    def overtake(path):
        monkeypatch.setattr(quickstart.durable, "sync_tree", sync_tree)
        assert quickstart.write_records(small, store)
        sync_tree(path)

    monkeypatch.setattr(quickstart.durable, "sync_tree", overtake)
    assert not quickstart.write_records(small, store)
    assert [path.name for path in store.parent.iterdir()] == ["records.zarr"]
    assert zarr.open_array(store / "records", mode="r")[4, 1] == 9


@pytest.mark.parametrize("damage", ["gone", "empty", "not an archive", "cut short", "flipped", "without records"])
def test_a_damaged_bundle_is_a_data_error_and_leaves_nothing(tmp_path, small, damage):
    content = small.read_bytes()
    if damage == "gone":
        small.unlink()
    elif damage == "without records":
        np.savez_compressed(small, other=np.zeros(3))
    else:
        broken = bytearray(content)
        broken[60:64] = bytes(255 - byte for byte in broken[60:64])
        small.write_bytes(
            {
                "empty": b"",
                "not an archive": b"records",
                "cut short": content[: len(content) // 2],
                "flipped": bytes(broken),
            }[damage]
        )
    with pytest.raises(DataError, match="Restore it"):
        quickstart.write_records(small, tmp_path / "out" / "records.zarr")
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_a_store_error(tmp_path, small):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(StoreError):
        quickstart.write_records(small, tmp_path / "out" / "records.zarr")


def test_the_quickstart_describes_the_bundled_features_in_their_order():
    loaded = load_config(CONFIGS / "quickstart.toml")
    with np.load(BUNDLE) as bundle:
        assert [feature.name for feature in loaded.config.query.geometry.features] == list(bundle["features"])


def test_the_quickstart_reads_from_and_writes_to_the_ignored_build_folder_only():
    loaded = load_config(CONFIGS / "quickstart.toml")
    build = ROOT / "build" / "quickstart"
    assert loaded.store_path == build / "credit_default.zarr"
    assert loaded.output_root == build / "releases"
    assert str(build / "ledger.db") in loaded.ledger_url
    assert "build/" in (ROOT / ".gitignore").read_text().splitlines()


NOT_RELEASES = ("ingest-example.toml", "deployments.toml")


@pytest.mark.parametrize("example", sorted({path.name for path in CONFIGS.glob("*.toml")} - {*NOT_RELEASES}))
def test_every_example_config_plans_without_its_data(example):
    loaded = load_config(CONFIGS / example)
    plan = make_plan(loaded, date(2026, 11, 20))
    assert plan.charge.mu + plan.charge.epsilon > 0
    assert str(loaded.config.privacy.epsilon).removesuffix(".0") in promise.sentence(plan)

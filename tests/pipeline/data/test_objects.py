"""Records in an object store: read by releases and by ingests; credentials and answers of the store never show."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import socket
import urllib.request
from contextlib import suppress

import numpy as np
import obstore
import pytest
import zarr
from obstore.store import MemoryStore, S3Store
from zarr.storage import ObjectStore

from blockveil.pipeline.base.errors import DataError, StoreError, StoreUnreachable
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.answering_store import AnsweringStore
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.fingerprint import fingerprint, prefixes
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest import store_writer as writing
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.ingest.store_contract import Contract
from blockveil.pipeline.data.released import read_release
from blockveil.pipeline.data.sparse_store import StoredRows, open_rows, parts_of
from blockveil.pipeline.data.stores import check_complete
from blockveil.pipeline.data.zarr_arrays import chunk_files
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.releases.test_release import NIGHT

SECRET = "never-to-be-seen-31415926"


@pytest.fixture(scope="module")
def server():
    """An S3 server in this process."""
    running = started_server()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


def started_server():
    """An S3 server, which comes with much that no other test file needs to import."""
    from moto.server import ThreadedMotoServer

    running = ThreadedMotoServer(port=0, verbose=False)
    running.start()
    return running


@pytest.fixture
def bucket(server, monkeypatch, request):
    """A bucket of its own, whose credentials are in the environment."""
    return made_bucket(server, monkeypatch, request.node.name)


def made_bucket(server, monkeypatch, of="a bucket"):
    """Address of a new bucket of a server."""
    environment = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{hashlib.sha256(of.encode()).hexdigest()[:16]}"
    put = urllib.request.Request(f"{server}/{name}", method="PUT")
    urllib.request.urlopen(put).close()
    return f"s3://{name}"


def upload(bucket, folder, prefix):
    place = objects.client(bucket)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            obstore.put(place, f"{prefix}/{file.relative_to(folder)}", file.read_bytes())


def pointed(loaded, address):
    """The same config with records elsewhere."""
    text = loaded.path.read_text().replace(f'store = "{loaded.config.data.store}"', f'store = "{address}"')
    (loaded.path.parent / "remote.toml").write_text(text)
    return load_config(loaded.path.parent / "remote.toml")


@pytest.fixture
def remote(tmp_path, bucket):
    """Records in a folder and, the same, in a bucket."""
    loaded = support.prepare(tmp_path)
    upload(bucket, tmp_path / "records.zarr", "deep/records.zarr")
    return pointed(loaded, f"{bucket}/deep/records.zarr")


def test_a_release_of_records_in_a_bucket_has_the_noise_free_parts_of_one_of_local_records(tmp_path, remote):
    dataset = open_records(remote)
    assert (dataset.rows, dataset.features, dataset.chunk_rows) == (400, 3, 50)
    np.testing.assert_array_equal(dataset.array[...], support.records())
    outcome = run_release(make_plan(remote, NIGHT), ThreadCompute(2), "test", lambda stage, share: None)
    release = read_release(outcome.path)
    assert release.attributes["output_digest"] == outcome.output_digest
    assert SECRET not in str(release.attributes)


def test_sparse_records_in_a_bucket_are_those_of_the_local_store(tmp_path, bucket):
    people.write_parquet(tmp_path, people.visits())
    people.run(people.configure(tmp_path, people.COLUMNS[2:], layout="entries"))
    upload(bucket, tmp_path / "out.zarr", "sparse.zarr")
    local, far = (
        open_rows(place, "records", "data.store") for place in (tmp_path / "out.zarr", f"{bucket}/sparse.zarr")
    )
    assert isinstance(far, StoredRows)
    assert np.array_equal(far[10:200], local[10:200])
    assert Contract.of(far) == Contract.of(local)
    for part in parts_of(far):
        check_complete(part)
    before = fingerprint(far)
    assert np.array_equal(pickle.loads(pickle.dumps(far))[0:9], local[0:9])
    obstore.put(objects.client(bucket), "sparse.zarr/records/indptr/c/0", b"other")
    assert fingerprint(far) != before


@pytest.mark.parametrize("layout", ["rows", "entries"])
def test_a_grown_store_in_a_bucket_is_that_of_the_local_one_while_it_grows(tmp_path, bucket, layout):
    states = []
    for number in range(2):
        grown.put(tmp_path, number)
        people.run(people.configure(tmp_path, grown.COLUMNS, append=True, late="next", layout=layout))
        upload(bucket, tmp_path / "out.zarr", f"{layout}.zarr")
        states.append(open_rows(f"{bucket}/{layout}.zarr", "records", "data.store"))
    before, far = states
    assert (before.shape, far.shape) == ((60, 2), (120, 2))
    assert np.array_equal(far[:], grown.records(tmp_path))
    assert Contract.of(far).grows
    for part in parts_of(far):
        check_complete(part)
    sent = pickle.dumps(before)
    assert SECRET.encode() not in sent
    assert np.array_equal(pickle.loads(sent)[:], far[:60])
    assert prefixes(far) == [fingerprint(before), fingerprint(far)]


def test_the_array_that_travels_to_workers_holds_no_secret(remote):
    array = open_records(remote).array
    sent = pickle.dumps(array)
    assert SECRET.encode() not in sent
    assert b"somebody" not in sent
    np.testing.assert_array_equal(pickle.loads(sent)[...], support.records())
    # The search finds what is there: a client that was given its secret would carry it.
    given = S3Store("bucket", access_key_id="somebody", secret_access_key=SECRET)
    assert SECRET.encode() in pickle.dumps(given)


def test_a_changed_or_missing_object_is_other_data(remote):
    dataset = open_records(remote)
    dataset.check_unchanged()
    place = objects.client(remote.config.data.store)
    name = f"records/{list(chunk_files(dataset.array))[3]}"
    content = bytes(obstore.get(place, name).bytes())
    obstore.put(place, name, bytes(255 - byte for byte in content))
    with pytest.raises(DataError, match="changed while"):
        dataset.check_unchanged()
    obstore.put(place, name, content)
    dataset.check_unchanged()
    obstore.delete(place, name)
    with pytest.raises(DataError, match="a chunk is missing"):
        open_records(remote)


def test_the_order_and_number_of_other_objects_do_not_count(remote):
    first = open_records(remote).fingerprint
    obstore.put(objects.client(remote.config.data.store), "records/c/9.partial", b"left over")
    assert open_records(remote).fingerprint == first


def test_missing_chunks_inside_shards_are_found(bucket):
    store = ObjectStore(objects.client(f"{bucket}/sharded"))
    array = zarr.create_array(store, shape=(100, 2), chunks=(10, 2), shards=(40, 2), dtype="f8")
    array[:50] = 1
    with pytest.raises(DataError, match="a chunk is missing"):
        check_complete(array)
    whole = zarr.create_array(store, shape=(100, 2), chunks=(10, 2), shards=(40, 2), dtype="f8", overwrite=True)
    whole[...] = 1
    check_complete(whole)
    assert fingerprint(whole) == fingerprint(whole)


def test_an_absent_store_and_one_out_of_reach_are_told_without_addresses_or_credentials(remote, bucket, monkeypatch):
    with pytest.raises(StoreError, match="is not there"):
        open_records(pointed(remote, f"{bucket}/nothing"))
    with pytest.raises(StoreError, match="bucket or container"):
        objects.names_below(f"{bucket}-other/folder")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.2)
    with pytest.raises(StoreUnreachable, match="does not answer as it should") as caught:
        open_records(remote)
    assert caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_who_has_no_credentials_is_told_so_and_which_variables_have_them(monkeypatch, scheme):
    for name in [*os.environ]:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "AZURITE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "somebody")
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.2)

    # A door in the way to the identity that a machine of the provider has; this one may be such a machine.
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, nowhere)
    with pytest.raises(StoreUnreachable, match="there are no credentials") as caught:
        objects.names_at(f"{scheme}://bucket/folder")
    assert "GOOGLE_SERVICE_ACCOUNT" in caught.value.remedy
    assert nowhere not in str(caught.value)


@pytest.fixture
def fragile(monkeypatch):
    """Stops the store's server, of which this test has one of its own."""
    running = started_server()
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.2)
    yield running
    with suppress(Exception):
        running.stop()


@pytest.fixture
def server_of_one_test(fragile):
    """Address of that server."""
    host, port = fragile.get_host_and_port()
    return f"http://{host}:{port}"


@pytest.mark.parametrize("name", ["allow_http", "aws_allow_http", "no_such_setting", ""])
def test_a_setting_that_the_provider_does_not_know_is_refused_without_its_value(name):
    with pytest.raises(StoreError, match="Its settings have names that the provider knows") as refused:
        objects.client("s3://bucket/folder", {name: "hidden"})
    assert "hidden" not in str(refused.value)


def test_a_store_that_goes_away_during_a_release_is_named_and_costs_nothing(
    tmp_path, fragile, server_of_one_test, monkeypatch
):
    class Away(ThreadCompute):
        def hold(self, graph, progress):
            fragile.stop()
            return super().hold(graph, progress)

    address = made_bucket(server_of_one_test, monkeypatch)
    loaded = support.prepare(tmp_path)
    upload(address, tmp_path / "records.zarr", "records.zarr")
    loaded = pointed(loaded, f"{address}/records.zarr")
    with pytest.raises(StoreUnreachable, match="store of the records did not answer") as caught:
        run_release(make_plan(loaded, NIGHT), Away(2), "test", lambda *_: None)
    for word in ("worker memory", "damaged", SECRET, "127.0.0.1"):
        assert word not in str(caught.value)
    assert Ledger(loaded.ledger_url).history()[-1].kind == "VOID"
    assert not list(loaded.output_root.rglob(".staging*"))


@pytest.mark.parametrize("source", ["parquet", "zarr"])
def test_a_store_that_goes_away_during_an_ingest_is_named_and_no_raw_record_stays(
    tmp_path, fragile, server_of_one_test, monkeypatch, source
):
    def save(self, **changes):
        write(self, **changes)
        fragile.stop()

    address = made_bucket(server_of_one_test, monkeypatch)
    if source == "parquet":
        people.write_parquet(tmp_path, people.visits(), files=2)
        upload(address, tmp_path / "in", "in")
        text = f'kind = "parquet"\nfiles = ["{address}/in"]'
    else:
        support.write_records(tmp_path, support.records()[:, :1])
        upload(address, tmp_path / "records.zarr", "in")
        text = f'kind = "zarr"\nfiles = ["{address}/in"]\narrays = ["records"]\nnames = ["cost"]'
        monkeypatch.setattr(readers, "BATCH_BYTES", 1)
    loaded, write = people.configure(tmp_path, [people.NUMBER], text, chunk_rows=50), scratch.Staging.save
    monkeypatch.setattr(scratch.Staging, "save", save)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    with pytest.raises(StoreUnreachable, match="does not answer as it should") as caught:
        people.run(loaded)
    assert "damaged" not in str(caught.value)
    assert people.left(tmp_path) == []
    assert not (tmp_path / "out.zarr").exists()


def test_an_ingest_reads_objects_of_every_format(tmp_path, bucket):
    table = people.visits()
    people.write_parquet(tmp_path, table, files=2, row_group_size=90)
    people.write_csv(tmp_path / "csv" / "visits.csv", table)
    np.savez_compressed(tmp_path / "in" / "x.npz", x=people.expected(table)[:, :1])
    np.save(tmp_path / "in" / "x.npy", people.expected(table)[:, :1])
    upload(bucket, tmp_path / "in", "in/ward=b")
    upload(bucket, tmp_path / "csv", "in")
    wanted = people.expected(table)
    cases = {
        f'kind = "parquet"\nfiles = ["{bucket}/in"]': (people.COLUMNS[:2], wanted[:, :2]),
        f'kind = "parquet"\nfiles = ["{bucket}/in/*/part-*.parquet"]': (people.COLUMNS[:2], wanted[:, :2]),
        f'kind = "csv"\nfiles = ["{bucket}/in/visits.csv"]': (people.COLUMNS, wanted),
        f'kind = "npz"\nfiles = ["{bucket}/in"]\narrays = ["x"]\nnames = ["cost"]': ([people.NUMBER], wanted[:, :1]),
        f'kind = "npy"\nfiles = ["{bucket}/in/ward=b/x.npy"]\nnames = ["cost"]': ([people.NUMBER], wanted[:, :1]),
    }
    for number, (source, (columns, values)) in enumerate(cases.items()):
        loaded = people.configure(tmp_path, columns, source, store=f"{number}.zarr")
        people.run(loaded)
        found = zarr.open_array(tmp_path / f"{number}.zarr" / "records", mode="r")[...]
        np.testing.assert_array_equal(found, values)
    upload(bucket, tmp_path / "2.zarr", "stored.zarr")
    names = '["cost", { name = "other", count = 5 }]'
    source = f'kind = "zarr"\nfiles = ["{bucket}/stored.zarr"]\narrays = ["records"]\nnames = {names}'
    people.run(people.configure(tmp_path, [people.NUMBER], source))
    np.testing.assert_array_equal(people.stored(tmp_path), wanted[:, :1])


@pytest.mark.slow
def test_an_iceberg_table_in_a_bucket_is_ingested_and_a_replaced_file_of_it_is_refused(tmp_path, bucket, server):
    from pyiceberg.catalog.sql import SqlCatalog

    keys = {"s3.endpoint": server, "s3.access-key-id": "somebody", "s3.secret-access-key": SECRET}
    catalog = SqlCatalog("far", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=bucket, **keys)
    catalog.create_namespace("clinic")
    visits = people.visits()
    table = catalog.create_table("clinic.visits", schema=visits.schema)
    table.append(visits)
    catalog.engine.dispose()
    loaded = people.configure(tmp_path, [people.NUMBER], f'kind = "iceberg"\ntable = "{table.metadata_location}"')
    source = look(loaded)
    [file] = source.files
    people.run(loaded)
    assert np.array_equal(people.stored(tmp_path)[:, 0], visits["cost"].to_numpy().astype(np.float32))
    obstore.put(objects.client(bucket), objects.split(file.location)[1], b"another")
    with pytest.raises(DataError, match="changed while it was read"):
        file.check_unchanged()
    with pytest.raises((DataError, StoreError)) as caught:
        people.run(loaded)
    assert SECRET not in str(caught.value)


def test_an_object_that_is_replaced_while_it_is_read_is_refused(tmp_path, bucket):
    people.write_parquet(tmp_path, people.visits(), row_group_size=50)
    upload(bucket, tmp_path / "in", "in")
    loaded = people.configure(tmp_path, people.COLUMNS, f'kind = "parquet"\nfiles = ["{bucket}/in"]')
    source = look(loaded)
    people.write_parquet(tmp_path, people.visits(499), row_group_size=50)
    upload(bucket, tmp_path / "in", "in")
    with pytest.raises(StoreError, match="replaced while it was read"):
        ingest(source, lambda stage, share: None)
    assert not (tmp_path / "out.zarr").exists()


def test_what_keeps_a_listing_from_beginning_is_told_by_its_kind_alone(monkeypatch):
    def refuse(store, prefix):
        raise ValueError(f"{prefix} is not listed")

    monkeypatch.setattr(ObjectStore, "list_dir", refuse)
    store = AnsweringStore(ObjectStore(MemoryStore()))
    with pytest.raises(StoreError, match="The release's store") as refusal:
        asyncio.run(anext(store.list_dir("prefix-of-a-person")))
    assert "a-person" not in str(refusal.value)
    assert refusal.value.__context__ is None


def test_a_file_like_object_reads_any_part(bucket):
    place = objects.client(bucket)
    content = bytes(range(256)) * 50
    obstore.put(place, "a/b", content)
    found = objects.looked_up(place, "a/b")
    assert found is not None
    with objects.opened(place, found) as stream:
        assert stream.read(10) == content[:10]
        assert stream.seek(-5, 2) == len(content) - 5
        assert stream.read() == content[-5:]
        assert stream.read(1) == b""
        stream.seek(7000)
        stream.seek(3, 1)
        assert stream.read(300) == content[7003:7303]
    assert objects.looked_up(place, "a") is None
    assert [one.path for one in objects.listed(place, "a")] == ["a/b"]

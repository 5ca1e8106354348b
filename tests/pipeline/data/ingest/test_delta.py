"""A Delta table is ingested as the Parquet files that its log names at one version."""

import json
import shutil

import deltalake
import numpy as np
import obstore
import pyarrow as pa
import pytest

from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.data import objects
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from blockveil.pipeline.data.sparse_store import open_rows
from blockveil.pipeline.scaffold.column_names import read_columns
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.test_objects import SECRET, bucket, server, upload  # noqa: F401 - fixtures

SOURCE = 'kind = "delta"\ntable = "clinic"'
COST = [people.NUMBER]
WRITING = {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
"""Nobody else writes to a table of these tests."""


@pytest.fixture
def table(tmp_path):
    """A table of three versions: rows were added in the second and removed in the third."""
    visits, place = people.visits(), str(tmp_path / "clinic")
    deltalake.write_deltalake(place, visits.slice(0, 300), partition_by=["ward"])
    deltalake.write_deltalake(place, visits.slice(300), mode="append")
    deltalake.DeltaTable(place).delete("stay > 20")
    return visits


def costs(folder):
    return sorted(people.stored(folder)[:, 0].tolist())


def expected(rows):
    return sorted(pa.array(rows["cost"].to_pylist(), pa.float32()).to_pylist())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_version_of_a_table_has_its_own_rows(tmp_path, table, version):
    people.run(people.configure(tmp_path, COST, f"{SOURCE}\nversion = {version}"))
    rows = {0: table.slice(0, 300), 1: table, 2: table.filter(pa.compute.less_equal(table["stay"], 20))}[version]
    assert costs(tmp_path) == expected(rows)


def test_without_a_version_the_newest_is_read_and_stays(tmp_path, table):
    source = look(people.configure(tmp_path, people.COLUMNS, SOURCE))
    deltalake.write_deltalake(str(tmp_path / "clinic"), table, mode="append")
    ingest(source, lambda stage, share: None)
    rows = table.filter(pa.compute.less_equal(table["stay"], 20))
    assert costs(tmp_path) == expected(rows)
    assert people.stored(tmp_path)[:, 2:5].sum(axis=0).tolist() == [
        rows["ward"].to_pylist().count(ward) for ward in "abc"
    ]


def test_values_of_partitions_are_those_of_the_log_and_may_be_missing(tmp_path):
    rows = pa.table({"cost": [1.0, 2.0, 3.0], "ward": ["a b/c=%", None, "ä"]})
    deltalake.write_deltalake(str(tmp_path / "clinic"), rows, partition_by=["ward"])
    ward = {"name": "ward", "kind": "category", "categories": ["a b/c=%", "ä"], "encode": "code"}
    columns = [*COST, {**ward, "unknown": "other", "missing": "unknown"}]
    people.run(people.configure(tmp_path, columns, SOURCE))
    assert sorted(people.stored(tmp_path).tolist()) == [[1, 0], [2, 2], [3, 1]]


@pytest.mark.parametrize("files", ["clinic", "clinic/**/*.parquet", "clinic/ward=a", "."])
def test_files_of_a_table_are_not_read_beside_its_log(tmp_path, table, files):
    with pytest.raises(ConfigError, match="which of them count"):
        look(people.configure(tmp_path, COST, f'kind = "parquet"\nfiles = ["{files}"]'))


def test_a_table_is_not_begun_as_a_folder_of_files(tmp_path, table):
    with pytest.raises(ConfigError, match="Delta or Iceberg table"):
        read_columns("clinic/ward=a", tmp_path)
    assert read_columns("clinic", tmp_path).kind == "delta"


def protocol(folder, **fields):
    """Write another protocol into the first entry of a log."""
    file = folder / "clinic" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] |= fields
    file.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"minReaderVersion": 2}, "columnMapping"),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}, "deletionVectors"),
        ({"minReaderVersion": 9}, "needs|cannot be read"),
    ],
)
def test_a_table_whose_files_do_not_hold_its_rows_alone_is_refused(tmp_path, fields, said):
    deltalake.write_deltalake(str(tmp_path / "clinic"), people.visits())
    if "readerFeatures" in fields:
        fields = {**fields, "writerFeatures": fields["readerFeatures"]}
    protocol(tmp_path, **fields)
    with pytest.raises((DataError, StoreError), match=said):
        people.run(people.configure(tmp_path, COST, SOURCE))


def test_what_is_no_table_or_lacks_a_file_is_refused(tmp_path, table):
    with pytest.raises(StoreError, match="cannot be read as a Delta table"):
        people.run(people.configure(tmp_path, COST, 'kind = "delta"\ntable = "nowhere"'))
    with pytest.raises(StoreError, match="cannot be read as a Delta table"):
        people.run(people.configure(tmp_path, COST, f"{SOURCE}\nversion = 9"))
    for file in (tmp_path / "clinic").glob("ward=*/*.parquet"):
        file.unlink()
    with pytest.raises(StoreError, match="a file that its log names is not there"):
        people.run(people.configure(tmp_path, COST, f"{SOURCE}\nversion = 1"))


def test_a_table_that_names_a_file_elsewhere_is_refused(tmp_path):
    deltalake.write_deltalake(str(tmp_path / "clinic"), people.visits())
    people.write_parquet(tmp_path, people.visits())
    file = tmp_path / "clinic" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = "../in/part-0.parquet"
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises((DataError, StoreError), match=r"elsewhere|cannot be read"):
        people.run(people.configure(tmp_path, COST, SOURCE))


def in_bucket(address, more=""):
    return f'kind = "delta"\ntable = "{address}/lake/clinic/"\n{more}'


@pytest.mark.parametrize("version", [0, None])
def test_a_table_in_an_object_store_becomes_the_store_of_the_same_table_in_a_folder(tmp_path, bucket, table, version):  # noqa: F811
    more = "" if version is None else f"version = {version}"
    people.run(people.configure(tmp_path, people.COLUMNS, f"{SOURCE}\n{more}"))
    found = people.stored(tmp_path).copy()
    shutil.rmtree(tmp_path / "out.zarr")
    upload(bucket, tmp_path / "clinic", "lake/clinic")
    shutil.rmtree(tmp_path / "clinic")
    people.run(people.configure(tmp_path, people.COLUMNS, in_bucket(bucket, more)))
    assert people.stored(tmp_path).tobytes() == found.tobytes()


def test_a_store_grows_by_what_is_appended_to_a_table_in_an_object_store(tmp_path, bucket):  # noqa: F811
    keys, rows = {"append": True, "late": "next", "chunk_rows": 64}, people.visits(50)
    for part in (rows[:20], rows[20:]):
        deltalake.write_deltalake(f"{bucket}/lake/clinic", part, mode="append", storage_options=WRITING)
        people.run(people.configure(tmp_path, COST, in_bucket(bucket), **keys))
    stored = np.asarray(open_rows(tmp_path / "out.zarr", "records", "data.store")[:])
    assert np.array_equal(stored[:, 0], rows["cost"].to_numpy().astype(np.float32))


def test_partitions_of_a_table_in_an_object_store_may_have_any_name(tmp_path, bucket):  # noqa: F811
    rows = pa.table({"cost": [1.0, 2.0, 3.0], "ward": ["a b/c=%", None, "ä"]})
    deltalake.write_deltalake(f"{bucket}/lake/clinic", rows, partition_by=["ward"], storage_options=WRITING)
    ward = {"name": "ward", "kind": "category", "categories": ["a b/c=%", "ä"], "encode": "code"}
    columns = [*COST, {**ward, "unknown": "other", "missing": "unknown"}]
    people.run(people.configure(tmp_path, columns, in_bucket(bucket)))
    assert sorted(people.stored(tmp_path).tolist()) == [[1, 0], [2, 2], [3, 1]]


def test_a_file_of_an_object_store_that_changes_or_goes_is_noticed(tmp_path, bucket, table):  # noqa: F811
    upload(bucket, tmp_path / "clinic", "lake/clinic")
    loaded, place = people.configure(tmp_path, COST, in_bucket(bucket)), objects.client(bucket)
    source = look(loaded)
    obstore.put(place, source.files[0].location.removeprefix(f"{bucket}/"), b"other")
    with pytest.raises((DataError, StoreError)):
        ingest(source, lambda stage, share: None)
    assert not (tmp_path / "out.zarr").exists()
    for one in list(objects.listed(place, "lake/clinic")):
        if one.path.endswith(".parquet"):
            obstore.delete(place, one.path)
    with pytest.raises(StoreError, match="a file that its log names is not there"):
        people.run(loaded)


def test_what_an_object_store_answers_is_never_shown(tmp_path, bucket, monkeypatch):  # noqa: F811
    loaded = people.configure(tmp_path, COST, in_bucket(bucket))
    with pytest.raises(StoreError, match="cannot be read as a Delta table") as caught:
        people.run(loaded)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{SECRET}.invalid:1")
    monkeypatch.setattr(objects, "RETRY_SECONDS", 0.1)
    with pytest.raises(StoreError) as caught:
        people.run(loaded)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://me:pass@bucket/clinic", "s3://bucket/clinic?sig=pass"])
def test_an_address_with_a_password_is_refused_and_not_repeated(tmp_path, place):
    with pytest.raises((ConfigError, StoreError)) as caught:
        people.run(people.configure(tmp_path, COST, f'kind = "delta"\ntable = "{place}"'))
    assert "pass" not in str(caught.value)

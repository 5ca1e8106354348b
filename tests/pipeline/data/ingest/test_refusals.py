"""What does not fit is refused with file, column and rule, and never a value; nothing is published or left."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest
import scipy.sparse
import zarr

from blockveil.pipeline.base import durable
from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.data.ingest import ingest_staging as scratch
from blockveil.pipeline.data.ingest import readers
from blockveil.pipeline.data.ingest import store_writer as writing
from tests.house import warm
from tests.pipeline.data.ingest import ingest_support as people

CANARY = "271828.182845904"
COST = {"name": "cost", "kind": "number", "missing": "refuse"}
WHOLE = {"name": "cost", "kind": "whole", "missing": "refuse"}
WARD = {"name": "ward", "kind": "category", "categories": ["a"], "unknown": "refuse", "missing": "refuse"}
CSV = 'kind = "csv"\nfiles = ["in"]'


@pytest.fixture
def refused(tmp_path):
    """Ingest what must be refused, and return the message."""

    def message(kind, columns, *args, **options):
        with pytest.raises(kind) as caught:
            people.run(people.configure(tmp_path, columns, *args, **options))
        assert caught.value.__context__ is None
        assert CANARY not in str(caught.value)
        assert not (tmp_path / "out.zarr").exists()
        assert people.left(tmp_path) == []
        return str(caught.value)

    return message


@pytest.mark.parametrize(
    "files",
    [
        ["in", "in/part-0.parquet"],
        ["in/part-0.parquet", "in/*.parquet"],
        ["in/part-0.parquet", "in/../in/part-0.parquet"],
        ["in", "linked.parquet"],
        ["in", "hard.parquet"],
    ],
)
def test_a_file_that_is_named_twice_would_store_its_records_twice(tmp_path, refused, files):
    people.write_parquet(tmp_path, people.visits(), files=2)
    (tmp_path / "linked.parquet").symlink_to(tmp_path / "in" / "part-0.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "in" / "part-0.parquet")
    source = f'kind = "parquet"\nfiles = {people.toml(files)}'
    assert re.match(r'"(part-0|linked|hard).parquet" is named twice', refused(DataError, [COST], source))


def test_arrays_that_are_named_twice_are_refused_too(tmp_path, refused):
    zarr.save_array(tmp_path / "x.zarr", np.ones((3, 1)))
    source = 'kind = "zarr"\nfiles = ["x.zarr", "x.zarr"]\nnames = ["cost"]'
    assert '"x.zarr" is named twice' in refused(DataError, [COST], source)


@pytest.mark.parametrize(
    ("values", "column", "said"),
    [
        (pa.array([1.0, None]), COST, "missing or infinite"),
        (pa.array([1.0, float("nan")]), COST, "missing or infinite"),
        (pa.array([1.0, float("inf")]), COST, "missing or infinite"),
        (pa.array([1.0, 1e39]), COST, "beyond float32"),
        (pa.array(["x", CANARY]), COST, "is of type string"),
        (pa.array([True, False]), COST, "is of type bool"),
        (pa.array([1.0, 2.5]), WHOLE, "not whole, or that double does not hold exactly"),
        (pa.array([1.0, 2.0**53]), WHOLE, "not whole, or that double does not hold exactly"),
        (pa.array([1.0, 2.0**24], pa.float32()), WHOLE, "not whole, or that float does not hold exactly"),
        (pa.array([1.0, float("inf")]), WHOLE, "not whole"),
        (pa.array([1.0, None]), WHOLE, "missing value"),
        (pa.array([1, 2**24 + 1]), WHOLE, "beyond float32"),
        (pa.array([1, 2**63], pa.uint64()), WHOLE, "beyond 64 bits"),
        (pa.array([1, None]), WHOLE, "missing value"),
        (pa.array([0, 2]), {"name": "cost", "kind": "boolean", "missing": "refuse"}, "other than 0 and 1"),
        (pa.array(["a", CANARY]), {**WARD, "name": "cost", "encode": "code"}, "not in the list"),
        (pa.array([1, 2]), {**WARD, "name": "cost", "encode": "code"}, "is of type int64"),
        (
            pa.array([0.5, 7.0]),
            {"name": "cost", "kind": "bins", "edges": [0, 1], "outside": "refuse", "missing": "drop", "encode": "code"},
            "beyond the edges",
        ),
    ],
)
def test_a_value_that_does_not_fit_names_file_and_column(tmp_path, refused, values, column, said):
    people.write_parquet(tmp_path, pa.table({"cost": values}))
    message = refused(DataError, [column])
    assert 'File "part-0.parquet", column "cost"' in message
    assert said in message


def test_whole_numbers_beyond_the_type_are_refused(tmp_path, refused):
    people.write_parquet(tmp_path, pa.table({"cost": [1, 128]}))
    assert "beyond int8" in refused(DataError, [WHOLE], dtype="int8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"cost,ward\n1,a\nx{CANARY},b\n", 'column "cost" holds a text that is not a number'),
        (f"cost,ward\n1,a\n2,b,{CANARY}\n", "lines of different length"),
        (f"cost,ward\n1,a\n{CANARY}", "lines of different length"),
        (f"cost,ward\n1,a\n2,'{CANARY},b'\n", 'fields not quoted by "'),
        (f'ward,cost\na,"1,{CANARY}"\n', "with a point before decimals"),
        ("", "is empty"),
        ("cost,ward\n", "holds no record"),
        ("ward\na\n", 'does not have column "cost"'),
        ("cost,cost\n1,2\n", 'does not have only one column "cost"'),
    ],
)
def test_a_csv_file_that_does_not_fit_is_not_quoted(tmp_path, refused, text, said):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "visits.csv").write_text(text)
    assert said in refused(DataError, [COST], CSV)


@pytest.mark.parametrize("damage", ["empty", "text", "cut short"])
@pytest.mark.parametrize("kind", ["parquet", "npy", "npz"])
def test_a_damaged_file_is_refused(tmp_path, refused, kind, damage):
    people.write_parquet(tmp_path, people.visits().select(["cost"]))
    np.save(tmp_path / "in" / "x.npy", np.ones((50, 1)))
    np.savez_compressed(tmp_path / "in" / "x.npz", x=np.random.default_rng(0).normal(size=(5000, 1)))
    file = tmp_path / "in" / {"parquet": "part-0.parquet", "npy": "x.npy", "npz": "x.npz"}[kind]
    content = file.read_bytes()
    file.write_bytes({"empty": b"", "text": CANARY.encode() * 20, "cut short": content[: len(content) // 2]}[damage])
    more = {"parquet": "", "npy": 'names = ["cost"]', "npz": 'names = ["cost"]\narrays = ["x"]'}[kind]
    with pytest.raises(DataError, match="cut short, damaged or of another format") as caught:
        people.run(people.configure(tmp_path, [COST], f'kind = "{kind}"\nfiles = ["in"]\n{more}'))
    assert file.name in str(caught.value)
    assert CANARY not in str(caught.value)
    assert not (tmp_path / "out.zarr").exists()
    assert people.left(tmp_path) == []


@pytest.fixture
def piecewise(monkeypatch):
    """Read and write small pieces, and note each time that records were stored."""
    stored, save = [], scratch.Staging.save

    def noted(self, **changes):
        stored.append(1)
        save(self, **changes)

    monkeypatch.setattr(readers, "_CSV_BLOCK", 20_000)
    monkeypatch.setattr(readers, "BATCH_BYTES", 1000)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    monkeypatch.setattr(scratch.Staging, "save", noted)
    return stored


def leaves_no_record(folder, stored, source, said="cut short, damaged or of another format", chunk_rows=100):
    with pytest.raises(DataError, match=said) as caught:
        people.run(people.configure(folder, [COST], source, chunk_rows=chunk_rows))
    assert stored, "records were stored before the damage showed"
    assert "credentials" not in str(caught.value)
    assert people.left(folder) == []


@pytest.mark.parametrize(("suffix", "codec"), [("gz", "gzip"), ("bz2", "bz2"), ("zst", "zstd")])
def test_a_compressed_file_that_is_cut_short_leaves_none_of_its_records(
    tmp_path, monkeypatch, piecewise, suffix, codec
):
    monkeypatch.setattr(readers, "BATCH_BYTES", 50_000)
    # Enough of them that some are decoded before the end is missed: bzip2 decodes 900 kB at once.
    people.write_csv(tmp_path / "visits.csv", people.visits(200_000).select(["cost"]))
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / f"visits.csv.{suffix}"
    with pa.CompressedOutputStream(str(file), codec) as stream:
        stream.write((tmp_path / "visits.csv").read_bytes())
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 3 // 4])
    leaves_no_record(tmp_path, piecewise, CSV, chunk_rows=5000)


def test_a_parquet_file_whose_later_rows_are_damaged_leaves_none_of_its_records(tmp_path, piecewise):
    people.write_parquet(tmp_path, people.visits(40_000).select(["cost"]), row_group_size=1000, use_dictionary=False)
    file = tmp_path / "in" / "part-0.parquet"
    start = arrow_parquet.ParquetFile(file).metadata.row_group(20).column(0).data_page_offset
    content = file.read_bytes()
    file.write_bytes(content[:start] + bytes(100) + content[start + 100 :])
    leaves_no_record(tmp_path, piecewise, people.SOURCE)


def test_a_stored_array_of_which_a_later_chunk_is_damaged_leaves_none_of_its_records(tmp_path, piecewise):
    zarr.create_array(tmp_path / "x.zarr", data=people.visits(4000)["cost"].to_numpy()[:, None], chunks=(100, 1))
    chunk = tmp_path / "x.zarr" / "c" / "20" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    leaves_no_record(tmp_path, piecewise, 'kind = "zarr"\nfiles = ["x.zarr"]\nnames = ["cost"]')


def saved_sparse(file, values, **options):
    scipy.sparse.save_npz(file, scipy.sparse.csr_array(values), **options)


@pytest.mark.parametrize(
    ("source", "save"),
    [
        ('kind = "npy"', np.save),
        ('kind = "npz"\narrays = ["x"]', lambda file, x: np.savez(file, x=x)),
        ('kind = "npz"\narrays = ["x"]', lambda file, x: np.savez_compressed(file, x=x)),
        ('kind = "scipy"', lambda file, x: saved_sparse(file, x, compressed=False)),
        ('kind = "scipy"', saved_sparse),
    ],
    ids=["npy", "npz", "npz, compressed", "scipy", "scipy, compressed"],
)
def test_an_array_of_which_later_bytes_are_damaged_leaves_none_of_its_records(tmp_path, piecewise, source, save):
    with (tmp_path / "x").open("wb") as file:
        save(file, people.visits(20_000)["cost"].to_numpy()[:, None])
    content = (tmp_path / "x").read_bytes()
    at = len(content) * 3 // 4
    # An NPY file has no checksum, but eight bytes of ones are no number.
    (tmp_path / "x").write_bytes(content[:at] + b"\xff" * 100 + content[at + 100 :])
    leaves_no_record(tmp_path, piecewise, f'{source}\nfiles = ["x"]\nnames = ["cost"]', 'File "x"')


def test_files_that_lack_a_column_or_are_not_there_are_refused(tmp_path, refused):
    people.write_parquet(tmp_path, people.visits().select(["stay"]))
    assert 'does not have column "cost"' in refused(DataError, [COST])
    for files in ('["other"]', '["in/*.csv"]', '["in/x.parquet"]'):
        assert "there is no such file" in refused(StoreError, [COST], f'kind = "parquet"\nfiles = {files}')


def test_no_records_is_refused(tmp_path, refused):
    people.write_parquet(tmp_path, people.visits(0))
    assert "holds no record" in refused(DataError, [COST])
    unit = people.CHOOSE.format(most=1)
    assert "holds no record" in refused(DataError, [COST], people.SOURCE, unit)


def test_units_must_be_there_and_of_the_declared_type(tmp_path, refused):
    people.write_parquet(tmp_path, pa.table({"person": [1, None], "cost": [1.0, 2.0]}))
    unit = people.CHOOSE.format(most=1).replace('"drop"', '"refuse"')
    assert 'column "person" holds a missing unit' in refused(DataError, [COST], people.SOURCE, unit)
    people.write_parquet(tmp_path, pa.table({"person": [True, False], "cost": [1.0, 2.0]}))
    assert 'unit.type = "whole"' in refused(DataError, [COST], people.SOURCE, unit)
    people.write_parquet(tmp_path, pa.table({"person": [1, 2], "cost": [1.0, 2.0]}))
    assert 'unit.type = "text"' in refused(DataError, [COST], people.SOURCE, unit.replace("whole", "text"))


def test_a_sum_beyond_the_type_is_refused(tmp_path, refused):
    people.write_parquet(tmp_path, pa.table({"person": [1, 1], "cost": [3e38, 3e38]}))
    assert "add up to more than float32" in refused(DataError, [COST], people.SOURCE, people.TOGETHER.format(by="sum"))


def test_arrays_must_have_the_named_width_and_be_complete(tmp_path, refused):
    np.save(tmp_path / "x.npy", np.ones((4, 3)))
    source = 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["cost", "b"]'
    assert "3 columns and source.names has 2" in refused(DataError, [COST], source)
    made = zarr.create_array(tmp_path / "x.zarr", shape=(40, 1), chunks=(10, 1), dtype="f8")
    made[:20] = 1
    assert "incomplete" in refused(DataError, [COST], 'kind = "zarr"\nfiles = ["x.zarr"]\nnames = ["cost"]')
    np.savez(tmp_path / "x.npz", a=np.ones(3), b=np.ones(4))
    source = 'kind = "npz"\nfiles = ["x.npz"]\narrays = ["a", "b"]\nnames = ["cost", "b"]'
    assert "different lengths" in refused(DataError, [COST], source)
    assert 'does not have array "c"' in refused(DataError, [COST], source.replace('"a", "b"]\n', '"a", "c"]\n'))


def test_pickled_objects_are_never_loaded(tmp_path, refused):
    np.save(tmp_path / "x.npy", np.array([{"cost": 1}]), allow_pickle=True)
    assert "cannot be read in its format" in refused(
        DataError, [COST], 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["cost"]'
    )


@pytest.mark.parametrize(
    ("columns", "source", "unit", "keys", "said"),
    [
        ([{**COST, "missing": "ignore"}], people.SOURCE, people.ROW, {}, "columns[0].missing"),
        ([{"name": "cost", "kind": "number"}], people.SOURCE, people.ROW, {}, "columns[0].missing is not given"),
        ([COST, COST], people.SOURCE, people.ROW, {}, "appears twice"),
        ([COST], 'kind = "parquet"\nfiles = ["s3://u:p@b/x"]', people.ROW, {}, "without credentials"),
        ([COST], 'kind = "parquet"\nfiles = ["https://b/x"]', people.ROW, {}, "not the address of an object store"),
        ([COST], 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["a"]', people.ROW, {}, "named in source.names"),
        ([COST], people.SOURCE, people.ROW, {"dtype": "int32"}, "stored as floats"),
        ([{**WARD, "unknown": "zeros", "encode": "code"}], people.SOURCE, people.ROW, {}, "first category"),
        ([{**WARD, "unknown": "maybe", "encode": "code"}], people.SOURCE, people.ROW, {}, "columns[0].unknown"),
        ([COST], people.SOURCE, people.CHOOSE.format(most=0), {}, "unit.rows_at_most"),
        ([COST], people.SOURCE, people.CHOOSE.format(most=1).replace('seed = "a"\n', ""), {}, "unit.seed is not given"),
        ([COST], people.SOURCE, people.ROW, {"store": "s3://b/x"}, "must be a local path"),
        ([COST], people.SOURCE, people.ROW, {"speed": 1}, "ingest.speed is not a known key"),
    ],
)
def test_a_config_that_does_not_hold_together_is_explained(tmp_path, columns, source, unit, keys, said):
    with pytest.raises(ConfigError) as caught:
        people.configure(tmp_path, columns, source, unit, **keys)
    assert said in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_another_store_in_the_place_is_never_touched(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    people.run(people.configure(tmp_path, people.COLUMNS))
    before = people.bits(tmp_path)
    assert "already" in people.run(people.configure(tmp_path, people.COLUMNS)).message
    with pytest.raises(StoreError, match="exists and is not of this config and source"):
        people.run(people.configure(tmp_path, people.COLUMNS, chunk_rows=7))
    people.write_parquet(tmp_path, people.visits(501))
    with pytest.raises(StoreError, match="exists and is not of this config and source"):
        people.run(people.configure(tmp_path, people.COLUMNS))
    assert people.bits(tmp_path) == before
    assert people.left(tmp_path) == []


def test_a_source_that_changes_meanwhile_is_refused(tmp_path, monkeypatch):
    people.write_parquet(tmp_path, people.visits(), files=2)
    save = scratch.Staging.save

    def change(self, **changes):
        save(self, **changes)
        os.utime(tmp_path / "in" / "part-0.parquet", (1, 1))

    monkeypatch.setattr(scratch.Staging, "save", change)
    monkeypatch.setattr(writing, "BLOCK_BYTES", 1)
    with pytest.raises(DataError, match=r'"part-0.parquet" changed while it was read'):
        people.run(people.configure(tmp_path, people.COLUMNS, chunk_rows=100))
    assert not (tmp_path / "out.zarr").exists()


def test_two_ingests_of_one_store_do_not_meet(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    loaded = people.configure(tmp_path, people.COLUMNS)
    with scratch.locked(loaded.target), pytest.raises(StoreError, match="Another ingest writes this store"):
        people.run(loaded)
    people.run(loaded)
    assert people.left(tmp_path) == []


def test_a_place_without_locks_is_refused_in_words(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "as the system says")

    people.write_parquet(tmp_path, people.visits())
    monkeypatch.setattr(scratch.fcntl, "flock", refuse)
    with pytest.raises(StoreError, match="the file system has no locks"):
        people.run(people.configure(tmp_path, people.COLUMNS))


def test_a_staging_folder_that_somebody_prepared_is_not_used(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    loaded = people.configure(tmp_path, people.COLUMNS)
    (tmp_path / "elsewhere").mkdir()
    scratch.staging_path(loaded.target).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is not a folder"):
        people.run(loaded)
    assert list((tmp_path / "elsewhere").iterdir()) in ([], [tmp_path / "elsewhere" / "lock"])


MISSING_PERMISSION = """
import sys
from pathlib import Path
from blockveil.pipeline.base.errors import StoreError
from tests.pipeline.data.ingest import ingest_support as people

try:
    people.run(people.configure(Path(sys.argv[1]), people.COLUMNS))
except StoreError as error:
    print(error)
"""


def test_missing_permission_is_a_store_error(tmp_path):
    people.write_parquet(tmp_path, people.visits())
    (tmp_path / "in" / "part-0.parquet").chmod(0)
    command = [sys.executable, "-c", MISSING_PERMISSION, str(tmp_path)]
    if os.getuid() == 0:  # root may read everything unless it gives that up
        tool = shutil.which("setpriv")
        if tool is None:
            pytest.skip("root may read everything, and there is no setpriv to give that up")
        dropped = "-dac_override,-dac_read_search"
        command = [tool, f"--bounding-set={dropped}", f"--inh-caps={dropped}", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4])
    assert 'File "part-0.parquet" cannot be read (Permission denied)' in done.stdout


def test_refused_permission_is_a_store_error(tmp_path, monkeypatch):
    people.write_parquet(tmp_path, people.visits())
    loaded = people.configure(tmp_path, people.COLUMNS)
    monkeypatch.setattr(durable, "sync", lambda path: (_ for _ in ()).throw(PermissionError(13, "no", str(path))))
    with pytest.raises(StoreError, match=r"no permission.*ingest\.store") as caught:
        people.run(loaded)
    assert str(tmp_path) not in str(caught.value)
    monkeypatch.undo()

    def closed(*args, **kwargs):
        raise PermissionError(13, "no")

    monkeypatch.setattr(readers.SourceFile, "open", closed)
    with pytest.raises(StoreError, match=r'File "part-0\.parquet" cannot be read \(Permission denied\)'):
        people.run(loaded)


FULL = """
import resource, sys
from tests.pipeline.data.ingest import ingest_support as people
from pathlib import Path
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.data.ingest import ingest_run, readers, source_rows
import signal
readers.BATCH_BYTES, source_rows.run_bytes = 4000, lambda config: 3000  # units go through runs on the disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
try:
    people.run(load_ingest(sys.argv[1]))
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize("unit", [people.ROW, people.CHOOSE.format(most=1)], ids=["rows", "units"])
def test_a_full_disk_is_told_and_the_next_run_goes_on(tmp_path, unit):
    people.write_parquet(tmp_path, people.visits())
    loaded = people.configure(tmp_path, people.COLUMNS, unit=unit)
    shown = warm.run(FULL, str(loaded.path))
    assert shown.returncode == 0, shown.stderr
    assert "the disk or quota is full" in shown.stdout
    assert "ingest.store" in shown.stdout
    assert not (tmp_path / "out.zarr").exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    people.run(loaded)
    assert people.left(tmp_path) == []

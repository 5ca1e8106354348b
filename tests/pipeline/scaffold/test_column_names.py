"""Of a source the names of its columns are read, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from blockveil.pipeline.base.errors import ConfigError, DataError, StoreError
from blockveil.pipeline.data.ingest.files import SourceFile
from blockveil.pipeline.scaffold.column_names import pasted, read_columns
from tests.pipeline.scaffold import scaffold_support as first

HEADER = ",".join(first.NAMES)
CANARY = "271828182845904"


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def files_of(folder: Path, schema: Any) -> dict[str, str]:
    return dict(first.made(folder, schema).files)


def test_two_csv_files_with_the_same_names_give_the_same_configs(tmp_path):
    one = write(tmp_path / "one" / "visits.csv", f"{HEADER}\n".encode())
    other = write(
        tmp_path / "other" / "visits.csv", f"{HEADER}\r\nA,{CANARY}\nB\n\xff\xfe,,,,,,,\x00".encode("latin-1")
    )
    found = [files_of(path.parent, read_columns("visits.csv", path.parent)) for path in (one, other)]
    assert found[0] == found[1]
    assert CANARY not in str(found)


def test_two_parquet_files_with_the_same_names_give_the_same_configs(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    empty = pa.table({name: pa.array([], pa.string()) for name in first.NAMES})
    arrow_parquet.write_table(empty, tmp_path / "one" / "visits.parquet")
    values = {name: np.arange(12.0) + float(CANARY) for name in first.NAMES[:-1]}
    frame = pd.DataFrame({**values, first.NAMES[-1]: pd.Categorical(["yes", "no"] * 6)})
    frame.to_parquet(tmp_path / "other" / "visits.parquet", row_group_size=4)
    found = [files_of(tmp_path / side, read_columns("visits.parquet", tmp_path / side)) for side in ("one", "other")]
    assert found[0] == found[1]
    assert "271828" not in str(found)


def test_no_byte_behind_the_header_of_a_csv_file_is_asked_for(tmp_path, monkeypatch):
    write(tmp_path / "visits.csv", f"{HEADER}\n{CANARY}\n".encode())
    asked = bytearray()

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            asked.extend(found)
            return found

    content = (tmp_path / "visits.csv").read_bytes()
    monkeypatch.setattr(SourceFile, "open", lambda self: Watched(content))
    assert read_columns("visits.csv", tmp_path).names == first.NAMES
    assert asked.decode() == f"{HEADER}\n"


@pytest.mark.parametrize("pack", [(".gz", gzip.compress), (".bz2", bz2.compress), ("", bytes)])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_tells_what_separates_names_whether_packed_or_not(tmp_path, pack, delimiter):
    header = f"\ufeff{delimiter.join(first.NAMES)}\r\n".encode()
    write(tmp_path / f"visits.csv{pack[0]}", pack[1](header + b"1\n"))
    schema = read_columns(f"visits.csv{pack[0]}", tmp_path)
    assert (schema.names, schema.delimiter) == (first.NAMES, delimiter)


def test_folders_patterns_and_folders_named_after_values_are_sources(tmp_path):
    write(tmp_path / "in" / "b.csv", f"{HEADER}\n".encode())
    write(tmp_path / "in" / "a.csv", b"x,y\n")
    assert read_columns("in", tmp_path).names == ("x", "y")
    assert read_columns("in/b*.csv", tmp_path).names == first.NAMES
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts" / "town=Ulm" / "a.csv", b"x,y\n")
    assert read_columns("parts", tmp_path).names == ("x", "y", "town")


@pytest.mark.parametrize("name", ["x.npy", "x.zarr", "s3://bucket/x.zarr"])
def test_arrays_are_not_even_opened(tmp_path, name):
    assert read_columns(name, tmp_path).names == ()


@pytest.mark.parametrize("header", ["a,7", "3.5;x", "1e5,b", "nan,b", "alice,-12"])
def test_a_first_line_of_values_is_refused_without_showing_it(tmp_path, header):
    write(tmp_path / "visits.csv", f"{header}\n".encode())
    with pytest.raises(ConfigError, match="holds numbers") as refused:
        read_columns("visits.csv", tmp_path)
    assert not any(part in str(refused.value) for part in ("alice", "3.5", "1e5"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no header line"),
        (b"\n\n", "no header line"),
        (b"\xff\xfea\n", "not UTF-8 text"),
        ("\ufeffa,b\n".encode("utf-16-le"), "not UTF-8 text"),
        ("größe;b\n".encode("latin-1"), "not UTF-8 text"),
        (b"a" * 2**20, "no header line"),
        (b"a,a\n", 'Two columns are named "a"'),
        (b",,\n", "has no columns"),
        (b"a,  \n", "Column 2 has no name"),
        (b"a, b\n", "Column 2 has a name"),
        ("a,b\u202e\n".encode(), "Column 2 has a name"),
        (b"a," + b"b" * 121 + b"\n", "Column 2 has a name"),
    ],
)
def test_names_that_cannot_be_shown_are_refused(tmp_path, content, told):
    write(tmp_path / "visits.csv", content)
    with pytest.raises(DataError, match=told):
        read_columns("visits.csv", tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_header_ends_where_its_line_does_and_columns_without_a_name_are_left_out(tmp_path, end):
    lines = [",person,age,,", "0,a,40,,", "1,b,50,,"]
    write(tmp_path / "visits.csv", end.join([*lines, ""]).encode())
    assert read_columns("visits.csv", tmp_path).names == ("person", "age")


def test_tabs_may_separate_fields_in_a_file_that_is_called_so(tmp_path):
    write(tmp_path / "visits.tsv", b"person\tage\na\t40\n")
    schema = read_columns("visits.tsv", tmp_path)
    assert (schema.kind, schema.names, schema.delimiter) == ("csv", ("person", "age"), "\t")


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("'person','age'", "begin with a quotation mark"),
        ("person,'ages, in years'", "begin with a quotation mark"),
        ("`person`;`age`", "begin with a quotation mark"),
        ("sep=;", "says what separates fields"),
        ('"sep=,"', "says what separates fields"),
    ],
)
def test_a_first_line_that_other_programs_write_is_no_line_of_names(tmp_path, header, told):
    write(tmp_path / "visits.csv", f"\ufeff{header}\nperson;age\n".encode())
    with pytest.raises(ConfigError, match=told):
        read_columns("visits.csv", tmp_path)


def test_what_is_no_source_is_refused(tmp_path):
    write(tmp_path / "visits.parquet", b"PAR1 is not all of it")
    write(tmp_path / "visits.txt", b"a,b\n")
    (tmp_path / "empty").mkdir()
    for name, error in [
        ("visits.parquet", DataError),
        ("visits.txt", ConfigError),
        ("nowhere.csv", StoreError),
        ("empty", StoreError),
    ]:
        with pytest.raises(error):
            read_columns(name, tmp_path)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("postgresql://role:s3cret@host/clinic", "env:CLINIC/visits"),
        ("postgresql+psycopg://role:s3cret@host/clinic/visits", "env:CLINIC/visits"),
        ("sqlite:///clinic.db", "clinic.sqlite/visits"),
        ("mysql://role:s3cret@host/clinic", "Parquet or CSV files first"),
        ("https://role:s3cret@host/visits.csv", "Parquet or CSV files first"),
    ],
)
def test_an_address_of_what_is_not_read_is_told_what_is_and_is_not_repeated(tmp_path, location, told):
    with pytest.raises(ConfigError, match=told) as refused:
        read_columns(location, tmp_path)
    assert f"begins with {location.partition('://')[0]}://." in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "object store" not in str(refused.value)


@pytest.mark.parametrize("text", ["a,b,c d", " a\n\n b\nc d\n", "a;b;c d\n", '"a","b","c d"'])
def test_pasted_names_are_a_line_or_lines(text):
    assert pasted(text) == ("a", "b", "c d")


@pytest.mark.parametrize("text", ["", " \n", "a,a", "a,,b"])
def test_pasted_text_without_names_is_refused(text):
    with pytest.raises((DataError, ConfigError)):
        pasted(text)

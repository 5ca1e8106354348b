"""Each type of each source is read as the value that it stands for, or refused by its name: never as another number."""

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest
import zarr

from blockveil.pipeline.base.errors import DataError
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.ingest.database_support import Database

MISSING = 99
"""What a missing value becomes here; dates have no constant, and are dropped."""

GONE = "holds no record"

DECLARED = {
    "number": {"kind": "number", "missing": MISSING},
    "whole": {"kind": "whole", "missing": MISSING},
    "boolean": {"kind": "boolean", "missing": "refuse"},
    "date": {"kind": "date", "extract": "days", "since": "1970-01-01", "missing": "drop"},
    "text": {
        "kind": "category",
        "categories": ["no", "ab"],
        "unknown": "refuse",
        "missing": "refuse",
        "encode": "code",
    },
}


def declared(kind):
    column = {"name": "x", **DECLARED[kind]}
    if "since" in column:
        column["since"] = datetime.date(1970, 1, 1)
    return column


def outcome(folder, source, kind):
    """What is stored of the one column, as a list, or the message with which it is refused."""
    store = folder / "out.zarr"
    try:
        people.run(people.configure(folder, [declared(kind)], source, dtype="int64" if kind == "whole" else "float64"))
    except DataError as error:
        refusal = error
    else:
        return people.stored(folder)[:, 0].tolist()
    assert refusal.__context__ is None
    assert not store.exists()
    return str(refusal)


def check(found, expected, secret):
    """A list is what is stored, a text is in the message; what is refused does not show."""
    if isinstance(expected, str):
        assert isinstance(found, str), f"stored as {found}"
        assert expected in found
        assert secret not in found
    else:
        assert found == expected


NEW_YEAR = 20454  # days from 1970-01-01 to 2026-01-01
WIDE = 2**127 - 1

DUCKDB = [
    ("true", "boolean", [1]),
    ("7::UTINYINT", "number", [7]),
    ("7::SMALLINT", "whole", [7]),
    ("18446744073709551615::UBIGINT", "number", [2.0**64]),
    ("18446744073709551615::UBIGINT", "whole", "beyond 64 bits"),
    ("7::HUGEINT", "whole", [7]),
    (f"{WIDE}::HUGEINT", "number", [float(WIDE)]),
    (f"(-{WIDE})::HUGEINT", "whole", "beyond 64 bits"),
    ("7::UHUGEINT", "whole", "UHUGEINT"),
    ("340282366920938463463374607431768211455::UHUGEINT", "number", "UHUGEINT"),
    ("7::BIGNUM", "number", "bignum"),
    ("2.50::DECIMAL(4, 2)", "number", [2.5]),
    ("2.50::DECIMAL(4, 2)", "whole", "not whole"),
    ("12345678901234567890.123456789::DECIMAL(38, 9)", "number", [12345678901234567890.123456789]),
    ("2.5::FLOAT", "number", [2.5]),
    ("'inf'::DOUBLE", "number", [MISSING]),
    ("'-inf'::FLOAT", "number", [MISSING]),
    ("'nan'::DOUBLE", "number", [MISSING]),
    ("'nan'::DOUBLE", "whole", [MISSING]),
    ("NULL::INTEGER", "whole", [MISSING]),
    ("DATE '2026-01-01'", "date", [NEW_YEAR]),
    ("'infinity'::DATE", "date", GONE),
    ("'-infinity'::DATE", "date", GONE),
    ("DATE '9999-12-31'", "date", [2932896]),
    ("DATE '290000-01-01'", "date", "beyond the years"),
    ("DATE '0044-03-15 (BC)'", "date", "beyond the years"),
    *[(f"'2026-01-01 23:59:59'::TIMESTAMP{unit}", "date", [NEW_YEAR]) for unit in ("", "_S", "_MS", "_NS")],
    *[(f"'infinity'::TIMESTAMP{unit}", "date", GONE) for unit in ("", "_S", "_MS", "_NS")],
    *[(f"'-infinity'::TIMESTAMP{unit}", "date", GONE) for unit in ("", "_S", "_MS", "_NS")],
    ("'1969-12-31 23:00'::TIMESTAMP", "date", [-1]),
    ("'infinity'::TIMESTAMPTZ", "date", "tz=UTC"),
    ("'2026-01-01'::TIMESTAMPTZ", "date", "tz=UTC"),
    ("TIME '10:00'", "number", "time64"),
    ("'10:00:00+02'::TIMETZ", "number", "TIME WITH TIME ZONE"),
    ("INTERVAL 3 DAY", "number", "interval"),
    ("INTERVAL 3 DAY", "date", "interval"),
    ("'ab'::VARCHAR", "text", [1]),
    ("'ab'::CHAR(5)", "text", [1]),
    ("'ab '::CHAR(5)", "text", "not in the list"),
    ("'ab'::ENUM('no', 'ab')", "text", [1]),
    ("'ab'::ENUM('no', 'ab')", "number", "dictionary"),
    ("'\"ab\"'::JSON", "text", "JSON"),
    ("'ab'::BLOB", "text", "binary"),
    ("'ab'::BLOB", "number", "binary"),
    ("'101'::BIT", "number", "binary"),
    ("'101'::BIT", "whole", "binary"),
    ("'7d444840-9dc0-11d1-b245-5ffdce74fad2'::UUID", "text", "not in the list"),
    ("[1, 2]", "number", "list"),
    ("[1, 2]::INTEGER[2]", "number", "list"),
    ("{'a': 1}", "number", "struct"),
    ("MAP {1: 2}", "number", "map"),
    ("union_value(a := 1)", "number", "union"),
    ("7", "text", "int32"),
    ("7", "date", "int32"),
    ("true", "number", "bool"),
]


@pytest.mark.parametrize(("value", "kind", "expected"), DUCKDB)
def test_a_type_of_duckdb(tmp_path, value, kind, expected):
    database = Database("duckdb", tmp_path)
    database.execute(f"CREATE TABLE t AS SELECT {value} AS x")
    check(outcome(tmp_path, database.source("SELECT x FROM t"), kind), expected, value.strip("(-").split("::")[0])


POSTGRES = [
    ("true", "boolean", [1]),
    ("7::int2", "whole", [7]),
    ("7::int8", "number", [7]),
    ("7::seven", "whole", [7]),
    ("2.50::money", "number", "money"),
    ("2.50::money", "whole", "money"),
    ("2.50::price", "number", "money"),
    ("4000000000::oid", "whole", "oid"),
    ("7::text::xid", "whole", "xid"),
    ("'pg_class'::regclass", "number", "regclass"),
    ("2.50::numeric(10, 2)", "number", [2.5]),
    ("7.00::numeric(10, 2)", "whole", [7]),
    ("9007199254740993::numeric", "whole", "does not hold exactly"),
    ("12345678901234567890.123456789::numeric", "number", [12345678901234567890.123456789]),
    ("'NaN'::numeric", "number", [MISSING]),
    ("'-Infinity'::numeric", "number", [MISSING]),
    ("1e400::numeric", "number", "beyond float64"),
    ("(-1e400)::numeric", "number", "beyond float64"),
    ("'NaN'::float8", "number", [MISSING]),
    ("'-Infinity'::float4", "number", [MISSING]),
    ("NULL::int4", "whole", [MISSING]),
    ("DATE '2026-01-01'", "date", [NEW_YEAR]),
    ("'infinity'::date", "date", GONE),
    ("'-infinity'::date", "date", GONE),
    ("'infinity'::open_end", "date", GONE),
    ("'290000-01-01'::date", "date", "beyond the years"),
    ("'0044-03-15 BC'::date", "date", "beyond the years"),
    ("'2026-01-01 23:59:59'::timestamp", "date", [NEW_YEAR]),
    ("'infinity'::timestamp", "date", GONE),
    ("'-infinity'::timestamp", "date", GONE),
    ("'290000-01-01'::timestamp", "date", "beyond the years"),
    ("'4713-01-01 BC'::timestamp", "date", "beyond the years"),
    ("'infinity'::timestamptz", "date", "tz=UTC"),
    ("TIME '10:00'", "date", "time64"),
    ("'10:00+02'::timetz", "number", "timetz"),
    ("'3 days'::interval", "number", "interval"),
    ("'ab'::text", "text", [1]),
    ("'ab'::varchar(5)", "text", [1]),
    ("'ab'::char(5)", "text", [1]),
    ("'ab'::code", "text", [1]),
    ("'ab'::bpchar", "text", [1]),
    ("'ab '::varchar(5)", "text", "not in the list"),
    ("'ab'::name", "text", [1]),
    ("'ab'::word", "text", [1]),
    ("'ab'::bytea", "text", "binary"),
    ("B'101'", "number", "bit"),
    ("B'101'::varbit", "number", "varbit"),
    ("'7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid", "text", "uuid"),
    ("'\"ab\"'::json", "text", "json"),
    ("'\"ab\"'::jsonb", "text", "json"),
    ("ARRAY[1, 2]", "number", "list"),
    ("ARRAY['ab']", "text", "list"),
    ("'10.0.0.1'::inet", "text", "inet"),
    ("'(1,2)'::point", "number", "point"),
    ("int4range(1, 3)", "number", "oid:3904"),
    ("'ab'::tsvector", "text", "tsvector"),
]


@pytest.fixture(scope="module")
def server(postgres, tmp_path_factory):
    made = Database("postgresql", tmp_path_factory.mktemp("types"), postgres)
    made.execute(
        "CREATE DOMAIN seven AS int8", "CREATE DOMAIN price AS money", "CREATE DOMAIN open_end AS date",
        "CREATE DOMAIN code AS char(5)", "CREATE TYPE word AS ENUM ('no', 'ab')",
    )  # fmt: skip
    return made


@pytest.mark.parametrize(("value", "kind", "expected"), POSTGRES)
def test_a_type_of_postgresql(tmp_path, monkeypatch, server, value, kind, expected):
    monkeypatch.setenv("CLINIC", server.address)
    server.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t AS SELECT {value} AS x")
    check(outcome(tmp_path, server.source("SELECT x FROM t"), kind), expected, value.strip("(-").split("::")[0])


@pytest.mark.parametrize("unit", ["whole", "text"])
@pytest.mark.parametrize("value", ["2.50::money", "4000000000::oid"])
def test_what_is_no_integer_in_postgresql_is_no_unit_either(tmp_path, monkeypatch, server, value, unit):
    monkeypatch.setenv("CLINIC", server.address)
    server.execute("DROP TABLE IF EXISTS t", f"CREATE TABLE t AS SELECT {value} AS person, 1 AS x")
    choose = people.CHOOSE.format(most=1).replace('type = "whole"', f'type = "{unit}"')
    source = server.source("SELECT person, x FROM t")
    with pytest.raises(DataError, match=value.partition("::")[2]):
        people.run(people.configure(tmp_path, [declared("number")], source, choose))


def test_the_padding_of_a_unit_is_no_part_of_it(tmp_path, monkeypatch, server):
    monkeypatch.setenv("CLINIC", server.address)
    server.execute("DROP TABLE IF EXISTS t", "CREATE TABLE t (person char(5), x int)", "INSERT INTO t VALUES ('p1', 1)")
    choose = people.CHOOSE.format(most=1).replace('type = "whole"', 'type = "text"')
    people.run(people.configure(tmp_path, [declared("number")], server.source("SELECT person, x FROM t"), choose))
    assert people.stored(tmp_path).tolist() == [[1]]


SQLITE = [
    ((1, 0), "boolean", [1, 0]),
    ((7, 8), "whole", [7, 8]),
    ((7, 8.0), "whole", [7, 8]),
    ((7, 2.5), "number", [7, 2.5]),
    ((7, 2.5), "whole", "not whole"),
    ((2**53 + 1, 2.5), "number", "several types"),
    ((2**63 - 1,), "whole", [2**63 - 1]),
    ((7, "271828"), "number", "several types"),
    (("271828",), "number", "string"),
    (("271828", "7"), "whole", "string"),
    ((float("inf"), -float("inf"), None), "number", [MISSING] * 3),
    ((b"271828",), "number", "binary"),
    ((b"ab", "ab"), "text", "binary"),
    ((7, b"271828"), "whole", "several types"),
    (("ab", 7), "text", "several types"),
    (("ab", "ab"), "text", [1, 1]),
    (("ab ",), "text", "not in the list"),
    (("2026-01-01", "2026-01-01 23:59:59"), "date", [NEW_YEAR, NEW_YEAR]),
    (("infinity",), "date", "not a date"),
    (("0000-01-01",), "date", "date"),
    ((2461041.5,), "date", "double"),
    ((1767225600,), "date", "int64"),
    ((None,), "whole", [MISSING]),
]


@pytest.mark.parametrize(("values", "kind", "expected"), SQLITE)
@pytest.mark.parametrize("column", ["", "BLOB"])
def test_a_type_of_sqlite(tmp_path, values, kind, expected, column):
    """A column without affinity holds values as they are put into it."""
    database = Database("sqlite", tmp_path)
    database.execute(f"CREATE TABLE t (x {column})", "INSERT INTO t VALUES (?)", rows=[(value,) for value in values])
    check(outcome(tmp_path, database.source("SELECT x FROM t"), kind), expected, "271828")


@pytest.mark.parametrize("kind", ["number", "text", "whole"])
def test_types_of_sqlite_that_change_after_many_rows_are_refused_too(tmp_path, kind):
    database = Database("sqlite", tmp_path)
    rows = [("ab",)] * 70_000 if kind == "text" else [(7,)] * 70_000
    last = 7 if kind == "text" else "271828"
    database.execute("CREATE TABLE t (x)", "INSERT INTO t VALUES (?)", rows=[*rows, (last,)])
    found = outcome(tmp_path, database.source("SELECT x FROM t"), kind)
    assert isinstance(found, str)
    assert "271828" not in found


def moments(unit, *values):
    return pa.array(np.array(values, np.int64)).cast(pa.timestamp(unit))


def coded(values, *places):
    """A column as a dictionary: None is a missing value."""
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(values))


PARQUET = [
    (pa.array([True, False]), "boolean", [1, 0]),
    (pa.array([7], pa.uint8()), "whole", [7]),
    (pa.array([2**64 - 1], pa.uint64()), "number", [2.0**64]),
    (pa.array([2**64 - 1], pa.uint64()), "whole", "beyond 64 bits"),
    (pa.array(np.array([2.5], np.float16)), "number", [2.5]),
    (pa.array(np.array([4096], np.float16)), "whole", "does not hold exactly"),
    (pa.array([float("nan"), -float("inf"), None]), "number", [MISSING] * 3),
    (pa.array([decimal.Decimal("2.50")]), "number", [2.5]),
    (pa.array([decimal.Decimal("2.50")]), "whole", "not whole"),
    (pa.array([decimal.Decimal(10) ** 70], pa.decimal256(76)), "number", [1e70]),
    (pa.array([decimal.Decimal(10) ** 70], pa.decimal256(76)), "whole", "beyond 64 bits"),
    (pa.array([NEW_YEAR], pa.int32()).cast(pa.date32()), "date", [NEW_YEAR]),
    (pa.array([2**31 - 1, -(2**31) + 1], pa.int32()).cast(pa.date32()), "date", GONE),
    (pa.array([10**8], pa.int32()).cast(pa.date32()), "date", "beyond the years"),
    (pa.array([datetime.date(2026, 1, 1)], pa.date64()), "date", [NEW_YEAR]),
    *[(moments(unit, 2**63 - 1, -(2**63) + 1), "date", GONE) for unit in ("ms", "us", "ns")],
    (moments("us", 10**18), "date", "beyond the years"),
    (moments("us", -1), "date", [-1]),
    (pa.array([0]).cast(pa.timestamp("us", "UTC")), "date", "tz=UTC"),
    (pa.array([7], pa.time64("us")), "number", "time64"),
    (pa.array([7], pa.duration("s")), "number", "duration"),
    (pa.array(["ab"]), "text", [1]),
    (pa.array(["ab"], pa.string_view()), "text", [1]),
    (pa.array(["ab"]).dictionary_encode(), "text", [1]),
    (coded(["no", "ab"], 1, None, 0), "date", "not a date"),
    (coded(["no", "ab"], 1, None, 0), "number", "dictionary"),
    (coded([2.5, 7.5], 1, None, 0), "number", [7.5, MISSING, 2.5]),
    (coded([7, 8], 1, None, 0), "whole", [8, MISSING, 7]),
    (coded([True, False], 1, 0), "boolean", [0, 1]),
    (coded([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], 1, None, 0), "date", [NEW_YEAR + 1, NEW_YEAR]),
    (pa.array(["ab   "]), "text", "not in the list"),
    (pa.array([b"ab"]), "text", "binary"),
    (pa.array([b"ab"], pa.binary(2)), "text", "fixed_size_binary"),
    (pa.array([uuid.UUID(int=7).bytes], pa.uuid()), "text", "uuid"),
    (pa.array(['"ab"'], pa.json_()), "text", "json"),
    (pa.array([[1, 2]]), "number", "list"),
    (pa.array([{"a": 1}]), "number", "struct"),
    (pa.array([None, None]), "whole", [MISSING] * 2),
]


@pytest.mark.parametrize(("column", "kind", "expected"), PARQUET)
def test_a_type_of_parquet(tmp_path, column, kind, expected):
    (tmp_path / "in").mkdir()
    arrow_parquet.write_table(pa.table({"x": column}), tmp_path / "in" / "a.parquet")
    check(outcome(tmp_path, people.SOURCE, kind), expected, "271828")


@pytest.mark.parametrize("year", [1, 1600, 2026, 2300, 9999])
def test_times_in_96_bits_keep_their_year(tmp_path, year):
    """In nanoseconds of 64 bits the year 9999 would be 1816."""
    (tmp_path / "in").mkdir()
    day = datetime.date(year, 1, 1)
    table = pa.table({"x": pa.array([day]).cast(pa.timestamp("us"))})
    arrow_parquet.write_table(table, tmp_path / "in" / "a.parquet", use_deprecated_int96_timestamps=True)
    days = day.toordinal() - datetime.date(1970, 1, 1).toordinal()
    assert outcome(tmp_path, people.SOURCE, "date") == [days]


def numbers(kind, order):
    return np.array([7], kind).astype(np.dtype(kind).newbyteorder(order))


ARRAYS = [
    *[(numbers(kind, order), "number", [7]) for kind in ("f2", "f4", "f8", "i2", "u4", "i8", "u8") for order in "<>"],
    *[(numbers(kind, order), "whole", [7]) for kind in ("f2", "f8", "i4", "u8") for order in "<>"],
    (np.array([2**64 - 1], ">u8"), "whole", "beyond 64 bits"),
    (np.array([2.5], np.longdouble), "number", [2.5]),
    (np.array([np.nan, np.inf, -np.inf], ">f4"), "number", [MISSING] * 3),
    (np.array([True, False]), "boolean", [1, 0]),
    (np.array([1, 0], ">i2"), "boolean", [1, 0]),
    (np.array([True]), "number", "bool"),
    (np.array(["ab", "no"], "<U2"), "text", [1, 0]),
    (np.array(["ab", "no"], ">U2"), "text", [1, 0]),
    (np.array(["2026-01-01"], ">U10"), "date", [NEW_YEAR]),
    (np.array([7]), "date", "int64"),
    (np.array([7], ">c16"), "number", "c16"),
    (np.array(["2026-01-01"], "M8[D]"), "date", "datetime64"),
    (np.array([7], "m8[s]"), "number", "timedelta64"),
    (np.array([b"ab"]), "text", "S2"),
    (np.array([(7, 8)], "i4,i4"), "number", "f0"),
]


@pytest.mark.parametrize(("values", "kind", "expected"), ARRAYS)
def test_a_type_of_an_array(tmp_path, values, kind, expected):
    np.save(tmp_path / "x.npy", values)
    check(outcome(tmp_path, 'kind = "npy"\nfiles = ["x.npy"]\nnames = ["x"]', kind), expected, "271828")


STORED = [(values, kind, expected) for values, kind, expected in ARRAYS if values.dtype.kind in "biuf"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("values", "kind", "expected"), [each for each in STORED if each[0].dtype != np.longdouble])
def test_a_type_of_a_zarr_array(tmp_path, values, kind, expected, zarr_format):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=zarr_format)
    made = group.create_array("a", shape=values.shape, dtype=values.dtype, config={"write_empty_chunks": True})
    made[...] = values
    source = 'kind = "zarr"\nfiles = ["x.zarr"]\narrays = ["a"]\nnames = ["x"]'
    check(outcome(tmp_path, source, kind), expected, "271828")


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("kind", ["i4", "u8", "f4", "f8", "U2"])
def test_units_of_an_array_are_told_apart_in_either_order_of_bytes(tmp_path, kind, order):
    person = np.array([1, 1, 2]).astype(np.dtype(kind).newbyteorder(order))
    np.savez(tmp_path / "x.npz", person=person, x=np.array([3.0, 3.0, 4.0]))
    source = 'kind = "npz"\nfiles = ["x.npz"]\narrays = ["person", "x"]\nnames = ["person", "x"]'
    people.run(people.configure(tmp_path, [declared("number")], source, people.CHOOSE.format(most=1)))
    assert sorted(people.stored(tmp_path).ravel()) == [3, 4]


def test_units_of_an_array_wider_than_64_bits_are_refused_by_its_type(tmp_path):
    np.savez(tmp_path / "x.npz", person=np.array([1, 1, 2], np.longdouble), x=np.array([3.0, 3.0, 4.0]))
    source = 'kind = "npz"\nfiles = ["x.npz"]\narrays = ["person", "x"]\nnames = ["person", "x"]'
    with pytest.raises(DataError, match="float128"):
        people.run(people.configure(tmp_path, [declared("number")], source, people.CHOOSE.format(most=1)))


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([NEW_YEAR, 2**31 - 1, -(2**31) + 1, None], [1]),
        ([NEW_YEAR, 10**8], "beyond the years"),
        ([NEW_YEAR, -(10**6)], "beyond the years"),
    ],
    ids=["infinite", "far", "long ago"],
)
def test_a_part_of_one_date_leaves_infinite_ones_out_as_missing_and_refuses_what_no_calendar_has(
    tmp_path, days, expected
):
    (tmp_path / "in").mkdir()
    day = pa.array(days, pa.int32()).cast(pa.date32())
    arrow_parquet.write_table(pa.table({"day": day, "x": np.arange(1.0, len(days) + 1)}), tmp_path / "in" / "a.parquet")
    loaded = people.configure(
        tmp_path, [declared("number")], partition={"column": "day", "type": "date", "equals": "2026-01-01"}
    )
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected):
            people.run(loaded)
    else:
        people.run(loaded)
        assert people.stored(tmp_path).ravel().tolist() == expected

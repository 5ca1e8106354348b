"""One person is one unit in every source, however programs wrote the identifier; in doubt nobody is stored."""

import shutil
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest
import zarr
from hypothesis import assume, given
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import BlockveilError, ConfigError, DataError
from blockveil.pipeline.base.spelling import alike
from blockveil.pipeline.data.ingest import identifiers, readers, source_rows
from blockveil.pipeline.data.ingest.batches import MatrixBatch
from blockveil.pipeline.data.ingest.column_faults import Unfit
from blockveil.pipeline.data.ingest.units import DIGEST, Digester
from tests.pipeline.data.ingest import growing_support as grown
from tests.pipeline.data.ingest import ingest_support as people

COST = [people.NUMBER]
ONE = people.CHOOSE.format(most=1)
TEXT = ONE.replace("whole", "text")

SEVEN = {
    "int8": pa.array([7], pa.int8()),
    "int32": pa.array([7], pa.int32()),
    "uint64": pa.array([7], pa.uint64()),
    "float": pa.array([7.0, np.nan]),
    "half": pa.array(np.array([7.0], np.float16)),
    "single": pa.array([7.0, None], pa.float32()),
    "decimal": pa.array([Decimal("7.00")]),
    "text": pa.array(["7", "7.0", "07", "+7", " 7", "7\t", "007.000", "7.", None]),
    "large text": pa.array(["7"], pa.large_string()),
    "text view": pa.array(["7"], pa.string_view()),
    "categories of text": pa.array(["7", "7.0"]).dictionary_encode(),
    "categories of integers": pa.array([7, 7]).dictionary_encode(),
    "nothing": pa.nulls(2),
}
LOST = {
    "exponent": pa.array(["1E+05"]),
    "exponent without sign": pa.array(["1e5"]),
    "fraction": pa.array(["7.5"]),
    "a float's text": pa.array(["9007199254740992.0"]),
    "thousands": pa.array(["1,234"]),
    "beyond 64 bits": pa.array([str(2**63)]),
    "other digits": pa.array(["٧"]),
    "another blank": pa.array(["7\u00a0"]),
    "line": pa.array(["7\n"]),
    "empty": pa.array([""]),
    "missing in words": pa.array(["nan"]),
    "hexadecimal": pa.array(["0x7"]),
    "two numbers": pa.array(["7 7"]),
    "sign alone": pa.array(["-"]),
    "large float": pa.array([2.0**53]),
    "large single": pa.array(np.array([2.0**24], np.float32)),
    "part of a float": pa.array([7.5]),
    "infinity": pa.array([np.inf]),
    "large unsigned": pa.array([2**63], pa.uint64()),
    "part of a decimal": pa.array([Decimal("7.50")]),
    "boolean": pa.array([True]),
    "bytes": pa.array([b"7"]),
    "date": pa.array([7], pa.date32()),
}


@pytest.mark.parametrize("column", SEVEN.values(), ids=SEVEN)
def test_a_whole_number_is_one_unit_in_every_type_and_spelling(column):
    found = identifiers.canonical("person", column, "whole")
    assert found.type == pa.int64()
    assert set(found.drop_null().to_pylist()) <= {7}
    absent = [value is None or value != value for value in column.to_pylist()]
    assert found.is_null().to_pylist() == absent


@pytest.mark.parametrize("column", LOST.values(), ids=LOST)
def test_a_number_that_may_have_lost_digits_is_refused_and_not_shown(column):
    with pytest.raises(Unfit) as refused:
        identifiers.canonical("person", column, "whole")
    assert refused.value.__context__ is None
    assert not any(str(value) in refused.value.problem for value in column.to_pylist() if len(str(value)) > 2)


@given(st.text("0123456789+-., eE\t", max_size=24))
def test_two_texts_are_one_whole_number_only_if_they_have_its_value(text):
    try:
        (found,) = identifiers.canonical("person", pa.array([text]), "whole").to_pylist()
    except Unfit:
        return
    assert found == Fraction(text.strip(" \t").rstrip(".") or "x")
    assert "e" not in text.lower()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3), st.sampled_from(["", " "]))
def test_every_integer_is_known_by_its_digits(number, zeros, blank):
    sign, digits = ("-", str(number)[1:]) if number < 0 else ("", str(number))
    text = f"{blank}{sign}{'0' * zeros}{digits}{blank}"
    assert identifiers.canonical("person", pa.array([text]), "whole").to_pylist() == [number]


@given(st.floats(allow_nan=False), st.sampled_from([str, repr, "{:g}".format, "{:.1f}".format, "{:e}".format]))
def test_what_is_printed_of_a_float_is_the_same_unit_as_the_float_or_refused(value, write):
    text = write(value)
    try:
        (found,) = identifiers.canonical("person", pa.array([text]), "whole").to_pylist()
    except Unfit:
        return
    assert found == int(Decimal(text))
    assert abs(found) < 2**53 or "." not in text


REWRITTEN = ["7.0", "07", "+7", "1e5", "1E+05", "5e16", "7.", ".5", "0.0", "-0", "1,234", "7,0", "00", "1.5", "0e0"]
ABSENT = ["nan", "NaN", "None", "NULL", "null", "NA", "N/A", "#N/A", "<NA>", "NaT", "inf", "-Infinity", ""]
NOT_PLAIN = [
    "a\u200b",
    "a\ufe0f",
    " a",
    "a ",
    "a\u00a0b",
    "a\tb",
    "cafe\u0301",
    "cafe\u034f\u0301",
    "\u0301a",
    "a\n",
    "a\u2800",
]
OWN = [
    "7",
    "0",
    "-7",
    "p07",
    "A-7",
    "12345678901234567890",
    "1-2",
    "Ärztin",
    "a b",
    "nano",
    "0d" * 16,
    "12e45" + "1" * 27,
]


@pytest.mark.parametrize("text", REWRITTEN + ABSENT + NOT_PLAIN)
def test_a_text_that_a_program_or_a_keyboard_makes_of_another_is_refused_and_not_shown(text):
    with pytest.raises(Unfit) as refused:
        identifiers.canonical("person", pa.array(["q", text]), "text")
    assert refused.value.problem == "holds a unit in another spelling than its own"


@pytest.mark.parametrize("text", OWN)
def test_a_text_in_its_own_spelling_is_a_unit(text):
    assert identifiers.canonical("person", pa.array([text, None]), "text").to_pylist() == [text, None]


@pytest.mark.parametrize(
    "column", [pa.array([7]), pa.array([7.0]), pa.array([b"a"]), pa.array([7]).dictionary_encode()]
)
def test_numbers_are_no_texts(column):
    with pytest.raises(Unfit):
        identifiers.canonical("person", column, "text")


@given(st.text(max_size=6), st.text(max_size=6))
def test_two_texts_of_which_one_is_the_other_in_another_case_meet_and_are_refused(one, other):
    assume(one != other)
    same = alike(one) == alike(other)
    digests = np.sort(np.frombuffer(identifiers.text_digests(b"key", [one, other]), DIGEST))
    for units, earlier in ((digests, None), (digests[:1], digests[1:]), (digests[1:], digests)):
        try:
            identifiers.require_one_spelling("person", units, earlier)
        except DataError:
            assert same
        else:
            assert not same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna", "ANNA"),
        ("ﬁn", "fin"),
        ("Straße", "STRASSE"),
        ("Ａ７", "A7"),
        ("a  b", "a b"),
        ("Аnna", "Anna"),
        ("ΟΚ", "ok"),
    ],
)
def test_letters_that_readers_take_for_one_meet(one, other):
    assert alike(one) == alike(other)


def test_arrays_have_the_units_of_tables():
    for values in ([7, 8], [7.0, 8.0], ["07", "8.0"]):
        batch = MatrixBatch([np.array(values)[:, None]], {"person": 0})
        assert batch.identifiers("person", "whole").to_pylist() == [7, 8]
    batch = MatrixBatch([np.array([7.0, np.nan], np.float32)[:, None]], {"person": 0})
    assert batch.identifiers("person", "whole").to_pylist() == [7, None]
    batch = MatrixBatch([np.array([2.0**24], np.float32)[:, None]], {"person": 0})
    with pytest.raises(Unfit):
        batch.identifiers("person", "whole")


def rows_of(folder, source, unit=ONE, **keys):
    people.run(people.configure(folder, COST, source, unit, **keys))
    return len(people.stored(folder))


@pytest.mark.parametrize("spelled", [["7", "8"], ["7.0", "8.0"], ["07", "+8"], [" 7", "8 "]])
def test_two_files_of_one_table_have_its_persons_once(tmp_path, spelled):
    (tmp_path / "1.csv").write_text("person,cost\n7,1\n8,2\n")
    (tmp_path / "2.csv").write_text("person,cost\n" + "".join(f"{who},3\n" for who in spelled) + ",5\n")
    assert rows_of(tmp_path, 'kind = "csv"\nfiles = ["1.csv", "2.csv"]') == 2


def test_folders_named_after_units_and_columns_of_them_are_the_same_persons(tmp_path):
    for number, who in enumerate(("7", "7.0", "07")):
        (tmp_path / "in" / f"person={who}").mkdir(parents=True)
        arrow_parquet.write_table(
            pa.table({"cost": [1.0 + number, 2.0]}), tmp_path / "in" / f"person={who}" / "a.parquet"
        )
    assert rows_of(tmp_path, people.SOURCE) == 1


def test_a_table_of_a_database_has_the_persons_of_its_values(tmp_path, database):
    real = {"duckdb": "DOUBLE", "sqlite": "REAL", "postgresql": "numeric"}[database.kind]
    database.execute(
        f"CREATE TABLE n (person {real}, cost float)", "INSERT INTO n VALUES (7, 1.5), (7.0, 2.5), (8, 3.5)"
    )
    database.execute("CREATE TABLE t (person varchar(9), cost float)")
    database.execute("INSERT INTO t VALUES ('7', 1.5), ('7.0', 2.5), ('07', 3.5), ('8', 4.5), (NULL, 5.5)")
    for table in ("n", "t"):
        people.run(
            people.configure(tmp_path, COST, database.source(f"SELECT person, cost FROM {table}"), ONE, array=table)
        )
        assert zarr.open_array(tmp_path / "out.zarr" / table, mode="r").shape[0] == 2
        shutil.rmtree(tmp_path / "out.zarr")


@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_arrays_of_floats_and_of_integers_have_the_same_persons(tmp_path, kind):
    for number, dtype in enumerate((np.int32, np.float64, np.uint64)):
        values = np.array([[7, 1 + number], [8, 2]], dtype)
        if kind == "npy":
            np.save(tmp_path / f"{number}.npy", values)
        else:
            zarr.create_array(tmp_path / f"{number}.zarr", data=values)
    source = f'kind = "{kind}"\nfiles = ["0.{kind}", "1.{kind}", "2.{kind}"]\nnames = ["person", "cost"]'
    assert rows_of(tmp_path, source) == 2


def csv(folder, number, who):
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{number}.csv").write_text("person,cost\n" + "".join(f"{each},{number}\n" for each in who))


def append(folder, unit, source='kind = "csv"\nfiles = ["in"]'):
    people.run(people.configure(folder, COST, source, unit, append=True, late="next"))
    return len(grown.records(folder))


def test_a_person_who_comes_back_in_another_spelling_has_no_further_row(tmp_path):
    stored = []
    for number, who in enumerate((["7", "8"], ["7.0", "8.0", ""], ["07", "+8"], ["9"])):
        csv(tmp_path, number, who)
        stored.append(append(tmp_path, ONE))
    assert stored == [2, 2, 2, 3]


def test_a_person_who_comes_back_in_an_array_of_another_type_has_no_further_row(tmp_path):
    files, stored = [], []
    for number, dtype in enumerate((np.int32, np.float64, np.uint64)):
        zarr.create_array(tmp_path / f"{number}.zarr", data=np.array([[7, 1], [8 + number, 2]], dtype))
        files.append(f"{number}.zarr")
        stored.append(append(tmp_path, ONE, f'kind = "zarr"\nfiles = {people.toml(files)}\nnames = ["person", "cost"]'))
    assert stored == [2, 3, 4]


@pytest.mark.parametrize("later", ["ANNA", "Anna", "ａnna", "аnna"])
def test_a_text_that_comes_back_in_another_case_is_refused(tmp_path, later):
    csv(tmp_path, 0, ["anna", "bert"])
    csv(tmp_path, 1, ["anna", later])
    with pytest.raises(DataError, match="differ in upper and lower case") as refused:
        append(tmp_path, TEXT)
    assert later not in str(refused.value)
    csv(tmp_path, 1, ["carl"])
    assert append(tmp_path, TEXT) == 3
    before = grown.content(tmp_path)
    csv(tmp_path, 2, [later])
    with pytest.raises(DataError, match="differ in upper and lower case"):
        append(tmp_path, TEXT)
    assert grown.content(tmp_path) == before
    csv(tmp_path, 2, ["anna", "bert"])
    assert append(tmp_path, TEXT) == 3


def test_a_number_that_lost_digits_stops_an_append_and_the_store_is_as_it_was(tmp_path):
    csv(tmp_path, 0, ["100000", "7"])
    append(tmp_path, ONE)
    before = grown.content(tmp_path)
    csv(tmp_path, 1, ["1E+05"])
    with pytest.raises(DataError, match="may have lost digits") as refused:
        append(tmp_path, ONE)
    assert "1E" not in str(refused.value)
    assert grown.content(tmp_path) == before


def test_sorting_on_the_disk_knows_the_same_persons(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BATCH_BYTES", 160)
    monkeypatch.setattr(source_rows, "run_bytes", lambda config: 400)
    for number in range(3):
        csv(tmp_path, number, [f"{'0' * (row % 3)}{row}{'.0' * (row % 2)}" for row in range(40)])
    assert append(tmp_path, ONE) == 40
    csv(tmp_path, 3, [f"p{row}" for row in range(40)])
    named = tmp_path / "named"
    named.mkdir()
    csv(named, 0, [f"p{row}" for row in range(40)] + ["P7"])
    with pytest.raises(DataError, match="differ in upper and lower case"):
        append(named, TEXT)


@pytest.mark.parametrize("unit", [ONE, people.TOGETHER.format(by="sum")])
def test_what_the_column_of_units_holds_has_no_default(tmp_path, unit):
    with pytest.raises(ConfigError, match=r"unit\.type"):
        people.configure(tmp_path, COST, unit=unit.replace('type = "whole"\n', ""))


def test_the_type_of_a_store_that_grows_stays(tmp_path):
    csv(tmp_path, 0, ["7"])
    append(tmp_path, ONE)
    csv(tmp_path, 1, ["8"])
    with pytest.raises(BlockveilError, match=r"unit\.type"):
        append(tmp_path, TEXT)


def test_digests_of_texts_differ_wherever_texts_do():
    texts = [f"{a}{b}" for a in "aAbB" for b in "cCdD"]
    assert len(set(Digester("s").digests(pa.array(texts)))) == len(texts)

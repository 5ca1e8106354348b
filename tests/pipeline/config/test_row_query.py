"""A query is accepted only if each record of its result follows from one row of one table."""

import math
import random
import re
import sqlite3
from contextlib import suppress

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from blockveil.pipeline.config.query_reading import checked
from blockveil.pipeline.config.query_refusal import QueryRefused
from tests.pipeline.config.refused_queries import REFUSED

DIALECTS = ("duckdb", "sqlite", "postgres")
PUBLIC = (("wards", "id"), ("visits", "person"))


def test_the_list_of_attacks_is_long():
    assert len(set(REFUSED)) == len(REFUSED) > 200


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_mixes_persons_or_reaches_further_is_refused(dialect):
    accepted = {}
    for text in REFUSED:
        with suppress(QueryRefused):
            accepted[text] = checked(text, dialect, PUBLIC).sql(("cost",), "main")
    assert accepted == {}


ACCEPTED = {
    "SELECT cost, person FROM visits": '"t"."cost" AS "c0", "t"."person" AS "c1" FROM "main"."visits" AS "t"',
    "select v.cost / 100 as cost, v.person from clinic.visits as v where v.cost > 0 -- and no more": (
        '"t"."cost" / 100 AS "c0", "t"."person" AS "c1" FROM "clinic"."visits" AS "t" WHERE "t"."cost" > 0'
    ),
    "SELECT *, CASE WHEN ward IN ('a', 'b') THEN 1 ELSE 0 END AS cost FROM visits": (
        """CASE WHEN "t"."ward" IN ('a', 'b') THEN 1 ELSE 0 END AS "c0", "t"."person" AS "c1" """
        'FROM "main"."visits" AS "t"'
    ),
    "SELECT person, beds.number AS cost FROM visits LEFT JOIN wards AS beds ON visits.ward = beds.id": (
        '(SELECT "p0"."number" FROM "main"."wards" AS "p0" WHERE "p0"."id" = "t"."ward") AS "c0", '
        '"t"."person" AS "c1" FROM "main"."visits" AS "t"'
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("text", "sent"), ACCEPTED.items())
def test_what_is_sent_is_the_tree_that_was_checked_with_all_names_quoted(dialect, text, sent):
    found = checked(text, dialect, PUBLIC).sql(("cost", "person"), "main")
    assert found.replace(" NOT INDEXED", "") == "SELECT " + sent


def test_names_are_folded_as_postgres_folds_them():
    query = checked('SELECT Cost AS Price, "Ward" FROM Visits', "postgres")
    assert set(query.outputs) == {"price", "Ward"}
    assert query.sql(("price", "Ward"), "public") == (
        'SELECT "t"."cost" AS "c0", "t"."Ward" AS "c1" FROM "public"."visits" AS "t"'
    )


def test_a_column_is_plain_only_under_its_own_name():
    query = checked("SELECT day, stay % 2 AS part, cost AS price FROM visits", "duckdb")
    assert [query.is_plain(name) for name in ("day", "part", "price")] == [True, False, False]
    assert checked("SELECT * FROM visits", "duckdb").is_plain("day")
    assert not checked("SELECT *, stay % 2 AS day FROM visits", "duckdb").is_plain("day")
    joined = "SELECT w.day FROM visits LEFT JOIN wards w ON visits.ward = w.id"
    assert not checked(joined, "duckdb", PUBLIC).is_plain("day")


def test_deep_nesting_is_refused_and_not_a_crash():
    for text in ("(" * 5000 + "cost" + ")" * 5000, "cost" + " + 1" * 5000, "not " * 5000 + "true"):
        with suppress(QueryRefused):
            checked(f"SELECT {text} AS n FROM visits", "duckdb")


NUMBERS, TEXTS = ("a", "b"), ("s", "r")


def binary(parts, signs):
    return st.tuples(parts, st.sampled_from(signs), parts).map(lambda found: f"({found[0]} {found[1]} {found[2]})")


def called(name, *parts):
    return st.tuples(*parts).map(lambda found: f"{name}({', '.join(found)})")


@st.composite
def expressions(draw, depth=3):
    """An expression of numbers, of texts or of truth, of what every database has."""
    numbers = st.sampled_from([*NUMBERS, "1", "0", "2.5", "NULL", "-3"])
    texts = st.sampled_from([*TEXTS, "'a'", "''", "NULL", "'b%'"])
    truths = st.sampled_from(["a > b", "a IS NULL", "s = r", "TRUE"])
    for _ in range(depth):
        less, words, tests = numbers, texts, truths
        numbers = st.one_of(
            less,
            binary(less, ["+", "-", "*"]),
            called("abs", less),
            called("coalesce", less, less),
            called("nullif", less, less),
            called("length", words),
            st.tuples(tests, less, less).map(lambda found: "CASE WHEN {} THEN {} ELSE {} END".format(*found)),
            less.map(lambda found: f"CAST({found} AS INTEGER)"),
        )
        texts = st.one_of(
            words,
            binary(words, ["||"]),
            *(called(name, words) for name in ("lower", "upper", "trim")),
            called("substring", words, st.just("1"), st.just("2")),
            called("replace", words, st.just("'a'"), words),
        )
        truths = st.one_of(
            binary(tests, ["AND", "OR"]),
            binary(less, ["=", "<>", "<", "<=", ">", ">="]),
            binary(words, ["=", "<", "LIKE"]),
            tests.map(lambda found: f"(NOT {found})"),
            less.map(lambda found: f"{found} IN (1, 2, 3)"),
            st.tuples(less, less).map(lambda found: "{} BETWEEN 0 AND {}".format(*found)),
            st.one_of(less, words).map(lambda found: f"{found} IS NOT NULL"),
        )
    return draw(numbers), draw(texts), draw(truths)


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-9, 9),
        st.none() | st.floats(-5, 5, width=16),
        st.none() | st.text("ab% ", max_size=4),
        st.none() | st.sampled_from(["", "a", "ab", "B"]),
    ),
    min_size=1,
    max_size=6,
)


def results(dialect, opened, query, rows):
    """What a query gives for a table of some rows."""
    opened.execute("DELETE FROM main.visits")
    opened.executemany("INSERT INTO main.visits VALUES (?, ?, ?, ?)", rows)
    found = opened.execute(query.sql(("x", "y", "a"), "main")).fetchall()
    return [tuple("nan" if isinstance(one, float) and math.isnan(one) else one for one in row) for row in found]


@pytest.fixture(scope="module", params=["duckdb", "sqlite"])
def engine(request):
    opened = duckdb.connect(":memory:") if request.param == "duckdb" else sqlite3.connect(":memory:")
    real = "DOUBLE" if request.param == "duckdb" else "REAL"
    opened.execute(f"CREATE TABLE main.visits (a INTEGER, b {real}, s VARCHAR, r VARCHAR)")
    yield request.param, opened
    opened.close()


@settings(max_examples=40, deadline=None)
@example(found=("a", "s", "a > b"), rows=[(1, 2.0, "a", None), (3, 2.0, None, "")])
@given(found=expressions(), rows=ROWS)
def test_a_result_over_a_table_is_the_results_over_its_rows_one_by_one(engine, found, rows):
    dialect, opened = engine
    number, text, truth = found
    query = checked(f"SELECT {number} AS x, {text} AS y, a FROM visits WHERE {truth}", dialect)
    try:
        alone = [record for row in rows for record in results(dialect, opened, query, [row])]
    except (duckdb.Error, sqlite3.Error):
        assume(False)  # a row that cannot be computed ends an ingest, whichever rows there are beside it
    assert results(dialect, opened, query, rows) == alone


WORDS = sorted({word for text in REFUSED for word in re.findall(r"\w+|[^\w\s]+", text)})
STEMS = [
    "SELECT cost, stay FROM visits WHERE cost > 1",
    "SELECT cost + stay AS n, CASE WHEN ward = 'a' THEN 1 ELSE 0 END AS m FROM visits v",
    "SELECT *, lower(ward) AS ward FROM visits WHERE stay IN (1, 2) OR NOT cost BETWEEN 1 AND 2",
    "SELECT cost, w.beds AS beds FROM visits LEFT JOIN wards w ON visits.ward = w.id",
]


def mutant(draw):
    """An accepted query, or an attack, with some words put in, taken out, or taken from another one."""
    words = re.findall(r"\w+|[^\w\s]+", draw.choice(STEMS if draw.random() < 0.8 else REFUSED))
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(words) + 1)
        other = re.findall(r"\w+|[^\w\s]+", draw.choice(REFUSED))
        first = draw.randrange(len(other))
        part = other[first : first + draw.randint(1, 5)] if draw.random() < 0.6 else [draw.choice(WORDS)]
        words[place : place + draw.randint(0, 2)] = part
    return " ".join(words)


VISITS = [(1, 1.5, 3, "a", "2026-01-01"), (1, 0.5, 7, "b", "2026-01-02"), (2, None, 1, "c", None), (3, 9.0, 2, "a", "")]


def visited(dialect, rows):
    """A database of some visits and two public wards."""
    opened = duckdb.connect(":memory:") if dialect == "duckdb" else sqlite3.connect(":memory:")
    opened.execute("CREATE TABLE main.visits (person INTEGER, cost REAL, stay INTEGER, ward VARCHAR, day VARCHAR)")
    opened.execute("CREATE TABLE main.wards (id VARCHAR, beds INTEGER)")
    opened.executemany("INSERT INTO main.wards VALUES (?, ?)", [("a", 10), ("b", 20)])
    opened.executemany("INSERT INTO main.visits VALUES (?, ?, ?, ?, ?)", rows)
    return opened


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_whatever_is_accepted_of_mutated_attacks_works_row_by_row(dialect):
    draw, ran = random.Random(18), 0
    whole, alone = visited(dialect, VISITS), [visited(dialect, [row]) for row in VISITS]
    for _ in range(10_000):
        try:
            query = checked(mutant(draw), dialect, (("wards", "id"),))
            text = query.sql((*query.outputs, *(["stay"] if query.star else [])), "main")
            found = [opened.execute(text).fetchall() for opened in (whole, *alone)]
        except (QueryRefused, duckdb.Error, sqlite3.Error):
            continue
        ran += 1
        assert found[0] == [record for part in found[1:] for record in part], text
    for opened in (whole, *alone):
        opened.close()
    assert ran > 100

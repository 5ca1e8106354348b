"""What would be refused later is refused at its question, with the reason, and everything open is named at once."""

from __future__ import annotations

from datetime import date

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.column_names import SourceColumns
from blockveil.pipeline.scaffold.interview import DECISIONS, answered, due, together
from blockveil.pipeline.scaffold.whole_answers import all_answered
from tests.pipeline.scaffold import scaffold_support as first


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unit_column": None}, "each row is somebody of its own"),
        ({"unit_column": "persn"}, 'Did you mean "person"?'),
        ({"columns": {"agee": "0 to 120"}}, 'Did you mean "age"?'),
        ({"columns": {"person": "0 to 9", "age": "0 to 120"}}, "An identifier is not released"),
        ({"columns": {"age": "120 to 0"}}, "lowest value comes first"),
        ({"columns": {"age": 7}}, "no answer about a column"),
        ({"columns": {}}, "at least 1"),
        ({"rows_per_unit": 0}, "the most rows of one of them"),
        ({"rows_per_unit": "mean"}, "average"),
        ({"rows_at_most": -5}, "greater than or equal to 1"),
        ({"row_count_public": True}, "it cannot be public"),
        ({"row_count_public": True, "rows_per_unit": 1}, "would not be public"),
        ({"purpose": "counts"}, "Write it as 0 to 120 in 12"),
        ({"purpose": "counts", "columns": first.CELLS, "rows_per_unit": "average"}, "none of the categories"),
        ({"purpose": "everything"}, "correlations"),
        ({"directions": 2}, "belongs to directions"),
        ({"purpose": "directions", "directions": 5}, "fewer directions than columns"),
        ({"target": "cost"}, "belongs to training and gradients"),
        ({"purpose": "gradients", "target": "day"}, "predicts one of the columns"),
        ({"purpose": "gradients", "target": "ward"}, "a number or yes-no"),
        ({"purpose": "gradients", "target": "age", "columns": {"age": "0 to 120"}}, "from other columns"),
        ({"until": date(2026, 11, 1)}, "The last night is not before the first, 2026-12-01"),
        ({"until": date(2046, 11, 1)}, "at most 3660 nights"),
        ({"every": "once"}, "There is one night then"),
        ({"timezone": "Ulm"}, "IANA"),
        ({"strictness": "severe"}, '"strict", "usual", "loose", or numbers'),
        ({"purpose": "tables", "columns": {"age": "0 to 120"}}, "no number of cells"),
        ({"purpose": "tables", "columns": first.CELLS, "ways": 5}, "fewer columns (4)"),
        ({"ways": 2}, "It belongs to tables"),
        ({"purpose": "counts", "columns": {"age": "unknown"}}, "bounds that are public beforehand"),
        ({"purpose": "gradients", "target": "cost", "columns": {"*": "unknown"}}, "What a model predicts has bounds"),
        ({"columns": {"z*": "0 to 1"}}, "has a name like it"),
        ({"columns": {"*": "skip"}}, "at least 1"),
        ({"examples": 2}, "It belongs to training"),
        (
            {"purpose": "training", "target": "cost", "examples": 10**9, "rows_at_most": 10**6},
            "1,000,000,000 with rows_at_most = 1,000,000",
        ),
        ({"purpose": "training", "target": "ward"}, "a classifier of categories follows"),
        ({"strictness": {"epsilon": 1.0, "delta": 0.01}}, "well below 1 / rows_at_most"),
        ({"strictness": {"epsilon": 0.0, "delta": 1e-6}}, "greater than 0"),
        ({"dataset": "My Data"}, "lower-case"),
        ({"unit": "one\u202eperson"}, "unit"),
        ({"favourite": 3}, "not a known key"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_with_the_reason(changes, reason):
    with pytest.raises(ConfigError) as refused:
        first.given(**changes)
    assert reason in refused.value.in_full
    assert len(str(refused.value)) < 600
    assert "?." not in refused.value.in_full


def test_every_key_that_is_wrong_is_named_at_once():
    with pytest.raises(ConfigError) as refused:
        first.given(purpose="all", missing="guess", rows_at_most=0)
    assert all(key in refused.value.in_full for key in ("purpose", "missing", "rows_at_most"))


def test_everything_that_is_open_is_named_at_once():
    with pytest.raises(ConfigError) as refused:
        all_answered(first.SCHEMA, {})
    open_ = {question.key for question in due(Answers(), first.SCHEMA)}
    assert open_ >= {"unit_column", "rows_at_most", "row_count_public", "columns", "purpose", "every", "strictness"}
    assert all(f"{key} is not answered" in refused.value.in_full for key in open_)
    assert all_answered(first.SCHEMA, first.GIVEN) == first.given()


def test_what_is_wrong_and_what_is_open_is_named_at_once_and_each_for_one_reason():
    values = {
        **first.GIVEN,
        "unit_column": "persn",
        "rows_per_unit": 0,
        "purpose": "regression",
        "every": "daily",
        "directions": 3,
        "until": date(2020, 1, 1),
        "colour": "red",
        "columns": {"age": "0-120", "height": "0 to 300", "cost": "5 to 2", "ward": "0 - 9"},
    }
    del values["rows_at_most"]
    with pytest.raises(ConfigError) as refused:
        all_answered(first.SCHEMA, values)
    shown = refused.value.in_full
    wrong = [
        "columns.age",
        "columns.cost",
        "columns.ward",
        "rows_per_unit = 0",
        "purpose",
        "every",
        "colour",
        "until: 2020",
    ]
    for told in [*wrong, 'unit_column: "persn"', 'columns: "height"', "rows_at_most is not answered"]:
        assert sum(told in line for line in shown.splitlines() if line[0].isdigit()) == 1, (told, shown)
    assert len(refused.value.each) == len(wrong) + 3, shown
    assert shown.count("A range is two dates") == 2


@pytest.mark.parametrize("key", sorted(first.GIVEN))
def test_one_wrong_answer_hides_no_other_and_blames_no_other(key):
    with pytest.raises(ConfigError) as refused:
        all_answered(first.SCHEMA, {**first.GIVEN, key: {"no": 1} if key == "columns" else object()})
    assert {each.value.partition(" ")[0].partition(".")[0].rstrip(":") for each in refused.value.each} == {key}


def test_a_question_is_asked_only_where_its_answer_matters():
    def keys(**changes):
        return [question.key for question in due(first.given(**changes), first.SCHEMA)]

    assert keys() == []
    assert keys(unit_column=None, unit_type=None, rows_per_unit=None) == ["unit_column", "row_count_public"]
    assert keys(rows_per_unit="average") == ["row_count_public"]
    assert keys(rows_per_unit=1, row_count_public=True, missing=None) == []
    assert keys(purpose="directions") == ["directions"]
    assert keys(purpose="gradients") == ["target"]
    assert keys(purpose="training") == ["target", "examples"]
    assert keys(purpose="tables", columns=first.CELLS) == ["ways"]
    assert keys(until=None) == ["every"]
    assert keys(every="once", until=None) == []
    arrays = SourceColumns("x.npy", "npy", ())
    assert [question.key for question in due(first.given(), arrays)] == ["names"]


def test_every_question_can_be_answered_in_words():
    words = {
        "names": "a, b",
        "unit_column": "person",
        "unit_type": "Whole numbers",
        "rows_per_unit": "average",
        "rows_at_most": "400,000",
        "row_count_public": "no",
        "purpose": "directions",
        "ways": "2",
        "directions": "1",
        "target": "age",
        "examples": "300,000",
        "columns": "age: 0 to 120\ncost = 0 to 9\nward: skip",
        "every": "every week until 2026-12-31",
        "strictness": "epsilon 0.5, delta 1e-9",
    }
    assert words.keys() == {question.key for question in DECISIONS}
    given = Answers()
    for question in DECISIONS:
        if question.key not in ("names", "ways", "target", "examples"):
            given = answered(given, first.SCHEMA, question.read(words[question.key]))
    assert (given.rows_at_most, given.row_count_public, given.rows_per_unit) == (400_000, False, "average")
    assert list(given.columns or {}) == ["age", "cost"]
    assert "person" not in (first.given(columns={"age, cost": "0 to 9", "*": "unknown"}).columns or {})
    assert (given.every, given.until, given.epsilon, given.delta) == ("week", date(2026, 12, 31), 0.5, 1e-9)
    assert next(each for each in DECISIONS if each.key == "names").read("a, b") == {"names": ["a", "b"]}


@pytest.mark.parametrize(
    ("every", "until", "nights"),
    [
        ("night", date(2026, 12, 1), 1),
        ("night", date(2027, 11, 30), 365),
        ("week", date(2026, 12, 14), 2),
        ("month", date(2027, 11, 30), 12),
        ("month", date(2026, 12, 31), 1),
    ],
)
def test_nights_are_counted_as_the_schedule_has_them(every, until, nights):
    assert first.given(every=every, until=until).nights == nights
    assert first.given(every="once", until=None).nights == 1


@pytest.mark.parametrize(("rows", "delta"), [(1, 1e-6), (10, 1e-6), (10_000, 1e-6), (10_001, 1e-7), (10**9, 1e-11)])
def test_delta_is_at_most_a_hundredth_of_one_over_the_rows(rows, delta):
    found = first.given(rows_at_most=rows).delta
    assert found == delta
    assert found * rows <= 0.01 or rows == 1


@pytest.mark.parametrize(
    ("changes", "unit", "missing"),
    [
        ({}, "one person", "drop"),
        ({"unit_column": "customer_id"}, "one customer", "drop"),
        ({"unit_column": "playerID"}, "one player", "drop"),
        ({"unit_column": "GRID"}, "one GRID", "drop"),
        ({"unit_column": "ID"}, "one unit", "drop"),
        ({"unit_column": "x" * 120}, "one " + "x" * 116, "drop"),
        (
            {"unit_column": "row", "unit_type": None, "rows_per_unit": None, "row_count_public": True},
            "one row",
            "refuse",
        ),
        (
            {"unit_column": "row", "unit_type": None, "rows_per_unit": None, "row_count_public": False},
            "one row",
            "drop",
        ),
    ],
)
def test_the_words_for_a_unit_and_what_is_missing_follow_and_are_said(changes, unit, missing):
    source = SourceColumns("x.csv", "csv", (*first.NAMES, "customer_id", "playerID", "GRID", "ID", "x" * 120))
    given = answered(Answers(), source, {**first.GIVEN, "unit": None, "missing": None, **changes})
    assert (given.called, given.policy) == (unit, missing)
    assert [line.partition(":")[0] for line in given.consequences] == [f'unit = "{unit}"', f'missing = "{missing}"']
    said = answered(given, source, {"unit": "one cat", "missing": "refuse"})
    assert (said.called, said.policy, list(said.consequences)) == ("one cat", "refuse", [])


def test_whom_a_row_is_about_may_be_named_beside_the_column():
    (asked,) = (each for each in DECISIONS if each.key == "unit_column")
    assert asked.read("person_nr as one person") == {"unit_column": "person_nr", "unit": "one person"}
    assert asked.read("row as one visit") == {"unit_column": "row", "unit": "one visit"}
    assert asked.read("sold as seen") == {"unit_column": "sold as seen"}


@pytest.mark.parametrize("strictness", ["severe", {"epsilon": 0.0, "delta": 1e-6}])
def test_a_promise_that_is_no_promise_is_one_problem_without_the_names_of_types(strictness):
    with pytest.raises(ConfigError) as refused:
        first.given(strictness=strictness)
    assert "more to correct" not in str(refused.value)
    assert "literal" not in refused.value.in_full
    assert "Strictness" not in refused.value.in_full


@pytest.mark.parametrize(
    ("words", "purpose"), [("Regression", "correlations"), ("marginals", "tables"), ("PCA", "directions"), ("x", "x")]
)
def test_a_purpose_may_be_called_what_people_call_it(words, purpose):
    (asked,) = (each for each in DECISIONS if each.key == "purpose")
    assert asked.read(words) == {"purpose": purpose}


def test_each_row_is_somebody_only_where_no_column_could_be_meant():
    assert first.given(unit_column="row", unit_type=None, rows_per_unit=None).unit_column is None
    with pytest.raises(ConfigError, match="could be the column or each row"):
        answered(Answers(), SourceColumns("x.csv", "csv", ("row", "age")), {"unit_column": "row"})


def test_a_long_rule_of_several_problems_is_told_once():
    rule = "what somebody writes about a column has one meaning " * 4
    shown = together([ConfigError("one", rule, "Correct it"), ConfigError("two", rule, "Correct it")]).in_full
    assert shown.count(rule.strip()) == 1
    assert "two. The rule is that of 1." in shown

"""One answer is about many columns, and says of each exactly what a line of its own would have said."""

from __future__ import annotations

import pytest

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.scaffold.many_columns import column_lines, each_column, head_of
from blockveil.pipeline.scaffold.named_ranges import suggested

NAMES = ("q1", "q2", "height", "a, b", "x:y", "weight", "id*")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"height": "0 to 3"}, {"height": "0 to 3"}),
        ({"height, weight": "0 to 300"}, {"height": "0 to 300", "weight": "0 to 300"}),
        ({"q*": "1 to 5", "weight": "skip"}, {"q1": "1 to 5", "q2": "1 to 5", "weight": "skip"}),
        ({"q*, weight": "1 to 5", "q2": "yes-no"}, {"q1": "1 to 5", "weight": "1 to 5", "q2": "yes-no"}),
        ({"a, b": "0 to 1", "x:y": "unknown"}, {"a, b": "0 to 1", "x:y": "unknown"}),
        ({"id*": "0 to 1"}, {"id*": "0 to 1"}),
        ({"*ight": "0 to 9", "*": "unknown"}, dict.fromkeys(("height", "weight"), "0 to 9")
         | dict.fromkeys(("q1", "q2", "a, b", "x:y", "id*"), "unknown")),
        ({"nobody": "0 to 1"}, {"nobody": "0 to 1"}),
    ],
)  # fmt: skip
def test_an_answer_is_about_each_column_that_it_names_and_a_name_comes_before_a_pattern(said, found):
    assert each_column(said, NAMES) == found


def test_everything_else_is_what_no_answer_is_about_so_far():
    assert each_column({"*": "unknown", "height": "0 to 3"}, ("height", "age")) == {
        "age": "unknown",
        "height": "0 to 3",
    }
    assert each_column({"height": "0 to 3", "*": "unknown"}, ("height",)) == {"height": "0 to 3"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"z*": "0 to 1"}, "No column that can be released has a name like it"),
        ({"height": "0 to 3", "height, weight": "0 to 9"}, 'Two answers are about "height"'),
    ],
)
def test_an_answer_about_no_column_or_about_one_twice_is_refused(said, reason):
    with pytest.raises(ConfigError) as refused:
        each_column(said, NAMES)
    assert reason in refused.value.in_full


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("0 to 120", None),
        ("F, M", None),
        ('"at: home", away', None),
        ("height, weight: 0 to 300", ("height, weight", "0 to 300")),
        ("x:y: 0 to 1", ("x:y", "0 to 1")),
        ("*: unknown", ("*", "unknown")),
        ("hieght: 0 to 3", ("hieght", "0 to 3")),
    ],
)
def test_a_typed_line_is_about_what_stands_before_its_colon(line, meant):
    assert head_of(line, NAMES) == meant


def test_pasted_lines_name_their_columns_once():
    assert column_lines('"a: b" = 0 to 1\nq*: 1 to 5\n\nward:') == {'"a': 'b" = 0 to 1', "q*": "1 to 5", "ward": ""}
    with pytest.raises(ConfigError, match="Two lines are about"):
        column_lines("age: 0 to 1\nage: 0 to 2")
    with pytest.raises(ConfigError, match="names no column"):
        column_lines("0 to 120")


def test_a_name_suggests_a_range_only_where_its_last_word_is_one():
    names = ("age", "patientAge", "pct_urban", "urban_pct", "page", "wage", "lat", "is_open", "HAS CAR", "is", "ageing")
    assert suggested(names) == {
        "age": "0 to 120",
        "patientAge": "0 to 120",
        "urban_pct": "0 to 100",
        "lat": "-90 to 90",
        "is_open": "yes-no",
        "HAS CAR": "yes-no",
    }

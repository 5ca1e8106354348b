"""A few words say what a column holds; what they cannot mean is refused with the reason."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from blockveil.pipeline.scaffold.column_answers import (
    Calendar,
    Categories,
    DateRange,
    Numbers,
    Unknown,
    YesNo,
    parse_column,
    words_of,
)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("0 to 120", Numbers(0.0, 120.0)),
        (" -60..600 ", Numbers(-60.0, 600.0)),
        ("0 to 1_000_000", Numbers(0.0, 1e6)),
        ("-1e-3 to .5", Numbers(-1e-3, 0.5)),
        ("0% to 100%", Numbers(0.0, 100.0)),
        ("0 to 120 in 12", Numbers(0.0, 120.0, 12)),
        ("0 to 120 in 12 cells", Numbers(0.0, 120.0, 12)),
        ("yes-no", YesNo()),
        ("Weekday", Calendar("weekday")),
        ("month", Calendar("month")),
        ("2025-01-01 to 2026-12-31", DateRange(date(2025, 1, 1), date(2026, 12, 31))),
        ("2025-01-01 to 2026-12-31 in 24", DateRange(date(2025, 1, 1), date(2026, 12, 31), 24)),
        ("F, M", Categories(("F", "M"))),
        ("1, 2, 3", Categories((1, 2, 3))),
        ('"1", 2', Categories(("1", "2"))),
        ("only,", Categories(("only",))),
        ("Percent", Numbers(0.0, 100.0)),
        ("age in 12", Numbers(0.0, 120.0, 12)),
        ("latitude", Numbers(-90.0, 90.0)),
        ("unknown", Unknown()),
        ("I, age", Categories(("I", "age"))),
    ],
)
def test_words_mean_bounds_categories_dates_or_yes_no(words, meant):
    assert parse_column(words) == meant


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("120 to 0", "lowest value comes first"),
        ("5 to 5", "lowest value comes first"),
        ("0 to 1e200", "between -1e100 and 1e100"),
        ("0 to 1e-200", "lowest value comes first"),
        ("0 to 120 in 0", "1 to 1048576 cells"),
        ("0 to 120 in 99999999999999999999", "1 to 1048576 cells"),
        ("2026-02-30 to 2026-03-01", "dates of the calendar"),
        ("2026-03-01 to 2026-02-01", "first date lies before"),
        ("F, F", "Each category stands in the list once"),
        ("F, , M", "a text or code between commas"),
        ("a\u202eb, c", "a text or code between commas"),
        ("number", "It is the lowest"),
        ("nan to 3", "It is the lowest"),
        ("", "It is the lowest"),
        ("1 to ٣", "It is the lowest"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(words, reason):
    with pytest.raises(PydanticCustomError) as refused:
        parse_column(words)
    assert reason in (refused.value.context or {})["rule"]


numbers = st.floats(-1e100, 1e100, allow_nan=False)
answers = st.one_of(
    st.tuples(numbers, numbers, st.none() | st.integers(1, 2**20))
    .filter(lambda drawn: drawn[1] - drawn[0] >= 1e-100)
    .map(lambda drawn: Numbers(*drawn)),
    st.tuples(st.dates(), st.dates()).filter(lambda drawn: drawn[0] < drawn[1]).map(lambda drawn: DateRange(*drawn)),
    st.lists(st.integers(-(10**14), 10**14), min_size=1, unique=True).map(lambda drawn: Categories(tuple(drawn))),
    st.just(YesNo()) | st.sampled_from([Calendar("weekday"), Calendar("month")]),
)


@settings(max_examples=100)
@given(answers)
def test_an_answer_is_written_as_it_is_read(answer):
    words = words_of(answer)
    assert isinstance(words, str)
    assert parse_column(words) == answer

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
    hint,
    meaning,
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
        ("0 to 120 whole", Numbers(0.0, 120.0, None, whole=True)),
        ("-2 to 9 whole in 12 cells", Numbers(-2.0, 9.0, 12, whole=True)),
        ("[0, 150000] whole", Numbers(0.0, 150000.0, None, whole=True)),
        ("Age whole in 12", Numbers(0.0, 120.0, 12, whole=True)),
        ("yes-no", YesNo()),
        ("Weekday", Calendar("weekday")),
        ("month", Calendar("month")),
        ("2025-01-01 to 2026-12-31", DateRange(date(2025, 1, 1), date(2026, 12, 31))),
        ("2025-01-01 to 2026-12-31 in 24", DateRange(date(2025, 1, 1), date(2026, 12, 31), 24)),
        ("F, M", Categories(("F", "M"))),
        ("codes: 1, 2, 3", Categories((1, 2, 3))),
        ("Codes: 0, 250000", Categories((0, 250000))),
        ("codes: 007, 008", Categories(("007", "008"))),
        ('"1", "2"', Categories(("1", "2"))),
        ("0 to 150,000", Numbers(0.0, 150000.0)),
        ("-1,000.5 TO 12,345,678.25", Numbers(-1000.5, 12345678.25)),
        ("1,500 to 2,500 in 10", Numbers(1500.0, 2500.0, 10)),
        ("[0, 100]", Numbers(0.0, 100.0)),
        ("[-1.5,1.5] in 6", Numbers(-1.5, 1.5, 6)),
        ("19970101.0 to 19980630.0", Numbers(19970101.0, 19980630.0)),
        ("0-9, 10-19, 20+", Categories(("0-9", "10-19", "20+"))),
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
        ("0 to 1e200", "between -1e+30 and 1e+30"),
        ("0 to 1e-200", "lowest value comes first"),
        ("0 to 120 in 0", "1 to 1048576 cells"),
        ("0 to 120 in 99999999999999999999", "1 to 1048576 cells"),
        ("2026-02-30 to 2026-03-01", "dates of the calendar"),
        ("2026-03-01 to 2026-02-01", "first date lies before"),
        ("0 to 7.5 whole", "The bounds of whole numbers are values too"),
        ("whole 0 to 7", "A range is two"),
        ("0 to 7 in 3 whole", "A range is two"),
        ("F, F", "Each category stands in the list once"),
        ("F, , M", "a text or code between commas"),
        ("a\u202eb, c", "a text or code between commas"),
        ("number", "It is none of these"),
        ("nan to 3", "A range is two"),
        ("", "It is none of these"),
        ("1 to ٣", "A range is two"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(words, reason):
    with pytest.raises(PydanticCustomError) as refused:
        parse_column(words)
    assert reason in (refused.value.context or {})["rule"]


@pytest.mark.parametrize(
    "words",
    [
        "0, 250000", "100,200", "1, 2, 3", "[0, 1, 2]", "(0, 100)", "[0, 150,000]", "1e3, 2e3", "0, 250k", "$5, $6",
        '"1", 2', "0,5 to 1,5", "0 to 1,00", "0 to 1,0000", "0,500 to 1,500", "0 to 100, 200", "0 to 5, 6 to 10",
        "from 0 to 150,000", "2020, 2021", "1 000, 2 000", "a to b, c", "0..1,5", "0 - 100, 200",
    ],
)  # fmt: skip
def test_what_could_be_a_range_or_a_list_is_neither(words):
    with pytest.raises(PydanticCustomError) as refused:
        parse_column(words)
    context = refused.value.context or {}
    assert "could be a range or a list" in context["rule"]
    assert parse_column("0 to 120") == Numbers(0.0, 120.0), "the first remedy"
    assert parse_column("codes: 1, 2, 3") == Categories((1, 2, 3)), "the second one"


@pytest.mark.parametrize(
    "words",
    ["0-100", "0 - 100", "0 – 100", "0 to 250k", "$0 to $9", "0 to 150 000", "0 to inf", "1/2/2025 to 3/4/2026"],
)
def test_a_range_in_other_signs_is_refused_in_one_line_with_the_form_to_use(words):
    with pytest.raises(PydanticCustomError) as refused:
        parse_column(words)
    context = refused.value.context or {}
    assert context["remedy"] == "Write it as 0 to 120, or as 2025-01-01 to 2026-12-31"
    assert len(context["rule"].split()) < 25


def test_digits_that_could_be_dates_are_asked_for_in_a_form_that_can_be_only_one_of_them():
    with pytest.raises(PydanticCustomError) as refused:
        parse_column("19970101 to 19980630")
    remedy = (refused.value.context or {})["remedy"]
    assert remedy == "Write 1997-01-01 to 1998-06-30 for dates, or 19970101.0 to 19980630.0 for numbers"
    assert parse_column("1997-01-01 to 1998-06-30") == DateRange(date(1997, 1, 1), date(1998, 6, 30))


@settings(max_examples=200)
@given(st.integers(0, 10**9), st.integers(1, 10**9), st.integers(0, 99))
def test_commas_between_thousands_change_no_number(low, more, cents):
    high = low + more
    plain = parse_column(f"{low} to {high}.{cents:02d}") if not 19000101 <= low <= 20991231 else None
    grouped = parse_column(f"{low:,} to {high:,}.{cents:02d}")
    assert grouped == Numbers(float(low), float(f"{high}.{cents:02d}"))
    assert plain in (None, grouped)


@settings(max_examples=300)
@given(st.text("0123456789.,- to[]kF%", min_size=1, max_size=16))
def test_no_list_without_its_word_or_quotes_has_an_item_that_is_a_number(words):
    try:
        answer = parse_column(words)
    except PydanticCustomError:
        return
    if isinstance(answer, Categories):
        for item in map(str, answer.values):
            with pytest.raises(ValueError, match="could not convert"):
                float(item.replace(",", "."))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("0 to 150,000", "a number from 0 to 150,000"),
        ("0 to 150,000 whole", "a whole number from 0 to 150,000"),
        ("-1e-3 to .5 in 5", "a number from -0.001 to 0.5, in 5 cells"),
        ("codes: 0, 250000", "one of 2 codes: 0, 250000"),
        ("F,", "one of 1 text: F"),
        ("a, b, c, d, e, f, g, h, i", "one of 9 texts: a, b, c, d, e, f, g, h, ..."),
        ("2025-01-01 to 2026-12-31", "a date from 2025-01-01 to 2026-12-31"),
        ("month", "the month of a date"),
        ("yes-no", "yes or no"),
        ("unknown", "a number whose bounds a charged release finds"),
    ],
)
def test_an_answer_is_repeated_as_it_was_understood(words, meant):
    assert meaning(parse_column(words)) == meant


numbers = st.floats(-1e30, 1e30, allow_nan=False)
ends = st.integers(-(2**53), 2**53)
whole_numbers = st.tuples(ends, ends).filter(lambda drawn: drawn[0] < drawn[1])
answers = st.one_of(
    whole_numbers.map(lambda drawn: Numbers(float(drawn[0]), float(drawn[1]), None, whole=True)),
    st.tuples(numbers, numbers, st.none() | st.integers(1, 2**20))
    .filter(lambda drawn: drawn[1] - drawn[0] >= 1e-30)
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


def test_a_hint_says_how_whole_numbers_are_declared_where_they_could_be():
    assert '"0 to 120 whole in 12"' in hint(parse_column("0 to 120 in 12"))
    for words in ("0 to 120 whole", "0 to 1.5", "2025-01-01 to 2026-12-31", "yes-no", "F, M", "unknown"):
        assert hint(parse_column(words)) == ""

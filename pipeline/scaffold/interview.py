"""The questions in their order: which of them is due, how it is asked, and what an answer in words means.

An answer is checked together with all before it, so that what would be refused later is refused at its question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from pydantic import ValidationError

from blockveil.pipeline.base.errors import BlockveilError, ConfigError
from blockveil.pipeline.config.explain import explain
from blockveil.pipeline.scaffold.answers import AVERAGE, EACH_ROW, OF_PURPOSES, PURPOSES, Answers, absent_columns
from blockveil.pipeline.scaffold.column_answers import HELP
from blockveil.pipeline.scaffold.column_names import SourceColumns, pasted
from blockveil.pipeline.scaffold.many_columns import column_lines, each_column, is_skip

PLACE = "the answers"


@dataclass(frozen=True)
class Decision:
    """One thing to decide.

    Attributes
    ----------
    key
        The answer that it gives; see :class:`.Answers`.
    text
        The question.
    help
        What a good answer takes into account.
    due
        Whether it is to be asked after the answers so far.
    read
        The answers' values that words mean.
    suggestion
        What an empty line means; an empty text where a decision is asked for.
    """

    key: str
    text: str
    help: str
    due: Callable[[Answers, SourceColumns], bool]
    read: Callable[[str], Mapping[str, Any]]
    suggestion: Callable[[Answers], str] = lambda given: ""


def _whole(key: str) -> Callable[[str], Mapping[str, Any]]:
    def read(words: str) -> Mapping[str, Any]:
        # A comma, a blank or an underscore stands between thousands alone: 1,5 is not fifteen.
        match = re.fullmatch(r"\d+|\d{1,3}(?:[ _,]\d{3})+", words, re.ASCII)
        plain = re.sub(r"[ _,]", "", words)
        return {key: int(plain) if match and len(plain) <= 18 else words}

    return read


def _text(key: str) -> Callable[[str], Mapping[str, Any]]:
    return lambda words: {key: words}


def _unit_column(words: str) -> Mapping[str, Any]:
    """``patient``, or ``patient_nr as one patient``."""
    match = re.fullmatch(r"(.+?) as (one .+)", words)
    return {"unit_column": words} if match is None else {"unit_column": match[1], "unit": match[2]}


def _yes(key: str) -> Callable[[str], Mapping[str, Any]]:
    return lambda words: {key: {"y": True, "yes": True, "n": False, "no": False}.get(words.lower(), words)}


_OTHER_WORDS = {word: each.name for each in PURPOSES.values() for word in each.synonyms}
"""What else people call a purpose."""


_UNIT_TYPES = {
    **dict.fromkeys(("whole numbers", "whole number", "numbers", "number", "integers", "integer"), "whole"),
    "texts": "text",
}
"""What else people call what a column of units holds."""


def _purpose(words: str) -> Mapping[str, Any]:
    return {"purpose": _OTHER_WORDS.get(words.lower(), words)}


def _rows_of_each(words: str) -> Mapping[str, Any]:
    return {"rows_per_unit": AVERAGE} if words.lower() == AVERAGE else _whole("rows_per_unit")(words)


def _every(words: str) -> Mapping[str, Any]:
    """``every night until 2026-12-31``, ``week until ...``, ``once``."""
    match = re.fullmatch(r"(?:every )?(once|night|week|month)(?: until (\S+))?", words.lower())
    if match is None:
        return {"every": words}
    return {"every": match[1], **({} if match[2] is None else {"until": _day(match[2])})}


def _day(words: str) -> Any:
    try:
        return date.fromisoformat(words)
    except ValueError:
        return words


def _strictness(words: str) -> Mapping[str, Any]:
    """A level, or ``epsilon 1 delta 1e-7``."""
    number = r"(\d*\.?\d+(?:e-?\d+)?)"
    match = re.fullmatch(rf"epsilon\s*=?\s*{number},?\s+delta\s*=?\s*{number}", words.lower(), re.ASCII)
    if match is None:
        return {"strictness": words}
    return {"strictness": {"epsilon": float(match[1]), "delta": float(match[2])}}


def _names(words: str) -> Mapping[str, Any]:
    return {"names": list(pasted(words))}


def _of_purposes() -> Iterator[Decision]:
    """Questions of each purpose; one that several of them ask is asked once."""
    for each in {own.key: own for purpose in PURPOSES.values() for own in purpose.questions}.values():
        parser = _whole(each.key) if each.whole else _text(each.key)
        yield Decision(each.key, each.text, each.help, partial(_is_open, each.key), parser, each.suggestion)


def _is_open(key: str, given: Answers, source: SourceColumns) -> bool:
    return given.purpose in OF_PURPOSES[key] and getattr(given, key) is None


DECISIONS: tuple[Decision, ...] = (
    Decision(
        "names",
        "What are the columns called, in their order?",
        "Arrays name no columns. Write the names with commas between them.",
        lambda given, source: not source.names and given.names is None,
        _names,
    ),
    Decision(
        "unit_column",
        f'Which column says whom a row is about? "{EACH_ROW}" if each row is somebody of its own.',
        "The release protects everything that one of them contributes. Without the column, a person with ten rows is "
        "protected ten times less than the promise says. What to call them may follow: customer_nr as one customer.",
        lambda given, source: "unit_column" not in given.model_fields_set,
        _unit_column,
    ),
    Decision(
        "unit_type",
        "What does that column hold? (whole numbers, or text)",
        "Whoever is written in two ways would be protected as two. Of whole numbers 7, 7.0 and 07 are one. A text that "
        "a program may have made of another is refused.",
        lambda given, source: given.unit_column is not None and given.unit_type is None,
        lambda words: {"unit_type": _UNIT_TYPES.get(words.lower(), words)},
    ),
    Decision(
        "rows_per_unit",
        f'At most how many rows of each are kept? Or "{AVERAGE}", for one record that is the mean of all.',
        "Noise grows with this number. The average costs no more than one row, and suits relations between people; "
        "rows suit questions about events.",
        lambda given, source: given.unit_column is not None and given.rows_per_unit is None,
        _rows_of_each,
    ),
    Decision(
        "rows_at_most",
        "At most how many records will there be?",
        "It is public, and written down without counting: the size of the city, of the customer base, of the sensor "
        "network. It bounds delta and the sums; twice too large costs nothing.",
        lambda given, source: given.rows_at_most is None,
        _whole("rows_at_most"),
    ),
    Decision(
        "row_count_public",
        "May everybody know the exact number of records? (yes or no)",
        "If yes, what one of them holds is protected, and not whether it is there. No is the stronger promise, and the "
        "one to give in doubt.",
        lambda given, source: given.row_count_public is None and given.most_rows_per_unit == 1,
        _yes("row_count_public"),
    ),
    Decision(
        "purpose",
        f"What is it for? ({', '.join(PURPOSES)})",
        " ".join(f"{each.name}: {each.meaning}." for each in PURPOSES.values()),
        lambda given, source: given.purpose is None,
        _purpose,
    ),
    *_of_purposes(),
    Decision(
        "columns",
        "What do you know of each column without having looked?",
        f"It is {HELP}.",
        lambda given, source: given.columns is None,
        lambda words: {"columns": column_lines(words)},
    ),
    Decision(
        "every",
        "How often, and until when? (once, or such as: every night until 2026-12-31; week, month)",
        "The promise is for all of them together, so that more nights mean more noise in each.",
        lambda given, source: given.every is None or (given.every != "once" and given.until is None),
        _every,
    ),
    Decision(
        "strictness",
        "How strict is the promise? (strict, usual, loose, or such as: epsilon 1 delta 1e-7)",
        "It is over all nights together. The less it allows, the more noise there is.",
        lambda given, source: given.strictness is None,
        _strictness,
    ),
)
"""All questions in their order."""


def due(given: Answers, source: SourceColumns) -> Iterator[Decision]:
    """Questions that are open."""
    return (question for question in DECISIONS if question.due(given, source))


@dataclass(frozen=True)
class CheckedAnswers:
    """Answers that were checked together.

    Attributes
    ----------
    answers
        The answers; None where something is wrong with them.
    problems
        All that is wrong with them.
    at_fault
        Keys that it is about.
    """

    answers: Answers | None
    problems: tuple[ConfigError, ...] = ()
    at_fault: frozenset[str] = frozenset()


def answered(given: Answers, source: SourceColumns, values: Mapping[str, Any]) -> Answers:
    """The answers with further ones.

    Parameters
    ----------
    given
        Answers so far.
    source
        Columns of the source.
    values
        Further answers by their key.

    Raises
    ------
    ConfigError
        One of them cannot be, for itself or beside the others; all that is wrong is named at once.
    """
    verdict = checked(given, source, values)
    if verdict.answers is None:
        raise together(verdict.problems)
    return verdict.answers


def checked(given: Answers, source: SourceColumns, values: Mapping[str, Any]) -> CheckedAnswers:
    """The answers with further ones, or what is wrong with them; parameters as of :func:`answered`."""
    tree = {**{key: getattr(given, key) for key in given.model_fields_set}, **values}
    if tree.get("unit_column") == EACH_ROW:
        _require_each_row_is_meant(source, given)
        tree["unit_column"] = None
    names = source.names or tree.get("names")
    if isinstance(columns := values.get("columns"), Mapping) and isinstance(names, list | tuple):
        by_column = each_column(columns, released(names, tree.get("unit_column")))
        tree["columns"] = {name: answer for name, answer in by_column.items() if not is_skip(answer)}
    absent = _absent(tree, names)
    try:
        complete = Answers.model_validate(tree)
    except ValidationError as error:
        failure = explain(error, tree, PLACE, Answers)
        keys = {str(part) for each in error.errors() for part in _keys(each)}
        problems = (*failure.each, *absent)
    else:
        if not absent:
            return CheckedAnswers(complete)
        keys, problems = set(), tuple(absent)
    at_fault = keys | {each.value.partition(":")[0] for each in absent}
    return CheckedAnswers(None, problems, frozenset(at_fault))


def _absent(tree: Mapping[str, Any], names: Any) -> list[ConfigError]:
    """Columns in the answers that the source does not have, as far as the answers can be read."""
    column, columns = tree.get("unit_column"), tree.get("columns")
    by_name = columns if isinstance(columns, Mapping) else {}
    source_names = [name for name in names or () if isinstance(name, str)]
    return absent_columns(column if isinstance(column, str) else None, [str(name) for name in by_name], source_names)


def _keys(problem: Mapping[str, Any]) -> Iterator[Any]:
    """First parts of the keys that a problem is about: of rules across several answers, those that they name."""
    if problem["loc"]:
        yield problem["loc"][0]
        return
    context = problem.get("ctx", {})
    for each in context.get("refusals", [context]):
        yield str(each.get("key", "")).partition(".")[0]


def released(names: Sequence[str], unit_column: str | None) -> list[str]:
    """Columns that can be released: all but the one that identifies whom the release protects."""
    return [name for name in names if name != unit_column]


def _require_each_row_is_meant(source: SourceColumns, given: Answers) -> None:
    """Refuse the word for each row where a column of that name could be meant."""
    if EACH_ROW in (*source.names, *(given.names or ())):
        raise ConfigError(
            f'unit_column: "{EACH_ROW}" could be the column or each row',
            "What a release protects must be plain",
            f'Rename the column "{EACH_ROW}" in the source',
        )


def open_questions(given: Answers, source: SourceColumns) -> dict[str, ConfigError]:
    """What is not answered yet, by the key of the question."""
    return {
        question.key: ConfigError(f"{question.key} is not answered", question.text.rstrip("?."), "Answer it")
        for question in due(given, source)
    }


def together(problems: Sequence[ConfigError]) -> ConfigError:
    """One error of several."""
    first, *others = problems
    return ConfigError(first.value, first.rule, first.remedy, others)


def at_question(error: BlockveilError) -> str:
    """What is wrong with an answer, in words for the person who has just typed it."""
    text = str(error).replace(f" ({PLACE})", "").replace(f" in {PLACE}", "")
    return text.replace("\n", "\n  ")


def require_room(given: Answers, rows: int | None) -> None:
    """Refuse a bound of the records below a guess of their number.

    Raises
    ------
    ConfigError
        ``rows`` are more than ``rows_at_most``.
    """
    if rows is not None and given.rows_at_most is not None and rows > given.rows_at_most:
        raise ConfigError(
            f"rows_at_most: {given.rows_at_most:,} with --rows {rows:,}",
            "More records are guessed than there may be",
            "Give a larger bound",
        )

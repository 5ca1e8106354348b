"""The files of a first release, as commented TOML: what was answered, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from blockveil.pipeline.config.ingest_columns import CALENDAR
from blockveil.pipeline.config.toml import toml_lines, toml_value
from blockveil.pipeline.public.bounds_draft import DIGITS
from blockveil.pipeline.scaffold.answers import AVERAGE, EACH_ROW, PURPOSES, Answers, Strictness
from blockveil.pipeline.scaffold.column_answers import (
    Calendar,
    Categories,
    ColumnAnswer,
    DateRange,
    Numbers,
    Unknown,
    YesNo,
    words_of,
)
from blockveil.pipeline.scaffold.column_names import SourceColumns, catalog_table, table_place
from blockveil.pipeline.scaffold.place import FIRST, Place
from blockveil.pipeline.scaffold.purposes import Purpose, table

MISSING = ("", "NA", "N/A", "NaN", "null", "NULL", "None")
"""Texts by which programs write a missing value, unless one of them is a category."""

_FAR = {"name": "", "lower": -1e15, "upper": 1e15}
"""Bounds that hold whatever a column may hold, of one whose bounds are learned."""

OTHER = "other"
"""Last category of counts: every text that the public list does not name."""


def ingest_text(answers: Answers, source: SourceColumns, location: str, place: Place = FIRST) -> str:
    """``ingest.toml``.

    Parameters
    ----------
    answers
        All that was answered.
    source
        The columns of the source.
    location
        Path of the source from the folder of the config, or its address.
    place
        Where the files belong.
    """
    return _joined(
        f"# From the source to the store that {place.release} reads. Every value is checked against what is declared "
        "here.",
        table("ingest", {"store": place.store, "dtype": "float32"}),
        table("source", _source(answers, source, location), *_source_words(source)),
        _unit(answers),
        "# The columns of the store, in their order. A list of categories is public, and no category is looked up.",
        *(_column(name, answer, answers) for name, answer in ordered(answers)),
    )


def _source(answers: Answers, source: SourceColumns, location: str) -> dict[str, Any]:
    if source.query and (place := table_place(location)) is not None:
        return {"kind": place.kind, place.key: place.database, "query": source.query}
    if source.kind in ("delta", "iceberg"):
        catalog, name = catalog_table(location) or (None, location)
        return {"kind": source.kind, "table": name, "catalog": catalog}
    section: dict[str, Any] = {"kind": source.kind, "files": [location]}
    if source.kind == "csv" and source.delimiter != ",":
        section["delimiter"] = source.delimiter
    if source.kind == "csv":
        values = {str(each) for answer in (answers.columns or {}).values() for each in getattr(answer, "values", ())}
        section["missing_values"] = [text for text in MISSING if text not in values]
    if answers.arrays is not None:
        section["arrays"] = list(answers.arrays)
    return section if answers.names is None else {**section, "names": list(answers.names)}


def _source_words(source: SourceColumns) -> list[str]:
    return ["# missing_values are the texts that stand for a missing value."] if source.kind == "csv" else []


def _unit(answers: Answers) -> str:
    if answers.unit_column is None:
        return table("unit", {"kind": "row", "name": answers.called}, "# Each row is protected as one of its own.")
    common = {
        "name": answers.called,
        "column": answers.unit_column,
        "type": answers.unit_type,
        "missing": answers.policy,
        "seed": f"{answers.dataset}: any text; it fixes which rows are kept",
    }
    if answers.rows_per_unit == AVERAGE:
        return table(
            "unit",
            {"kind": "aggregate", **common, "by": "mean"},
            f"# All rows of {answers.called} become one record, their mean, and are protected together.",
        )
    return table(
        "unit",
        {"kind": "choose", **common, "rows_at_most": answers.rows_per_unit},
        f"# All rows of {answers.called} are protected together. Rows beyond the bound are dropped; which, follows "
        "from the seed.",
    )


def _column(name: str, answer: ColumnAnswer, answers: Answers) -> str:
    encode = "code" if answers.counted else "one-hot"
    section: dict[str, Any] = {"name": name}
    match answer:
        case Numbers() | Unknown():
            whole = isinstance(answer, Numbers) and answer.whole
            section |= {"kind": "whole" if whole else "number", "missing": answers.policy}
        case DateRange():
            section |= {"kind": "date", "extract": "days", "since": answer.first, "missing": answers.policy}
        case Calendar():
            section |= {"kind": "date", "extract": answer.part, "encode": encode, "missing": answers.policy}
        case YesNo():
            section |= {"kind": "boolean", "missing": answers.policy}
        case Categories():
            unknown = OTHER if encode == "code" else "zeros"
            section |= {"kind": "category", "categories": list(answer.values), "encode": encode}
            section |= {"unknown": unknown, "missing": "unknown"}
    return table("[columns]", section)


def release_text(answers: Answers, share: float | None, place: Place = FIRST) -> str:
    """``release.toml``.

    Parameters
    ----------
    answers
        All that was answered.
    share
        Share of the promise that one night takes; None for all of it.
    place
        Where the files belong.
    """
    return _joined(
        f"# The {answers.purpose} of {answers.dataset}: one night's release. `blockveil plan` shows what it costs.",
        table("release", {"dataset": answers.dataset, "name": place.named(answers), "budget": place.budget}),
        table("data", {"store": place.store}),
        *_query(answers, place),
        _privacy(answers, share),
        _mechanism(answers, place),
        "# [continual] in place of privacy.share and learn pays for all nights of growing records: docs/continual.md.",
        table("output", place.output),
    )


def find_bounds_text(answers: Answers, share: float, place: Place = FIRST) -> str:
    """``find-bounds.toml``: the release that finds the bounds of the columns that have none.

    Parameters
    ----------
    answers
        All that was answered, for which :func:`finds_bounds`.
    share
        Share of the promise that it takes.
    place
        Where the files belong.
    """
    names = [each["name"] for name, answer in ordered(answers) for each in _features(name, answer)]
    features = [{"name": name} | ({} if name in answers.unknown else {"histogram": False}) for name in names]
    query = {"kind": "column-histograms", "rows_at_most": answers.rows_at_most, "missing": answers.policy}
    words = (
        "# How many values lie between which powers of two, of either sign. No bin depends on the records, and\n"
        "# columns that are not counted add no noise."
    )
    return _joined(
        f"# Where do the values lie whose bounds nobody knows? It is released once and takes {100.0 * share:g} % of mu "
        f"squared\n# of the promise. `blockveil public bounds read` makes the bounds of {place.release} from it.",
        table(
            "release", {"dataset": answers.dataset, "name": f"{place.named(answers)}-bounds", "budget": place.budget}
        ),
        table("data", {"store": place.store}),
        table("query", {**query, "powers": [-10, 40], "digits": DIGITS}, words) + _rows("features", features),
        _privacy(answers, share),
        table("mechanism", {"kind": "gaussian"}),
        table("output", place.output),
    )


def _privacy(answers: Answers, share: float | None) -> str:
    privacy: dict[str, Any] = {
        "epsilon": answers.epsilon,
        "delta": answers.delta,
        "neighbours": answers.neighbours.value,
        "unit": answers.called,
    }
    if answers.most_rows_per_unit > 1:
        privacy["rows_per_unit"] = answers.most_rows_per_unit
    if share is not None:
        privacy["share"] = share
    return table("privacy", privacy, *_privacy_words(answers))


def _privacy_words(answers: Answers) -> Iterator[str]:
    nights = answers.nights or 1
    yield f"# The promise over all nights together{'' if nights == 1 else f', of which there are {nights}'}."
    if answers.row_count_public:
        yield "# The number of records is public; what one of them holds is not."
    else:
        yield "# Whether somebody is among the records at all is protected; their number is released with noise."


def _query(answers: Answers, place: Place) -> Iterator[str]:
    purpose = _purpose(answers)
    own = {key: getattr(answers, key) for key in purpose.answered}
    query = {**purpose.query, **own, "rows_at_most": answers.rows_at_most, "missing": "refuse"}
    if purpose.counted:
        axes = [_axis(name, answer) for name, answer in ordered(answers)]
        yield table("query", {**query, "outside": "clip"}) + _rows("axes", axes)
        return
    features = [_FAR | each for each in _bounded(answers)] if _learns(answers) else _bounded(answers)
    yield table("query", query, *([purpose.remark] if purpose.remark else []))
    yield _shape(answers, place, features if answers.target is None else features[:-1])
    yield from purpose.further(answers)


def _purpose(answers: Answers) -> Purpose:
    return PURPOSES[answers.purpose or ""]


def _bounded(answers: Answers) -> list[dict[str, Any]]:
    """Columns of the store with their bounds, and with their steps where what is added up is no mean of several."""
    has_steps = _purpose(answers).stepped and answers.rows_per_unit != AVERAGE
    features = [pair for name, answer in ordered(answers) for pair in _features(name, answer)]
    return [{key: each for key, each in feature.items() if has_steps or key != "step"} for feature in features]


def _shape(answers: Answers, place: Place, features: list[dict[str, Any]]) -> str:
    """The public shape of a record."""
    about = ["# Public bounds, in the columns' own units. What lies outside is moved to them."]
    if any("step" in feature for feature in features):
        about.append("# All values of a feature with a step are multiples of it, and are not rounded.")
    box: dict[str, Any] = {"kind": "box", "origin": "midpoint"}
    if _learns(answers):
        box["learn"] = _purpose(answers).learn
        about.append("# They may be wide: the noise follows where records lie within them, learned in the same charge.")
    if answers.unknown and _learns(answers):
        box["learn_bounds"] = True
        about.append("# Nearer ones are learned first, in the same charge: those of some features are not known.")
    elif finds_bounds(answers):
        box["bounds"] = place.bounds
        about.append("# Features without lower and upper take theirs from the file, which a charged release pays for.")
    return table("query.geometry", box, *about) + _rows("features", features)


def _features(name: str, answer: ColumnAnswer) -> list[dict[str, Any]]:
    """Columns of the store and their bounds."""
    match answer:
        case Unknown():
            return [{"name": name}]
        case Numbers():
            return [_feature(name, answer.lowest, answer.highest, whole=answer.whole)]
        case DateRange():
            return [_feature(name, 0.0, float(answer.span))]
        case YesNo():
            return [_feature(name)]
        case Calendar():
            return [_feature(f"{name}={label}") for label in CALENDAR[answer.part]]
    return [_feature(f"{name}={label}") for label in answer.values]


def _feature(name: str, lower: float = 0.0, upper: float = 1.0, *, whole: bool = True) -> dict[str, Any]:
    """A feature; days, yes or no and the parts of a list are whole numbers."""
    return {"name": name, "lower": lower, "upper": upper, **({"step": 1.0} if whole else {})}


def _axis(name: str, answer: ColumnAnswer) -> dict[str, Any]:
    match answer:
        case Numbers():
            return {"name": name, "lower": answer.lowest, "upper": answer.highest, "cells": answer.cells}
        case DateRange():
            return {"name": name, "lower": 0.0, "upper": float(answer.span), "cells": answer.cells}
        case YesNo():
            return {"name": name, "cells": 2}
        case Calendar():
            return {"name": name, "cells": len(CALENDAR[answer.part])}
        case Categories():
            return {"name": name, "cells": len(answer.values) + 1}  # and the other texts
    raise AssertionError("columns that are counted have public bounds")


def finds_bounds(answers: Answers) -> bool:
    """Whether a release of its own finds bounds of columns that have none: where the night does not learn them."""
    return bool(answers.unknown) and not _learns(answers)


def _learns(answers: Answers) -> bool:
    """Whether a night learns where records lie, for a purpose and so many features for which it can."""
    purpose = _purpose(answers)
    return bool(purpose.learn) and len(_bounded(answers)) <= purpose.most_learned(bool(answers.unknown))


def _mechanism(answers: Answers, place: Place) -> str:
    if place.gaussian or _learns(answers):
        noise = _purpose(answers).gaussian
        optimised = {"optimise_for": "relative-error"} if noise == "shaped-gaussian" else {}
        why = "# Gaussian, as what else the budget pays for." if place.gaussian else "# Gaussian, for learn."
        return table("mechanism", {"kind": noise, **optimised}, why)
    words = "# The proven mechanism with the least expected error; the plan shows the others."
    section = _purpose(answers).noise
    return table("mechanism", section, *([words] if section["kind"] == "auto" else []))


def deployments_text(answers: Answers) -> str:
    """``deployments.toml`` of the first question."""
    check = {"config": "release", "cron": "0 6 * * *", "timezone": answers.timezone}
    return _joined(
        "# What runs when: `blockveil serve FOLDER` runs it. A night is released only while the budget lasts.",
        night_text(answers),
        table("[verify]", check, "# Recompute the chain of the ledger."),
    )


def night_text(answers: Answers, place: Place = FIRST) -> str:
    """The nights of a question, as a part of ``deployments.toml``; empty where there is one release."""
    if answers.every == "once":
        return ""
    night = {
        "config": place.release.removesuffix(".toml"),
        "mode": "release",
        "cron": _cron(answers),
        "timezone": answers.timezone,
        "missed_nights": "latest",
    }
    return table("[night]", night, f"# The last night that the promise pays for is {answers.until}.")


def _cron(answers: Answers) -> str:
    first = answers.first or date.min
    day = {"week": f"* * {first.isoweekday() % 7}", "month": f"{min(first.day, 28)} * *"}
    return f"30 2 {day.get(answers.every or '', '* * *')}"


def answers_text(answers: Answers) -> str:
    """``answers.toml``: everything that was answered, to begin again from."""
    whole = answers.model_copy(update={"unit": answers.called, "missing": answers.policy})
    plain = whole.model_dump(exclude_none=True, exclude={"columns", "strictness"})
    if answers.unit_column is None:
        plain["unit_column"] = EACH_ROW
    if isinstance(answers.strictness, Strictness):
        plain["strictness"] = answers.strictness.model_dump()
    elif answers.strictness is not None:
        plain["strictness"] = answers.strictness
    columns = {name: words_of(answer) for name, answer in (answers.columns or {}).items()}
    return _joined(
        "# What was answered. `blockveil init --answers answers.toml` begins with it.",
        "\n".join(toml_lines(plain)),
        "\n".join(["[columns]", *toml_lines(columns)]),
    )


def ordered(answers: Answers) -> list[tuple[str, ColumnAnswer]]:
    """The columns in the order of the store: the target of a model is the last one."""
    columns = list((answers.columns or {}).items())
    return sorted(columns, key=lambda pair: pair[0] == answers.target)


def _rows(key: str, rows: list[dict[str, Any]]) -> str:
    inner = "".join(f"\n  {toml_value(row)}," for row in rows)
    return f"\n{key} = [{inner}\n]"


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"

"""The mechanisms that ``auto`` compared, in words: names that all differ, errors, and why or why not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from blockveil.engine.mechanisms.auto import Candidate
from blockveil.engine.mechanisms.contract import Status
from blockveil.engine.mechanisms.registry import declared
from blockveil.pipeline.base.written_numbers import number

_SHORT_CHOICE = 40


def comparison_text(compared: Sequence[Candidate]) -> str:
    """Expected error of each mechanism over that of the best."""
    best = compared[0].error or 1.0
    pairs = zip(names_apart([asdict(row) for row in compared]), compared, strict=True)
    ratios = [f"{name} {row.error / best:.4g}" for name, row in pairs if row.error is not None]
    left_out = sorted({row.mechanism for row in compared if row.error is None})
    return ", ".join(ratios) + (f"; not applicable: {', '.join(left_out)}" if left_out else "")


def bound_sentence(error: float, least: float, beside: str = "") -> str:
    """How far an error is from the least of any Gaussian noise, rounded up: what is said holds.

    Parameters
    ----------
    error, least
        Expected error, and one below which no Gaussian noise gets.
    beside
        Of which Gaussian noise that is true, where not of all.
    """
    over = ceil(1000.0 * error / least) / 1000.0
    if error < least:
        return f"below the least of any Gaussian noise{beside}: at most {over:g} times a bound of that"
    return f"at most {over:g} times the least of any Gaussian noise{beside}"


def compared_text(compared: Sequence[dict[str, Any]], least: float | None = None) -> list[dict[str, str]]:
    """Rows of a comparison of mechanisms as text; no two of them have the same name.

    Parameters
    ----------
    compared
        Rows with ``mechanism``, ``parameters``, ``error`` and ``reason``, the chosen one first.
    least
        Error below which no Gaussian noise gets; None where it is not known, which leaves a column out.
    """
    best = compared[0]["error"] if compared else None
    return [
        {
            "mechanism": name,
            "expected error": number(row["error"]) if row["error"] is not None else "",
            "over the chosen": f"{row['error'] / best:.4g}" if row["error"] is not None and best else "",
            **_over_the_bound(row["error"], least),
            "why": "chosen: the least error" if place == 0 else _why_not(row, best),
            "parameters": json.dumps(row["parameters"]) if len(json.dumps(row["parameters"])) < 200 else "by feature",
        }
        for place, (name, row) in enumerate(zip(names_apart(compared), compared, strict=True))
    ]


def compared_rows(compared: Sequence[Candidate], least: float | None = None) -> list[dict[str, str]]:
    """The same of a plan's comparison; empty where none was made."""
    return compared_text([asdict(candidate) for candidate in compared], least)


def _over_the_bound(error: float | None, least: float | None) -> dict[str, str]:
    """A column of its own where a bound is known."""
    if least is None:
        return {}
    return {"over the bound": "" if error is None else f"{error / least:.4g}"}


def names_apart(compared: Sequence[dict[str, Any]]) -> list[str]:
    """Names of compared mechanisms; those of one name are followed by the parameters in which they differ.

    Returns
    -------
    One name for each row, all of them different.
    """
    names = [_apart(row, [other for other in compared if other["mechanism"] == row["mechanism"]]) for row in compared]
    counts = Counter(names)
    occurrences: Counter[str] = Counter()
    for i, name in enumerate(names):
        if counts[name] > 1:
            occurrences[name] += 1
            names[i] = f"{name}, choice {occurrences[name]}"
    return names


def _apart(row: dict[str, Any], namesakes: Sequence[dict[str, Any]]) -> str:
    keys = sorted({key for other in namesakes for key in other["parameters"]})
    differing = [key for key in keys if len({str(other["parameters"].get(key)) for other in namesakes}) > 1]
    choices = [_in_words(row["parameters"][key]) for key in differing if key in row["parameters"]]
    short = [text for text in choices if len(text) <= _SHORT_CHOICE]
    return f"{row['mechanism']} ({', '.join(short)})" if short else str(row["mechanism"])


def _in_words(choice: Any) -> str:
    """A choice in words: of a table its values."""
    return ", ".join(map(_in_words, choice.values())) if isinstance(choice, Mapping) else str(choice)


def _why_not(row: Mapping[str, Any], best: float | None) -> str:
    if row["error"] is None:
        return f"refused: {row['reason']}"
    if row["error"] == best:
        return "the same error; the first is chosen"
    mechanism = declared(str(row["mechanism"]))
    loose = mechanism is not None and mechanism.entry.status is Status.PROVEN_LOOSE
    return "larger error: its published calibration is loose" if loose else "larger error"

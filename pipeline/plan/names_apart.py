"""Compared mechanisms in words: names, no two of which are alike, and errors over that of the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blockveil.engine.mechanisms.auto import Candidate

_SHORT_CHOICE = 40


def comparison_text(compared: Sequence[Candidate]) -> str:
    """Expected error of each mechanism over that of the best."""
    best = compared[0].error or 1.0
    named = zip(names_apart([asdict(row) for row in compared]), compared, strict=True)
    shown = [f"{name} {row.error / best:.4g}" for name, row in named if row.error is not None]
    left_out = sorted({row.mechanism for row in compared if row.error is None})
    return ", ".join(shown) + (f"; not applicable: {', '.join(left_out)}" if left_out else "")


def names_apart(compared: Sequence[dict[str, Any]]) -> list[str]:
    """Names of compared mechanisms; those of one name are told apart by the parameters in which they differ.

    Parameters
    ----------
    compared
        Rows with ``mechanism`` and ``parameters``.

    Returns
    -------
    One name for each row, no two alike.
    """
    found = [_apart(row, [other for other in compared if other["mechanism"] == row["mechanism"]]) for row in compared]
    counts = Counter(found)
    seen: Counter[str] = Counter()
    for i, name in enumerate(found):
        if counts[name] > 1:
            seen[name] += 1
            found[i] = f"{name}, choice {seen[name]}"
    return found


def _apart(row: dict[str, Any], alike: Sequence[dict[str, Any]]) -> str:
    keys = sorted({key for other in alike for key in other["parameters"]})
    differing = [key for key in keys if len({str(other["parameters"].get(key)) for other in alike}) > 1]
    told = [_told(row["parameters"][key]) for key in differing if key in row["parameters"]]
    short = [text for text in told if len(text) <= _SHORT_CHOICE]
    return f"{row['mechanism']} ({', '.join(short)})" if short else str(row["mechanism"])


def _told(choice: Any) -> str:
    """A choice in words: of a table its values."""
    return ", ".join(map(_told, choice.values())) if isinstance(choice, Mapping) else str(choice)

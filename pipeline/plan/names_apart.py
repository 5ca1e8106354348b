"""Names of compared mechanisms, no two of which are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_SHORT_CHOICE = 40


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

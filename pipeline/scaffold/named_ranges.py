"""Ranges that have a name, such as ``percent``, and those that the name of a column suggests.

A suggestion follows from the name alone, so that it tells nothing of the records. It is shown, and holds only once a
person has confirmed that it is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

NAMED: dict[str, tuple[float, float]] = {
    "percent": (0.0, 100.0),
    "share": (0.0, 1.0),
    "age": (0.0, 120.0),
    "hour": (0.0, 24.0),
    "minute": (0.0, 60.0),
    "latitude": (-90.0, 90.0),
    "longitude": (-180.0, 180.0),
    "angle": (0.0, 360.0),
}
"""Lowest and highest value of what has a scale of its own."""

_SAID = {
    **dict.fromkeys(("percent", "pct", "percentage", "percentile"), "percent"),
    **dict.fromkeys(("share", "fraction", "probability", "proportion"), "share"),
    "age": "age",
    "hour": "hour",
    **dict.fromkeys(("latitude", "lat"), "latitude"),
    **dict.fromkeys(("longitude", "lon", "lng"), "longitude"),
}
"""What a word in the name of a column suggests."""

_YES_NO = ("is", "has", "was")
"""First words of names that suggest yes or no."""


def suggested(names: Iterable[str]) -> dict[str, str]:
    """What the names of columns suggest, in the words of :mod:`.column_answers`; other columns are absent."""
    suggestions = {name: _suggestion(_words(name)) for name in names}
    return {name: words for name, words in suggestions.items() if words}


def in_words(name: str) -> str:
    """A named range as its two bounds, such as ``0 to 100``."""
    lowest, highest = NAMED[name]
    return f"{lowest:g} to {highest:g}"


def _suggestion(words: list[str]) -> str:
    if len(words) > 1 and words[0] in _YES_NO:
        return "yes-no"
    ranges: list[Any] = [_SAID[word] for word in words[-1:] if word in _SAID]
    return in_words(ranges[0]) if ranges else ""


def _words(name: str) -> list[str]:
    """Words of ``patient_age``, ``patientAge`` or ``Patient age``, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]

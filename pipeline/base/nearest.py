"""The names that somebody may have meant, for a message."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MOST_COMPARED = 5000
"""Names that are compared with the one that was written."""


def nearest(wanted: str, names: Sequence[str], most: int = 4) -> list[str]:
    """Return whole names, those most like ``wanted`` first, at most ``most``."""
    folded = {name.casefold(): name for name in reversed(names[:_MOST_COMPARED])}
    matches = [folded[each] for each in difflib.get_close_matches(wanted.casefold()[:200], folded, n=most, cutoff=0.3)]
    return [*matches, *(name for name in names[:most] if name not in matches)][:most]


def among(wanted: str, names: Sequence[str]) -> str:
    """Return ``among "a", "b", ...``, the nearest names first."""
    ranking = nearest(wanted, names)
    quoted = ", ".join(f'"{name}"' for name in ranking)
    return f"among {quoted}{', ...' if len(names) > len(ranking) else ''}"

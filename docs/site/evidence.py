"""Evidence beside promises: after each numbered promise of a page, the tests that show it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def with_evidence(text: str, promises: Sequence[dict[str, Any]]) -> str:
    """A page with the tests of ``docs/evidence.toml`` after each numbered promise that they are of."""
    for promise in promises:
        start = text.index(f". **{promise['says']}**")
        end = re.compile(r"\n(?=\d+\. |\n)|\Z").search(text, start)
        if end is None:
            raise ValueError(f"the promise {promise['says']!r} has no end")
        shown = ", ".join(f"`{test}`" for test in promise["shown_by"])
        mistakes = promise.get("finds", ())
        found = "".join(f"; a test plants the mistake that {mistake}, and finds it" for mistake in mistakes)
        text = f"{text[: end.start()]} *Shown by* {shown}{found}.{text[end.start() :]}"
    return text

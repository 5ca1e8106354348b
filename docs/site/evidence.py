"""Evidence below pages: a folded table of what ``docs/evidence.toml`` names for each promise and claim of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def shown(entry: Mapping[str, Any]) -> str:
    """What shows a promise or a claim, in words."""
    tests = [f"`{test}`" for test in entry.get("shown_by", ())]
    measured = [f"`{command}`, which measures it" for command in entry.get("measured_by", ())]
    mistakes = [f"a test plants the mistake that {mistake}, and finds it" for mistake in entry.get("finds", ())]
    return "; ".join([", ".join([*tests, *measured]), *mistakes])


def with_evidence(text: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """A page, in Markdown, with its evidence in a table that a reader may unfold."""
    if not entries:
        return text
    rows = "".join(f"| {entry['says'].replace('|', ',')} | {shown(entry)} |\n" for entry in entries)
    table = f"| what this page says | shown by |\n|---|---|\n{rows}"
    return f"{text}\n<details>\n<summary>Evidence</summary>\n\n{table}\n</details>\n"

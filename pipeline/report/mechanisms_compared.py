"""The comparison that ``auto`` made for a plan as a table: errors over the chosen one, and why or why not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from blockveil.engine.mechanisms.auto import Candidate
from blockveil.engine.mechanisms.contract import Status
from blockveil.engine.mechanisms.registry import declared
from blockveil.pipeline.plan.names_apart import names_apart
from blockveil.pipeline.report.words import number


def compared_text(compared: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Rows of a comparison of mechanisms as text; no two of them have the same name.

    Parameters
    ----------
    compared
        Rows with ``mechanism``, ``parameters``, ``error`` and ``reason``, the chosen one first.
    """
    best = compared[0]["error"] if compared else None
    return [
        {
            "mechanism": name,
            "expected error": number(row["error"]) if row["error"] is not None else "",
            "over the chosen": f"{row['error'] / best:.4g}" if row["error"] is not None and best else "",
            "why": "chosen: the least error" if place == 0 else _why_not(row, best),
            "parameters": json.dumps(row["parameters"]) if len(json.dumps(row["parameters"])) < 200 else "by feature",
        }
        for place, (name, row) in enumerate(zip(names_apart(compared), compared, strict=True))
    ]


def compared_rows(compared: Sequence[Candidate]) -> list[dict[str, str]]:
    """The same of a plan's comparison; empty where none was made."""
    return compared_text([asdict(candidate) for candidate in compared])


def _why_not(row: Mapping[str, Any], best: float | None) -> str:
    if row["error"] is None:
        return f"refused: {row['reason']}"
    if row["error"] == best:
        return "the same error; the first is chosen"
    known = declared(str(row["mechanism"]))
    loose = known is not None and known.entry.status is Status.PROVEN_LOOSE
    return "larger error: its published calibration is loose" if loose else "larger error"

"""Where a release took its bounds from."""

from __future__ import annotations

from typing import Any


def source_rows(query: dict[str, Any]) -> list[tuple[str, str]]:
    """Which charged release gave the bounds of a release, by its attribute ``query``; nothing where none did."""
    found = [query.get(key, {}) for key in ("geometry", "left", "right")]
    return [
        (
            "Bounds",
            f"learnt from the records by the release {shape['bounds_release']}, which was charged to the ledger for "
            f"itself; pinned by SHA-256 {shape['bounds_sha256']}",
        )
        for shape in found
        if isinstance(shape, dict) and "bounds_release" in shape
    ]

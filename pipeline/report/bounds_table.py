"""What a release of histograms says of each column's bounds, and where a release took its own bounds from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from blockveil.pipeline.kinds.histograms.question import bounds_of

_NAMES = ("bin_lower", "bin_upper", "feature", "histograms", "histograms_standard_deviation")


def by_feature(
    array: Callable[[str], NDArray[Any] | None], attributes: dict[str, Any], most: int
) -> list[dict[str, str | float]]:
    """Bounds of each column beyond which nothing stands out, and the share of its values outside; NaN where unknown.

    Parameters
    ----------
    array
        Gives an array of the release of histograms by its name.
    attributes
        Of that release.
    most
        Columns that are listed.
    """
    rows: list[dict[str, str | float]] = []
    few = {name: whole[: 2 * most] for name in _NAMES if (whole := array(name)) is not None}
    for name, found in bounds_of(few, attributes)[:most]:
        unknown = float("nan")
        rows.append(
            {
                "feature": name,
                "lower bound": unknown if found is None else found.lower,
                "upper bound": unknown if found is None else found.upper,
                "share outside": unknown if found is None else found.outside.share,
                "share outside, least": unknown if found is None else found.outside.least_share,
                "share outside, most": unknown if found is None else found.outside.most_share,
            }
        )
    return rows


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

"""Where a night found its records, and what that costs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.pipeline.base.written_numbers import number

_SURE = 2.0
"""Standard deviations of its noise by which a share exceeds the declared one before anybody is told."""


def asked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The query as it was declared: where a night learned its shape, with the box of its config."""
    learned = _shape(attributes)
    return {**attributes["query"], **({} if learned is None else {"geometry": learned["declared_geometry"]})}


def _shape(attributes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is stated of a shape that was learned; None where none was, as also of a night that learned other things."""
    learned: Mapping[str, Any] | None = attributes.get("learned")
    return learned if learned is not None and "domain" in learned else None


def declared_origin(attributes: Mapping[str, Any]) -> NDArray[np.float64]:
    """Origin of each column as it was declared, raw units, shape (d,): not where a night found its records."""
    learned = _shape(attributes)
    if learned is None:
        return np.asarray(attributes["origin"], np.float64)
    shape = learned["declared_geometry"]
    middles = [(each["lower"] + each["upper"]) / 2.0 for each in shape["features"]]
    return np.array(middles if shape["origin"] == "midpoint" else [0.0] * len(middles))


def lines(attributes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines (what, value) of the shape that was learned, if one was."""
    learned = _shape(attributes)
    if learned is None:
        return []
    if learned["domain"] == "box":
        return [("Shape", "the declared box, where the error is expected to be smaller than in an ellipsoid")]
    earlier = learned.get("earlier")
    source = "" if earlier is None else f" from the release {earlier['release_id']}"
    source += ", in bounds that were learned too" if "bounds" in learned["stages"] else ""
    share, deviation = 100.0 * learned["clipped_share"], 100.0 * learned["clipped_share_standard_deviation"]
    return [
        (
            "Shape",
            f"an ellipsoid that was learned for {learned['for']}s{source}; {number(share)} % of the records, with "
            f"noise of standard deviation {number(deviation)} %, were shortened to it, and all standard deviations "
            "include what that is expected to take",
        )
    ]


def drift(attributes: Mapping[str, Any]) -> str | None:
    """Warning that the learned shape shortened more records than declared; None where noise alone may exceed that."""
    learned = attributes.get("learned", {})
    limit = learned.get("clipped_share_at_most")
    if limit is None or learned["clipped_share"] - limit <= _SURE * learned["clipped_share_standard_deviation"]:
        return None
    share, deviation = 100.0 * learned["clipped_share"], 100.0 * learned["clipped_share_standard_deviation"]
    return (
        f"The learned ellipsoid shortened {number(share)} % of the records, with noise of standard deviation "
        f"{number(deviation)} %. query.geometry.clipped_share_at_most declares {number(100.0 * limit)} % at most. "
        "Check whether records or their units have changed. If they are as expected, raise that share."
    )

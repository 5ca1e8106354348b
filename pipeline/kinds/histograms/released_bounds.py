"""Bounds of columns by a release of histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blockveil.engine.estimates.chosen_bounds import BinNoise, ChosenBounds
from blockveil.pipeline.kinds.histograms.question import DEVIATION, chosen


def bounds_of(
    arrays: Mapping[str, Any], attributes: Mapping[str, Any], accepted: float = 0.0
) -> list[tuple[str, ChosenBounds | None]]:
    """As :func:`.question.chosen`, with the noise that a release states.

    Parameters
    ----------
    arrays, attributes
        Of the release.
    accepted
        Share of a column's values that may lie outside its bounds, 0 to below 1.
    """
    return chosen(arrays, noise_of(arrays, attributes), attributes["query"].get("digits") is not None, accepted)


def noise_of(arrays: Mapping[str, Any], attributes: Mapping[str, Any]) -> BinNoise:
    """Noise of the column that has most; parameters as for :func:`bounds_of`."""
    deviation = float(np.max(arrays[DEVIATION][...]))
    return BinNoise(deviation, attributes["guarantee"]["loss"]["mu"] > 0.0, int(attributes["mechanism"]["bins"]))


RELEASED_BOUNDS = bounds_of, noise_of

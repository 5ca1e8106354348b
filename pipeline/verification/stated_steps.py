"""How often one record counts where several nights, or several steps, share a charge.

* Nights: a record that arrives in the first of T nights has the weight of its age in each of them. So all of them
  together are moved by the length of the first column of the strategy's matrix times what one of them is, and no
  later night's column is longer.
* Steps of a training: a record is in all of them, or in those of its batch, each B steps after the one before. Every
  batch is gone through. With a band, noise of earlier steps is taken away: a step moves it and the following ones by
  the band's weights, up to the last step, and the band is no longer than the steps between two of one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

from blockveil.pipeline.verification.stated_numbers import stated_count

_MOST_TOGETHER = 100_000
"""Nights, and steps, that are looked at one by one."""


def nights_factor(stated: Mapping[str, Any]) -> Fraction:
    """How many times all nights together are moved, in squares; one without a series.

    Parameters
    ----------
    stated
        Attributes of the release.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, or cannot be.
    """
    series = stated["mechanism"].get("continual")
    if series is None:
        if "nights" in stated["guarantee"]:
            raise ValueError("nights")
        return Fraction(1)
    nights = stated_count(stated["guarantee"], "nights")
    if nights > _MOST_TOGETHER:
        raise ValueError("nights")
    weights = [stated_count({"weight": each}, "weight") for each in series["weights"]]
    # Weights hold from the ages 0, 1, 2, 4, 8 and so on: the number of binary digits of an age is its place.
    column = (weights[min(age.bit_length(), len(weights) - 1)] for age in range(nights))
    squared_norm = sum(each * each for each in column)
    if squared_norm != stated_count(series, "squared_norm"):
        raise ValueError("squared_norm")
    return Fraction(squared_norm)


def steps_factor(stated: Mapping[str, Any], power: int) -> int:
    """How many times all steps of a training together are moved, in squares; one where nothing is trained.

    Parameters
    ----------
    stated
        Attributes of the release.
    power
        2 for the L2 norm, 1 for the L1 norm.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is not stated, or cannot be.
    """
    course, mechanism = stated["query"].get("training"), stated["mechanism"]
    band = [stated_count({"weight": each}, "weight") for each in mechanism.get("band", [1])]
    if course is None or course["batches"] == "poisson":
        if len(band) > 1 or (course is not None) != ("sampling" in mechanism):
            raise ValueError("band")
        return 1  # the law of the samples is accounted for with what one step is moved by
    steps = stated_count(course, "steps")
    every = stated_count(course, "batch_count") if course["batches"] == "fixed" else 1
    if len(band) != stated_count({"band": 1, **_given(course)}, "band") or len(band) > every or "sampling" in mechanism:
        raise ValueError("band")
    if steps > _MOST_TOGETHER:
        raise ValueError("steps")
    lengths = list(accumulate(weight if power == 1 else weight * weight for weight in band))
    batches = (range(first, steps, every) for first in range(min(every, steps)))
    factor = max(sum(lengths[min(len(band), steps - step) - 1] for step in batch) for batch in batches)
    return factor if power == 2 else factor * factor


def _given(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in asked.items() if value is not None}

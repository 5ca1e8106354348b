"""Coefficients of a trained logistic regression with their errors, in the features' own units, from a release alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.one_step import ScoreMoments, one_step
from blockveil.pipeline.base.written_numbers import number

Array = NDArray[np.float64]
Read = Callable[[str], Array | None]

INTERCEPT = "(intercept)"
UNKNOWN = "The noise hides the Fisher matrix, so that no error of a coefficient is known."
OF_POPULATION = (
    "Of the logistic regression of largest likelihood, one Newton step from the last weights: the change of the log "
    "odds for one unit of each feature. Each interval holds that of the population in 95 of 100 releases, each of a "
    "new sample."
)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Intercept and coefficients, intercept first.

    Attributes
    ----------
    target, features
        What is explained, and by what.
    values
        Log odds, and their change for one unit of each feature, shape (1 + features,).
    noise, sampling
        Standard deviations by noise, and by the sample, of the same shape; infinite where none is stated.
    """

    target: str
    features: tuple[str, ...]
    values: Array
    noise: Array
    sampling: Array

    @property
    def known(self) -> bool:
        """Whether errors are stated."""
        return bool(np.all(np.isfinite(self.noise)))

    def rows(self) -> list[dict[str, str]]:
        """A row of texts each, with 95 % intervals for the population and p-values; none where errors are not known."""
        if not self.known:
            return []
        deviation = np.hypot(self.noise, self.sampling)
        chances, reach = 2.0 * ndtr(-np.abs(self.values / deviation)), float(ndtri(0.975)) * deviation
        parts = zip((INTERCEPT, *self.features), self.values, reach, chances, strict=True)
        return [
            {
                "feature": name,
                "coefficient": number(value),
                "from": number(value - size),
                "to": number(value + size),
                "p": f"{chance:.2g}",
            }
            for name, value, size, chance in parts
        ]


def coefficients_of(attributes: Mapping[str, Any], read: Read) -> Coefficients | None:
    """Coefficients of a release; None where it holds nothing that their errors follow from."""
    names = ("last_weights", "fisher_count", "fisher_second_moment")
    weights, count, moment = (read(name) for name in names)
    if weights is None or count is None or moment is None:
        return None
    query = attributes["query"]
    shape, target = query["geometry"], str(query["model"]["target"]["name"])
    features = tuple(str(each["name"]) for each in shape["features"])
    lower, upper = (np.array([each.get(end, np.nan) for each in shape["features"]]) for end in ("lower", "upper"))
    if not np.all(np.isfinite(lower) & np.isfinite(upper)):  # those of a file, which the release does not hold
        return None
    origin = np.zeros_like(lower) if shape["origin"] == "zero" else (lower + upper) / 2.0
    estimate = one_step(np.ravel(weights), _moments(count, moment, read))
    return Coefficients(target, features, *estimate.of(_forms(origin, np.maximum(upper - origin, origin - lower))))


def _moments(count: Array, moment: Array, read: Read) -> ScoreMoments:
    """What was released at the last weights."""
    of_count, of_moment, mean, of_mean = (
        _there(read(f"fisher_{name}_standard_deviation" if noise else f"fisher_{name}"))
        for name, noise in (("count", True), ("second_moment", True), ("mean", False), ("mean", True))
    )
    half = len(moment) // 2
    # A mean is the sum over what it was divided by, and its noise that of the sum and of the count.
    divisor = max(float(count), float(of_count), 1.0)
    noise = np.sqrt(np.maximum((of_mean * divisor) ** 2 - (mean * float(of_count)) ** 2, 0.0))
    parts = (slice(0, half), slice(half, None))
    scores, fisher = (Estimate(moment[part, part], of_moment[part, part]) for part in parts)
    return ScoreMoments(Estimate(mean[:half] * divisor, noise[:half]), scores, fisher)


def _forms(origin: Array, scale: Array) -> Array:
    """Intercept and coefficients in the features' units, as functions of those in the model's coordinates."""
    forms = np.diag(np.concatenate([[1.0], 1.0 / scale]))
    forms[0, 1:] = -origin / scale
    return forms


def _there(array: Array | None) -> Array:
    if array is None:
        raise ValueError("a release without an array that errors of coefficients follow from")
    return array

"""What releases and their standard errors offer by name, and the promise of a release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from blockveil.pipeline.base.showing import as_page_part

CORRELATION, RAW, PARTIAL = "correlation", "raw_correlation", "partial_correlation"
DERIVED = (CORRELATION, RAW, PARTIAL)
"""Names of results that no release holds, but that follow from one."""

PAIR = ("feature", "feature_")
"""Axes of what there is for each pair of features."""


@dataclass(frozen=True)
class StatedGuarantee:
    """What a release promises.

    Attributes
    ----------
    sentence
        The promise in one sentence, and how the contribution of a unit was bounded.
    in_words
        What it means for one person, as a bound on guessing.
    epsilon, delta
        Its numbers, for one unit.
    loss
        What was charged: ``mu`` (Gaussian), ``epsilon`` (pure) and ``total_variation`` of the sampler.
    neighbours
        ``add-remove`` or ``replace-one``.
    privacy_unit
        Whom or what it protects.
    """

    sentence: str
    in_words: str
    epsilon: float
    delta: float
    loss: dict[str, float]
    neighbours: str
    privacy_unit: str

    def __str__(self) -> str:
        """The sentence."""
        return f"{self.sentence} {self.in_words}"

    def _repr_html_(self) -> str:
        numbers = f"epsilon {self.epsilon:g} at delta {self.delta:g}, {self.neighbours}, {self.privacy_unit}"
        return as_page_part(
            "Guarantee", [("Promise", self.sentence), ("In words", self.in_words), ("Numbers", numbers)]
        )


def _result(name: str, description: str) -> Any:
    return property(lambda results: results[name], doc=description)


class Results(ABC):
    """Labelled results by name: a float, a Series or a DataFrame with the names of features and cells on its axes."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """One of them."""

    count = _result("count", "Number of records, a float.")
    mean = _result("mean", "Mean of each feature, a Series, in its unit.")
    covariance = _result(
        "covariance",
        "Covariance of each pair of features, a DataFrame, over the count; in products of their units.",
    )
    correlation = _result(
        CORRELATION,
        "Best estimate of the correlation of each pair of features, a DataFrame: positive semi-definite, without "
        "NaN. Where noise is small it is :attr:`raw_correlation`; where it is not, it and its standard error are "
        "simulated.",
    )
    raw_correlation = _result(
        RAW,
        "Covariance over the roots of its diagonal entries, a DataFrame; NaN where a released variance is negative.",
    )
    second_moment = _result(
        "second_moment",
        "Sum of products of features about the origin, a DataFrame, in products of their units.",
    )
    counts = _result(
        "counts",
        "Number of records in each cell: a Series or a DataFrame, or a Series of as many index levels as axes.",
    )
    totals = _result("totals", "Sum of each column over all records, a Series, in its unit.")
    rows = _result("rows", "Records with noise, a DataFrame, in the features' units.")
    outer_products = _result("outer_products", "Sum of outer products of left and right features, a DataFrame.")
    gradients = _result("gradients", "Sum of clipped gradients by the model's weights.")
    directions = _result("directions", "Principal directions as released, a DataFrame of features by directions.")

"""What a kind of query says beforehand of the error of its answers, and of records that are supposed for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.records.geometry import Coordinates, Vector
from blockveil.pipeline.accuracy.directions import Directions
from blockveil.pipeline.accuracy.number_error import ExpectedError

if TYPE_CHECKING:
    from blockveil.pipeline.accuracy.population import Population

Ends = tuple[Vector, Vector]
"""First and last value of each column of a grid."""


def _no_errors(answer: Any, population: Population) -> Sequence[ExpectedError]:
    del answer, population
    return ()


def _unknown(answer: Any, population: Population, compared: object = None) -> None:
    del answer, population, compared


def _in_one_shape(question: Any) -> Sequence[Coordinates | Ends]:
    """Of a question whose records lie in one shape; nothing of another."""
    coordinates = getattr(question, "coordinates", None)
    return () if coordinates is None else (coordinates,)


def _as_they_are(plan: Any, records: NDArray[np.float64], standard: NDArray[np.float64]) -> NDArray[np.float64]:
    del plan, standard
    return records


class Accuracy(NamedTuple):
    """The part ``accuracy`` of a kind; the first five take the answer and the supposed records.

    Attributes
    ----------
    errors
        Error of each number, by feature or by kind of number.
    size
        One size of the noise by which plans of one question are compared; it takes the names of their common features.
    pairs
        Errors of correlations.
    found
        How many principal directions are found.
    angles
        Root of the expected squared sines of a given number of leading directions together.
    features
        Of a question, where the features of its records lie: in which coordinates, or between which ends.
    completed
        Of a plan, supposed records of its features as records of all of its columns: with codes, and with labels.
        It takes these, and standard normal ones of all columns, shape (rows, columns).
    """

    errors: Callable[[Any, Population], Sequence[ExpectedError]] = _no_errors
    size: Callable[[Any, Population, Sequence[str]], float | None] = _unknown
    pairs: Callable[[Any, Population], Sequence[ExpectedError]] = _no_errors
    found: Callable[[Any, Population], Directions | None] = _unknown
    angles: Callable[[Any, Population, int], float | None] = _unknown
    features: Callable[[Any], Sequence[Coordinates | Ends]] = _in_one_shape
    completed: Callable[[Any, NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]] = _as_they_are


NOTHING = Accuracy()
"""What is known of a kind that says nothing."""

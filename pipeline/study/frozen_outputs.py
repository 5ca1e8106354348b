"""Mechanisms that draw otherwise than by adding noise under replay: what a unit moves with each output held fixed.

The exact answers of two neighbours, which the whole path of a config has summed, are compared in the terms in which the
theorem of the mechanism charges, while every output on which a later step depends is frozen at its worst value:

* drawn directions: the exponent ``c v'Av`` of each draw, over all directions before it. Two neighbours move it by
  between the least and the largest eigenvalue of the difference, times c; a draw has a loss as near to that range as
  one likes, where enough other records lie along one of both directions.
* DAWA: of the partition, by how much any partition gains against any other, over the noise of costs, since that is what
  the noise of its buckets must make up for; of the counts, how far those of the worst partition move, over theirs.

Nothing is drawn, so that nothing is said of a sampler: ``blockveil audit NAME`` compares outputs by statistics.

**Source**: frozen outputs: dp-recorder (arXiv 2602.17454); the theorems are those of :mod:`.exponential` and
:mod:`.dawa`, and each design has its own ``frozen_loss``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import Loss
from blockveil.engine.noise.design import Block, Design
from blockveil.engine.noise.discrete_gaussian import NoiseKey

Exact = NDArray[np.int64]


@runtime_checkable
class Frozen(Design, Protocol):
    """Draws a release otherwise than by adding noise, and says what it charges for two answers."""

    @property
    def answer_shape(self) -> tuple[int, int]:
        """Shape of the exact answer."""

    def frozen_loss(self, first: Exact, second: Exact) -> float:
        """Pure loss that its theorem charges for two exact answers, at the worst of all outputs."""


@dataclass(frozen=True)
class ExactAnswer:
    """The exact answer in place of a release: for comparisons of constructed records, and never published.

    Attributes
    ----------
    of
        The design that would draw the release.
    """

    of: Frozen

    @property
    def loss(self) -> Loss:
        """What the release costs."""
        return self.of.loss

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the answer."""
        return self.of.answer_shape

    @property
    def by_tile(self) -> bool:
        """No: both neighbours are compared as a whole."""
        return False

    @property
    def symmetric(self) -> bool:
        """As the answer is."""
        return self.of.symmetric

    @property
    def additive(self) -> None:
        """It adds no noise."""

    def release(self, key: NoiseKey, exact: Exact, block: Block | None = None) -> Exact:
        """The answer as it is."""
        return exact

    def facts(self) -> dict[str, Any]:
        """Nothing: it is never published."""
        return {}

    def lines(self) -> list[tuple[str, str]]:
        """Nothing: it is never shown."""
        return []


def exact_answer(design: Design) -> ExactAnswer | None:
    """The exact answer of a mechanism whose outputs can be frozen; None of any other."""
    return ExactAnswer(design) if isinstance(design, Frozen) else None

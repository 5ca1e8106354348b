"""What is audited: a claim, and outputs on two neighbouring data sets.

A subject draws outputs for ``which = 0`` (data set D) and ``which = 1`` (its neighbour D'). The pair should be the
worst one that the relation admits; any admissible pair gives a valid audit. Where an exact likelihood ratio is known a
subject states it, so that attacks are as strong as possible; no verdict rests on it. Where an exact privacy profile is
known a claim below it is refuted, whatever the attacks find.

The laws of noise are in :mod:`.laws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, PureDP
from blockveil.engine.noise.discrete_gaussian import NoiseKey

Data = TypeVar("Data")
Indices = NDArray[np.intp]
Chunks = Sequence[Indices]


class Subject(Protocol):
    """Something that claims to be private."""

    @property
    def name(self) -> str:
        """Public name."""

    @property
    def claim(self) -> Claim:
        """What is promised."""

    @property
    def answers(self) -> tuple[Array, Array] | None:
        """Answers without noise on D and D', shape (M,) each; an attacker knows both data sets. None if unknown."""

    @property
    def chunks(self) -> Chunks | None:
        """Positions in an output of the parts that different tasks draw; None if unknown."""

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Independent outputs on D (``which = 0``) or D' (``which = 1``), shape (trials, M)."""

    def log_ratio(self, outputs: Array) -> Array | None:
        """Logarithm of the density on D over that on D', shape (trials,); None if unknown."""

    def delta(self, epsilon: float) -> float | None:
        """Exact smallest delta at an epsilon; None if unknown."""

    def with_noise(self, factor: float) -> Subject | None:
        """The same claim with noise larger by a factor, in law; None if its law is not known."""


@dataclass(frozen=True, eq=False)
class Additive:
    """An answer plus noise that does not depend on the data.

    Attributes
    ----------
    name, claim, answers, chunks
        See :class:`Subject`; the answers are known here.
    noise
        Noise of a given number of outputs, shape (trials, M).
    log_density
        Logarithm of the density of the noise up to a constant, shape (trials,); None where it is not known.
    profile
        Exact smallest delta at an epsilon; None where it is not known.
    grid
        Outputs are rounded to multiples of this power of two, far below the noise; 0 where they are exact integers.
    scaled
        The same subject with noise larger by a factor, with its exact profile; None where there is no profile.
    """

    name: str
    claim: Claim
    answers: tuple[Array, Array]
    noise: Callable[[int, Generator], Array]
    grid: float
    log_density: Callable[[Array], Array] | None = None
    profile: Callable[[float], float] | None = None
    chunks: Chunks | None = None
    scaled: Callable[[float], Additive] | None = None

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Answer plus noise, shape (trials, M)."""
        outputs = self.noise(trials, rng) + self.answers[which]
        # Dividing by a power of two is exact, so that this is a rounding of the sum and nothing else.
        return np.rint(outputs / self.grid) * self.grid if self.grid else outputs

    def log_ratio(self, outputs: Array) -> Array | None:
        """Difference of the logarithms of the densities, shape (trials,)."""
        if self.log_density is None:
            return None
        return self.log_density(outputs - self.answers[0]) - self.log_density(outputs - self.answers[1])

    def delta(self, epsilon: float) -> float | None:
        """Exact smallest delta, where the profile is known."""
        return None if self.profile is None else self.profile(epsilon)

    def with_noise(self, factor: float) -> Additive:
        """The same answers and claim, with each noise multiplied by a factor."""
        if self.scaled is not None:
            return self.scaled(factor)
        density = self.log_density
        return replace(
            self,
            noise=lambda trials, rng: self.noise(trials, rng) * factor,
            log_density=None if density is None else lambda noise: density(noise / factor),
            profile=None,
        )


def visible_claim(loss: Loss) -> Claim:
    """A claim that follows from a booked loss, at the epsilon where an audit sees a wrong scale best.

    A loss mu has a whole profile of claims, and all of them hold or the loss is wrong. Delta grows fastest with mu,
    at the density of a normal variable at ``mu/2 - epsilon/mu``, where epsilon is ``mu^2 / 2``.
    """
    if loss.mu == 0.0:
        return PureDP(loss.epsilon)
    epsilon = loss.epsilon + 0.5 * loss.mu**2
    return ApproxDP(epsilon, loss.delta(epsilon))


@dataclass(frozen=True, eq=False)
class BlackBox(Generic[Data]):
    """Any function of data and a noise key, run on two data sets with a fresh key for every output.

    Attributes
    ----------
    name, claim, answers, chunks
        See :class:`Subject`.
    run
        Output of one data set under one key, any shape; flattened.
    data
        The neighbouring data sets D and D'.
    model
        A subject whose outputs have the law of these, with noise larger by a factor; None where none is known. No
        verdict rests on it.
    """

    name: str
    claim: Claim
    run: Callable[[Data, NoiseKey], ArrayLike]
    data: tuple[Data, Data]
    answers: tuple[Array, Array] | None = None
    chunks: Chunks | None = None
    model: Callable[[float], Subject] | None = None

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Outputs under keys that are derived from one secret and a counter, shape (trials, M)."""
        secret = rng.bytes(32)
        keys = (NoiseKey.derive(secret, b"audit" + count.to_bytes(8)) for count in range(trials))
        outputs = [np.asarray(self.run(self.data[which], key), dtype=np.float64).ravel() for key in keys]
        return np.stack(outputs)

    def log_ratio(self, outputs: Array) -> None:
        """Not known."""

    def delta(self, epsilon: float) -> None:
        """Not known."""

    def with_noise(self, factor: float) -> Subject | None:
        """A model of it with noise larger by a factor."""
        return None if self.model is None else self.model(factor)

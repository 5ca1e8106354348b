"""The exponential mechanism for principal directions under audit: its law and its program, and its mutants.

In two dimensions ``exp(c v'Av)`` is a von Mises law of the doubled angle, so that the exact likelihood ratio is known;
the program itself is audited as a black box. Neighbours: some records along the first axis, few enough that a direction
along the second is seen now and then, and one record along the second axis more (or in place of one along the first).
There the loss comes close to what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ive

from blockveil.engine.audit.bounds import Array, Claim
from blockveil.engine.audit.subjects import BlackBox, Subject
from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ApproxDP, Neighbours, PureDP
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.mechanisms.directions.bingham import published_concentration
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign, Exponential
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.records.geometry import Body

_K = 2**11 - 1
_BEYOND = 8
_EXPONENT = 1.5
"""About how much more the first axis weighs in the exponent than the second."""


@dataclass(frozen=True, eq=False)
class DirectionLaw:
    """Density ``exp(c v'Av)`` on the circle, as an audit subject; outputs are ``(cos 2t, sin 2t)`` for the angle t.

    Attributes
    ----------
    name, claim
        See :class:`.subjects.Subject`.
    moments
        Second moments of D and D', shape (2, 2) each, in units of a record's largest squared length.
    concentration
        c.
    """

    name: str
    claim: Claim
    moments: tuple[Array, Array]
    concentration: float
    answers: None = None
    chunks: None = None

    def sample(self, which: int, trials: int, rng: Generator) -> Array:
        """Independent outputs, shape (trials, 2)."""
        size, centre = self._polar(which)
        doubled = rng.vonmises(centre, size, trials)
        return np.column_stack([np.cos(doubled), np.sin(doubled)])

    def log_ratio(self, outputs: Array) -> Array:
        """Exact, shape (trials,)."""
        return self._log_density(0, outputs) - self._log_density(1, outputs)

    def delta(self, epsilon: float) -> None:
        """No closed form is known."""

    def with_noise(self, factor: float) -> DirectionLaw:
        """A law that is wider about its mode by a factor, in squares."""
        return replace(self, concentration=self.concentration / factor)

    def _log_density(self, which: int, outputs: Array) -> Array:
        size, centre = self._polar(which)
        along = outputs[:, 0] * np.cos(centre) + outputs[:, 1] * np.sin(centre)
        # ive is I_0 times exp(-size).
        return np.asarray(size * (along - 1.0) - np.log(ive(0, size)))

    def _polar(self, which: int) -> tuple[float, float]:
        a = self.moments[which]
        across, mixed = float(a[0, 0] - a[1, 1]), 2.0 * float(a[0, 1])
        return 0.5 * self.concentration * float(np.hypot(across, mixed)), float(np.arctan2(mixed, across))


def direction_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """Subjects of the exponential mechanism under both relations, or of one of its mutants.

    Raises
    ------
    CalibrationError
        The mutant has no meaning here.
    """
    if mutant not in (None, "half-scale", "unclipped"):
        raise CalibrationError(f"mutant {mutant!r} means nothing for drawn directions; take half-scale or unclipped")
    subjects: list[Subject] = []
    for relation in Neighbours:
        problem = PrincipalDirections(Body.BALL, np.ones(2), relation, _K, 1000, False, 1)
        design = Exponential().design(problem, guarantee)
        claim = PureDP(design.loss.epsilon)
        if mutant == "half-scale":  # half the spread of the law about its mode, in squares
            design = replace(design, concentration=2.0 * design.concentration)
        moments = _moments(relation, design.concentration, _BEYOND**2 if mutant == "unclipped" else 1)
        label = f"principal-directions, {relation.value}"
        first, second = (moment.astype(np.float64) / _K**2 for moment in moments)
        law = DirectionLaw(f"{label}: likelihood ratio", claim, (first, second), design.concentration)
        subjects += [
            law,
            BlackBox(f"{label}: second moment to release", claim, _Program(design), moments, model=law.with_noise),
        ]
    return subjects


def frame_cases(guarantee: ApproxDP, mutant: str | None) -> list[Subject]:
    """The law of PPCA as published under both relations, or its mutant of twice the published concentration.

    Raises
    ------
    CalibrationError
        The mutant has no meaning here.
    """
    if mutant not in (None, "half-scale"):
        raise CalibrationError(f"mutant {mutant!r} means nothing for a law of directions; take half-scale")
    subjects: list[Subject] = []
    for relation in Neighbours:
        concentration = published_concentration(guarantee.epsilon) * (2.0 if mutant else 1.0)
        first, second = (moment.astype(np.float64) / _K**2 for moment in _moments(relation, concentration, 1))
        name = f"ppca as published, {relation.value}: likelihood ratio"
        subjects.append(DirectionLaw(name, PureDP(guarantee.epsilon), (first, second), concentration))
    return subjects


def _moments(relation: Neighbours, concentration: float, beyond: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    along = max(1, round(_EXPONENT / concentration))
    replaced = int(relation is Neighbours.REPLACE_ONE)
    first = np.diag(np.array([along + replaced, 0], dtype=np.int64) * _K**2)
    return first, np.diag(np.array([along, beyond], dtype=np.int64) * _K**2)


@dataclass(frozen=True, eq=False)
class _Program:
    design: DirectionsDesign

    def __call__(self, moment: NDArray[np.int64], key: NoiseKey) -> Array:
        """The released direction without its sign: cosine and sine of twice its angle."""
        x, y = (float(value) for value in self.design.release(key, moment)[:, 0])
        return np.array([x * x - y * y, 2.0 * x * y]) / (x * x + y * y)

"""Principal directions: from a noisy second moment, or drawn alone by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.answers import gram
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.answers.work import Work
from blockveil.engine.estimates.directions import leading_directions, positive
from blockveil.engine.estimates.error_bounds import unit_deviation
from blockveil.engine.kinds.directions.problem import PrincipalDirections
from blockveil.engine.mechanisms.directions.exact_bingham import STEP_BITS
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign
from blockveil.engine.noise.design import Design, Released
from blockveil.engine.records.geometry import GeometryError, reaches_both_ends
from blockveil.engine.sensitivity.reach import largest_l2
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.kinds.directions.section import DirectionsSection
from blockveil.pipeline.kinds.moments.question import Moment, MomentAnswer
from blockveil.pipeline.questions.arrays import ReleaseArrays
from blockveil.pipeline.questions.blocks import Blocks
from blockveil.pipeline.questions.question import Answer, additive, quantiser, text

_PAIR = ("feature", "direction")

_GAP = 0.1
"""Share of the largest possible second moment by which leading and other eigenvalues are supposed to differ."""

_BYTES_AN_ENTRY = 1500
_SECONDS_A_PRODUCT = 4e-7
"""Size of an integer of hundreds of bits, and time of a product of two; estimates, not measurements."""


@dataclass(frozen=True, eq=False)
class DirectionsQuestion(Moment):
    """Leading eigenvectors of a second moment."""

    problem: PrincipalDirections

    def facts(self) -> dict[str, Any]:
        """Shape of a record and number of directions."""
        return {**super().facts(), "directions": self.problem.directions}

    @singledispatchmethod
    def answer(self, design: Design) -> Answer:
        """Directions of a matrix with noise, or drawn alone."""
        return NoisyDirections(self, additive(design))

    @answer.register
    def _(self, design: DirectionsDesign) -> Answer:
        return DrawnDirections(self, design)


@dataclass(frozen=True, eq=False)
class NoisyDirections(MomentAnswer):
    """A second moment with noise, and the directions that follow from it."""

    question: DirectionsQuestion

    def error_sentence(self) -> str:
        """Squared sine distance at a stated gap."""
        problem, spread = self.question.problem, self.design.spread.rows
        k, d, back = problem.directions, problem.shape[0], self.question.coordinates.to_raw()
        if back.ndim == 1:
            longest, widest = largest_l2(problem.body, 1.0 / back), float(np.max(spread * back))
        else:
            longest = float(np.linalg.norm(back, 2))
            widest = longest * float(np.max(spread))
        even = self.design.isometric and back.ndim == 1 and float(np.ptp(spread * back)) == 0.0
        # Var v'Nw is at most s^2 for orthogonal unit vectors, and s^2 / 2 for isometric noise of one size.
        variance = (unit_deviation(self.design) * widest**2) ** 2 / (2.0 if even else 1.0)
        error = k * (d - k) * variance / (_GAP * problem.rows_at_most * longest**2) ** 2
        return _sentence(problem, error, "at most ")

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Second moment with its error, its leading directions, all its eigenvalues, and their expected distance."""
        moment, k = dict(super().arrays(released, rows)), self.question.problem.directions
        basis = leading_directions(moment["second_moment"][0], moment["second_moment_standard_deviation"][0], k)
        return {
            **moment,
            "direction": (_names(k), ("direction",)),
            "directions": (basis.directions, _PAIR),
            "eigenvalues": (basis.eigenvalues, ("eigenvalue",)),
            "expected_squared_sine_distance": (np.asarray(basis.sine_distance), ()),
        }

    def blocks(self, rows: int) -> Blocks | None:
        """Directions come from the whole matrix."""
        del rows
        return None


@dataclass(frozen=True, eq=False)
class DrawnDirections:
    """Directions drawn alone; nothing else is released. See :class:`.question.Answer`."""

    question: DirectionsQuestion
    design: DirectionsDesign

    def __post_init__(self) -> None:
        """Drawn directions are those of coordinates."""
        if self.question.coordinates.mixing is not None:
            raise GeometryError("directions would be those of records in the coordinates of a matrix; declare a ball")

    @property
    def matrix(self) -> str:
        """Name of the released matrix."""
        return "directions"

    @property
    def shape(self) -> tuple[int, int]:
        """Features by directions."""
        return self.design.shape

    def facts(self) -> dict[str, Any]:
        """Shape of a record and number of directions."""
        return self.question.facts()

    def work(self, rows: int) -> Work:
        """Work of the second moment, and of the draws in one task."""
        d, k = self.shape
        return replace(
            self.question.work(rows), last_bytes=_BYTES_AN_ENTRY * d * d, last_seconds=_SECONDS_A_PRODUCT * k * d**3
        )

    def noise_over_largest(self) -> None:
        """No noise is added to a matrix."""

    def error(self) -> None:
        """No noise is added to a matrix."""

    def error_sentence(self) -> str:
        """Squared sine distance at a stated gap."""
        d, k = self.shape
        problem = self.question.problem
        error = k * (d - k) / (2.0 * self.design.concentration * _GAP * problem.rows_at_most)
        return _sentence(problem, error, "about ")

    def arrays(self, released: Released, rows: int) -> ReleaseArrays:
        """Directions, and the standard deviation that their entries have where records say nothing."""
        d, k = self.shape
        return {
            "feature": (text(self.question.features), ("feature",)),
            "direction": (_names(k), ("direction",)),
            "directions": (positive(np.ldexp(released.astype(np.float64), -STEP_BITS)), _PAIR),
            # An entry of a uniform unit vector has variance 1 / d.
            "directions_standard_deviation": (np.full((d, k), d**-0.5), _PAIR),
        }

    def blocks(self, rows: int) -> None:
        """Directions come from the whole matrix."""


def build(loaded: LoadedConfig, asked: DirectionsSection) -> DirectionsQuestion:
    """Question of a config."""
    clip = quantiser(loaded, asked.geometry, augmented=False)
    gram.check_no_overflow(asked.rows_at_most, clip.largest)
    problem = PrincipalDirections(
        clip.coordinates.body,
        clip.coordinates.scale,
        loaded.config.privacy.neighbours,
        clip.largest,
        asked.rows_at_most,
        False,
        asked.directions,
        even=reaches_both_ends(clip.coordinates, clip.largest),
    )
    return DirectionsQuestion(problem, SecondMomentQuery(clip), asked.columns)


def _sentence(problem: PrincipalDirections, error: float, how: str) -> str:
    k = problem.directions
    return (
        f"if at {problem.rows_at_most:,} rows the leading eigenvalues exceed the others by {_GAP:.0%} of the largest "
        f"possible one, the squared sine distance of the {k} directions is {how}{min(error, float(k)):.3g} (of {k}), "
        "first order in the noise"
    )


def _names(count: int) -> NDArray[np.str_]:
    return text(tuple(f"direction {i + 1}" for i in range(count)))


QUESTION = build

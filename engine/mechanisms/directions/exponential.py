"""Principal directions by the exponential mechanism, as a program whose privacy is proven: whole numbers only.

Directions are drawn one after the other. Each is a unit vector v with density proportional to ``exp(c v'Av)``, A being
the second moment of records in the unit ball, restricted to what is orthogonal to the directions before it. One record
moves the exponent by between 0 and c, so the density is ``epsilon = c`` private under add-remove and ``epsilon = 2 c``
under replace-one (:mod:`.bingham`); k directions at ``epsilon / k`` each compose.

The sampler works in whole numbers and is within 2^-100 of that law, whatever the records
(:mod:`.exact_bingham`); this is booked as a distance beside the pure epsilon. Each direction
is drawn in a basis that is computed from released whole numbers alone, with ``|B'B - I| <= 2^-31`` checked; c is
smaller by 2^-30 to make up for it.

**Source**: McSherry and Talwar, 2007; Chaudhuri, Sarwate and Sinha, 2013 (PPCA, there as one frame of all directions).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.guarantees.guarantee import ApproxDP, Loss, Neighbours
from blockveil.engine.mechanisms.abilities import leading_directions
from blockveil.engine.mechanisms.contract import NotApplicable, Status
from blockveil.engine.mechanisms.declaration import BOTH, CatalogueEntry, MechanismDeclaration
from blockveil.engine.mechanisms.directions.exact_bingham import (
    LARGEST_EXPONENT,
    MOST_FEATURES,
    STEP_BITS,
    TOTAL_VARIATION_PER_DRAW,
    Sampler,
    certify,
)
from blockveil.engine.noise.additive import usable_epsilon, usable_mu
from blockveil.engine.noise.design import Block
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.engine.noise.exact_matrix import complement, identity, integers
from blockveil.engine.noise.exact_random import KeyBits
from blockveil.engine.records.geometry import Body
from blockveil.engine.sensitivity.problems import Problem

_BASIS_BITS = 80
_BASIS_SLACK_BITS = 31
_SHRINK = 1.0 - 2.0**-30


@dataclass(frozen=True)
class DirectionsDesign:
    """All numbers of one release of principal directions.

    Attributes
    ----------
    dimension, count
        d and k.
    unit
        Whole number that stands for one in the second moment.
    concentration
        c of each draw.
    loss
        What the release costs.
    """

    dimension: int
    count: int
    unit: int
    concentration: float
    loss: Loss

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the release."""
        return self.dimension, self.count

    @property
    def additive(self) -> None:
        """It adds noise to no entry of the answer."""

    @property
    def by_tile(self) -> bool:
        """No: a direction depends on the whole second moment."""
        return False

    @property
    def symmetric(self) -> bool:
        """Yes: a second moment."""
        return True

    @property
    def answer_shape(self) -> tuple[int, int]:
        """Shape of the second moment."""
        return self.dimension, self.dimension

    def frozen_loss(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
        """What the theorem charges for two second moments: the range of the exponent's change, over all draws."""
        least, *_, most = np.linalg.eigvalsh((first - second).astype(np.float64) / self.unit)
        # Directions that are frozen before it can leave a draw the whole range, unless one direction alone is left.
        return float(min(self.count, self.dimension - 1) * self.concentration * (most - least))

    def facts(self) -> dict[str, Any]:
        """Public numbers of the draw, as plain JSON values."""
        return {
            "concentration": self.concentration,
            "unit": self.unit,
            "step": 2.0**-STEP_BITS,
            "sampler": "AES-256-CTR, whole numbers, exact discrete Gaussian proposals, version 1",
        }

    def lines(self) -> list[tuple[str, str]]:
        """Law of a direction, for a person."""
        law = f"density exp({self.concentration:.6g} v'Av) over unit vectors v, for records in the unit ball"
        return [("Law", f"{law}; each of {self.count} in turn, exact")]

    def release(self, key: NoiseKey, exact: NDArray[np.int64], block: Block | None = None) -> NDArray[np.int64]:
        """Draw the directions: a pure function of key and second moment.

        Parameters
        ----------
        key
            Key of the release.
        exact
            Exact second moment of whole numbers, shape (d, d), symmetric and positive semi-definite.
        block
            All of the release.

        Returns
        -------
        Shape (d, k), int64: directions in columns, in steps of 2**-40, each to be divided by its length.
        """
        moment, concentration = integers(exact), Fraction(self.concentration)
        # The first basis is the identity, and need not be multiplied by: products take seconds where d is 256.
        basis, inner = identity(self.dimension, 1 << _BASIS_BITS), moment * (1 << (2 * _BASIS_BITS))
        direction, directions = None, []
        for draw in range(self.count):
            if direction is not None:
                # Of what was drawn only released whole numbers are used.
                basis = basis.dot(complement(direction, _BASIS_BITS)) >> _BASIS_BITS
                certify(basis.T.dot(basis), 1 << (2 * _BASIS_BITS), _BASIS_SLACK_BITS)
                inner = basis.T.dot(moment).dot(basis)
            direction = Sampler.of(inner, self.unit << (2 * _BASIS_BITS), concentration).draw(KeyBits(key, 0, draw))
            directions.append((basis.dot(direction) + (1 << (_BASIS_BITS - 1))) >> _BASIS_BITS)
        return np.stack(directions, axis=1).astype(np.int64)


@dataclass(frozen=True)
class Exponential:
    """The exponential mechanism for principal directions: a pure epsilon."""

    name: ClassVar[str] = "exponential"

    def design(self, problem: Problem, guarantee: ApproxDP) -> DirectionsDesign:
        """Largest concentration for the whole epsilon; only the sampler's distance uses delta.

        Raises
        ------
        NotApplicable
            Another query, a shape without a common bound of length, or too many features.
        CannotCalibrate
            The exponent could leave the range of the proof, or delta is below the sampler's distance.
        """
        if not leading_directions(problem):
            raise NotApplicable('it draws directions, no matrix; choose query kind "principal-directions"')
        if problem.body is not Body.BALL or float(np.ptp(problem.scale)) > 0.0:
            raise NotApplicable("its theorem bounds the length of a record; declare a ball")
        dimension = problem.shape[0]
        if dimension > MOST_FEATURES:
            raise NotApplicable(
                f"{dimension} features; exact draws are made for at most {MOST_FEATURES}; choose gaussian"
            )
        total_variation = problem.directions * TOTAL_VARIATION_PER_DRAW
        usable_mu(guarantee, total_variation)
        epsilon = usable_epsilon(guarantee)
        relation = 1.0 if problem.neighbours is Neighbours.ADD_REMOVE else 0.5
        concentration = epsilon / problem.directions * relation * _SHRINK
        if concentration * problem.rows_at_most > LARGEST_EXPONENT:
            raise CannotCalibrate(
                f"epsilon {guarantee.epsilon:g} times {problem.rows_at_most} rows is beyond the range of the proof; "
                "lower epsilon or choose gaussian"
            )
        loss = Loss(0.0, epsilon, total_variation)
        return DirectionsDesign(dimension, problem.directions, problem.largest**2, concentration, loss)

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}


DECLARED = (
    MechanismDeclaration(
        entry=CatalogueEntry(
            name="exponential",
            title="exponential mechanism for principal directions (PPCA), drawn in whole numbers",
            status=Status.PROVEN_EXACT,
            source=(
                "McSherry and Talwar, 2007; Chaudhuri, Sarwate and Sinha, 2013; Kent, Ganeiban and Mardia, 2013 "
                "(sampling)"
            ),
            theorem=(
                "a unit vector with density ~ exp(c v'Av) has a pure loss of c times the range over which v'Av may "
                "change between neighbours"
            ),
            relations=BOTH,
            needs="records in a ball; the number of directions; at most 256 features",
            loss="pure epsilon; and the sampler's distance, 2^-100 a direction",
            error=(
                "sum over leading i and other j of k / (2 epsilon gap_ij), twice that under replace-one: squared sines"
            ),
            finding=(
                "The published constant is exact under replace-one and wastes a factor of 2 under add-remove. Gibbs "
                "chains, with which it is usually run, have no useful bound of their distance from the law: not "
                "pure. The rejection sampler here works in whole numbers and its distance is proven. Its error "
                "falls with the gap, that of Gaussian noise with the gap squared, which is less from a gap of about "
                "2 ln(1/delta) / (k epsilon) on."
            ),
            use="release",
        ),
        mechanism=Exponential,
        form="The exponential mechanism for principal directions: a pure epsilon.",
        tried=lambda _: (Exponential(),),
        audit_cases="blockveil.engine.audit.direction_cases:direction_cases",
    ),
)

"""Leading principal directions as a problem: a second moment of which only the leading directions are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from blockveil.engine.guarantees.calibration import CannotCalibrate
from blockveil.engine.kinds.moments.problem import SecondMoment


@dataclass(frozen=True, eq=False)
class PrincipalDirections(SecondMoment):
    """Leading eigenvectors of ``sum v v'``.

    Additive mechanisms release the second moment, whose eigenvectors are post-processing; the exponential mechanism
    draws the directions alone.

    Attributes
    ----------
    directions
        Number k of directions, below the number of features.
    """

    query: ClassVar[str] = "principal-directions"
    leading_directions: ClassVar[bool] = True
    directions: int

    def __post_init__(self) -> None:
        """Refuse as many directions as there are features: together they say nothing."""
        if not 1 <= self.directions < self.scale.size:
            raise CannotCalibrate(
                f"{self.directions} directions of {self.scale.size} features; ask for at least one and fewer than all"
            )

"""Steps that sample records before they add Gaussian noise, and series of steps that are fixed in advance.

An event says what was drawn, not only what it cost, so that a better accountant can read it again. Gaussian, pure,
approximate and zero-concentrated events are in :mod:`.guarantee`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from blockveil.engine.guarantees.calibration import CalibrationError
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Neighbours, PureDP


@dataclass(frozen=True)
class PoissonGaussian:
    """Each record takes part with one probability, on its own; then a sum gets Gaussian noise. For ``add-remove`` only.

    Attributes
    ----------
    probability
        Of taking part, in (0, 1].
    noise_multiplier
        Standard deviation over the sum's sensitivity to one record added or removed.
    """

    probability: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse parameters for which no loss is known."""
        _fraction("probability", self.probability)
        _multiplier(self.noise_multiplier)


@dataclass(frozen=True)
class FixedSizeGaussian:
    """A batch of fixed size, drawn without replacement, then Gaussian noise. For ``replace-one`` only.

    Attributes
    ----------
    fraction
        Batch size over the (public) number of records, in (0, 1].
    noise_multiplier
        Standard deviation over the sum's sensitivity to one record replaced.
    """

    fraction: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse parameters for which no loss is known."""
        _fraction("fraction", self.fraction)
        _multiplier(self.noise_multiplier)


@dataclass(frozen=True)
class GaussianMixture:
    """Gaussian noise on a sum to which one record contributes a random amount. For ``add-remove`` only.

    Attributes
    ----------
    standard_deviation
        Of the noise.
    sensitivities, probabilities
        The record moves the sum by at most ``sensitivities[i]`` with probability ``probabilities[i]``; the record's
        presence changes nothing else. Not negative, at least one positive; probabilities add up to one.
    """

    standard_deviation: float
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse parameters for which no loss is known."""
        _multiplier(self.standard_deviation)
        if not self.sensitivities or len(self.sensitivities) != len(self.probabilities):
            raise CalibrationError("sensitivities and probabilities differ in number; give one probability for each")
        finite = all(math.isfinite(value) and value >= 0 for value in (*self.sensitivities, *self.probabilities))
        if not finite or not 0 < max(self.sensitivities) <= 10 * self.standard_deviation:
            raise CalibrationError(
                "sensitivities and probabilities must be finite and not negative, and the largest sensitivity must be "
                "positive and at most ten standard deviations"
            )
        if abs(math.fsum(self.probabilities) - 1.0) > 1e-12:
            raise CalibrationError("probabilities must add up to one")


Event = GaussianDP | PureDP | ApproxDP | ZCDP | PoissonGaussian | FixedSizeGaussian | GaussianMixture
"""One step of a known loss."""


@dataclass(frozen=True)
class Step:
    """The same event a given number of times."""

    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse a count below one."""
        if self.count < 1:
            raise CalibrationError(f"an event has the count {self.count}; it must be at least 1")


Series = tuple[Step, ...]
"""Steps whose kinds, numbers and parameters are fixed before the first of them; what each asks may depend on earlier
answers."""


def neighbours_of(event: Event) -> Neighbours | None:
    """The only relation for which the event's loss is known; None where it is the one that it was made for."""
    match event:
        case PoissonGaussian() | GaussianMixture():
            return Neighbours.ADD_REMOVE
        case FixedSizeGaussian():
            return Neighbours.REPLACE_ONE
        case _:
            return None


def check_relation(series: Series, neighbours: Neighbours) -> None:
    """Refuse events whose loss is not known for a relation.

    Raises
    ------
    CalibrationError
        An event holds for another relation only.
    """
    for step in series:
        only = neighbours_of(step.event)
        if only is not None and only is not neighbours:
            raise CalibrationError(
                f"{type(step.event).__name__} has a known loss for {only.value} only, and this is {neighbours.value}"
            )


def _fraction(name: str, value: float) -> None:
    if not (math.isfinite(value) and 1e-9 <= value <= 1.0):
        raise CalibrationError(f"{name} is {value}; it must lie between 1e-9 and 1")


def _multiplier(value: float) -> None:
    if not (math.isfinite(value) and 0.1 <= value <= 1e6):
        raise CalibrationError(f"the noise is {value}; it must lie between 0.1 and 1,000,000")

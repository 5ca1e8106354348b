"""Nights that share one charge and noise: which night a date is, its noise, and what they have in common.

A series that begins now weighs records by their age (:mod:`.level_strategy`). One that an earlier version began goes on
with chains of increments (:mod:`.continual`), as its ledger has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import Designer, NotApplicable
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.noise import continual, level_strategy
from blockveil.engine.noise.additive import Measured
from blockveil.engine.noise.design import WEIGHT_BITS, NoiseDesign
from blockveil.engine.noise.level_strategy import Levels
from blockveil.engine.sensitivity.problems import Problem
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.model import ContinualSection

_SPANS = (("day", 1), ("week", 7), ("month", 30))
_MOST_WEIGHT = 2**WEIGHT_BITS - 1


class Scheme(Protocol):
    """How nights share noise: what one of them draws, and what is read of it.

    Attributes
    ----------
    levels
        Weights of the records by age, with which each night draws under a key of its own; None where all nights draw
        under the key of the one that paid.
    """

    @property
    def levels(self) -> Levels | None:
        """Weights of the records by age; None where there are none."""

    @property
    def factors(self) -> NDArray[np.float64]:
        """Standard deviation of each night's noise, where that of one release for the whole charge is 1."""

    def of_all(self, measured: Measured, guarantee: ApproxDP) -> NoiseDesign:
        """What all nights have in common: the least noise such that all together keep a guarantee."""

    def of_night(self, together: NoiseDesign, night: int) -> NoiseDesign:
        """Noise of what is read of one night."""

    def common(self) -> dict[str, Any]:
        """Public numbers that all nights have in common, as plain JSON values."""

    def facts(self, night: int) -> dict[str, Any]:
        """Public numbers of one night, as plain JSON values."""

    def held(self, night: int) -> str:
        """What the noise of a night is made of, in words."""

    def change(self, back: int) -> float | None:
        """Standard deviation of a change over several nights, in units of ``factors``; None where it is not known."""


@dataclass(frozen=True)
class ByWeights:
    """Whole-number weights by the age of a record; see :mod:`.level_strategy`.

    Attributes
    ----------
    levels
        The weights.
    """

    levels: Levels

    @property
    def factors(self) -> NDArray[np.float64]:
        """See :class:`Scheme`."""
        return self.levels.factors

    def of_all(self, measured: Measured, guarantee: ApproxDP) -> NoiseDesign:
        """Noise of one measurement; see :class:`Scheme`."""
        each = measured.spread, measured.sensitivity, measured.scaling
        return level_strategy.measurement(*each, guarantee, self.levels)

    def of_night(self, together: NoiseDesign, night: int) -> NoiseDesign:
        """See :class:`Scheme`."""
        return level_strategy.of_night(together, self.levels, night)

    def common(self) -> dict[str, Any]:
        """See :class:`Scheme`."""
        return {"weights": list(self.levels.weights), "nights": self.levels.nights}

    def facts(self, night: int) -> dict[str, Any]:
        """See :class:`Scheme`."""
        levels = self.levels
        return {
            "weights": list(levels.weights),
            "squared_norm": levels.squared_norm,
            "read_with": list(levels.needed(night)),
            "algorithm": "whole-number weights by age, version 1",
        }

    def held(self, night: int) -> str:
        """See :class:`Scheme`."""
        return f"its own measurement and the published results of {len(self.levels.needed(night))} earlier nights"

    def change(self, back: int) -> float | None:
        """Up to the last night; see :class:`Scheme`."""
        levels = self.levels
        return math.sqrt(levels.squared_norm) * levels.deviation_of_change(levels.nights, back)


@dataclass(frozen=True)
class ByChains:
    """Chains of increments, as versions up to 0.2 began a series; see :mod:`.continual`.

    Attributes
    ----------
    chains
        Which night starts from which.
    """

    chains: continual.Chains
    levels: ClassVar[None] = None

    @property
    def factors(self) -> NDArray[np.float64]:
        """See :class:`Scheme`."""
        return self.chains.factors

    def of_all(self, measured: Measured, guarantee: ApproxDP) -> NoiseDesign:
        """Noise of one increment; see :class:`Scheme`."""
        each = measured.spread, measured.sensitivity, measured.scaling
        return continual.increment_design(*each, guarantee, self.chains)

    def of_night(self, together: NoiseDesign, night: int) -> NoiseDesign:
        """See :class:`Scheme`."""
        return continual.of_night(together, self.chains, night)

    def common(self) -> dict[str, Any]:
        """See :class:`Scheme`."""
        return {"starts": list(self.chains.starts)}

    def facts(self, night: int) -> dict[str, Any]:
        """See :class:`Scheme`."""
        return {
            "chain": list(self.chains.chain(night)),
            "cover": self.chains.cover,
            "algorithm": "chains of least mean variance, version 1",
        }

    def held(self, night: int) -> str:
        """See :class:`Scheme`."""
        return f"noise of {len(self.chains.chain(night))} increments"

    def change(self, back: int) -> None:
        """See :class:`Scheme`."""


@dataclass(frozen=True)
class Series:
    """Nights that share a charge, and one among them.

    Attributes
    ----------
    first
        Logical date of the first night.
    nights, night
        How many nights there are at most, and the number of this one, from 1.
    days_after
        How many dates of the series come after this one.
    digest
        SHA-256 of all that the nights have in common: their noise is bound to it.
    scheme
        How they share noise.
    """

    first: date
    nights: int
    night: int
    days_after: int
    digest: str
    scheme: Scheme

    @property
    def is_last(self) -> bool:
        """Whether no night comes after."""
        return self.days_after == 0


@dataclass(frozen=True)
class InLedger:
    """How the ledger has the series of a night, where it has begun.

    Attributes
    ----------
    chained
        Whether an earlier version began it, with chains of increments.
    number
        Of the night among those that are released: its own where it has an entry, else the next one.
    """

    chained: bool
    number: int


@dataclass(frozen=True)
class SharedNight:
    """One of the nights that share a charge.

    Attributes
    ----------
    section
        The nights, as declared.
    day
        Which of their dates it is, from 1.
    number
        Which of them it is, from 1: of weighted nights only those that are released are counted.
    scheme
        How they share noise.
    """

    section: ContinualSection
    day: int
    number: int
    scheme: Scheme

    @classmethod
    def of(cls, section: ContinualSection | None, day: date, found: InLedger | None = None) -> SharedNight | None:
        """The night of a date; None where no nights share a charge.

        Parameters
        ----------
        section
            The nights, as declared.
        day
            Logical date.
        found
            How the ledger has the series; None plans it as a new one whose every night runs.

        Raises
        ------
        ConfigError
            The date is before the first night or after the last.
        """
        if section is None:
            return None
        which = (day - section.first).days + 1
        if not 1 <= which <= section.nights:
            last = section.first + timedelta(days=section.nights - 1)
            raise ConfigError(
                f"{day} is not among the {section.nights} nights of [continual], which are {section.first} to {last}",
                "A charge for several nights is for these nights alone",
                "Give one of these dates, or plan further nights under another continual.first (a new charge)",
            )
        if found is not None and found.chained:
            return cls(section, which, which, ByChains(continual.best(section.nights)))
        number = which if found is None else min(found.number, which)
        return cls(section, which, number, ByWeights(level_strategy.least_noise(section.nights)))

    def together(self, mechanism: Designer, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise of what each night draws.

        Parameters
        ----------
        mechanism
            Whose spread the noise has.
        problem, guarantee
            What is asked, and what all nights together promise.

        Raises
        ------
        NotApplicable
            The mechanism is not one of Gaussian noise of a spread that is known beforehand.
        CannotCalibrate
            See :func:`.additive.gaussian_design`.
        """
        match mechanism:
            case Gaussian() | ShapedGaussian() | Hierarchical(noise="gaussian"):
                measured = mechanism.measured(problem)
            case ResidualNoise() | MatrixMechanism():
                measured = mechanism.measured(problem, _MOST_WEIGHT)
            case _:
                raise NotApplicable(f'{mechanism.name} has no noise for shared nights; choose "shaped-gaussian"')
        # A strategy is linear: its answers to a weighted sum are the weighted sum of its answers.
        return replace(self.scheme.of_all(measured, guarantee), strategy=measured.strategy)

    def noise(self, together: NoiseDesign) -> NoiseDesign:
        """Noise of this night, from what all have in common."""
        return self.scheme.of_night(together, self.number)

    def series(self, common: dict[str, Any]) -> Series:
        """The nights; ``common`` is the public description of what all nights draw, without a night's own."""
        section = self.section
        # Windows follow from what is released anyway: a series may begin to publish others.
        ours = {name: value for name, value in common["continual"].items() if name != "windows"}
        both = digest({**common, "continual": ours, **self.scheme.common()})
        return Series(section.first, section.nights, self.number, section.nights - self.day, both, self.scheme)

    def facts(self, found: Series) -> dict[str, Any]:
        """Public numbers of the night's noise, as plain JSON values."""
        return {"series": found.digest, "night": self.number, **self.scheme.facts(self.number)}


def nearest(loaded: LoadedConfig, day: date) -> date:
    """The date itself, or the first or last night where the config's nights do not hold it."""
    section = loaded.config.continual
    if section is None:
        return day
    return min(max(day, section.first), section.first + timedelta(days=section.nights - 1))


def describe(found: Series) -> list[tuple[str, str]]:
    """Lines (what, value) for a plan."""
    factors, scheme = found.scheme.factors, found.scheme
    typical, alone = float((factors**2).mean() ** 0.5), found.nights**0.5
    return [
        ("Night", f"{found.night} of {found.nights} from {found.first} on, in one charge; {scheme.held(found.night)}"),
        (
            "Nights' noise",
            f"{typical:.3g} times that of one release for the whole charge, root mean square over all nights; "
            f"{float(factors.max()):.3g} at most; independent nights {alone:.3g}{_changes(found)}",
        ),
    ]


def _changes(found: Series) -> str:
    """How sure the changes over a day, a week and a month are, beside those of independent nights."""
    spans = [(what, found.scheme.change(back)) for what, back in _SPANS if back < found.nights]
    changes = ", ".join(f"a {what} {size:.3g}" for what, size in spans if size is not None)
    return f"; the change over {changes}, of independent nights {(2.0 * found.nights) ** 0.5:.3g}" if changes else ""

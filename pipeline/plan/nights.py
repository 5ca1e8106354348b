"""Nights that share one charge and noise: which night a date is, its noise, and what they have in common.

A series weighs records by their age (:mod:`.level_strategy`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import Designer, NotApplicable
from blockveil.engine.mechanisms.counts.residuals import ResidualNoise
from blockveil.engine.mechanisms.counts.workload_answers import Hierarchical, MatrixMechanism
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.noise import level_strategy
from blockveil.engine.noise.design import WEIGHT_BITS, NoiseDesign
from blockveil.engine.noise.level_strategy import Levels
from blockveil.engine.sensitivity.problems import Problem
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.model import ContinualSection

_SPANS = (("day", 1), ("week", 7), ("month", 30))
_MOST_WEIGHT = 2**WEIGHT_BITS - 1


@dataclass(frozen=True)
class Series:
    """Nights that share a charge, and one among them.

    Attributes
    ----------
    first
        Logical date of the first night.
    nights, night
        How many nights there are at most, and the number of this one, from 1.
    digest
        SHA-256 of all that the nights have in common: their noise is bound to it.
    levels
        Weights of the records by their age.
    """

    first: date
    nights: int
    night: int
    digest: str
    levels: Levels


@dataclass(frozen=True)
class SharedNight:
    """One of the nights that share a charge.

    Attributes
    ----------
    section
        The nights, as declared.
    number
        Which of them it is, from 1: only those that are released are counted.
    levels
        Weights of the records by their age.
    """

    section: ContinualSection
    number: int
    levels: Levels

    @classmethod
    def of(cls, section: ContinualSection | None, day: date, released: int | None = None) -> SharedNight | None:
        """The night of a date; None where no nights share a charge.

        Parameters
        ----------
        section
            The nights, as declared.
        day
            Logical date.
        released
            Its number by the ledger; None plans it as one of a new series whose every night runs.

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
        number = which if released is None else min(released, which)
        return cls(section, number, level_strategy.least_noise(section.nights))

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
        each = measured.spread, measured.sensitivity, measured.scaling
        return replace(level_strategy.measurement(*each, guarantee, self.levels), strategy=measured.strategy)

    def noise(self, together: NoiseDesign, number: int | None = None) -> NoiseDesign:
        """Noise of this night, or of another one, from what all have in common."""
        return level_strategy.of_night(together, self.levels, number or self.number)

    def series(self, common: dict[str, Any]) -> Series:
        """The nights; ``common`` is the public description of what all nights draw, without a night's own."""
        section = self.section
        # Windows follow from what is released anyway: a series may begin to publish others.
        ours = {name: value for name, value in common["continual"].items() if name != "windows"}
        both = digest({**common, "continual": ours, "weights": list(self.levels.weights), "nights": self.levels.nights})
        return Series(section.first, section.nights, self.number, both, self.levels)

    def facts(self, found: Series) -> dict[str, Any]:
        """Public numbers of the night's noise, as plain JSON values."""
        return {
            "series": found.digest,
            "night": self.number,
            "weights": list(self.levels.weights),
            "squared_norm": self.levels.squared_norm,
            "read_with": list(self.levels.needed(self.number)),
            "algorithm": "whole-number weights by age, version 1",
        }


def nearest(loaded: LoadedConfig, day: date) -> date:
    """The date itself, or the first or last night where the config's nights do not hold it."""
    section = loaded.config.continual
    if section is None:
        return day
    return min(max(day, section.first), section.first + timedelta(days=section.nights - 1))


def describe(found: Series) -> list[tuple[str, str]]:
    """Lines (what, value) for a plan."""
    factors, earlier = found.levels.factors, len(found.levels.needed(found.night))
    typical, alone = float((factors**2).mean() ** 0.5), found.nights**0.5
    return [
        (
            "Night",
            f"{found.night} of {found.nights} from {found.first} on, in one charge; "
            f"its own measurement and the published results of {earlier} earlier nights",
        ),
        (
            "Nights' noise",
            f"{typical:.3g} times that of one release for the whole charge, root mean square over all nights; "
            f"{float(factors.max()):.3g} at most; independent nights {alone:.3g}{_changes(found)}",
        ),
    ]


def _changes(found: Series) -> str:
    """How sure the changes over a day, a week and a month are, beside those of independent nights."""
    levels, norm = found.levels, math.sqrt(found.levels.squared_norm)
    changes = ", ".join(
        f"a {what} {norm * levels.deviation_of_change(levels.nights, back):.3g}"
        for what, back in _SPANS
        if back < levels.nights
    )
    return f"; the change over {changes}, of independent nights {(2.0 * found.nights) ** 0.5:.3g}" if changes else ""

"""Nights that share one charge and noise: which night a date is, its noise, and what they have in common.

See :mod:`.continual` for the mechanism and its proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from blockveil.engine.guarantees.guarantee import ApproxDP
from blockveil.engine.mechanisms.contract import Designer, NotApplicable
from blockveil.engine.mechanisms.gaussian import Gaussian, ShapedGaussian
from blockveil.engine.noise import continual
from blockveil.engine.noise.design import NoiseDesign
from blockveil.engine.sensitivity.problems import Problem
from blockveil.pipeline.base.canonical import digest
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config.model import ContinualSection

_VERSION = "chains of least mean variance, version 1"


@dataclass(frozen=True)
class Series:
    """Nights that share a charge, and one among them.

    Attributes
    ----------
    first
        Logical date of the first night.
    nights, night
        How many nights there are, and the number of this one, from 1.
    digest
        SHA-256 of all that the nights have in common: their noise is bound to it.
    """

    first: date
    nights: int
    night: int
    digest: str

    @property
    def is_last(self) -> bool:
        """Whether no night comes after."""
        return self.night == self.nights


@dataclass(frozen=True)
class SharedNight:
    """One of the nights that share a charge.

    Attributes
    ----------
    section
        The nights, as declared.
    number
        Which of them it is, from 1.
    """

    section: ContinualSection
    number: int

    @classmethod
    def of(cls, section: ContinualSection | None, day: date) -> SharedNight | None:
        """The night of a date; None where no nights share a charge.

        Raises
        ------
        ConfigError
            The date is before the first night or after the last.
        """
        if section is None:
            return None
        found = (day - section.first).days + 1
        if not 1 <= found <= section.nights:
            last = section.first + timedelta(days=section.nights - 1)
            raise ConfigError(
                f"{day} is not among the {section.nights} nights of [continual], which are {section.first} to {last}",
                "A charge for several nights is for these nights alone",
                "Give one of these dates, or plan further nights under another continual.first (a new charge)",
            )
        return cls(section, found)

    @property
    def chains(self) -> continual.Chains:
        """Which increments' noise each night holds."""
        return continual.best(self.section.nights)

    def increment(self, mechanism: Designer, problem: Problem, guarantee: ApproxDP) -> NoiseDesign:
        """Noise of one increment.

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
            See :func:`.continual.increment_design`.
        """
        match mechanism:
            case Gaussian() | ShapedGaussian():
                spread = mechanism.spread(problem)
            case _:
                raise NotApplicable(f'{mechanism.name} has no noise for shared nights; choose "shaped-gaussian"')
        return continual.increment_design(spread, problem.l2(spread), problem.scaling, guarantee, self.chains)

    def noise(self, increment: NoiseDesign) -> NoiseDesign:
        """Noise of this night, from that of one increment."""
        return continual.of_night(increment, self.chains, self.number)

    def series(self, common: dict[str, Any]) -> Series:
        """The nights; ``common`` is the public description of one increment, without a night's own."""
        section = self.section
        both = digest({**common, "starts": list(self.chains.starts)})
        return Series(section.first, section.nights, self.number, both)

    def facts(self, found: Series) -> dict[str, Any]:
        """Public numbers of the night's noise, as plain JSON values: which increments' noise it holds."""
        chains = self.chains
        return {
            "series": found.digest,
            "night": self.number,
            "chain": list(chains.chain(self.number)),
            "cover": chains.cover,
            "algorithm": _VERSION,
        }


def nearest(loaded: LoadedConfig, day: date) -> date:
    """The date itself, or the first or last night where the config's nights do not hold it."""
    section = loaded.config.continual
    if section is None:
        return day
    return min(max(day, section.first), section.first + timedelta(days=section.nights - 1))


def describe(section: ContinualSection, found: Series) -> list[tuple[str, str]]:
    """Lines (what, value) for a plan."""
    factors, held = continual.best(section.nights).factors, len(continual.best(section.nights).chain(found.night))
    typical = float((factors**2).mean() ** 0.5)
    alone = section.nights**0.5
    return [
        ("Night", f"{found.night} of {found.nights} from {found.first} on, in one charge; noise of {held} increments"),
        (
            "Nights' noise",
            f"{typical:.3g} times that of one release for the whole charge, root mean square over all nights; "
            f"{float(factors.max()):.3g} at most; independent nights {alone:.3g}",
        ),
    ]

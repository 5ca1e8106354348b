"""Nights that share one charge and noise: which night a date is, its noise, and what they have in common.

See :mod:`.continual` for the mechanism and its proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from blockveil.engine.guarantees.guarantee import ApproxDP
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


def number(section: ContinualSection, day: date) -> int:
    """Number of a night, from 1.

    Raises
    ------
    ConfigError
        The date is before the first night or after the last.
    """
    found = (day - section.first).days + 1
    if not 1 <= found <= section.nights:
        last = section.first + timedelta(days=section.nights - 1)
        raise ConfigError(
            f"{day} is not among the {section.nights} nights of [continual], which are {section.first} to {last}",
            "A charge for several nights is for these nights alone",
            "Give one of these dates, or plan further nights under another continual.first (a new charge)",
        )
    return found


def nearest(loaded: LoadedConfig, day: date) -> date:
    """The date itself, or the first or last night where the config's nights do not hold it."""
    section = loaded.config.continual
    if section is None:
        return day
    return min(max(day, section.first), section.first + timedelta(days=section.nights - 1))


def increment(
    mechanism: Gaussian | ShapedGaussian, problem: Problem, guarantee: ApproxDP, section: ContinualSection
) -> NoiseDesign:
    """Noise of one increment; :func:`.continual.increment_design` raises what is wrong."""
    spread, chains = mechanism.spread(problem), continual.best(section.nights)
    return continual.increment_design(spread, problem.l2(spread), problem.scaling, guarantee, chains)


def noise(design: NoiseDesign, section: ContinualSection, night: int) -> NoiseDesign:
    """Noise of one night, from that of one increment."""
    return continual.of_night(design, continual.best(section.nights), night)


def series(section: ContinualSection, night: int, common: dict[str, Any]) -> Series:
    """The nights of a section; ``common`` is the public description of one increment, without a night's own."""
    starts = list(continual.best(section.nights).starts)
    return Series(section.first, section.nights, night, digest({**common, "starts": starts}))


def facts(section: ContinualSection, found: Series) -> dict[str, Any]:
    """Public numbers of a night's noise, as plain JSON values: which nights' noise it holds."""
    chains = continual.best(section.nights)
    return {
        "series": found.digest,
        "night": found.night,
        "chain": list(chains.chain(found.night)),
        "cover": chains.cover,
        "algorithm": _VERSION,
    }


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

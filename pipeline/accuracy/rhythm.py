"""How often a config is released, as far as its folder says: a lever on nights is one only where there are several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from blockveil.pipeline.config import LoadedConfig

Often = Literal["once", "night", "week", "month", "several", "unknown"]

_RARER: dict[Often, int] = {"night": 7, "week": 4, "month": 3, "several": 7, "unknown": 7}
"""Releases of which one is left, where a lever makes them rarer."""


@dataclass(frozen=True)
class Rhythm:
    """How often a release is made.

    Attributes
    ----------
    often
        ``once``; every ``night``, ``week`` or ``month``; ``several`` times by a schedule that is none of these, or by
        none yet; ``unknown`` where nothing says it.
    """

    often: Often

    @property
    def repeats(self) -> bool:
        """Whether there may be several releases."""
        return self.often != "once"

    @property
    def nightly(self) -> bool:
        """Whether there may be one every night, as nights that share a charge need it."""
        return self.often in ("night", "several", "unknown")

    @property
    def rarer(self) -> int:
        """Releases of which a lever leaves one."""
        return _RARER.get(self.often, 1)

    def one_of(self, releases: int) -> str:
        """One release in place of several, in words."""
        match self.often:
            case "night" | "unknown":
                rare = "one night a week" if releases == _RARER["night"] else f"one release in {releases} nights"
                alternative = "in place of every night" if self.often == "night" else "where it is released every night"
                return f"{rare} {alternative}"
            case "week" | "month":
                return f"one release in {releases} {self.often}s in place of every {self.often}"
        return f"one release in place of {releases}"


def rhythm_of(loaded: LoadedConfig) -> Rhythm:
    """How often a config is released, by its share of a promise, its nights and the ``deployments.toml`` beside it.

    A file of deployments that cannot be read is left out here; `serve` and `deploy` report the reason.
    """
    from blockveil.pipeline.config.cadence import cadence_of, deployments_beside  # most plans ask for no levers

    several = (loaded.config.privacy.share or 1.0) < 1.0 or loaded.config.continual is not None
    deployments = deployments_beside(loaded)
    if deployments is None:
        return Rhythm("several" if several else "unknown")
    if all(night.config != loaded.path.stem for night in deployments.night):
        return Rhythm("several" if several else "once")
    cadence = cadence_of(loaded)
    return Rhythm("several" if cadence.calendar is None else cadence.often)

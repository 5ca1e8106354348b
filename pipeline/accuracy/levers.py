"""What would make a release more exact, how much, and at which price: each lever is planned before it is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockveil.pipeline.accuracy.assessing import noise_size
from blockveil.pipeline.accuracy.changes import changes
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.accuracy.priced_change import PricedChange, in_words
from blockveil.pipeline.accuracy.rhythm import Rhythm, rhythm_of
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.plan.planning import Plan, make_plan

BEST = 3
"""How many levers are shown unless all are asked for."""

_WORTH = 1.02
"""A lever that gives less than this is none."""

_COMPARED = 6


@dataclass(frozen=True)
class Lever:
    """One change that makes a release more exact.

    Attributes
    ----------
    what
        The change.
    times_less
        How many times less noise it gives.
    price
        What has to be given up for it.
    setting
        The change as ``--set`` takes it; empty where it is more than one value.
    """

    what: str
    times_less: float
    price: str
    setting: str = ""

    @property
    def effect(self) -> str:
        """Its effect, for a person."""
        return f"{self.times_less:.1f} times less noise" if self.times_less < 1e5 else "far less noise"

    @property
    def words(self) -> str:
        """The change with its price, for a person."""
        return in_words(self.what, self.setting, self.price)

    @property
    def plain(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        setting = {"set": self.setting} if self.setting else {}
        return {"what": self.what, "times_less_noise": self.times_less, "price": self.price, **setting}


def levers(plan: Plan, population: Population, rhythm: Rhythm | None = None) -> list[Lever]:
    """Levers of a plan, the best first; reads no data.

    Parameters
    ----------
    plan
        The plan.
    population
        Supposed records. They stay the same in raw units, whatever a lever changes of the bounds.
    rhythm
        How often it is released; as its folder says where not given.
    """
    names = compared_features(plan)
    before = noise_size(plan, population, names)
    if before is None or not before > 0.0:
        return []
    priced = changes(plan, population.rows, rhythm or rhythm_of(plan.loaded))
    candidates = [_planned(plan, change, population, names, before) for change in priced]
    candidates += plan.config.kind.part("narrower_query", _no_levers)(plan, population)
    worth = [lever for lever in candidates if lever is not None and lever.times_less >= _WORTH]
    return sorted(worth, key=lambda lever: -lever.times_less)


def compared_features(plan: Plan) -> tuple[str, ...]:
    """A few features by whose correlations plans are compared; a plan of half of the features has them too."""
    query = plan.config.query
    if not query.of_features:
        return ()
    half = query.columns[: (len(query.columns) + 1) // 2] if len(query.columns) >= 4 else query.columns
    places = np.unique(np.linspace(0, len(half) - 1, _COMPARED).round().astype(int))
    return tuple(half[place] for place in places)


def _planned(
    plan: Plan, change: PricedChange, population: Population, names: tuple[str, ...], before: float
) -> Lever | None:
    variant = replanned(plan, change.loaded)
    if variant is None:
        return None
    after = noise_size(variant, population.with_rows(change.times_rows * population.rows), names)
    if after is None or not after > 0.0:
        return None
    return Lever(change.what, before / after, change.price_of(plan, variant), change.setting)


def replanned(plan: Plan, loaded: LoadedConfig) -> Plan | None:
    """Plan of a changed config for the same night; None where it cannot be planned."""
    try:
        return make_plan(loaded, plan.logical_date)
    except ConfigError:
        return None


def _no_levers(plan: Plan, population: Population) -> list[Lever]:
    """Of most kinds nothing is a part of what they ask."""
    del plan, population
    return []

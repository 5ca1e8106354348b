"""What published deployments promise, as their own documents state it: the one table of it, for plans and pages.

Figures are those of the sources, which were made for other data, other units and other adversaries.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Deployment:
    """One published deployment.

    Attributes
    ----------
    name
        Who released what.
    unit
        Whom or what the promise is for, and over how long.
    epsilons
        What is promised, ascending.
    promise
        The same in words, with delta where there is one.
    source
        The document that says so.
    """

    name: str
    unit: str
    epsilons: tuple[float, ...]
    promise: str
    source: str


DEPLOYMENTS = (
    Deployment(
        "United States, 2020 Census, redistricting data",
        "one person, all tables of persons",
        (17.14,),
        "17.14 at delta 1e-10",
        "Census Bureau, press release of 9 June 2021; with the housing units 19.61",
    ),
    Deployment(
        "Apple, emoji and health-type statistics",
        "one person, one day, noise on the device",
        (2.0, 4.0),
        "4 and 2, no delta",
        "Apple, Differential Privacy Technical Overview",
    ),
    Deployment(
        "Google, COVID-19 Search Trends symptoms",
        "one person, one day",
        (1.68,),
        "1.68 each day, no delta",
        "Bavadekar et al., arXiv 2009.01265, abstract",
    ),
    Deployment(
        "Facebook, Full URLs data set",
        "all actions of a person, for 96.6 % of persons",
        (1.453,),
        "1.453 at delta 1e-5",
        "Messing et al., codebook of 2020",
    ),
)
"""The deployments of docs/how-to/epsilon.md, in its order."""


def nearest(epsilon: float) -> str:
    """One sentence with the published epsilons that are nearest, below and above."""
    published = ((each, deployment) for deployment in DEPLOYMENTS for each in deployment.epsilons)
    by_epsilon = sorted(published, key=lambda pair: pair[0])
    below = [pair for pair in by_epsilon if pair[0] <= epsilon][-1:]
    above = [pair for pair in by_epsilon if pair[0] > epsilon][:1]
    neighbours = ", and ".join(f"{each:g} by {case.name} ({case.unit})" for each, case in (*below, *above))
    return f"published nearest to epsilon {epsilon:g}: {neighbours}; of other data, units and adversaries"

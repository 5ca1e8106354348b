"""How exactly each number of a planned release will be known, as its kind says.

Everything here follows from the plan and from supposed records. It is displayed and decides nothing: it enters no
digest, no ledger and no release.
"""

from __future__ import annotations

from collections.abc import Sequence

from blockveil.pipeline.accuracy.assessment import Assessment
from blockveil.pipeline.accuracy.expected import NOTHING, Accuracy
from blockveil.pipeline.accuracy.learned_answers import in_learned_shape
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.plan.planning import Plan


def _accuracy(plan: Plan) -> Accuracy:
    return plan.config.kind.part("accuracy", NOTHING)


def assess(plan: Plan, population: Population) -> Assessment:
    """How exactly the numbers of a planned release will be known for supposed records; reads no data."""
    plan = in_learned_shape(plan, population)
    accuracy, answer = _accuracy(plan), plan.answer
    return Assessment(
        population,
        tuple(accuracy.errors(answer, population)),
        tuple(accuracy.pairs(answer, population)),
        accuracy.found(answer, population),
    )


def noise_size(plan: Plan, population: Population, names: Sequence[str]) -> float | None:
    """One size of the noise by which plans of one question are compared; None where it is not known.

    Parameters
    ----------
    plan
        The plan.
    population
        Supposed records: the same for all plans that are compared.
    names
        Features that all of them have.
    """
    plan = in_learned_shape(plan, population)
    return _accuracy(plan).size(plan.answer, population, names)


def size_of_directions(plan: Plan, population: Population, count: int) -> float | None:
    """Root of the expected squared sines of the leading directions together; None where there are no directions."""
    return _accuracy(plan).angles(plan.answer, population, count)

"""The answer of a night that learns, as it would be for supposed records: its noise follows where records lie."""

from __future__ import annotations

from blockveil.engine.records.geometry import GeometryError
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.plan.planning import Plan


def in_learned_shape(plan: Plan, population: Population) -> Plan:
    """The plan with the shape that would be learned of supposed records; the same plan where it learns nothing."""
    learning = plan.designed.learning
    if learning is None:
        return plan
    places = population.places(plan.columns)
    mean, size = population.mean[places], population.size[places]
    try:
        return plan.of_last_stage(learning.supposed(mean, size, population.rows))
    except (GeometryError, ValueError):
        return plan

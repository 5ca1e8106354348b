"""What tells less than a second moment or covariance, with less noise: its leading directions alone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import TypeAdapter

from blockveil.pipeline.accuracy.assessing import size_of_directions
from blockveil.pipeline.accuracy.levers import Lever, replanned
from blockveil.pipeline.accuracy.population import Population
from blockveil.pipeline.accuracy.priced_change import with_table
from blockveil.pipeline.config.mechanism_sections import Mechanism
from blockveil.pipeline.kinds.directions.section import DirectionsSection
from blockveil.pipeline.kinds.moments.section import MomentSection
from blockveil.pipeline.plan.planning import Plan

_DIRECTIONS = 3


def _directions_alone(plan: Plan, population: Population) -> Iterator[Lever]:
    """Leading directions alone in place of the matrix: by the mechanism of the plan, and drawn alone."""
    query = plan.config.query
    if not isinstance(query, MomentSection) or len(query.columns) < 2:
        return
    count = min(_DIRECTIONS, len(query.columns) - 1)
    shared = {key: getattr(query, key) for key in ("geometry", "rows_at_most", "missing", "quantisation_bits")}
    section = DirectionsSection(kind="principal-directions", directions=count, **shared)
    before = size_of_directions(plan, population, count) or 0.0
    for mechanism in (plan.config.mechanism, _EXPONENTIAL):
        narrower = replanned(plan, with_table(plan.loaded, query=section, mechanism=mechanism))
        after = None if narrower is None else size_of_directions(narrower, population, count)
        if narrower is not None and after:
            which = "the leading principal direction" if count == 1 else f"the {count} leading principal directions"
            yield Lever(
                f"{which} in place of the matrix, by {narrower.mechanism.name}",
                before / after,
                "nothing is released but the directions and what they follow from; the factor is that of their angles "
                "to the true ones",
            )


_EXPONENTIAL: Mechanism = TypeAdapter(Mechanism).validate_python({"kind": "exponential"})

NARROWER_QUERY = _directions_alone

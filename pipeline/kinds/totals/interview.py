"""Totals as the purpose of a first release."""

from __future__ import annotations

from blockveil.pipeline.config.learned_geometry import MOST_LEARNED
from blockveil.pipeline.scaffold.purposes import RELATIVE, Purpose

INTERVIEW = (
    Purpose(
        name="totals",
        meaning="counts, sums and means",
        synonyms=("means", "sums"),
        query={"kind": "totals"},
        stepped=True,
        learn="mean",
        most_learned=lambda unknown: MOST_LEARNED if unknown else 0,
        noise=RELATIVE,
    ),
)

"""Counts in a grid as the purpose of a first release."""

from __future__ import annotations

from blockveil.pipeline.scaffold.purposes import Purpose

INTERVIEW = (
    Purpose(
        name="counts",
        meaning="how many records lie in each cell of one grid of all columns",
        synonyms=("histogram", "histograms"),
        query={"kind": "counts"},
        counted=True,
        gaussian="gaussian",
    ),
)

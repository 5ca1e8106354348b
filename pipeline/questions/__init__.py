"""What a config asks, ready to be planned, computed and shown: one module a kind of query."""

from __future__ import annotations

from blockveil.engine.mechanisms.counts.buckets import BucketsDesign
from blockveil.engine.mechanisms.directions.exponential import DirectionsDesign
from blockveil.engine.noise.additive import NoiseDesign
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.questions import buckets, cells, directions, gradients, moment, outer, rows
from blockveil.pipeline.questions.question import Question

__all__ = ["Question", "ask", "settled"]


def ask(loaded: LoadedConfig) -> Question:
    """Question of a config; reads public files only.

    Raises
    ------
    ValueError
        The declared shape, bits and size cannot be combined.
    """
    match loaded.config.query:
        case declared.MomentSection() as asked:
            return moment.build(loaded, asked)
        case declared.DirectionsSection() as asked:
            return directions.build(loaded, asked)
        case declared.RowsSection() as asked:
            return rows.build(loaded, asked)
        case declared.OuterProductsSection() as asked:
            return outer.build(loaded, asked)
        case declared.GradientsSection() as asked:
            return gradients.build(loaded, asked)
        case declared.CountsSection() as asked:
            return cells.build(loaded, asked)


def settled(question: Question, design: NoiseDesign | DirectionsDesign | BucketsDesign) -> Question:
    """The question as its mechanism answers it.

    Directions may be drawn alone, or follow from a noisy matrix; counts may follow from buckets.
    """
    if isinstance(question, directions.DirectionsQuestion) and isinstance(design, DirectionsDesign):
        return directions.Drawn(question.problem, question.query, question.features)
    if isinstance(question, cells.CellsQuestion) and isinstance(design, BucketsDesign):
        return buckets.BucketCells(question.problem, question.query, question.names)
    return question

"""What a config asks, ready to be planned, computed and shown: one module a kind of query."""

from __future__ import annotations

from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.config.unvetted import QueryDeclaration
from blockveil.pipeline.questions import cells, directions, gradients, moment, outer, rows
from blockveil.pipeline.questions.question import Answer, Question

__all__ = ["Answer", "Question", "ask"]


def ask(loaded: LoadedConfig) -> Question:
    """Question of a config; reads public files only.

    Raises
    ------
    ValueError
        The declared shape, bits and size cannot be combined.
    """
    query = loaded.config.query
    for each in loaded.config.unvetted:
        if isinstance(each.declaration, QueryDeclaration):
            question: Question = each.declaration.ask(loaded, query)
            return question
    match query:
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

"""What a config asks, ready to be planned, computed and shown: one module a kind of query."""

from __future__ import annotations

from pipeline.config import LoadedConfig
from pipeline.config import queries as declared
from pipeline.questions import cells, moment, outer, records
from pipeline.questions.question import Question

__all__ = ["Question", "ask"]


def ask(loaded: LoadedConfig) -> Question:
    """Question of a config; reads public files only.

    Raises
    ------
    ValueError
        The declared shape, bits and size cannot be combined.
    """
    match loaded.config.query:
        case declared.MomentQuery() as asked:
            return moment.build(loaded, asked)
        case declared.RowsQuery() as asked:
            return records.build(loaded, asked)
        case declared.OuterProductsQuery() as asked:
            return outer.build(loaded, asked)
        case declared.CountsQuery() as asked:
            return cells.build(loaded, asked)

"""What a config asks, ready to be planned, computed and shown: one module a kind of query.

* :mod:`.arrays`: The arrays of a release, by name
* :mod:`.blocks`: Large answers, published tile by tile
* :mod:`.cell_blocks`: Counts of a large grid, published tile by tile
* :mod:`.cells`: Counts in the cells of a grid, and the answers of a declared workload
* :mod:`.column_histograms`: A histogram of each column, from which bounds of unknown columns are chosen
* :mod:`.directions`: Principal directions
* :mod:`.fisher`: What a trained logistic regression asks of its records after the last step, where its coefficients
  get errors
* :mod:`.gradients`: Sums of clipped gradients of a model at public weights
* :mod:`.marginals`: Tables of counts over chosen columns, which agree with each other
* :mod:`.moment`: Covariance and second moment
* :mod:`.outer`: Sums of outer products
* :mod:`.question`: What every question and its answer offer, and what questions share: quantisers and names
* :mod:`.rounded_sides`: How the values of records in a box become integers: on which steps, at which places, and what
  that adds to an error
* :mod:`.routes`: Steps or a covariance: which of two releases tells classes apart better, by public numbers alone
* :mod:`.rows`: The records themselves
* :mod:`.spread_questions`: What a night asks of its records before its answer, where it learns the shape of its noise
* :mod:`.totals`: The number of records, and the total and the mean of each column
* :mod:`.training`: Training of a model: the sums of gradients of all its steps, and the weights that they give
* :mod:`.weights`: Public weights of a model
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.config import query_sections as declared
from blockveil.pipeline.config.histogram_section import ColumnHistogramsSection
from blockveil.pipeline.config.marginals_section import MarginalsSection
from blockveil.pipeline.config.unvetted import QueryDeclaration
from blockveil.pipeline.questions import (
    cells,
    column_histograms,
    directions,
    gradients,
    marginals,
    moment,
    outer,
    rows,
    totals,
)
from blockveil.pipeline.questions.question import Answer, Question

__all__ = ["Answer", "Question", "ask"]

_BUILT: dict[type[Any], Callable[[LoadedConfig, Any], Question]] = {
    declared.MomentSection: moment.build,
    declared.DirectionsSection: directions.build,
    declared.RowsSection: rows.build,
    declared.TotalsSection: totals.build,
    declared.OuterProductsSection: outer.build,
    declared.GradientsSection: gradients.build,
    declared.CountsSection: cells.build,
    ColumnHistogramsSection: column_histograms.build,
    MarginalsSection: marginals.build,
}
"""What turns a config into a question, by the section that declares the query."""


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
    return _BUILT[type(query)](loaded, query)

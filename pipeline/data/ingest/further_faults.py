"""What else is wrong with a source whose first fault has ended an ingest, so that a person corrects all of it at once.

The source is read again without the columns at fault, until no other one is found. No value is told of them, as of the
first one.
"""

from __future__ import annotations

from dataclasses import replace

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest.column_faults import ColumnFault
from blockveil.pipeline.data.ingest.source_rows import Source, first_fault

MOST_FAULTS = 20
"""Columns at fault that are named."""

MOST_ROWS = 2_000_000
"""Rows in which each further fault is looked for."""


def with_further_faults(source: Source, first: ColumnFault) -> DataError:
    """The first fault of a source, together with those of its other columns."""
    faults, rest = [first], _without(source, first.column)
    while rest is not None and len(faults) < MOST_FAULTS:
        found = first_fault(rest, MOST_ROWS)
        if found is None:
            break
        faults.append(found)
        rest = _without(rest, found.column)
    order = {name: place for place, name in enumerate(source.config.inputs)}
    ordered = sorted(faults, key=lambda fault: order.get(fault.column, -1))
    plain = [DataError(fault.value, fault.rule, fault.remedy) for fault in ordered]
    return DataError(plain[0].value, plain[0].rule, plain[0].remedy, plain[1:])


def _without(source: Source, column: str) -> Source | None:
    """The source without what is declared of a column; None where nothing is left, or it is of no such declaration."""
    config = source.config
    kept = tuple(each for each in config.columns if column not in each.inputs)
    if not kept or len(kept) == len(config.columns):
        return None
    narrower = config.model_copy(update={"columns": kept})
    return replace(source, loaded=replace(source.loaded, config=narrower))

"""A look at the metadata of the records, so that a plan promises nothing that a run would refuse.

Only metadata are read: type, columns and attributes, among them what the records were ingested for. The number of rows
stands in the same file and is left out, and no chunk is read, listed or measured; of two stores that differ in their
records alone, the same is found. Nothing that is found here becomes part of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.data.datasets import check_declared
from blockveil.pipeline.data.sparse_store import open_form


@dataclass(frozen=True)
class Looked:
    """What was found.

    Attributes
    ----------
    there
        Whether there is a store to look at.
    sentence
        What it says of its records, or why it cannot be looked at; one line.
    """

    there: bool
    sentence: str


def look(loaded: LoadedConfig) -> Looked:
    """Look at the store that a config names; one that is absent or cannot be reached is no error.

    Raises
    ------
    DataError
        The records do not fit what the config declares, or what they were ingested for does not fit its promise: a run
        would be refused.
    StoreError
        What the store says of its records is damaged.
    """
    try:
        form = open_form(loaded.store, loaded.config.data.array, f'data.store "{loaded.config.data.store}"')
    except StoreError as error:
        problem = error.value
    else:
        return Looked(True, Contribution.of(loaded.config, check_declared(loaded, form)).sentence)
    return Looked(False, f"{problem}: what the records were ingested for is checked when the release runs")

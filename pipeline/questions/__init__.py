"""What a config asks, ready to be planned, computed and shown; each kind of query has its question in its own folder.

* :mod:`.arrays`: The arrays of a release, by name
* :mod:`.blocks`: Large answers, published tile by tile
* :mod:`.question`: What every question and its answer offer, and what questions share: quantisers and names
* :mod:`.rounded_sides`: How the values of records in a box become integers: on which steps, at which places, and what
  that adds to an error
* :mod:`.stepwise`: Answers that are measured in steps, each of which follows from what the steps before it released
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockveil.pipeline.config import LoadedConfig
from blockveil.pipeline.questions.question import Answer, Question

__all__ = ["Answer", "Question", "ask"]


def ask(loaded: LoadedConfig) -> Question:
    """Question of a config; reads public files only.

    Raises
    ------
    ValueError
        The declared shape, bits and size cannot be combined.
    """
    build: Callable[[LoadedConfig, Any], Question] | None = loaded.config.kind.part("question", None)
    if build is None:
        raise TypeError(f"{loaded.config.query.kind} declares no question")  # loading a config has refused it
    return build(loaded, loaded.config.query)

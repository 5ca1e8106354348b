"""What every reader of a release relies on: its matrix is among its arrays, and errors of it have its size.

Readers show texts and take memory by sizes, so that both are looked at before anything is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blockveil.pipeline.base.foreign_files import NotPlain

_TEXTS = ("release_id", "title", "dataset", "name", "logical_date", "matrix")
_TABLES = ("query", "guarantee", "mechanism")
_MOST_TEXT, _MOST_SENTENCE = 1_000, 10_000

_DEVIATION = "_standard_deviation"

Shape = tuple[int, ...]


def check_stated(attributes: Mapping[str, Any], shapes: Mapping[str, Shape]) -> None:
    """Refuse a release whose arrays are not those of what it states.

    Raises NotPlain where it has no such matrix, errors of the matrix have another size, or a text or table is none.

    Parameters
    ----------
    attributes
        What it states; what is left out is not looked at.
    shapes
        Shape of each of its arrays.
    """
    for key in _TEXTS:
        if key in attributes and not _is_text(attributes[key], _MOST_TEXT):
            raise NotPlain(f"its {key} is no text of at most {_MOST_TEXT:,} characters")
    for key in _TABLES:
        if key in attributes and not isinstance(attributes[key], dict):
            raise NotPlain(f"its {key} is no table")
    if not _is_text(attributes.get("guarantee", {}).get("sentence", ""), _MOST_SENTENCE):
        raise NotPlain(f"its promise is no text of at most {_MOST_SENTENCE:,} characters")
    if "matrix" in attributes:
        matrix = attributes["matrix"]
        if matrix not in shapes:
            raise NotPlain("the matrix that it names is none of its arrays")
        if shapes.get(f"{matrix}{_DEVIATION}", shapes[matrix]) != shapes[matrix]:
            raise NotPlain("errors of its matrix have another size than it has")


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and len(value) <= most

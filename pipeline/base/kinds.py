"""Kinds of query: the folder that each has below :mod:`blockveil.pipeline.kinds`, and the parts that a folder may hold.

A room that treats kinds differently asks a kind for a part, which is a file of the kind's folder: ``section.py``
declares ``SECTION``, ``question.py`` declares ``QUESTION``, and so on. A file is imported when it is first asked for,
and where a kind has no such file, the room's default is what is known of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

Part = TypeVar("Part")

FOLDERS = {
    "covariance": "moments",
    "second-moment": "moments",
    "principal-directions": "directions",
    "rows": "rows",
    "totals": "totals",
    "outer-products": "outer",
    "gradients": "gradients",
    "counts": "counts",
    "column-histograms": "histograms",
    "marginals": "marginals",
    "quantiles": "quantiles",
}
"""Folder of each query of the product, by the name that a config uses."""

_PACKAGE = "blockveil.pipeline.kinds"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is known of a kind of query before any of its parts is imported.

    Attributes
    ----------
    titles
        Its queries by the names that configs use, and what a release of each is called.
    package
        Package that holds its parts, one file each; empty where all of them are in ``parts``.
    grows
        Whether its answer is a sum over all records so far, which nights can share noise for.
    learns
        For each query, what a shape can be learned for.
    parts
        Parts that are no files, by their names.
    """

    titles: Mapping[str, str]
    package: str = ""
    grows: bool = False
    learns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def part(self, name: str, default: Part) -> Part:
        """A part by the name of its file, or the default where the kind has none.

        What a file declares has the file's name in capitals.
        """
        part: Part = self.parts[name] if name in self.parts else _declared(self.package, name, default)
        return part


@cache
def _file(package: str, name: str) -> Any:
    """Module of a part; None where there is no such file."""
    place = f"{package}.{name}"
    return import_module(place) if package and find_spec(place) is not None else None


def _declared(package: str, name: str, default: Part) -> Part:
    module = _file(package, name)
    part: Part = default if module is None else getattr(module, name.upper())
    return part


def kind_of(query: str) -> Kind:
    """Kind of a query by the name that a config uses; one of which nothing is known where the product has none."""
    if query not in FOLDERS:
        return Kind(titles={query: query})
    kind: Kind = import_module(f"{_PACKAGE}.{FOLDERS[query]}").KIND
    return kind


def kinds() -> Iterator[Kind]:
    """All kinds of the product, in the order in which a config lists their queries."""
    for folder in dict.fromkeys(FOLDERS.values()):
        yield import_module(f"{_PACKAGE}.{folder}").KIND

"""Classes that other packages offer as entry points, imported when something of theirs is opened."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TypeVar

Kind = TypeVar("Kind")


def offered(group: str, name: str, kind: type[Kind]) -> type[Kind] | str:
    """The class that an installed package offers under a name, or why there is none to use, in words.

    Parameters
    ----------
    group
        Group of entry points.
    name
        Name in the group.
    kind
        What the class must be a kind of.
    """
    offers = list(entry_points(group=group, name=name))
    if len(offers) != 1:
        return f"{len(offers)} packages offer it"
    try:
        offer = offers[0].load()
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything
        return type(error).__name__
    return offer if isinstance(offer, type) and issubclass(offer, kind) else f"it is no {kind.__name__}"

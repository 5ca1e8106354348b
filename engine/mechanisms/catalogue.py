"""The catalogue: every mechanism that is implemented, with the guarantee that it really has.

``status`` says how far its published claim can be trusted (:class:`.contract.Status`),
``use`` what the product does with it: ``release`` (a config may name it), ``study`` (drawn on public data, labelled),
or ``library`` (calibration, loss and sampler for programs; no config names it).
"""

from __future__ import annotations

from blockveil.engine.mechanisms.declaration import CatalogueEntry
from blockveil.engine.mechanisms.registry import declarations

ENTRIES: tuple[CatalogueEntry, ...] = tuple(each.entry for each in declarations())
"""All mechanisms, in the order in which they are listed."""


def find(name: str) -> CatalogueEntry | None:
    """Entry of a name, or None."""
    return next((entry for entry in ENTRIES if entry.name == name), None)
